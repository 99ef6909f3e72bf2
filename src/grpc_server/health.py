"""Health by the standard protocol: the process ("" and each service) and the database ("readiness")."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1._async import HealthServicer

READINESS = "readiness"
"""The name that follows the database; "" and the services' names follow the process."""

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_TELL_SECONDS = 0.05
"""Time for the watchers to hear the last status before their streams end."""


class Health(HealthServicer):  # type: ignore[misc]
    """The library's servicer, whose watch streams do not hold up a stop."""

    def __init__(self, services: Iterable[str]) -> None:
        super().__init__()
        self._services = ["", *services]
        self._stopping = asyncio.Event()

    async def serving(self) -> None:
        """The process serves; the database has not been asked yet."""
        for service in self._services:
            await self.set(service, _SERVING)
        await self.set(READINESS, _NOT_SERVING)

    async def ready(self, is_ready: bool) -> None:
        """What the database answered."""
        await self.set(READINESS, _SERVING if is_ready else _NOT_SERVING)

    async def stop(self) -> None:
        """Tell everybody that nothing is served any more, then end the watch streams."""
        await self.enter_graceful_shutdown()
        await asyncio.sleep(_TELL_SECONDS)
        self._stopping.set()

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:  # noqa: N802
        """See grpc.health.v1."""
        watching = asyncio.create_task(super().Watch(request, context))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            stopping.cancel()
            await asyncio.gather(watching, stopping, return_exceptions=True)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "This server is stopping.")
