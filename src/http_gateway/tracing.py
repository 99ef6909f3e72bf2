"""A span for each REST request, as the outermost layer of the application."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core import tracing
from http_gateway.calls import REQUEST_ID
from http_gateway.query import header_values
from http_gateway.routing import API_PREFIX


class Traced:
    """The application, with its API requests inside spans. Takes the caller's ``traceparent``.

    What is beside the API (health, metrics) is asked every few seconds and not traced. Neither path nor query
    stand in a span: the route does.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        if scope["type"] != "http" or not scope["path"].startswith(API_PREFIX):
            await self._app(scope, receive, send)
            return
        state: dict[str, Any] = scope.setdefault("state", {})
        given = header_values(scope["headers"], tracing.HEADER.encode())
        parent = given[0].decode("latin-1") if len(given) == 1 else None
        with tracing.span("request", parent=parent, kind="server") as span:

            async def send_noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.note(http__response__status_code=message["status"])
                    if message["status"] >= 500:
                        span.failed(str(message["status"]))
                await send(message)

            try:
                await self._app(scope, receive, send_noting)
            finally:
                route = scope.get("route")
                path = str(route.path) if route is not None else "unmatched"
                method = scope["method"] if route is not None else "other"
                span.name(f"{method} {path}")
                span.note(http__request__method=method, http__route=path, request_id=state.get(REQUEST_ID))
