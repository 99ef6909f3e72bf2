"""uvicorn's HTTP/1.1 protocol with the limits it lacks (failure rules, 51 and 52).

Added: a deadline for headers, a limit on their size and number, a limit on what is read of one message
in all, and problems instead of bare text for requests that cannot be parsed. Trailers are dropped, so
that none can add a header after the headers were judged.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from http_gateway.config import GatewayConfig
from http_gateway.metrics import observe_request
from http_gateway.middleware import lifecycle_headers
from http_gateway.problems import Problem, bad_request, receive_timeout

_LINGER_SECONDS: Final = 1.0
"""How long a refused connection is read from, and nothing made of it, before it is closed."""


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
            super().data_received(data)
            if self._lingering or self.transport.is_closing():
                return
            if self._in_headers and self._begun:
                if self._bytes > config.max_header_bytes:
                    self._too_large = True
                    self.send_400_response("")
            elif self._bytes > most_bytes:
                self.transport.close()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._in_headers = self._begun = True
            self._bytes = 0
            self._arm()

        def on_header(self, name: bytes, value: bytes) -> None:
            if not self._in_headers:
                return
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._in_headers = False
            self._disarm()
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > config.max_header_bytes or len(self.headers) > config.max_headers:
                self._too_large = True
                raise _HeaderLimit
            super().on_headers_complete()

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
