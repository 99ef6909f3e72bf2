"""PublishingService."""

from __future__ import annotations

from typing import Any

from core.app import Application
from core.use_cases.create_job import create_job
from grpc_server import convert
from grpc_server.call import current_call, current_principal
from listing_publication.v1 import publishing_pb2, publishing_pb2_grpc

REPLAY = ("idempotent-replay", "true")
"""Trailing metadata of a remembered answer."""


class PublishingServicer(publishing_pb2_grpc.PublishingServiceServicer):
    """Accepts products for publication. Contracts: publishing.proto."""

    def __init__(self, application: Application) -> None:
        self._database = application.database

    async def CreateJob(  # noqa: N802
        self, request: publishing_pb2.CreateJobRequest, context: Any
    ) -> publishing_pb2.CreateJobResponse:
        """See publishing.proto."""
        asked = convert.from_create_job(request)
        answer = await create_job(self._database, current_principal(), asked)
        if answer.replayed:
            current_call().trailing.append(REPLAY)
        return convert.to_create_job(answer)
