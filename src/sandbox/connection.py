"""One HTTP/1.1 connection: parses with httptools, answers in order, and can misbehave on purpose.

A protocol of our own rather than a web server's, because faults need the transport itself: a real TCP
reset, an answer cut in the middle, one that never comes. It is also what keeps the sandbox cheap.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote

import httptools

from sandbox.messages import Answer, Request, problem

if TYPE_CHECKING:
    from sandbox.app import Sandbox

MAX_BODY_BYTES = 12 * 1024 * 1024
MAX_HEAD_BYTES = 64 * 1024
MAX_WAITING_REQUESTS = 32

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_LINGER_RESET = struct.pack("ii", 1, 0)


class Connection(asyncio.Protocol):
    """One client connection of a sandbox. `connections` is the server's set of open ones.

    busy: a request is being answered. answering: and the answer is expected to end soon by itself.
    """

    def __init__(self, sandbox: Sandbox, connections: set[Connection]) -> None:
        self._sandbox = sandbox
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._keep_alive = True
        self._stopping = False
        self.busy = False
        self.answering = False
        self._reset_request()

    def _reset_request(self) -> None:
        self._url = b""
        self._head_bytes = 0
        self._authorization = ""
        self._content_type = ""
        self._new_format = False
        self._expects_continue = False
        self._body: list[bytes] = []
        self._body_bytes = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the transport."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        else:  # uvloop's transports share the interface, not the class
            self._transport = transport  # type: ignore[assignment]
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets everything that was still to be delivered."""
        self._connections.discard(self)
        self._transport = None
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Feeds the parser."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Answered as if nothing had been asked for; what follows on this connection is no HTTP.
            self._keep_alive = False
            if not self.busy and self._transport is not None:
                self._transport.close()
        except httptools.HttpParserError:
            if self._transport is not None and not self._transport.is_closing():
                self._refuse(400, "Malformed HTTP request")

    # httptools callbacks

    def on_message_begin(self) -> None:
        """A new request."""
        self._reset_request()

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; only those that matter are kept."""
        self._count_head(len(name) + len(value))
        lower = name.lower()
        if lower == b"authorization":
            self._authorization = value.decode("latin-1")
        elif lower == b"content-type":
            self._content_type = value.decode("latin-1")
        elif lower == b"x-format-new":
            self._new_format = value.lower() == b"true"
        elif lower == b"expect":
            self._expects_continue = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        """Lets a client that asks first send its body."""
        if self._expects_continue and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the body, up to the limit."""
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY_BYTES:
            self._body.clear()
            self._refuse(413, "The body is too large")
            return
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Answers the request, after those that came before it on this connection."""
        if self._transport is None or self._transport.is_closing():
            return
        path, _, query = self._url.decode("latin-1").partition("?")
        request = Request(
            method=self._parser.get_method().decode("ascii"),
            path=unquote(path) if "%" in path else path,
            query=query,
            body=self._body[0] if len(self._body) == 1 else b"".join(self._body),
            authorization=self._authorization,
            content_type=self._content_type,
            new_format=self._new_format,
        )
        keep_alive = self._parser.should_keep_alive()
        if not self.busy:
            self._start(request, keep_alive)
            return
        self._waiting.append((request, keep_alive))
        if len(self._waiting) >= MAX_WAITING_REQUESTS:
            self._transport.pause_reading()

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, "The request head is too large")

    def _refuse(self, status: int, message: str) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._waiting.clear()
        self._keep_alive = False
        self._write(problem(status, message, "bad_request"))

    # Answers

    def _start(self, request: Request, keep_alive: bool) -> None:
        self.busy = self.answering = True
        self._keep_alive = keep_alive
        answer = self._sandbox.handle(request)
        effects = self._sandbox.market.effects
        if effects.dirty:
            # Also a read waits: it may have seen a change that is not on disk yet.
            effects.when_durable(partial(self._recorded, answer, request.operation))
        else:
            self._delay(answer, request.operation)

    def _recorded(self, answer: Answer, operation: str, written: bool) -> None:
        if written:
            self._delay(answer, operation)
        else:
            self.reset()

    def _delay(self, answer: Answer, operation: str) -> None:
        seconds = answer.delay_seconds
        latency = self._sandbox.settings.latency_seconds
        if latency and not operation.startswith("sandbox_"):
            seconds += latency
        if answer.later is not None:
            # Not cancelled with the connection: a slow platform finishes what an impatient client gave up.
            self._loop.call_later(seconds, self._handle_late, answer.later)
        elif seconds > 0:
            self._timer = self._loop.call_later(seconds, self._deliver, answer)
        else:
            self._deliver(answer)

    def _handle_late(self, handle: Callable[[], Answer]) -> None:
        later = handle()
        self._sandbox.market.effects.when_durable(lambda written: self._deliver(later) if written else self.reset())

    def _deliver(self, answer: Answer) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if answer.delivery == "normal":
            self._write(answer)
        elif answer.delivery == "reset":
            self.reset()
        elif answer.delivery == "truncate":
            self._transport.write(self._head(answer) + answer.body[: len(answer.body) // 2])
            self._transport.close()
        elif answer.delivery == "drip":
            self.answering = False
            self._transport.write(self._head(answer))
            self._drip(answer, 0)
        else:
            # Silence: busy until the client gives up, but nothing that a stop should wait for.
            self.answering = False

    def _head(self, answer: Answer) -> bytes:
        parts = [_STATUS_LINES.get(answer.status) or f"HTTP/1.1 {answer.status} Unknown\r\n".encode()]
        if answer.content_type is not None:
            parts.append(b"content-type: " + answer.content_type.encode("latin-1", "replace") + b"\r\n")
        for name, value in answer.headers:
            parts.append(f"{name}: {value}\r\n".encode("latin-1", "replace"))
        if answer.status != 204:
            parts.append(b"content-length: %d\r\n" % len(answer.body))
        if not self._keep_alive or self._stopping:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        return b"".join(parts)

    def _write(self, answer: Answer) -> None:
        if self._transport is not None:
            self._transport.write(self._head(answer) + answer.body)
            self._finish()

    def _drip(self, answer: Answer, position: int) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        end = position + answer.chunk_bytes
        self._transport.write(answer.body[position:end])
        if end >= len(answer.body):
            self._finish()
        else:
            self._timer = self._loop.call_later(answer.interval_seconds, self._drip, answer, end)

    def _finish(self) -> None:
        self.busy = self.answering = False
        if self._transport is None:
            return
        if not self._keep_alive or self._stopping:
            self._transport.close()
        elif self._waiting:
            self._transport.resume_reading()
            # On the next turn of the loop: a long pipeline must not become a deep recursion.
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        if self._transport is not None and not self._transport.is_closing() and self._waiting and not self.busy:
            self._start(*self._waiting.popleft())

    def reset(self) -> None:
        """Drops the connection with a TCP reset."""
        if self._transport is None:
            return
        raw = self._transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
        self._transport.abort()

    def stop(self) -> None:
        """Closes an idle connection; a busy one closes after its answer."""
        self._stopping = True
        if not self.busy and self._transport is not None:
            self._transport.close()
