"""What surrounds every call: admission in its documented order, limits, health, deadlines, draining, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from core.app import Application
from core.settings import SettingsError
from core.use_cases import administration
from grpc_server.health import READINESS
from grpc_server.server import CoreServer, serve
from listing_publication.v1 import account_pb2, admin_pb2, jobs_pb2, promotion_pb2, publishing_pb2
from tests.support import service
from tests.support.grpc_client import DEADLINE, OPERATOR, Stubs, key, publication, refused
from tests.support.postgres import start_test_postgres
from tests.support.service import Tenant, skus

PING = account_pb2.PingRequest()
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@contextlib.asynccontextmanager
async def serving(database_url: str, **changes: Any) -> AsyncIterator[tuple[Application, CoreServer, Stubs]]:
    """A core server with settings of its own."""
    application = service.new_application(database_url, **changes)
    await application.open()
    server = CoreServer(application)
    try:
        await server.start()
        async with grpc.aio.insecure_channel(server.target) as channel:
            yield application, server, Stubs(channel)
    finally:
        await server.drain(0)
        await application.close()


def promote(stubs: Stubs, *metadata: tuple[str, str], request: Any = None) -> Any:
    asked = request or promotion_pb2.PromoteTestProductsRequest()
    return stubs.promotion.PromoteTestProducts(asked, metadata=metadata, timeout=DEADLINE)


def shown(name: str) -> set[float]:
    """The values of all series of a metric."""
    return {sample.value for metric in REGISTRY.collect() for sample in metric.samples if sample.name == name}


# Keys and the order of checks


async def test_a_key_that_is_missing_or_bad(stubs: Stubs, tenant: Tenant) -> None:
    for metadata, code in (
        ((), "E_AUTH_MISSING_KEY"),
        (key(""), "E_AUTH_MISSING_KEY"),
        (key("svc_live_short"), "E_AUTH_INVALID_KEY"),
        (key(tenant.live_key[:-1] + ("A" if tenant.live_key[-1] != "A" else "B")), "E_AUTH_INVALID_KEY"),
        (key(tenant.live_key) + key(tenant.live_key), "E_AUTH_INVALID_KEY"),
        (key(tenant.live_key.replace("svc_live", "svc_test")), "E_AUTH_INVALID_KEY"),
    ):
        error = await refused(stubs.account.Ping(PING, metadata=metadata, timeout=DEADLINE))
        assert (error.status, error.code) == (grpc.StatusCode.UNAUTHENTICATED, code)
        assert error.initial["x-request-id"]
        assert tenant.live_key not in error.message


async def test_a_revoked_and_an_expired_key(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    key_id, secret = await tenant.key()
    await administration.revoke_key(application.database, key_id)
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=0.4)
    _, expiring = await tenant.key(expires_at=ends)
    assert (await stubs.account.Ping(PING, metadata=key(expiring), timeout=DEADLINE)).HasField("expires_at")
    error = await refused(stubs.account.Ping(PING, metadata=key(secret), timeout=DEADLINE))
    assert error.code == "E_AUTH_INVALID_KEY"
    async with asyncio.timeout(3):
        with pytest.raises(grpc.aio.AioRpcError):
            while True:
                await stubs.account.Ping(PING, metadata=key(expiring), timeout=DEADLINE)
                await asyncio.sleep(0.02)


async def test_each_method_wants_its_scope(stubs: Stubs, tenant: Tenant) -> None:
    wanted = {
        "products:write": [
            (stubs.publishing.CreateJob, publication(["x"])),
            (stubs.promotion.PromoteTestProducts, promotion_pb2.PromoteTestProductsRequest()),
            (stubs.jobs.RetryJob, jobs_pb2.RetryJobRequest()),
            (stubs.jobs.CancelJob, jobs_pb2.CancelJobRequest()),
        ],
        "products:read": [
            (stubs.promotion.ListTestProducts, promotion_pb2.ListTestProductsRequest(page_size=0)),
            (stubs.jobs.GetJob, jobs_pb2.GetJobRequest()),
            (stubs.jobs.ListJobs, jobs_pb2.ListJobsRequest(page_size=0)),
            (stubs.jobs.WatchJob, jobs_pb2.WatchJobRequest()),
        ],
        "account:read": [
            (stubs.account.GetAccount, account_pb2.GetAccountRequest()),
            (stubs.account.ListTaxCategories, account_pb2.ListTaxCategoriesRequest()),
        ],
    }
    for scope, calls in wanted.items():
        _, right = await tenant.key("live", [scope])
        _, wrong = await tenant.key("live", [other for other in wanted if other != scope])
        for method, request in calls:
            call = method(request, metadata=key(wrong), timeout=DEADLINE)
            error = await refused(call.read() if hasattr(call, "read") else call)
            assert (error.status, error.code) == (grpc.StatusCode.PERMISSION_DENIED, "E_AUTH_FORBIDDEN_SCOPE")
            assert scope in error.message
            call = method(request, metadata=key(right), timeout=DEADLINE)
            try:
                await (call.read() if hasattr(call, "read") else call)
            except grpc.aio.AioRpcError as failure:
                assert failure.code() is not grpc.StatusCode.PERMISSION_DENIED
    _, nothing = await tenant.key("test", [])
    assert not (await stubs.account.Ping(PING, metadata=key(nothing), timeout=DEADLINE)).scopes


async def test_the_order_of_checks(own_database_url: str) -> None:
    async with serving(own_database_url, rate_limit_write="3/hour") as (application, _, stubs):
        tenant = await service.new_tenant(application, balance=1)
        _, reader = await tenant.key("test", ["products:read"])
        bad_sku = promotion_pb2.PromoteTestProductsRequest(sku_list=promotion_pb2.SkuList(skus=["x"]))
        assert (await refused(promote(stubs, request=bad_sku))).code == "E_AUTH_MISSING_KEY"
        assert (await refused(promote(stubs, *key("x"), request=bad_sku))).code == "E_AUTH_INVALID_KEY"
        assert (await refused(promote(stubs, *key(reader), request=bad_sku))).code == "E_AUTH_FORBIDDEN_SCOPE"
        for _ in range(3):
            error = await refused(promote(stubs, *key(tenant.test_key), request=bad_sku))
            assert error.code == "E_PROMOTE_REQUIRES_LIVE_KEY"
        error = await refused(promote(stubs, *key(tenant.test_key), request=bad_sku))
        assert (error.status, error.code) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "E_RATE_LIMITED")
        for expected in ("E_PRODUCT_INVALID_SKU", "E_PROMOTE_NO_CANDIDATES"):
            request = bad_sku if expected == "E_PRODUCT_INVALID_SKU" else None
            assert (await refused(promote(stubs, *key(tenant.live_key), request=request))).code == expected


async def test_the_meaning_is_judged_after_the_idempotency_key(stubs: Stubs, new_tenant: Any) -> None:
    tenant = await new_tenant(balance=10)
    name = str(uuid.uuid4())

    def create(secret: str, names: list[str]) -> Any:
        request = publication(names, idempotency_key=name)
        return stubs.publishing.CreateJob(request, metadata=key(secret), timeout=DEADLINE)

    first = await create(tenant.live_key, skus(10))
    # No credits are left, the SKU is wrong, the key was used: conflict is told first, and a replay still answers.
    assert (await refused(create(tenant.live_key, ["x"]))).code == "E_IDEMPOTENCY_CONFLICT"
    assert (await create(tenant.live_key, skus(10))).job_id == first.job_id


# Rate limits


async def test_rate_states_are_told_with_answers_and_refusals(own_database_url: str) -> None:
    limits = {"rate_limit_read": "3/hour", "rate_limit_write": "1/hour"}
    async with serving(own_database_url, **limits) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        call = stubs.account.Ping(PING, metadata=key(tenant.live_key), timeout=DEADLINE)
        await call
        told = dict(await call.initial_metadata())
        assert told["ratelimit-policy"] == '"read";q=3;w=3600'
        assert told["ratelimit"].startswith('"read";r=2;t=')
        request = jobs_pb2.GetJobRequest(job_id="x")
        error = await refused(stubs.jobs.GetJob(request, metadata=key(tenant.live_key), timeout=DEADLINE))
        assert error.code == "E_JOB_NOT_FOUND"
        assert error.initial["ratelimit"].startswith('"read";r=1;')
        await stubs.account.Ping(PING, metadata=key(tenant.live_key), timeout=DEADLINE)
        error = await refused(stubs.account.Ping(PING, metadata=key(tenant.live_key), timeout=DEADLINE))
        assert (error.status, error.code) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "E_RATE_LIMITED")
        assert error.initial["ratelimit"].startswith('"read";r=0;')
        assert error.retry_after is not None
        assert 1 <= error.retry_after <= 3600
        # Per key and per kind: another key of the seller, and writes with this one, are not touched.
        await stubs.account.Ping(PING, metadata=key(tenant.test_key), timeout=DEADLINE)
        create = publication(skus(1))
        await stubs.publishing.CreateJob(create, metadata=key(tenant.live_key), timeout=DEADLINE)
        _, scoped = await tenant.key("live", [])
        error = await refused(stubs.publishing.CreateJob(create, metadata=key(scoped), timeout=DEADLINE))
        assert error.code == "E_AUTH_FORBIDDEN_SCOPE"
        assert error.initial["ratelimit"].startswith('"write";r=1;')


async def test_bad_keys_are_counted_by_address(own_database_url: str) -> None:
    async with serving(own_database_url, rate_limit_bad_keys="3/hour") as (application, _, stubs):
        tenant = await service.new_tenant(application)

        async def code(secret: str, address: str | None) -> str:
            more = [("x-client-address", address)] if address else []
            call = stubs.account.Ping(PING, metadata=key(secret, *more), timeout=DEADLINE)
            return (await refused(call)).code

        first = [await code("bad", "192.0.2.1") for _ in range(4)]
        assert first == ["E_AUTH_INVALID_KEY"] * 3 + ["E_RATE_LIMITED"]
        assert await code("bad", "192.0.2.2") == "E_AUTH_INVALID_KEY"
        assert await code("bad", None) == "E_AUTH_INVALID_KEY"
        good = key(tenant.live_key, ("x-client-address", "192.0.2.1"))
        assert (await stubs.account.Ping(PING, metadata=good, timeout=DEADLINE)).seller_id == tenant.seller_id


# CheckAccess


async def test_check_access(own_database_url: str) -> None:
    async with serving(own_database_url, rate_limit_write="2/hour") as (application, _, stubs):
        tenant = await service.new_tenant(application)
        _, reader = await tenant.key("live", ["products:read"])

        def check(method: str, secret: str) -> Any:
            request = account_pb2.CheckAccessRequest(method=f"/listing_publication.v1.{method}")
            return stubs.account.CheckAccess(request, metadata=key(secret), timeout=DEADLINE)

        create, promotion = "PublishingService/CreateJob", "PromotionService/PromoteTestProducts"
        assert (await refused(check(create, ""))).code == "E_AUTH_MISSING_KEY"
        assert (await refused(check(create, reader))).code == "E_AUTH_FORBIDDEN_SCOPE"
        await check("JobService/GetJob", reader)
        assert (await refused(check(promotion, tenant.test_key))).code == "E_PROMOTE_REQUIRES_LIVE_KEY"
        call = check(create, tenant.test_key)
        await call
        assert dict(await call.initial_metadata())["ratelimit"].startswith('"write";r=0;')
        request = publication(skus(1))
        error = await refused(stubs.publishing.CreateJob(request, metadata=key(tenant.test_key), timeout=DEADLINE))
        assert error.code == "E_RATE_LIMITED", "it counts against the limit of the method named"
        for method in ("PublishingService/Nothing", "AdminService/CreateSeller", "AccountService/CheckAccess", ""):
            error = await refused(check(method, reader))
            assert (error.status, error.places) == (
                grpc.StatusCode.INVALID_ARGUMENT,
                [("method", "E_PRODUCT_INVALID_BODY")],
            )


# The operator token


async def test_the_operator_token(stubs: Stubs, tenant: Tenant, own_database_url: str) -> None:
    request = admin_pb2.ListSellersRequest()
    for metadata in (
        (),
        (("x-operator-token", ""),),
        (("x-operator-token", service.OPERATOR_TOKEN + "x"),),
        OPERATOR + OPERATOR,
        key(tenant.live_key),
    ):
        error = await refused(stubs.admin.ListSellers(request, metadata=metadata, timeout=DEADLINE))
        assert (error.status, error.code) == (grpc.StatusCode.PERMISSION_DENIED, "E_ADMIN_FORBIDDEN")
    assert (await stubs.admin.ListSellers(request, metadata=OPERATOR, timeout=DEADLINE)).sellers
    async with serving(own_database_url, operator_token=None) as (_, _, closed):
        for metadata in (OPERATOR, (("x-operator-token", ""),), ()):
            error = await refused(closed.admin.ListSellers(request, metadata=metadata, timeout=DEADLINE))
            assert error.code == "E_ADMIN_FORBIDDEN"


# Request ids, metadata, errors


async def test_request_ids(stubs: Stubs, tenant: Tenant) -> None:
    for sent, echoed in (("abc-1", True), ("a" * 128, True), ("a" * 129, False), ("a b", False), ("", False)):
        metadata = key(tenant.live_key, ("x-request-id", sent))
        call = stubs.account.Ping(PING, metadata=metadata, timeout=DEADLINE)
        await call
        told = dict(await call.initial_metadata())["x-request-id"]
        assert (told == sent) is echoed
        assert told


async def test_a_hundred_places_reach_a_caller_who_takes_them(core_server: CoreServer, tenant: Tenant) -> None:
    items = [publishing_pb2.PublicationItem(sku="short") for _ in range(200)]
    request = publishing_pb2.CreateJobRequest(items=items)
    async with grpc.aio.insecure_channel(core_server.target) as channel:
        error = await refused(
            Stubs(channel).publishing.CreateJob(request, metadata=key(tenant.live_key), timeout=DEADLINE)
        )
        assert error.code == "E_PRODUCT_INVALID_SKU"
        assert 20 < len(error.places) < 100
        assert error.places[:2] == [("/items/0/sku", "E_PRODUCT_INVALID_SKU"), ("/items/0", "E_PRODUCT_INVALID_BODY")]
    options = [("grpc.max_metadata_size", 64 * 1024), ("grpc.absolute_max_metadata_size", 128 * 1024)]
    async with grpc.aio.insecure_channel(core_server.target, options=options) as channel:
        metadata = key(tenant.live_key, ("x-max-metadata-bytes", "65536"))
        error = await refused(Stubs(channel).publishing.CreateJob(request, metadata=metadata, timeout=DEADLINE))
        assert len(error.places) == 100


async def test_an_unexpected_failure_says_nothing_of_itself(
    stubs: Stubs, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise ValueError("SELECT secret FROM keys")

    monkeypatch.setattr("core.storage.jobs.page", fail)
    request = jobs_pb2.GetJobRequest(job_id=str(uuid.uuid4()))
    error = await refused(stubs.jobs.GetJob(request, metadata=key(tenant.live_key), timeout=DEADLINE))
    assert (error.status, error.code, error.domain) == (
        grpc.StatusCode.UNAVAILABLE,
        "E_INTERNAL",
        "listing-publication",
    )
    assert "SELECT" not in error.message
    assert error.retry_after


async def test_a_failure_of_the_database_says_nothing_of_itself(stubs: Stubs, tenant: Tenant) -> None:
    # A NUL in a text that PostgreSQL would have to take: what is not refused by a rule must not leak.
    request = jobs_pb2.ListJobsRequest(status="\0", from_date="\0")
    error = await refused(stubs.jobs.ListJobs(request, metadata=key(tenant.live_key), timeout=DEADLINE))
    assert error.status is grpc.StatusCode.INVALID_ARGUMENT
    assert "\0" not in error.message


async def test_unknown_methods_and_services(core_server: CoreServer, tenant: Tenant) -> None:
    async with grpc.aio.insecure_channel(core_server.target) as opened:
        channel: Any = opened
        for method in ("/listing_publication.v1.JobService/DeleteJob", "/listing_publication.v2.JobService/GetJob"):
            call = channel.unary_unary(method)(b"", metadata=key(tenant.live_key), timeout=DEADLINE)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    "method", ["JobService/GetJob", "JobService/WatchJob", "AccountService/CheckAccess", "AdminService/GetSeller"]
)
async def test_bytes_that_are_no_request(core_server: CoreServer, tenant: Tenant, method: str) -> None:
    admin = method.startswith("Admin")
    async with grpc.aio.insecure_channel(core_server.target) as opened:
        channel: Any = opened
        begin = channel.unary_stream if method.endswith("WatchJob") else channel.unary_unary
        begin = begin(f"/listing_publication.v1.{method}")

        async def told(metadata: Any) -> Any:
            call = begin(b"\xff\xff\xff", metadata=metadata, timeout=DEADLINE)
            with capture_logs() as lines:
                error = await refused(call.read() if method.endswith("WatchJob") else call)
            assert {line["log_level"] for line in lines} <= {"info", "debug"}
            return error

        stranger = await told(())
        assert stranger.code == ("E_ADMIN_FORBIDDEN" if admin else "E_AUTH_MISSING_KEY")
        error = await told(OPERATOR if admin else key(tenant.live_key))
        assert error.status is grpc.StatusCode.INVALID_ARGUMENT
        assert error.code == ("E_ADMIN_INVALID" if admin else "E_PRODUCT_INVALID_BODY")
        assert "x-request-id" in error.initial


async def test_a_message_over_the_limit(own_database_url: str) -> None:
    async with serving(own_database_url, max_message_bytes=64 * 1024) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        request = publication(skus(10_000))
        error = await refused(stubs.publishing.CreateJob(request, metadata=key(tenant.live_key), timeout=DEADLINE))
        assert error.status is grpc.StatusCode.RESOURCE_EXHAUSTED


# Deadlines


async def test_deadlines(own_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = asyncio.Event()
    cancelled = asyncio.Event()

    async def hang(*_: Any, **__: Any) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    monkeypatch.setattr("core.storage.jobs.page", hang)
    short = {"default_deadline_seconds": 0.3, "statement_timeout_seconds": 0.2}
    async with serving(own_database_url, **short) as (application, _, stubs):
        tenant = await service.new_tenant(application)
        request = jobs_pb2.GetJobRequest(job_id=str(uuid.uuid4()))
        for timeout in (None, 2):
            cancelled.clear()
            began = time.monotonic()
            error = await refused(stubs.jobs.GetJob(request, metadata=key(tenant.live_key), timeout=timeout))
            assert error.status is grpc.StatusCode.DEADLINE_EXCEEDED
            # Told by the server, a little before the caller would give up by itself.
            assert error.message == "The call was not done before its deadline."
            assert time.monotonic() - began < 5
            async with asyncio.timeout(5):
                await cancelled.wait()
        entered.clear()
        cancelled.clear()
        call = stubs.jobs.GetJob(request, metadata=key(tenant.live_key), timeout=30)
        async with asyncio.timeout(5):
            await entered.wait()
            call.cancel()
            await cancelled.wait()


# Health, reflection, draining


async def test_health_and_readiness(own_database_url: str) -> None:
    async with serving(own_database_url) as (_, server, _), grpc.aio.insecure_channel(server.target) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        for name in ("", *server.handlers):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=DEADLINE)
            assert answer.status == SERVING
        assert len(server.handlers) == 5
        stream = health.Watch(health_pb2.HealthCheckRequest(service=READINESS), timeout=60)

        async def until(status: int) -> None:
            async with asyncio.timeout(20):
                while (await stream.read()).status != status:
                    pass

        await until(SERVING)
        assert 1 in shown("listings_database_up")
        name = own_database_url.rpartition("?")[0].rpartition("/")[2]
        with psycopg.connect(start_test_postgres().url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'.encode())
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            await until(NOT_SERVING)
            assert 0 in shown("listings_database_up")
            answer = await health.Check(health_pb2.HealthCheckRequest(service=""), timeout=DEADLINE)
            assert answer.status == SERVING, "the process itself lives"
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only'.encode())
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            began = time.monotonic()
            await until(SERVING)
            assert time.monotonic() - began < 10
        stream.cancel()


async def test_reflection_names_the_services(core_server: CoreServer) -> None:
    async with grpc.aio.insecure_channel(core_server.target) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)

        async def ask(**question: Any) -> Any:
            call = stub.ServerReflectionInfo(timeout=DEADLINE)
            await call.write(reflection_pb2.ServerReflectionRequest(**question))
            answer = await call.read()
            await call.done_writing()
            return answer

        listed = await ask(list_services="")
        names = {each.name for each in listed.list_services_response.service}
        assert names >= {*core_server.handlers, "grpc.health.v1.Health"}
        described = await ask(file_containing_symbol="listing_publication.v1.JobService")
        assert described.file_descriptor_response.file_descriptor_proto


async def test_draining(own_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release, entered = asyncio.Event(), asyncio.Event()
    from core.storage import jobs

    page = jobs.page

    async def slow(*arguments: Any, **named: Any) -> Any:
        entered.set()
        await release.wait()
        return await page(*arguments, **named)

    monkeypatch.setattr("core.storage.jobs.page", slow)
    async with serving(own_database_url) as (application, server, stubs):
        tenant = await service.new_tenant(application)
        created = await stubs.publishing.CreateJob(
            publication(skus(1)), metadata=key(tenant.live_key), timeout=DEADLINE
        )
        async with grpc.aio.insecure_channel(server.target) as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            stream = health.Watch(health_pb2.HealthCheckRequest(service=""), timeout=60)
            assert (await stream.read()).status == SERVING
            running = asyncio.create_task(
                _answer(stubs.jobs.GetJob(jobs_pb2.GetJobRequest(job_id=created.job_id), metadata=key(tenant.live_key)))
            )
            await entered.wait()
            draining = asyncio.create_task(server.drain(10))
            assert (await stream.read()).status == NOT_SERVING
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        async with grpc.aio.insecure_channel(server.target) as late:
            async with asyncio.timeout(5):
                while True:
                    error = await refused(Stubs(late).account.Ping(PING, metadata=key(tenant.live_key), timeout=1))
                    if error.status is grpc.StatusCode.UNAVAILABLE:
                        break
        assert not draining.done()
        release.set()
        assert (await running).job.job_id == created.job_id, "a running call ends within the grace"
        await draining
        await server.drain()


async def _answer(call: Any) -> Any:
    return await call


async def test_draining_cancels_what_does_not_end(own_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = asyncio.Event()

    async def hang(*_: Any, **__: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("core.storage.jobs.page", hang)
    async with serving(own_database_url) as (application, server, stubs):
        tenant = await service.new_tenant(application)
        request = jobs_pb2.GetJobRequest(job_id=str(uuid.uuid4()))
        running = asyncio.create_task(_answer(stubs.jobs.GetJob(request, metadata=key(tenant.live_key))))
        await entered.wait()
        began = time.monotonic()
        await server.drain(0.2)
        assert time.monotonic() - began < 3
        error = await refused(running)
        assert error.status in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)


# Start and process


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


async def test_an_address_in_use(own_application: Application, taken: int) -> None:
    server = CoreServer(own_application, address=f"127.0.0.1:{taken}")
    with pytest.raises(SettingsError, match="LISTINGS_GRPC_ADDR: cannot listen"):
        await server.start()
    await server.drain(0)
    first = CoreServer(own_application)
    await first.start()
    second = CoreServer(own_application, address=f"127.0.0.1:{first.port}")
    with pytest.raises(SettingsError, match="LISTINGS_GRPC_ADDR"):
        await second.start()
    await second.drain(0)
    await first.drain(0)


async def test_serve_until_it_is_told_to_stop(own_database_url: str) -> None:
    stop = asyncio.Event()
    addresses: asyncio.Queue[str] = asyncio.Queue()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        metrics_port = holder.getsockname()[1]
    settings = service.settings_for(own_database_url, metrics_addr=f"127.0.0.1:{metrics_port}")
    running = asyncio.create_task(
        serve(
            settings,
            database_url=own_database_url,
            secret_key=service.SECRET_KEY,
            ready=addresses.put_nowait,
            stop=stop,
        )
    )
    async with asyncio.timeout(20):
        target = await addresses.get()
        async with grpc.aio.insecure_channel(target) as channel:
            error = await refused(Stubs(channel).account.Ping(PING, timeout=DEADLINE))
            assert error.code == "E_AUTH_MISSING_KEY"
        reader, writer = await asyncio.open_connection("127.0.0.1", metrics_port)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        shown = await reader.read()
        writer.close()
        assert b'listings_refusals_total{code="E_AUTH_MISSING_KEY"}' in shown
        assert b'listings_grpc_calls_total{method="AccountService/Ping",status="UNAUTHENTICATED"}' in shown
        stop.set()
        await running


# TLS


class Authority:
    """A certificate authority of one test."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.certificate = self._builder(subject, subject, self._key).sign(self._key, hashes.SHA256())
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self.pem)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def _builder(self, subject: x509.Name, issuer: x509.Name, key_: Any) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key_.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=subject == issuer, path_length=None), critical=True)
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        """(certificate, key) files for ``name``, which is also its host name."""
        key_ = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = (
            self._builder(subject, self.certificate.subject, key_)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        paths = self._folder / f"{self._name}-{name}.pem", self._folder / f"{self._name}-{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key_.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths


async def test_mutual_tls(own_database_url: str, tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path, "ours"), Authority(tmp_path, "theirs")
    certificate, private = ours.issue("localhost")
    changes = {"grpc_tls_certificate": certificate, "grpc_tls_key": private, "grpc_tls_client_ca": ours.path}
    async with serving(own_database_url, **changes) as (application, server, plain):
        tenant = await service.new_tenant(application)

        async def ping(authority: Authority | None) -> Any:
            pair = authority.issue("client") if authority else None
            credentials = grpc.ssl_channel_credentials(
                ours.pem, pair[1].read_bytes() if pair else None, pair[0].read_bytes() if pair else None
            )
            async with grpc.aio.secure_channel(f"localhost:{server.port}", credentials) as channel:
                return await Stubs(channel).account.Ping(PING, metadata=key(tenant.live_key), timeout=DEADLINE)

        assert (await ping(ours)).seller_id == tenant.seller_id
        for stranger in (theirs, None):
            assert (await refused(ping(stranger))).status is grpc.StatusCode.UNAVAILABLE
        error = await refused(plain.account.Ping(PING, metadata=key(tenant.live_key), timeout=DEADLINE))
        assert error.status is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["grpc_tls_certificate"], "LISTINGS_GRPC_TLS_CERTIFICATE, LISTINGS_GRPC_TLS_KEY: both or neither"),
        (["grpc_tls_client_ca"], "LISTINGS_GRPC_TLS_CLIENT_CA: needs LISTINGS_GRPC_TLS_CERTIFICATE"),
        (["grpc_tls_certificate", "grpc_tls_key"], "LISTINGS_GRPC_TLS_KEY: No such file or directory"),
    ],
)
async def test_wrong_tls_settings_are_one_clear_line(
    application: Application, tmp_path: Path, given: list[str], line: str
) -> None:
    changes: dict[str, Any] = {name: tmp_path / name for name in given}
    other = service.new_application(application.database.url, **changes)
    with pytest.raises(SettingsError) as caught:
        await CoreServer(other).start()
    assert str(caught.value) == line


async def test_files_that_are_no_pair_of_certificate_and_key(application: Application, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("no certificate")
    other = service.new_application(
        application.database.url, grpc_tls_certificate=tmp_path / "a", grpc_tls_key=tmp_path / "b"
    )
    with pytest.raises(SettingsError, match="must be a PEM certificate and its key"):
        await CoreServer(other).start()
