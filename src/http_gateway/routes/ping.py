"""``GET /ping``."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from http_gateway import convert
from http_gateway.calls import Core
from http_gateway.responses import json_response
from listing_publication.v1 import account_pb2


class PingRoutes:
    """Tells whether a key works.

    Args:
        core: where calls go.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def get(self, request: Request) -> Response:
        """The calling key's seller, environment and scopes."""
        reply = await self._core.read(request, self._core.account.Ping, account_pb2.PingRequest())
        return json_response(convert.ping(reply))
