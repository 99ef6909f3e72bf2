"""``/products/jobs`` and everything below it."""

from __future__ import annotations

import re
from typing import Final

import grpc
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from http_gateway import convert
from http_gateway.calls import RATE_LIMIT_HEADERS, Core, Stream, method_name, rpc_problem
from http_gateway.decode import INT64_MAX, violation
from http_gateway.problems import Problem, unavailable
from http_gateway.query import Query, header_values, is_uuid
from http_gateway.responses import json_response
from http_gateway.schemas import to_json
from listing_publication.v1 import jobs_pb2

GET_JOB: Final = method_name("JobService", "GetJob")
LIST_JOBS: Final = method_name("JobService", "ListJobs")
WATCH_JOB: Final = method_name("JobService", "WatchJob")
DEFAULT_ITEM_LIMIT: Final = 100
"""Contract, "Limits"."""
DEFAULT_JOB_LIMIT: Final = 50
"""Decisions, section 2."""
RETRY_MILLISECONDS: Final = 3_000
"""How long an event-source client waits before it connects again."""

_TERMINAL = frozenset({"completed", "failed", "cancelled"})
# Job ids are version-7 UUIDs, so nothing has this one. An id of another form is asked for under it: core
# then makes every check in its order (key, scope, rate, query) and ends with the answer for unknown ids.
_NO_JOB = "00000000-0000-0000-0000-000000000000"
_EVENT_ID = re.compile(rb"0|[1-9][0-9]{0,18}")


def _job_id(request: Request) -> str:
    text: str = request.path_params["jobId"]
    return text.lower() if is_uuid(text) else _NO_JOB


class Jobs:
    """Follows and steers jobs.

    Args:
        core: where calls go.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def list(self, request: Request) -> Response:
        """A page of the seller's jobs, newest first."""
        core = self._core
        query = Query(request.scope["query_string"], ("status", "from", "to", "limit", "offset"))
        limit, offset = query.page(DEFAULT_JOB_LIMIT)
        if query.violations:
            await core.refuse(request, LIST_JOBS, query.violations)
        message = jobs_pb2.ListJobsRequest(
            status=query.text("status"),
            from_date=query.text("from"),
            to_date=query.text("to"),
            page_size=limit,
            skip=offset,
        )
        reply = await core.read(request, core.jobs.ListJobs, message)
        return json_response(convert.job_page(reply, limit, offset))

    async def get(self, request: Request) -> Response:
        """One job with a page of its items in request order."""
        core = self._core
        query = Query(request.scope["query_string"], ("status", "limit", "offset"))
        limit, offset = query.page(DEFAULT_ITEM_LIMIT)
        if query.violations:
            await core.refuse(request, GET_JOB, query.violations)
        message = jobs_pb2.GetJobRequest(
            job_id=_job_id(request), status=query.text("status"), page_size=limit, skip=offset
        )
        reply = await core.read(request, core.jobs.GetJob, message)
        return json_response(convert.job_detail(reply, limit, offset))

    async def retry(self, request: Request) -> Response:
        """Sends the failed, retryable items again: 202 with the job. A body is not read."""
        message = jobs_pb2.RetryJobRequest(job_id=_job_id(request))
        reply = await self._core.write(request, self._core.jobs.RetryJob, message)
        return json_response(convert.job_retried(reply), 202)

    async def cancel(self, request: Request) -> Response:
        """Cancels a job that is not terminal: 200 with the job. A body is not read."""
        message = jobs_pb2.CancelJobRequest(job_id=_job_id(request))
        reply = await self._core.write(request, self._core.jobs.CancelJob, message)
        return json_response(convert.job_cancelled(reply))


class JobEvents:
    """``GET /products/jobs/{jobId}/events``: a job as server-sent events.

    Events: ``job`` (as it stands, and at each change of status), ``item`` (one result; its ``id`` is the
    sequence, to be sent back as ``Last-Event-ID``), ``progress``, ``problem`` (why the stream ends
    early), and comments while nothing happens. Only items carry an id: the job event comes first and
    must not move a client past items that it has not seen.

    Ends after the terminal state. A client that comes back having seen everything of a terminal job gets
    204, which tells event sources to stop.

    Args:
        core: where calls go.
        streams: the running streams, ended when the process stops.
    """

    def __init__(self, core: Core, streams: set[Stream]) -> None:
        self._core = core
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI endpoint."""
        request = Request(scope, receive, send)
        last_ids = [value for value in header_values(scope["headers"], b"last-event-id") if value]
        after = 0
        if last_ids:
            if len(last_ids) > 1 or not _EVENT_ID.fullmatch(last_ids[0]) or int(last_ids[0]) > INT64_MAX:
                place = violation("must be the id of an event of this stream", parameter="Last-Event-ID")
                await self._core.refuse(request, WATCH_JOB, [place])
            after = int(last_ids[0])
        message = jobs_pb2.WatchJobRequest(job_id=_job_id(request), after_sequence=after)
        async with self._core.stream(request, self._core.jobs.WatchJob, message) as stream:
            self._streams.add(stream)
            try:
                await self._relay(stream, request, send, resumed=bool(last_ids), after=after)
            finally:
                self._streams.discard(stream)

    async def _relay(self, stream: Stream, request: Request, send: Send, *, resumed: bool, after: int) -> None:
        # The status line waits for the first message, so that a refusal is an ordinary problem.
        try:
            first = await stream.read()
        except grpc.aio.AioRpcError as error:
            raise rpc_problem(request, error) from error
        if first is None:
            # This process stops. 204 would tell event sources that the job has ended.
            raise unavailable()
        await stream.note_rate_limit()
        if resumed and _nothing_left(first, after):
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", b"text/event-stream; charset=utf-8"),
                    (b"cache-control", b"no-cache"),
                    (b"x-accel-buffering", b"no"),
                ],
            }
        )
        opening = f"retry: {RETRY_MILLISECONDS}\n\n".encode()
        await send({"type": "http.response.body", "body": opening + _event(first), "more_body": True})
        try:
            while (message := await stream.read()) is not None:
                await send({"type": "http.response.body", "body": _event(message), "more_body": True})
            ending = b""
        except grpc.aio.AioRpcError as error:
            ending = _ending(rpc_problem(request, error), request)
        await send({"type": "http.response.body", "body": ending})


def _nothing_left(first: jobs_pb2.WatchJobResponse, after: int) -> bool:
    """Whether the client has seen all that this job will tell; of a cancelled job items may still be on the wire."""
    job = first.job
    return first.HasField("job") and job.status in _TERMINAL and job.pending == 0 and job.last_sequence <= after


def _event(message: jobs_pb2.WatchJobResponse) -> bytes:
    kind = message.WhichOneof("event")
    if kind == "item":
        data = to_json(convert.job_event_item(message.item))
        return b"id: %d\nevent: item\ndata: %b\n\n" % (message.item.sequence, data)
    if kind == "job":
        return b"event: job\ndata: %b\n\n" % to_json(convert.job(message.job))
    if kind == "progress":
        return b"event: progress\ndata: %b\n\n" % to_json(convert.progress(message.progress))
    return b": heartbeat\n\n"


def _ending(problem: Problem, request: Request) -> bytes:
    """The last event of a stream that ends early. A drain or a lost core says nothing: reconnect."""
    if problem.code == "E_INTERNAL":
        return b": reconnect\n\n"
    state = request.scope["state"]
    state.pop(RATE_LIMIT_HEADERS, None)
    body = problem.body(request.scope["raw_path"].decode("ascii"), state["request_id"])
    return b"event: problem\ndata: %b\n\n" % body
