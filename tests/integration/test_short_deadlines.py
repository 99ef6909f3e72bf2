"""A caller whose deadline passes while it is being answered is no bug of the core server."""

from __future__ import annotations

import asyncio
import random

import grpc
from prometheus_client import REGISTRY

from listing_publication.v1 import account_pb2, jobs_pb2
from tests.support.grpc_client import Stubs, key
from tests.support.service import Tenant


def internal() -> float:
    return REGISTRY.get_sample_value("listings_refusals_total", {"code": "E_INTERNAL"}) or 0.0


async def test_a_deadline_that_passes_is_not_counted_as_a_fault(stubs: Stubs, tenant: Tenant) -> None:
    chance = random.Random(7)
    before = internal()
    missed = 0

    async def ask() -> None:
        nonlocal missed
        for _ in range(150):
            calls = [
                (stubs.account.Ping, account_pb2.PingRequest(), tenant.live_key),
                (stubs.jobs.GetJob, jobs_pb2.GetJobRequest(job_id="x"), tenant.live_key),
                (stubs.account.Ping, account_pb2.PingRequest(), "svc_live_bad"),
            ]
            method, request, secret = chance.choice(calls)
            try:
                await method(request, metadata=key(secret), timeout=chance.uniform(0.0002, 0.012))
            except grpc.aio.AioRpcError as error:
                missed += error.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    await asyncio.gather(*(ask() for _ in range(10)))
    assert missed > 20
    assert internal() == before
