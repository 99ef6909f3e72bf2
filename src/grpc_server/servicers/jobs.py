"""JobService."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

from core.app import Application
from core.use_cases import read_jobs, steer_jobs, watch_job
from core.use_cases.hub import Hub
from grpc_server import convert
from grpc_server.call import current_call, current_principal
from grpc_server.convert import given
from listing_publication.v1 import jobs_pb2, jobs_pb2_grpc


class JobServicer(jobs_pb2_grpc.JobServiceServicer):
    """Follows and steers jobs. Contracts: jobs.proto."""

    def __init__(self, application: Application, hub: Hub) -> None:
        self._database = application.database
        self._authorizer = application.authorizer
        self._settings = application.settings
        self._hub = hub

    async def GetJob(self, request: jobs_pb2.GetJobRequest, context: Any) -> jobs_pb2.GetJobResponse:  # noqa: N802
        """See jobs.proto."""
        principal = current_principal()
        skip, place = convert.from_page(request, principal.seller_id, int)
        page = await read_jobs.get_job(
            self._database,
            principal,
            request.job_id,
            status=given(request, "status"),
            limit=given(request, "page_size"),
            offset=skip,
            after=place[0] if place else None,
        )
        return convert.to_get_job(page, request, principal.seller_id)

    async def ListJobs(self, request: jobs_pb2.ListJobsRequest, context: Any) -> jobs_pb2.ListJobsResponse:  # noqa: N802
        """See jobs.proto."""
        principal = current_principal()
        skip, place = convert.from_page(request, principal.seller_id, int)
        found = await read_jobs.list_jobs(
            self._database,
            principal,
            status=given(request, "status"),
            from_date=given(request, "from_date"),
            to_date=given(request, "to_date"),
            limit=given(request, "page_size"),
            offset=skip,
            before=place[0] if place else None,
        )
        return convert.to_list_jobs(found, request, principal.seller_id)

    async def RetryJob(self, request: jobs_pb2.RetryJobRequest, context: Any) -> jobs_pb2.RetryJobResponse:  # noqa: N802
        """See jobs.proto."""
        principal = current_principal()
        retried = await steer_jobs.retry_job(
            self._database, principal.seller_id, request.job_id, environment=principal.environment
        )
        return jobs_pb2.RetryJobResponse(job=convert.to_job(retried.job), retried=retried.items)

    async def CancelJob(self, request: jobs_pb2.CancelJobRequest, context: Any) -> jobs_pb2.CancelJobResponse:  # noqa: N802
        """See jobs.proto."""
        cancelled = await steer_jobs.cancel_job(self._database, current_principal().seller_id, request.job_id)
        return jobs_pb2.CancelJobResponse(
            job=convert.to_job(cancelled.job), cancelled_items=cancelled.items, in_flight=cancelled.in_flight
        )

    async def WatchJob(self, request: jobs_pb2.WatchJobRequest, context: Any) -> None:  # type: ignore[override] # noqa: N802
        """See jobs.proto. Written to the context: an iterator costs more for each message and stream."""

        def tell(event: watch_job.WatchEvent) -> Awaitable[None]:
            return context.write(convert.to_watch_job(event))  # type: ignore[no-any-return]

        await watch_job.watch_job(
            self._hub,
            current_principal(),
            request.job_id,
            tell,
            after_sequence=request.after_sequence,
            **self._limits(),
        )

    async def WatchJobs(self, request: jobs_pb2.WatchJobsRequest, context: Any) -> None:  # type: ignore[override] # noqa: N802
        """See jobs.proto."""

        def tell(event: watch_job.JobSeen | watch_job.Quiet) -> Awaitable[None]:
            return context.write(convert.to_watch_jobs(event))  # type: ignore[no-any-return]

        await watch_job.watch_jobs(self._hub, current_principal(), tell, **self._limits())

    def _limits(self) -> dict[str, Any]:
        digest = current_call().key_digest
        return {
            "recheck": partial(self._authorizer.recheck, digest),
            "max_age": self._settings.stream_max_age_seconds,
            "heartbeat": self._settings.heartbeat_seconds,
        }
