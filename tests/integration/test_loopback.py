"""The channel inside one process answers as the one over the wire does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grpc_server.loopback import LoopbackChannel
from grpc_server.server import CoreServer
from listing_publication.v1 import (
    account_pb2,
    account_pb2_grpc,
    admin_pb2,
    admin_pb2_grpc,
    jobs_pb2,
    jobs_pb2_grpc,
    publishing_pb2,
    publishing_pb2_grpc,
)
from tests.support.service import Tenant, skus

Channels = tuple[Any, grpc.aio.Channel]


@pytest.fixture
def channels(core_server: CoreServer, channel: grpc.aio.Channel) -> Channels:
    """The loopback and the real one."""
    return core_server.loopback(), channel


def metadata(tenant: Tenant, *, key: str | None = None) -> Any:
    return [("x-api-key", key or tenant.live_key), ("x-request-id", "same-for-both")]


async def outcome(call: Any) -> tuple[Any, Any, Any, Any]:
    """(answer or status, details, initial metadata, error details) of a call."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        trailing: Any = error.trailing_metadata() or ()
        details = [value for name, value in trailing if name == "grpc-status-details-bin"]
        return error.code(), error.details(), sorted(error.initial_metadata() or ()), details
    return answer, "", sorted(await call.initial_metadata()), []


Ask = Callable[[Any, Tenant], Any]

ASKED: dict[str, Ask] = {
    "ping": lambda channel, tenant: account_pb2_grpc.AccountServiceStub(channel).Ping(
        account_pb2.PingRequest(), metadata=metadata(tenant), timeout=5
    ),
    "no key": lambda channel, tenant: account_pb2_grpc.AccountServiceStub(channel).Ping(account_pb2.PingRequest()),
    "bad key": lambda channel, tenant: account_pb2_grpc.AccountServiceStub(channel).Ping(
        account_pb2.PingRequest(), metadata=metadata(tenant, key="svc_live_wrong")
    ),
    "account": lambda channel, tenant: account_pb2_grpc.AccountServiceStub(channel).GetAccount(
        account_pb2.GetAccountRequest(), metadata=metadata(tenant)
    ),
    "bad body": lambda channel, tenant: publishing_pb2_grpc.PublishingServiceStub(channel).CreateJob(
        publishing_pb2.CreateJobRequest(items=[publishing_pb2.PublicationItem(sku="short")] * 3),
        metadata=metadata(tenant),
    ),
    "unknown job": lambda channel, tenant: jobs_pb2_grpc.JobServiceStub(channel).GetJob(
        jobs_pb2.GetJobRequest(job_id=str(uuid.UUID(int=7))), metadata=metadata(tenant)
    ),
    "no operator token": lambda channel, tenant: admin_pb2_grpc.AdminServiceStub(channel).ListSellers(
        admin_pb2.ListSellersRequest()
    ),
    "health": lambda channel, tenant: health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()),
    "health of nothing": lambda channel, tenant: health_pb2_grpc.HealthStub(channel).Check(
        health_pb2.HealthCheckRequest(service="nothing")
    ),
}


def without_ids(metadata: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """A call without a request id of its own is given a random one."""
    return [entry for entry in metadata if entry[0] != "x-request-id"]


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
async def test_both_channels_answer_alike(channels: Channels, tenant: Tenant, asked: Ask) -> None:
    answers = [await outcome(asked(channel, tenant)) for channel in channels]
    inside, outside = ((each[0], each[1], without_ids(each[2]), each[3]) for each in answers)
    assert inside == outside


async def test_an_idempotent_replay_is_told_across_channels(channels: Channels, tenant: Tenant) -> None:
    message = publishing_pb2.CreateJobRequest(
        items=[publishing_pb2.PublicationItem(sku=sku, auto_categorize=True) for sku in skus(3)],
        idempotency_key=str(uuid.uuid4()),
    )
    stubs: list[Any] = [publishing_pb2_grpc.PublishingServiceStub(channel) for channel in channels]
    inside, outside = stubs
    first = await inside.CreateJob(message, metadata=metadata(tenant))
    call = outside.CreateJob(message, metadata=metadata(tenant))
    second = await call
    third_call = inside.CreateJob(message, metadata=metadata(tenant))
    third = await third_call
    assert (first.job_id, True) == (second.job_id, second.replayed) == (third.job_id, third.replayed)
    for replay in (call, third_call):
        assert ("idempotent-replay", "true") in list(await replay.trailing_metadata())


async def test_a_watched_job_comes_in_the_same_messages(channels: Channels, tenant: Tenant) -> None:
    stubs: list[Any] = [jobs_pb2_grpc.JobServiceStub(channel) for channel in channels]
    publishing: Any = publishing_pb2_grpc.PublishingServiceStub(channels[0])
    job = await publishing.CreateJob(
        publishing_pb2.CreateJobRequest(
            items=[publishing_pb2.PublicationItem(sku=sku, auto_categorize=True) for sku in skus(30)]
        ),
        metadata=metadata(tenant),
    )
    await stubs[0].CancelJob(jobs_pb2.CancelJobRequest(job_id=job.job_id), metadata=metadata(tenant))

    async def watch(stub: Any) -> list[tuple[Any, int]]:
        seen = []
        async with asyncio.timeout(10):
            async for message in stub.WatchJob(jobs_pb2.WatchJobRequest(job_id=job.job_id), metadata=metadata(tenant)):
                kind = message.WhichOneof("event")
                if kind != "progress":
                    seen.append((kind, message.item.sequence))
        return seen

    inside, outside = await asyncio.gather(*(watch(stub) for stub in stubs))
    assert inside == outside
    assert [number for kind, number in inside if kind == "item"] == list(range(1, 31))


class Slow:
    """Handlers that never end by themselves."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def channel(self) -> LoopbackChannel:
        handlers = {
            "test.Slow": {
                "Wait": grpc.unary_unary_rpc_method_handler(self._wait),
                "Flow": grpc.unary_stream_rpc_method_handler(self._flow),
            }
        }
        return LoopbackChannel(handlers)

    async def _wait(self, _request: Any, _context: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    async def _flow(self, request: Any, context: Any) -> None:
        try:
            for number in range(request):
                await context.write(number)
        finally:
            self.ended.set()


async def test_a_deadline_ends_the_call_on_both_sides() -> None:
    slow = Slow()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await slow.channel().unary_unary("/test.Slow/Wait")(None, timeout=0.05)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert slow.ended.is_set()


async def test_cancelling_ends_the_call_on_both_sides() -> None:
    slow = Slow()
    call = slow.channel().unary_unary("/test.Slow/Wait")(None)
    asyncio.get_running_loop().call_later(0.05, call.cancel)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert slow.ended.is_set()


async def test_a_slow_reader_holds_the_writer() -> None:
    slow = Slow()
    call = slow.channel().unary_stream("/test.Slow/Flow")(1_000_000)
    assert [await call.read() for _ in range(3)] == [0, 1, 2]
    assert not slow.ended.is_set()
    call.cancel()
    async with asyncio.timeout(5):
        await slow.ended.wait()


async def test_an_unknown_method_is_unimplemented() -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await LoopbackChannel({}).unary_unary("/test.Slow/Nothing")(None)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
