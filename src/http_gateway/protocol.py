"""uvicorn's HTTP/1.1 protocol with the limits it lacks (failure rules, 51 and 52).

Added: a deadline for headers, a limit on their size and number, a limit on what is read of one message
in all, and problems instead of bare text for requests that cannot be parsed. Trailers are dropped, so
that none can add a header after the headers were judged. White space around a header's value is no part
of it (RFC 9110, 5.5). A method that the parser does not know reaches the routes, which refuse it as any
other that a path does not take.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from http_gateway.config import GatewayConfig
from http_gateway.metrics import observe_request
from http_gateway.middleware import lifecycle_headers
from http_gateway.problems import Problem, bad_request, receive_timeout

_LINGER_SECONDS: Final = 1.0
"""How long a refused connection is read from, and nothing made of it, before it is closed."""
_METHOD: Final = re.compile(rb"(?:\r?\n)*([!#$%&'*+.^_`|~0-9A-Za-z-]*)")
"""The method at the beginning of a message, as far as it has come: a token (RFC 9110, 5.6.2 and 9.1)."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""What is no answer yet."""
_STAND_IN: Final = b"GET"
"""What the parser is told in place of a method that it does not know."""


class _Answer:
    """What one answer is written to: its head goes out with the beginning of its body, as ASGI demands.

    Apart they would be two system calls, and a client that wakes up twice.

    Args:
        transport: the connection's.
    """

    __slots__ = ("_begun", "_head", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._begun = False
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Writes; a head waits for what comes next."""
        if self._begun or data == _CONTINUE:
            self._transport.write(data)
        elif not self._head:
            self._head = data
        else:
            self._begun = True
            self._transport.writelines((self._head, data))

    def close(self) -> None:
        """Closes the connection when everything is written."""
        if self._head and not self._begun:
            self._transport.write(self._head)
        self._transport.close()


class _HeaderLimit(Exception):  # noqa: N818 - only stops the parser
    """The headers are too large or too many."""


def protocol_class(config: GatewayConfig) -> type[HttpToolsProtocol]:
    """The protocol for one configuration, as ``uvicorn.Config(http=...)`` takes it."""
    announcements = lifecycle_headers(config)
    # Chunked framing may cost several bytes for each byte of the body; beyond this it is abuse. It also
    # bounds what is read and thrown away after an early answer such as 413.
    most_bytes = config.max_header_bytes + 8 * config.max_body_bytes

    class GatewayProtocol(HttpToolsProtocol):
        """One connection."""

        _deadline: asyncio.TimerHandle | None = None
        _in_headers = True
        _begun = False
        _bytes = 0
        _too_large = False
        _lingering = False
        _between = True
        """No message has begun since the last one ended."""
        _message = b""
        """The message from its first byte on, while its headers arrive; empty when it began among others."""
        _method = b""
        """A method that the parser does not know, of the message whose headers arrive."""
        _method_arrives = False
        """The parser has refused the method, and more of it may come."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._bytes += len(data)
            if self._lingering:
                if self._bytes > most_bytes:
                    self.transport.close()
                return
            self._unset_keepalive_if_required()
            if self._between:
                self._message = data
            elif self._message:
                self._message += data
            if self._method_arrives:
                self._parse_with_stand_in()
            else:
                self._parse(data)
            if self._lingering or self.transport.is_closing():
                return
            if self._in_headers and self._begun:
                if self._bytes > config.max_header_bytes:
                    self._too_large = True
                    self.send_400_response("")
                elif self._deadline is None:
                    # Only now: most messages come with all their headers at once.
                    self._arm()
            elif self._bytes > most_bytes:
                self.transport.close()

        def _parse(self, data: bytes) -> None:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade:
                pass  # no other protocol is spoken here
            except httptools.HttpParserError:
                self._parse_with_stand_in()

        def _parse_with_stand_in(self) -> None:
            """Parses the message anew when it was its method that was refused; else refuses the message."""
            found = _METHOD.match(self._message)
            self._method_arrives = False
            if found is None or self._method or not self._message:
                self.send_400_response("")
            elif found.end() == len(self._message):
                self._method_arrives = True
            elif not found[1] or found[1] == _STAND_IN or self._message[found.end()] != ord(" "):
                self.send_400_response("")
            else:
                self._method = found[1]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
                self._parse(_STAND_IN + self._message[found.end() :])

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._between = False
            self._in_headers = self._begun = True
            self._bytes = 0
            self._disarm()

        def on_header(self, name: bytes, value: bytes) -> None:
            if not self._in_headers:
                return
            super().on_header(name, value.strip(b" \t"))

        def on_headers_complete(self) -> None:
            self._in_headers = False
            self._disarm()
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > config.max_header_bytes or len(self.headers) > config.max_headers:
                self._too_large = True
                raise _HeaderLimit
            super().on_headers_complete()
            # The application comes upon what is set here: its task has not begun.
            if self._method:
                self.scope["method"] = self._method.decode("ascii")
            if self.scope["method"] != "HEAD":
                self.cycle.transport = _Answer(self.transport)  # type: ignore[assignment]
            self._message = self._method = b""

        def on_message_complete(self) -> None:
            super().on_message_complete()
            self._between = True

        def send_400_response(self, msg: str) -> None:
            # The text is uvicorn's own and says nothing that a caller could use.
            if self._too_large:
                detail = f"Headers must not exceed {config.max_header_bytes} bytes or {config.max_headers} in number."
                self._refuse(Problem(431, detail, close=True))
            else:
                self._refuse(bad_request("The request is not valid HTTP/1.1."))

        def _arm(self) -> None:
            self._disarm()
            self._deadline = self.loop.call_later(config.header_timeout, self._too_slow)

        def _disarm(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_slow(self) -> None:
            if self._begun:
                self._refuse(receive_timeout())
            else:
                self.transport.close()

        def _refuse(self, problem: Problem) -> None:
            """Answers in place of the application and closes; only closes when an answer has begun."""
            if self._lingering or self.transport.is_closing():
                return
            cycle = self.cycle
            if cycle is None or cycle.response_complete:
                self._write(problem)
            elif not cycle.response_started and not self.pipeline:
                # The application sees a client that left in the middle of its body.
                cycle.disconnected = True
                cycle.message_event.set()
                self._write(problem)
            else:
                self.transport.close()

        def _write(self, problem: Problem) -> None:
            observe_request("other", "unparsed", problem.status, 0.0)
            request_id = secrets.token_hex(16)
            body = problem.body("/", request_id)
            headers: list[tuple[bytes, bytes]] = [
                *self.server_state.default_headers,
                *problem.headers(),
                *announcements,
                (b"x-request-id", request_id.encode()),
                (b"content-length", str(len(body)).encode()),
            ]
            lines: list[bytes] = [STATUS_LINE[problem.status]]
            for name, value in headers:
                lines += [name, b": ", value, b"\r\n"]
            self.transport.write(b"".join([*lines, b"\r\n", body]))
            if not self.transport.can_write_eof():
                self.transport.close()
                return
            # Closed at once, what the client is still sending would make the kernel reset the connection
            # and throw the answer away. So: end our side, let the client read, then close.
            self.transport.write_eof()
            self._lingering = True
            self._bytes = 0
            self.flow.resume_reading()
            self._disarm()
            self._unset_keepalive_if_required()
            self._deadline = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

        def shutdown(self) -> None:
            if self._lingering:
                self.transport.close()
            else:
                super().shutdown()

    return GatewayProtocol
