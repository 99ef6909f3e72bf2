"""Routes that answer with problems, and the paths of REST v1."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from http_gateway.problems import method_not_allowed, not_found

API_PREFIX: Final = "/api/v1"

Endpoint = Callable[[Request], Awaitable[Response]]


class ApiRoute(Route):
    """A path with one method (and HEAD where it is GET); another method is a 405 problem."""

    def __init__(self, path: str, endpoint: Endpoint | ASGIApp, *, methods: list[str]) -> None:
        super().__init__(path, endpoint, methods=methods)
        if inspect.ismethod(endpoint):
            self.app = _answered(endpoint)
        # The end of the framework's pattern also matches before a trailing line feed.
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z")

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers, or raises ``Problem`` with the methods that the path takes."""
        if self.methods is not None and scope["method"] not in self.methods:
            raise method_not_allowed(", ".join(sorted(self.methods)))
        await self.app(scope, receive, send)


def _answered(endpoint: Endpoint) -> ASGIApp:
    """The endpoint as an application, without the framework's layers for handlers of exceptions: there are none."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return app


async def no_such_path(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer for every path that is not routed: a 404 problem."""
    raise not_found()


def is_plain_path(scope: Scope) -> bool:
    """Whether the path may be matched at all.

    An encoded slash would let a path match a route (or a proxy's rule) that it does not name.
    """
    raw: bytes = scope.get("raw_path") or b""
    return b"%2f" not in raw.lower()
