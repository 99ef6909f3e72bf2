"""The HTTP client: one request in, one answer or the honest lack of one out.

Everything above it speaks of ``HttpClient``; another HTTP library takes aiohttp's place by implementing
that Protocol. What any implementation must keep:

* a request goes out at most once: no retry, no redirect followed, no proxy, no cookie;
* a failure says whether a byte of the request may have left (``NoAnswer.sent``), because only a request
  that never left may be sent again blindly (rule 23);
* an answer is bounded in size and time and is never decompressed.
"""

from __future__ import annotations

import asyncio
import contextvars
import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

if TYPE_CHECKING:
    from aiohttp.connector import Connection

MAX_ANSWER_BYTES = 1 << 20
"""Longer answers are given up: the largest legitimate one, a multiget of 20 items, stays far below."""
KEEPALIVE_SECONDS = 4.0
"""An idle connection is retired after this time, before usual servers close theirs (5 s and more): a
request written into a connection that its server is just closing ends as unknown."""
CONNECT_SECONDS = 5.0
"""A server that does not accept a connection in this time is told as not reachable (nothing was sent)."""
USER_AGENT = "listing-publication/1.0"


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A whole answer. ``retry_after`` is the header's raw text, empty when absent."""

    status: int
    body: bytes
    retry_after: str = ""


class NoAnswer(msgspec.Struct, frozen=True, gc=False):
    """No usable answer came.

    ``sent`` False: it failed before the first request byte, so nothing happened. True: nobody knows.
    ``reason`` is one of ``REASONS``, for logs and metrics.
    """

    sent: bool
    reason: str


REASONS = frozenset({"held_back", "connect", "timeout", "disconnected", "too_large", "truncated", "malformed"})
"""Why there is no answer: the caller's check said no; no connection; no answer in time; the connection
broke; longer than MAX_ANSWER_BYTES; the body ended early; not HTTP."""


class HttpClient(Protocol):
    """See the module's promises."""

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> Answer | NoAnswer:
        """Send one request to ``target`` (path and query, already percent-encoded) of the configured host.

        ``may_send`` is asked when the connection stands, right before the first byte; False ends the call
        as ``NoAnswer(sent=False, reason="held_back")``. Raises ``asyncio.CancelledError`` only.
        """

    async def aclose(self) -> None:
        """Close every connection."""


def checked_base_url(base_url: str) -> str:
    """The base address without a trailing slash.

    Raises:
        ValueError: unless it is https, or http to a loopback address (rule 64), with nothing but scheme,
            host, port and path.
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if not host or parts.username is not None or parts.query or parts.fragment:
        raise ValueError("the marketplace address must be scheme, host, port and path only")
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)):
        return base_url.rstrip("/")
    raise ValueError("the marketplace address must be https, or http to a loopback address")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Attempt:
    """One request on its way: whether it may leave and whether it has."""

    __slots__ = ("may_send", "sent")

    def __init__(self, may_send: Callable[[], bool] | None) -> None:
        self.may_send = may_send
        self.sent = False


_ATTEMPT: contextvars.ContextVar[_Attempt] = contextvars.ContextVar("marketplace_attempt")


class _HeldBackError(Exception):
    """``may_send`` said no."""


class _SecondSendError(Exception):
    """The library tried to send a request again."""


class _OnceRequest(aiohttp.ClientRequest):
    """A request that asks before its first byte, notes that it left, and leaves at most once.

    The library calls ``send`` when it holds a connected connection. Whatever fails before that call failed
    before the first byte; whatever fails after it may have arrived. A second call means that the library
    wants to repeat a request whose first copy may have arrived: that is refused here, whichever version of
    the library is installed (3.14 repeats PUT and DELETE on a connection closed by the server unless told
    not to).
    """

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        attempt = _ATTEMPT.get()
        if attempt.sent:
            raise _SecondSendError
        if attempt.may_send is not None and not attempt.may_send():
            raise _HeldBackError
        attempt.sent = True
        return await super().send(conn)


class AiohttpClient:
    """``HttpClient`` on aiohttp. Opens its session at the first request, on the running loop.

    Args:
        base_url: see ``checked_base_url``.
        timeout_seconds: for one request as a whole: waiting for a connection, connecting, sending, and
            reading the answer to its end. Exact, not rounded up, because leases are measured against it.
        connections: at most this many at once.
    """

    def __init__(self, base_url: str, *, timeout_seconds: float, connections: int) -> None:
        self._base_url = checked_base_url(base_url)
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections,
                keepalive_timeout=KEEPALIVE_SECONDS,
                ttl_dns_cache=60,
            ),
            timeout=aiohttp.ClientTimeout(
                total=self._timeout_seconds,
                sock_connect=min(CONNECT_SECONDS, self._timeout_seconds),
                # The library rounds longer timeouts up to whole seconds unless this is out of reach.
                ceil_threshold=float("inf"),
            ),
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT},
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=_OnceRequest,
            auto_decompress=False,
            trust_env=False,
        )
        # Saves the library the futile second connection; _OnceRequest is what guarantees the single send.
        session._retry_connection = False
        self._session = session
        return session

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> Answer | NoAnswer:
        """See ``HttpClient``."""
        session = self._session or self._open()
        attempt = _Attempt(may_send)
        _ATTEMPT.set(attempt)
        try:
            response = await session.request(
                method,
                URL(self._base_url + target, encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
            )
            try:
                content = await _read(response)
            except BaseException:
                response.close()
                raise
        except Exception as error:
            if not attempt.sent and not isinstance(error, (_HeldBackError, aiohttp.ClientError, OSError)):
                # Neither the network nor the marketplace: a fault of this program.
                raise
            return NoAnswer(attempt.sent, _reason(error))
        if content is None:
            response.close()
            return NoAnswer(True, "too_large")
        status = response.status
        if status < 400:
            return Answer(status, content)
        return Answer(status, content, response.headers.get("Retry-After", "")[:64])

    async def aclose(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """The whole body; None when it is longer than MAX_ANSWER_BYTES."""
    content = response.content
    first = await content.readany()
    # An ordinary answer has arrived with its headers.
    if content.at_eof():
        return first
    length = response.content_length
    if length is not None and length > MAX_ANSWER_BYTES:
        return None
    chunks = [first]
    size = len(first)
    while chunk := await content.readany():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _reason(error: Exception) -> str:
    if isinstance(error, _HeldBackError):
        return "held_back"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "connect"
    if isinstance(error, asyncio.TimeoutError):
        return "timeout"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "truncated"
    if isinstance(error, (aiohttp.ClientConnectionError, OSError, _SecondSendError)):
        return "disconnected"
    return "malformed"
