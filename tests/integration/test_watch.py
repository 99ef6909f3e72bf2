"""WatchJob and WatchJobs over a real port: what a watcher is told, and what it is never told twice or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import grpc
import psycopg
import pytest
from prometheus_client import REGISTRY

from core.app import Application
from core.use_cases import hub
from core.use_cases.feeds import PAGE, TAIL
from grpc_server.server import CoreServer
from listing_publication.v1 import jobs_pb2
from tests.conftest import NewTenant
from tests.support import service
from tests.support.finishing import finish, put_on_the_wire, start, take_off_the_wire
from tests.support.grpc_client import DEADLINE, Stubs, key, publication, refusal, refused
from tests.support.postgres import start_test_postgres
from tests.support.service import Tenant, skus

Message = jobs_pb2.WatchJobResponse


async def create(stubs: Stubs, secret: str, count: int = 3) -> str:
    answer = await stubs.publishing.CreateJob(publication(skus(count)), metadata=key(secret), timeout=DEADLINE)
    return str(answer.job_id)


def watch(stubs: Stubs, secret: str, job_id: str, after: int = 0, timeout: float = 60) -> Any:
    request = jobs_pb2.WatchJobRequest(job_id=job_id, after_sequence=after)
    return stubs.jobs.WatchJob(request, metadata=key(secret), timeout=timeout)


async def until(stream: Any, wanted: Callable[[Message], bool]) -> list[Message]:
    """Messages up to the first that is wanted, which is the last one."""
    seen = []
    async for message in messages(stream):
        seen.append(message)
        if wanted(message):
            return seen
    raise AssertionError(f"the stream ended after {len(seen)} messages")


async def to_the_end(stream: Any) -> list[Message]:
    return [message async for message in messages(stream)]


async def messages(stream: Any) -> AsyncIterator[Any]:
    """A stream can be read in pieces, but not by two ways."""
    while (message := await stream.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined]
        yield message


def kind(message: Message) -> str:
    return message.WhichOneof("event") or ""


def sequences(messages: list[Message]) -> list[int]:
    return [message.item.sequence for message in messages if kind(message) == "item"]


def jobs(messages: list[Message]) -> list[tuple[str, int]]:
    return [(each.job.status, each.job.pending) for each in messages if kind(each) == "job"]


def is_item(number: int) -> Callable[[Message], bool]:
    return lambda message: message.item.sequence == number


@contextlib.asynccontextmanager
async def serving(database_url: str, **changes: Any) -> AsyncIterator[tuple[Application, CoreServer, Stubs]]:
    """A core server with settings of its own."""
    application = service.new_application(database_url, **changes)
    await application.open()
    server = CoreServer(application)
    await server.start()
    async with grpc.aio.insecure_channel(server.target) as channel:
        try:
            yield application, server, Stubs(channel)
        finally:
            await server.drain(0)
            await application.close()


async def test_a_job_from_its_beginning_to_its_end(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    database, seller = application.database, tenant.seller_id
    job_id = await create(stubs, tenant.live_key, 30)
    stream = watch(stubs, tenant.test_key, job_id)
    first = await stream.read()
    assert (first.job.status, first.job.pending, first.job.last_sequence) == ("queued", 30, 0)
    await finish(database, seller, job_id, 10)
    seen = await until(stream, is_item(10))
    await finish(database, seller, job_id, 5, failure="title_refused")
    seen += await until(stream, is_item(15))
    await finish(database, seller, job_id)
    seen += await to_the_end(stream)
    assert await stream.code() is grpc.StatusCode.OK
    assert sequences(seen) == list(range(1, 31))
    assert jobs(seen) == [("processing", 20), ("completed", 0)] or jobs(seen) == [
        ("processing", 15),
        ("completed", 0),
    ]
    assert kind(seen[-1]) == "job"
    failed = next(message.item for message in seen if message.item.sequence == 11)
    assert (failed.status, failed.error.code, failed.retryable, failed.ordinal) == (
        "failed",
        "title_refused",
        False,
        10,
    )
    last = seen[-1].job
    assert (last.successful, last.failed, last.last_sequence) == (25, 5, 30)


async def test_a_job_that_has_ended_before(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    job_id = await create(stubs, tenant.test_key, 3)
    await finish(application.database, tenant.seller_id, job_id)
    seen = await to_the_end(watch(stubs, tenant.test_key, job_id))
    assert [kind(message) for message in seen] == ["job", "item", "item", "item", "job"]
    assert seen[0] == seen[-1]
    assert sequences(await to_the_end(watch(stubs, tenant.test_key, job_id, after=2))) == [3]
    seen = await to_the_end(watch(stubs, tenant.test_key, job_id, after=3))
    assert [kind(message) for message in seen] == ["job"]


async def test_a_job_that_fails_at_once(stubs: Stubs, new_tenant: NewTenant) -> None:
    tenant = await new_tenant(connected=[])
    job_id = await create(stubs, tenant.test_key, 2)
    seen = await to_the_end(watch(stubs, tenant.test_key, job_id))
    assert sequences(seen) == [1, 2]
    assert seen[-1].job.error_message


async def test_where_a_watch_may_begin(stubs: Stubs, tenant: Tenant, new_tenant: NewTenant) -> None:
    job_id = await create(stubs, tenant.test_key)
    for after in (1, 2**62, -1):
        error = await refused(watch(stubs, tenant.test_key, job_id, after=after).read())
        assert error.status is grpc.StatusCode.INVALID_ARGUMENT
        assert error.places == [("after_sequence", "E_PRODUCT_INVALID_BODY")]
    other = await new_tenant()
    for job, secret in ((str(uuid.uuid4()), tenant.test_key), (job_id, other.test_key), ("x", tenant.test_key)):
        assert (await refused(watch(stubs, secret, job).read())).code == "E_JOB_NOT_FOUND"


async def test_resuming_anywhere_loses_nothing_and_repeats_nothing(
    stubs: Stubs, tenant: Tenant, application: Application
) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    database, seller = application.database, tenant.seller_id
    count = 3 * PAGE + 17
    job_id = await create(stubs, tenant.test_key, count)

    async def work() -> None:
        while await finish(database, seller, job_id, chance.randrange(1, 200), notify=chance.random() < 0.5):
            pass

    working = asyncio.create_task(work())
    cursor, seen, ended = 0, list[int](), False
    while not ended:
        stream = watch(stubs, tenant.test_key, job_id, after=cursor)
        left = chance.randrange(1, 400)
        async for message in messages(stream):
            if kind(message) == "item":
                cursor = message.item.sequence
                seen.append(cursor)
            left -= 1
            if not left:
                break
        else:
            ended = True
        stream.cancel()
    await working
    assert seen == list(range(1, count + 1))


async def test_many_watchers_and_a_job_longer_than_what_is_kept(
    stubs: Stubs, tenant: Tenant, application: Application
) -> None:
    count = TAIL + 2 * PAGE + 3
    job_id = await create(stubs, tenant.test_key, count)
    early = [asyncio.create_task(to_the_end(watch(stubs, tenant.test_key, job_id))) for _ in range(10)]
    await finish(application.database, tenant.seller_id, job_id, TAIL + PAGE + 1)
    await finish(application.database, tenant.seller_id, job_id, 100, failure="marketplace_busy")
    late = [asyncio.create_task(to_the_end(watch(stubs, tenant.test_key, job_id))) for _ in range(10)]
    await finish(application.database, tenant.seller_id, job_id)
    for seen in await asyncio.gather(*early, *late):
        assert sequences(seen) == list(range(1, count + 1))
        assert jobs(seen)[-1] == ("completed", 0)


async def test_a_retry_while_watching(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    database, seller = application.database, tenant.seller_id
    job_id = await create(stubs, tenant.test_key, 6)
    await finish(database, seller, job_id, 2)
    await finish(database, seller, job_id, 3, failure="marketplace_busy")
    stream = watch(stubs, tenant.test_key, job_id)
    seen = await until(stream, is_item(5))
    await finish(database, seller, job_id, failure="title_refused")
    request = jobs_pb2.RetryJobRequest(job_id=job_id)
    # Before the watcher can have looked: the job was terminal in between, and goes on.
    await stubs.jobs.RetryJob(request, metadata=key(tenant.test_key), timeout=DEADLINE)
    fresh = await until(watch(stubs, tenant.test_key, job_id), is_item(6))
    assert sequences(fresh) == [1, 2, 3, 4, 5, 6]
    assert {message.item.status for message in fresh[3:6]} == {"failed"}
    await finish(database, seller, job_id)
    after = await to_the_end(watch(stubs, tenant.test_key, job_id, after=4))
    assert sequences(after) == [5, 6, 7, 8, 9]
    assert after[-1].job.retries == 1
    rest = await to_the_end(stream)
    assert sequences(seen + rest) in ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9])


async def test_a_retry_is_told_to_who_watches_a_cancelled_job(
    stubs: Stubs, tenant: Tenant, application: Application
) -> None:
    database, seller = application.database, tenant.seller_id
    job_id = await create(stubs, tenant.test_key, 4)
    await finish(database, seller, job_id, 1, failure="marketplace_busy")
    await put_on_the_wire(database, seller, job_id, 1)
    stream = watch(stubs, tenant.test_key, job_id)
    seen = await until(stream, is_item(1))
    await stubs.jobs.CancelJob(
        jobs_pb2.CancelJobRequest(job_id=job_id), metadata=key(tenant.test_key), timeout=DEADLINE
    )
    seen += await until(stream, lambda message: message.job.status == "cancelled")
    assert sequences(seen) == [1, 2, 3]
    assert jobs(seen)[-1] == ("cancelled", 1)
    await stubs.jobs.RetryJob(jobs_pb2.RetryJobRequest(job_id=job_id), metadata=key(tenant.test_key), timeout=DEADLINE)
    seen += await until(stream, lambda message: message.job.status == "queued")
    await take_off_the_wire(database, seller, job_id)
    await finish(database, seller, job_id)
    seen += await to_the_end(stream)
    assert sequences(seen) == [1, 2, 3, 4, 5]
    assert jobs(seen)[-1] == ("completed", 0)


async def test_a_cancelled_job_is_watched_until_nothing_is_on_the_wire(
    stubs: Stubs, tenant: Tenant, application: Application
) -> None:
    database, seller = application.database, tenant.seller_id
    job_id = await create(stubs, tenant.live_key, 5)
    await put_on_the_wire(database, seller, job_id, 2)
    stream = watch(stubs, tenant.live_key, job_id)
    await stubs.jobs.CancelJob(
        jobs_pb2.CancelJobRequest(job_id=job_id), metadata=key(tenant.live_key), timeout=DEADLINE
    )
    seen = await until(stream, lambda message: message.job.status == "cancelled")
    assert sequences(seen) == [1, 2, 3]
    await take_off_the_wire(database, seller, job_id)
    await finish(database, seller, job_id)
    seen += await to_the_end(stream)
    assert sequences(seen) == [1, 2, 3, 4, 5]
    last = seen[-1].job
    assert (last.status, last.successful, last.skipped, last.pending) == ("cancelled", 2, 3, 0)


async def test_progress_waiting_reason_and_heartbeats(own_database_url: str) -> None:
    async with serving(own_database_url, heartbeat_seconds=0.4) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        database, seller = application.database, tenant.seller_id
        job_id = await create(stubs, tenant.test_key, 100)
        stream = watch(stubs, tenant.test_key, job_id)
        first = await stream.read()
        assert first.job.waiting_reason == "waiting for a worker"
        beat = (await until(stream, lambda message: kind(message) == "heartbeat"))[-1]
        assert abs(beat.heartbeat.time.ToSeconds() - time.time()) < 60
        await start(database, seller, job_id)
        seen = await until(stream, lambda message: message.job.status == "processing")
        assert not seen[-1].job.HasField("waiting_reason")
        stop = asyncio.Event()

        async def work() -> None:
            while not stop.is_set() and await finish(database, seller, job_id, 1):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), 0.1)

        working = asyncio.create_task(work())
        progress: list[Message] = []
        times: list[float] = []
        while len(progress) < 3:
            progress.append((await until(stream, lambda message: kind(message) == "progress"))[-1])
            times.append(time.monotonic())
        stop.set()
        await working
        assert min(later - earlier for earlier, later in pairwise(times)) > 0.8
        last = progress[-1].progress
        assert last.items_per_second > 0
        assert last.eta_seconds == pytest.approx(last.pending / last.items_per_second)
        assert last.pending + last.successful == 100
        assert 1 < last.items_per_second < 15

        async def pause(connection: Any) -> None:
            await connection.execute(
                "UPDATE marketplace_accounts SET paused_until = now() + interval '1 hour', pause_reason = 'slow down'"
                " WHERE seller_id = %s",
                (seller,),
            )

        await database.transact(pause)
        told = await until(stream, lambda message: "slow down" in message.progress.waiting_reason)
        assert told[-1].progress.status == "processing"
        stream.cancel()


async def test_the_service_works_without_notifications(own_database_url: str) -> None:
    async with serving(own_database_url, database_listen=False) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        job_id = await create(stubs, tenant.test_key, 20)
        stream = watch(stubs, tenant.test_key, job_id)
        await stream.read()
        await finish(application.database, tenant.seller_id, job_id, 10, notify=False)
        seen = await until(stream, is_item(10))
        await finish(application.database, tenant.seller_id, job_id, notify=False)
        assert sequences(seen + await to_the_end(stream)) == list(range(1, 21))


async def test_a_notification_makes_it_sooner(own_database_url: str) -> None:
    async with serving(own_database_url, poll_seconds=20) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        job_id = await create(stubs, tenant.test_key, 40)
        stream = watch(stubs, tenant.test_key, job_id)
        await stream.read()
        delays = []
        for number in range(1, 6):
            await finish(application.database, tenant.seller_id, job_id, 1)
            began = time.monotonic()
            await until(stream, is_item(number))
            delays.append(time.monotonic() - began)
        assert max(delays) < 5, "a poll would take 20 s"
        stream.cancel()


async def test_a_revoked_key_ends_its_streams(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    from core.use_cases import administration

    job_id = await create(stubs, tenant.test_key)
    key_id, secret = await tenant.key()
    streams = [watch(stubs, secret, job_id), stubs.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(), metadata=key(secret))]
    other = watch(stubs, tenant.test_key, job_id)
    for stream in (*streams, other):
        await stream.read()
    await administration.revoke_key(application.database, key_id)
    began = time.monotonic()
    for stream in streams:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await to_the_end(stream)
        error = refusal(caught.value)
        assert (error.status, error.code) == (grpc.StatusCode.UNAUTHENTICATED, "E_AUTH_INVALID_KEY")
    assert time.monotonic() - began < 5
    await finish(application.database, tenant.seller_id, job_id)
    assert sequences(await to_the_end(other)) == [1, 2, 3]


async def test_too_many_streams_of_one_seller(own_database_url: str) -> None:
    async with serving(own_database_url, max_streams_per_seller=2) as (application, _, stubs):
        tenant, other = await service.new_tenant(application), await service.new_tenant(application)
        job_id = await create(stubs, tenant.test_key)
        streams = [watch(stubs, tenant.test_key, job_id) for _ in range(2)]
        for stream in streams:
            await stream.read()
        error = await refused(watch(stubs, tenant.test_key, job_id).read())
        assert (error.status, error.code) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "E_RATE_LIMITED")
        assert error.retry_after
        others = watch(stubs, other.test_key, await create(stubs, other.test_key))
        await others.read()
        streams[0].cancel()
        async with asyncio.timeout(5):
            while True:
                stream = watch(stubs, tenant.test_key, job_id)
                with contextlib.suppress(grpc.aio.AioRpcError):
                    await stream.read()
                    break
                await asyncio.sleep(0.02)


async def test_a_stream_that_is_too_old(own_database_url: str) -> None:
    async with serving(own_database_url, stream_max_age_seconds=0.3) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        stream = watch(stubs, tenant.test_key, await create(stubs, tenant.test_key))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await to_the_end(stream)
        error = refusal(caught.value)
        assert error.status is grpc.StatusCode.UNAVAILABLE
        assert "last sequence seen" in error.message
        assert error.retry_after


async def test_draining_ends_streams_at_once_and_they_resume_elsewhere(own_database_url: str) -> None:
    async with serving(own_database_url) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        job_id = await create(stubs, tenant.test_key, 10)
        await finish(application.database, tenant.seller_id, job_id, 4)
        async with serving(own_database_url) as (_, second, second_stubs):
            stream = watch(second_stubs, tenant.test_key, job_id)
            active = second_stubs.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(), metadata=key(tenant.test_key))
            seen = await until(stream, is_item(4))
            await active.read()
            began = time.monotonic()
            await second.drain(20)
            assert time.monotonic() - began < 3
            for each in (stream, active):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await to_the_end(each)
                error = refusal(caught.value)
                assert error.status is grpc.StatusCode.UNAVAILABLE
                assert "stopping" in error.message
        await finish(application.database, tenant.seller_id, job_id)
        seen += await to_the_end(watch(stubs, tenant.test_key, job_id, after=4))
        assert sequences(seen) == list(range(1, 11))


async def test_a_reader_that_does_not_read_costs_nothing_and_delays_nobody(
    stubs: Stubs, tenant: Tenant, application: Application, core_server: CoreServer
) -> None:
    count = 6000
    job_id = await create(stubs, tenant.test_key, count)
    # A window of its own, as small as it gets: what it does not read must stay in the server's storage.
    options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(core_server.target, options=options) as channel:
        idle = watch(Stubs(channel), tenant.test_key, job_id)
        assert kind(await idle.read()) == "job"
        await finish(application.database, tenant.seller_id, job_id)
        began = time.monotonic()
        seen = await to_the_end(watch(stubs, tenant.test_key, job_id))
        assert sequences(seen) == list(range(1, count + 1))
        assert time.monotonic() - began < 20
        assert core_server.hub._streams[tenant.seller_id] == 1, "the idle stream waits"
        rest = await to_the_end(idle)
        assert sequences(rest) == list(range(1, count + 1))


async def test_a_reader_that_has_stopped_reading_is_let_go(
    own_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grpc_server.patience.PATIENCE_SECONDS", 0.3)
    async with serving(own_database_url) as (application, server, stubs):
        tenant = await service.new_tenant(application)
        job_id = await create(stubs, tenant.test_key, 6000)
        await finish(application.database, tenant.seller_id, job_id)
        options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)]
        async with grpc.aio.insecure_channel(server.target, options=options) as channel:
            idle = watch(Stubs(channel), tenant.test_key, job_id)
            await idle.read()
            async with asyncio.timeout(20):
                while tenant.seller_id in server.hub._streams:
                    await asyncio.sleep(0.02)
            taken: list[Message] = []
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                async for message in messages(idle):
                    taken.append(message)
            error = refusal(caught.value)
            assert error.status is grpc.StatusCode.UNAVAILABLE
            assert "not read" in error.message
            seen = sequences(taken)
            rest = await to_the_end(watch(stubs, tenant.test_key, job_id, after=seen[-1] if seen else 0))
            assert seen + sequences(rest) == list(range(1, 6001))


async def test_the_database_may_go_away_for_a_while(own_database_url: str) -> None:
    name = urlsplit(own_database_url).path.removeprefix("/")
    async with serving(own_database_url) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        job_id = await create(stubs, tenant.test_key, 10)
        stream = watch(stubs, tenant.test_key, job_id)
        await finish(application.database, tenant.seller_id, job_id, 5)
        seen = await until(stream, is_item(5))
        with psycopg.connect(start_test_postgres().url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
            cut = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s", (name,)
            ).fetchone()
            assert cut is not None
            assert cut[0] >= 1
            error = await refused(
                stubs.jobs.GetJob(
                    jobs_pb2.GetJobRequest(job_id=job_id), metadata=key(tenant.test_key), timeout=DEADLINE
                )
            )
            assert (error.status, error.code) == (grpc.StatusCode.UNAVAILABLE, "E_INTERNAL")
            assert error.retry_after
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
        back = time.monotonic()
        while True:
            with contextlib.suppress(Exception):
                await finish(application.database, tenant.seller_id, job_id)
                break
        seen += await to_the_end(stream)
        assert time.monotonic() - back < 10
        assert sequences(seen) == list(range(1, 11))


async def test_a_missing_sequence_is_noticed_and_never_skipped(
    stubs: Stubs, tenant: Tenant, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await create(stubs, tenant.test_key, 4)
    stream = watch(stubs, tenant.test_key, job_id)
    await stream.read()

    async def corrupt(connection: Any) -> None:
        await connection.execute(
            "UPDATE jobs SET last_sequence = 2 WHERE seller_id = %s AND job_id = %s", (tenant.seller_id, job_id)
        )
        await connection.execute(
            "UPDATE job_items SET status = 'success', listing_id = 'x', sequence = 2"
            " WHERE seller_id = %s AND job_id = %s AND ordinal = 0",
            (tenant.seller_id, job_id),
        )

    await application.database.transact(corrupt)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await to_the_end(stream)
    assert refusal(caught.value).code == "E_INTERNAL"


async def test_the_jobs_of_a_seller(stubs: Stubs, new_tenant: NewTenant, application: Application) -> None:
    tenant, other = await new_tenant(connected=["live"]), await new_tenant()
    database = application.database
    before = await create(stubs, tenant.live_key, 2)
    ended = await create(stubs, tenant.live_key, 1)
    await finish(database, tenant.seller_id, ended)

    async def jobs_until(stream: Any, job_id: str, status: str) -> list[tuple[str, str]]:
        seen = []
        async with asyncio.timeout(10):
            async for message in messages(stream):
                if message.HasField("job"):
                    seen.append((message.job.job_id, message.job.status))
                    if seen[-1] == (job_id, status):
                        return seen
        raise AssertionError("the stream ended")

    def open_stream() -> Any:
        return stubs.jobs.WatchJobs(jobs_pb2.WatchJobsRequest(), metadata=key(tenant.test_key))

    stream = open_stream()
    assert await jobs_until(stream, before, "queued") == [(before, "queued")]
    await create(stubs, other.test_key, 1)
    # A test job without a test account ends in the very moment it appears.
    failed = await create(stubs, tenant.test_key, 1)
    assert await jobs_until(stream, failed, "failed") == [(failed, "failed")]
    second = open_stream()
    assert await jobs_until(second, before, "queued") == [(before, "queued")]
    await finish(database, tenant.seller_id, before, 1)
    for each in (stream, second):
        assert await jobs_until(each, before, "processing") == [(before, "processing")]
    await finish(database, tenant.seller_id, before)
    for each in (stream, second):
        assert await jobs_until(each, before, "completed") == [(before, "completed")]
    request = jobs_pb2.RetryJobRequest(job_id=failed)
    error = await refused(stubs.jobs.RetryJob(request, metadata=key(tenant.live_key), timeout=DEADLINE))
    assert error.code == "E_JOB_NOT_RETRYABLE"
    await stubs.jobs.RetryJob(request, metadata=key(tenant.test_key), timeout=DEADLINE)
    for each in (stream, second):
        assert await jobs_until(each, failed, "queued") == [(failed, "queued")]
        each.cancel()


async def test_streams_are_counted(stubs: Stubs, tenant: Tenant, core_server: CoreServer) -> None:
    def open_streams() -> float:
        return REGISTRY.get_sample_value("listings_watchers") or 0.0

    before = open_streams()
    job_id = await create(stubs, tenant.test_key)
    streams = [watch(stubs, tenant.test_key, job_id) for _ in range(3)]
    for stream in streams:
        await stream.read()
    assert open_streams() == before + 3
    for stream in streams:
        stream.cancel()
    async with asyncio.timeout(5):
        while open_streams() != before:
            await asyncio.sleep(0.02)
    assert (tenant.seller_id, job_id) not in core_server.hub._jobs
    assert hub.RECHECK_SECONDS < 4
