"""A small HTTP/1.1 load generator: keep-alive connections, one request at a time on each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import cast
from urllib.parse import urlsplit

import httptools


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._chunks: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        # uvloop's transports are no asyncio.Transport by name.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        """See httptools."""
        answer, self._answer = self._answer, None
        chunks, self._chunks = self._chunks, []
        status = self._parser.get_status_code()
        self._parser = httptools.HttpResponseParser(self)
        if answer is not None and not answer.done():
            answer.set_result((status, b"".join(chunks)))

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to one whole request."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()


async def connect(address: str) -> Connection:
    """A connection to ``http://HOST:PORT``."""
    parts = urlsplit(address)
    _, connection = await asyncio.get_running_loop().create_connection(Connection, parts.hostname, parts.port)
    return connection


def request(method: str, target: str, *, key: str = "", body: bytes = b"", more: str = "") -> bytes:
    """A whole request as bytes."""
    head = f"{method} {target} HTTP/1.1\r\nhost: bench\r\n{more}"
    if key:
        head += f"x-api-key: {key}\r\n"
    if method != "GET":
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def send_all(address: str, by_client: Sequence[Sequence[bytes]], *, expected: int) -> float:
    """Send each client's requests, one after another, all clients at once; gives the seconds it took.

    Raises:
        RuntimeError: an answer had another status.
    """
    connections = await asyncio.gather(*(connect(address) for _ in by_client))

    async def client(connection: Connection, requests: Sequence[bytes]) -> None:
        for each in requests:
            status, body = await connection.send(each)
            if status != expected:
                raise RuntimeError(f"expected {expected}, got {status}: {body[:300]!r}")

    began = time.perf_counter()
    await asyncio.gather(
        *(client(connection, requests) for connection, requests in zip(connections, by_client, strict=True))
    )
    took = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return took


async def rate(address: str, one: bytes, *, clients: int, seconds: float) -> float:
    """Requests per second when so many clients repeat one request for so long."""
    connections = await asyncio.gather(*(connect(address) for _ in range(clients)))
    ends = time.perf_counter() + seconds
    done = 0

    async def client(connection: Connection) -> None:
        nonlocal done
        while time.perf_counter() < ends:
            status, body = await connection.send(one)
            if status != 200:
                raise RuntimeError(f"expected 200, got {status}: {body[:300]!r}")
            done += 1

    began = time.perf_counter()
    await asyncio.gather(*(client(connection) for connection in connections))
    took = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return done / took
