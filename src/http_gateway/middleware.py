"""The edge of every request, as pure ASGI: id, lifecycle headers, framing, limits, log and metrics."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from email.utils import formatdate
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.log import redact
from http_gateway.access_log import AccessLog
from http_gateway.calls import RATE_LIMIT_HEADERS, REQUEST_ID, ClientDisconnected
from http_gateway.config import GatewayConfig
from http_gateway.metrics import observe_request
from http_gateway.problems import (
    Problem,
    bad_request,
    body_too_large,
    gone,
    not_found,
    unavailable,
    unknown_transfer_coding,
)
from http_gateway.routing import API_PREFIX, is_plain_path

_log = structlog.get_logger("http_gateway")
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_CLIENT_CLOSED = 499
"""What logs and metrics show for a client that left before its answer."""


def lifecycle_headers(config: GatewayConfig) -> list[tuple[bytes, bytes]]:
    """The headers that announce the end of v1 (contract, "Versioning"; decisions, section 3)."""
    headers = [
        (b"deprecation", f"@{config.deprecation}".encode()),
        (b"sunset", formatdate(config.sunset, usegmt=True).encode()),
    ]
    successor, sunset = config.successor_link, config.sunset_link or config.successor_link
    links = [f'<{successor}>; rel="successor-version"'] if successor else []
    if sunset:
        links.append(f'<{sunset}>; rel="sunset"')
    if links:
        headers.append((b"link", ", ".join(links).encode()))
    return headers


class Edge:
    """Outermost layer of the application.

    Guarantees for every answer, whatever fails inside: ``X-Request-Id``, ``Deprecation``, ``Sunset``,
    ``Link`` when configured, the rate-limit headers that core told; failures as problems; one line in
    the access log without the query string; one observation in the metrics.

    Args:
        app: what answers.
        config: limits and announcements.
    """

    def __init__(self, app: ASGIApp, config: GatewayConfig) -> None:
        self._app = app
        self._config = config
        self._headers = lifecycle_headers(config)
        self._access_log = AccessLog(config.log_format, enabled=config.access_log)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        state: dict[str, Any] = scope.setdefault("state", {})
        request_id = _request_id(scope)
        state[REQUEST_ID] = request_id
        status = _CLIENT_CLOSED
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                started = True
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    *self._headers,
                    (b"x-request-id", request_id.encode()),
                    *state.get(RATE_LIMIT_HEADERS, ()),
                ]
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, send_with_headers)
        except Problem as problem:
            if started:
                raise
            await _send_problem(problem, scope, send_with_headers, request_id)
        except ClientDisconnected:
            pass
        except asyncio.CancelledError:
            # The process stops and this request outlived the grace.
            if not started:
                await _send_problem(unavailable(), scope, send_with_headers, request_id)
            raise
        except Exception:
            _log.exception("request_failed", request_id=request_id, path=_sent_path(scope))
            if started:
                raise
            await _send_problem(unavailable(), scope, send_with_headers, request_id)
        finally:
            seconds = time.perf_counter() - began
            route = _route(scope)
            observe_request(scope["method"], route, status, seconds)
            client = scope.get("client")
            self._access_log.write(
                method=scope["method"],
                path=_sent_path(scope),
                status=status,
                seconds=seconds,
                client=client[0] if client else "",
                request_id=request_id,
            )

    def _check(self, scope: Scope) -> None:
        """Refuses what must not reach a route. Raises ``Problem``."""
        hosts = length = 0
        transfer: list[bytes] = []
        # What HTTP/1.0 does not know: Host need not be sent, chunks may not (RFC 9112, 3.2 and 6.1).
        old = scope["http_version"] == "1.0"
        for name, value in scope["headers"]:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                length += 1
                if not value.isdigit():
                    raise bad_request("Content-Length must be a number.")
                if len(value) > 18 or int(value) > self._config.max_body_bytes:
                    raise body_too_large(self._config.max_body_bytes)
            elif name == b"transfer-encoding":
                transfer.append(value.lower())
        if hosts > 1 or (hosts == 0 and not old):
            raise bad_request("The request must have exactly one Host header.")
        if length > 1 or (length and transfer) or (transfer and old):
            raise bad_request("The request must state its length once, in one way.")
        if transfer not in ([], [b"chunked"]):
            raise unknown_transfer_coding()
        if not is_plain_path(scope):
            raise not_found()
        if self._config.v1_shutdown and (scope["path"] + "/").startswith(API_PREFIX + "/"):
            raise gone()


def _request_id(scope: Scope) -> str:
    """The client's id when it is 1 to 128 visible ASCII characters and sent once; else a new one."""
    values: list[bytes] = [value for name, value in scope["headers"] if name == b"x-request-id"]
    if len(values) == 1 and _REQUEST_ID.fullmatch(values[0]):
        return values[0].decode("ascii")
    return secrets.token_hex(16)


def _route(scope: Scope) -> str:
    """The pattern that matched, so that metrics have as many series as there are paths, not as callers make."""
    route = scope.get("route")
    return str(route.path) if route is not None else "unmatched"


def _sent_path(scope: Scope) -> str:
    """The path as sent, percent-encoded, without the query string."""
    raw: bytes = scope.get("raw_path") or b"/"
    return raw.decode("ascii", "replace")


async def _send_problem(problem: Problem, scope: Scope, send: Send, request_id: str) -> None:
    # A key in the path is in the wrong place: it must not be in what callers log of our answers as well.
    body = problem.body(redact(_sent_path(scope)), request_id)
    headers = [*problem.headers(), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
