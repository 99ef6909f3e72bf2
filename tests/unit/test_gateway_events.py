"""When an event stream may tell its client to stop (204)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from listing_publication.v1 import jobs_pb2
from tests.support.gateway import gateway, split, until
from tests.support.gateway import raw as send_raw
from tests.support.scripted_core import scripted_core

JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_cancelled_job_with_items_on_the_wire_goes_on() -> None:
    """Its results are still to come: 204 would make an event source stop for good before them."""

    def job(*, successful: int, pending: int) -> jobs_pb2.WatchJobResponse:
        return jobs_pb2.WatchJobResponse(
            job=jobs_pb2.Job(
                job_id=JOB_ID,
                status="cancelled",
                total_items=4,
                successful=successful,
                pending=pending,
                last_sequence=successful,
            )
        )

    item = jobs_pb2.JobItem(ordinal=3, sku="B000000004", status="success", sequence=4, price=5)
    async with scripted_core() as core, gateway(core.address) as client:
        core.answers["JobService/WatchJob"] = [
            job(successful=3, pending=1),
            jobs_pb2.WatchJobResponse(item=item),
            job(successful=4, pending=0),
        ]
        answer = await client.call("GET", f"/products/jobs/{JOB_ID}/events", headers={"Last-Event-ID": "3"})
        assert answer.status == 200
        assert b"id: 4\n" in answer.body


@pytest.mark.asyncio(loop_scope="session")
async def test_a_stop_before_the_first_event_is_not_the_end_of_the_job() -> None:
    """A gateway that stops while core has not answered yet must not say that nothing is left."""

    async def silent(request: Any, context: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    async with scripted_core() as core:
        core.answers["JobService/WatchJob"] = silent
        stack = gateway(core.address)
        client = await stack.__aenter__()
        request = f"GET /api/v1/products/jobs/{JOB_ID}/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        events = asyncio.create_task(send_raw(client.address, request.encode()))
        await until(lambda: core.calls)
        await stack.__aexit__(None, None, None)
        answer = split(await events)
        assert answer.status == 503, answer
