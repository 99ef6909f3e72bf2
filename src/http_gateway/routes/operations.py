"""What is beside the API: health, metrics and its description. No key is needed."""

from __future__ import annotations

import asyncio

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from http_gateway.metrics import EXPOSITION_TYPE, exposition
from http_gateway.responses import json_response

_CHECK_SECONDS = 2.0


class Health(Struct):
    """Answer of ``/healthz``."""

    status: str


class Readiness(Struct):
    """Answer of ``/readyz``. Each part is ``ok`` or ``unavailable``."""

    status: str
    core: str
    database: str


class Operations:
    """Health, metrics and documentation.

    Args:
        channel: to core, whose health service is asked.
        openapi: the document, as JSON.
        docs: the page for people, as HTML.
    """

    def __init__(self, channel: grpc.aio.Channel, openapi: bytes, docs: bytes) -> None:
        self._health = health_pb2_grpc.HealthStub(channel)
        self._openapi = openapi
        self._docs = docs

    async def healthz(self, request: Request) -> Response:
        """200 while the process turns."""
        return json_response(Health("ok"))

    async def readyz(self, request: Request) -> Response:
        """200 when core and its database can serve requests, else 503 saying which cannot."""
        core, database = await asyncio.gather(self._serving(""), self._serving("readiness"))
        ready = core and database
        state = Readiness(
            status="ok" if ready else "unavailable",
            core="ok" if core else "unavailable",
            database="ok" if database else "unavailable",
        )
        response = json_response(state, 200 if ready else 503)
        if not ready:
            response.headers["retry-after"] = "2"
        return response

    async def _serving(self, service: str) -> bool:
        try:
            reply = await self._health.Check(health_pb2.HealthCheckRequest(service=service), timeout=_CHECK_SECONDS)
        except grpc.aio.AioRpcError:
            return False
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

    async def metrics(self, request: Request) -> Response:
        """The Prometheus exposition of this process."""
        return Response(exposition(), headers={"content-type": EXPOSITION_TYPE})

    async def openapi(self, request: Request) -> Response:
        """The OpenAPI 3.1 document."""
        return Response(self._openapi, headers={"content-type": "application/json"})

    async def docs(self, request: Request) -> Response:
        """The API described for people. One page, nothing fetched from elsewhere."""
        headers = {
            "content-type": "text/html; charset=utf-8",
            "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
            "x-content-type-options": "nosniff",
        }
        return Response(self._docs, headers=headers)
