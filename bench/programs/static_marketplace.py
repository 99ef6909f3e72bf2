"""An HTTP server that answers every creation at once with 2 KB: the marketplace as a floor.

The answer to ``POST /items`` is one prepared text with a new id and the SKU that was sent; of what was made only the
SKU is kept, for those who look at it again.
Says ``ready http://HOST:PORT``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import cast

import httptools
import uvloop

_SKU = b'"SELLER_SKU","value_name":"'
_LONG = b"x" * 1500
_skus: dict[bytes, bytes] = {}
_number = os.getpid() % 10_000 * 10**9


def _head(status: bytes, length: int) -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, length)


def _answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return _head(status, len(body)) + body


def _created(body: bytes) -> bytes:
    global _number  # noqa: PLW0603 - the one counter there is
    _number += 1
    place = body.find(_SKU) + len(_SKU)
    sku = body[place : body.find(b'"', place)]
    _skus[b"MCO%d" % _number] = sku
    return _answer(
        b'{"id":"MCO%d","site_id":"MCO","title":"Product","category_id":"MCO1234","price":100000,'
        b'"currency_id":"COP","listing_type_id":"gold_special","status":"active","sub_status":[],'
        b'"permalink":"https://articulo.example.com/MCO-%d-_JM","pictures":[{"url":"https://images.example.com/a.jpg"}],'
        b'"attributes":[{"id":"SELLER_SKU","value_name":"%s"}],"date_created":"2026-11-27T12:00:00.000Z",'
        b'"descriptions":"%s"}' % (_number, _number, sku, _LONG),
        b"201 Created",
    )


def _seen(url: bytes) -> bytes:
    """The listings asked for, as they stand."""
    asked = url.partition(b"ids=")[2].partition(b"&")[0].split(b",")
    return _answer(
        b"[%s]"
        % b",".join(
            b'{"code":200,"body":{"id":"%s","status":"active","sub_status":[],"price":100000,"category_id":"MCO1234",'
            b'"permalink":"https://articulo.example.com/%s","attributes":[{"id":"SELLER_SKU","value_name":"%s"}]}}'
            % (each, each, _skus.get(each, b""))
            for each in asked
        )
    )


def _me(authorization: bytes) -> bytes:
    """The bench's tokens end in their user's number."""
    return _answer(
        b'{"id":%s,"nickname":"BENCH","site_id":"MCO","tags":["user_product_seller"],'
        b'"status":{"site_status":"active","list":{"allow":true,"codes":[]}}}' % authorization.rpartition(b"-")[2]
    )


_NO_LISTINGS = _answer(b'{"results":[],"paging":{"total":0,"limit":50,"offset":0}}')
_CATEGORY = _answer(b'{"id":"MCO1234","name":"Category","settings":{"max_title_length":60,"max_pictures_per_item":12}}')
_DONE = _answer(b"{}")


class Server(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        # uvloop's transports are no asyncio.Transport by name.
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = b""
        self._authorization = b""

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """See httptools."""
        self._url = url

    def on_message_begin(self) -> None:
        """See httptools."""
        self._body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if name == b"Authorization":
            self._authorization = value

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._body += body

    def on_message_complete(self) -> None:
        """See httptools."""
        url, write = self._url, self._transport.write
        if url == b"/items" and self._body:
            write(_created(self._body))
        elif url == b"/users/me":
            write(_me(self._authorization))
        elif b"/items/search" in url:
            write(_NO_LISTINGS)
        elif url.startswith(b"/categories/"):
            write(_CATEGORY)
        elif url.startswith(b"/items?"):
            write(_seen(url))
        else:
            write(_DONE)


async def main() -> None:
    """Serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"ready http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    await ending.wait()
    server.close()


if __name__ == "__main__":
    uvloop.run(main())
