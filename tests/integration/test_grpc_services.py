"""Every method over a real port, against a real database."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from core.app import Application
from listing_publication.v1 import account_pb2, admin_pb2, common_pb2, jobs_pb2, promotion_pb2, publishing_pb2
from tests.conftest import NewTenant
from tests.support.finishing import add_test_listing, finish, put_on_the_wire, take_off_the_wire
from tests.support.grpc_client import DEADLINE, OPERATOR, Stubs, key, publication, refused
from tests.support.service import Tenant, skus


async def create(stubs: Stubs, secret: str, count: int = 3, **options: Any) -> publishing_pb2.CreateJobResponse:
    call = stubs.publishing.CreateJob(publication(skus(count), **options), metadata=key(secret), timeout=DEADLINE)
    answer: publishing_pb2.CreateJobResponse = await call
    return answer


async def job_of(stubs: Stubs, secret: str, job_id: str, **options: Any) -> jobs_pb2.GetJobResponse:
    request = jobs_pb2.GetJobRequest(job_id=job_id, **options)
    answer: jobs_pb2.GetJobResponse = await stubs.jobs.GetJob(request, metadata=key(secret), timeout=DEADLINE)
    return answer


# PublishingService


async def test_create_job(stubs: Stubs, tenant: Tenant) -> None:
    answer = await create(stubs, tenant.live_key)
    assert uuid.UUID(answer.job_id).version == 7
    assert (answer.status, answer.accepted, answer.rejected, answer.total_items) == ("queued", 3, 0, 3)
    assert (answer.replayed, answer.credits_held, len(answer.plan)) == (False, 3, 0)
    assert await tenant.credits() == (100_000, 99_997, 3, 0, 0)


async def test_create_job_with_repeated_skus(stubs: Stubs, tenant: Tenant) -> None:
    request = publication(["AAAAAAAAAA", "BBBBBBBBBB", "AAAAAAAAAA", "aAAAAAAAAA"])
    answer = await stubs.publishing.CreateJob(request, metadata=key(tenant.live_key), timeout=DEADLINE)
    assert (answer.accepted, answer.rejected, answer.total_items, answer.credits_held) == (3, 1, 4, 3)
    assert [(each.index, each.sku, each.code) for each in answer.rejections] == [(2, "AAAAAAAAAA", "duplicate_sku")]
    page = await job_of(stubs, tenant.live_key, answer.job_id)
    assert [item.status for item in page.items] == ["pending", "pending", "skipped", "pending"]
    assert page.items[2].error.code == "duplicate_sku"
    assert page.items[2].error.who == common_pb2.WHO_NOBODY
    assert not page.items[2].retryable
    assert page.items[2].sequence == 1
    assert (page.job.pending, page.job.skipped, page.job.total_items, page.job.last_sequence) == (3, 1, 4, 1)


async def test_ten_thousand_items_and_one_more(stubs: Stubs, tenant: Tenant) -> None:
    answer = await create(stubs, tenant.live_key, 10_000)
    assert answer.accepted == 10_000
    page = await job_of(stubs, tenant.live_key, answer.job_id, page_size=1000, skip=9990)
    assert [item.ordinal for item in page.items] == list(range(9990, 10_000))
    assert page.next_page_token == ""
    for count in (0, 10_001):
        error = await refused(
            stubs.publishing.CreateJob(publication(skus(count)), metadata=key(tenant.live_key), timeout=DEADLINE)
        )
        assert (error.code, error.places) == ("E_PRODUCT_INVALID_BODY", [("/items", "E_PRODUCT_INVALID_BODY")])


async def test_create_job_names_every_offending_place(stubs: Stubs, tenant: Tenant) -> None:
    item = publishing_pb2.PublicationItem
    request = publishing_pb2.CreateJobRequest(
        items=[
            item(sku="AAAAAAAAAA", auto_categorize=True),
            item(sku="short", category_id="MLB1", auto_categorize=True),
            item(sku="BBBBBBBBBB"),
            item(sku="CCCCCCCCCC", category_id=""),
            item(sku="DDDDDDDDDD\n", auto_categorize=False),
        ],
        listing_type_id="",
        tax_category_id=-1,
        scheduled_for="tomorrow",
    )
    error = await refused(stubs.publishing.CreateJob(request, metadata=key(tenant.test_key), timeout=DEADLINE))
    assert (error.status, error.code) == (grpc.StatusCode.INVALID_ARGUMENT, "E_PRODUCT_INVALID_SKU")
    assert error.domain == "listing-publication"
    assert error.places == [
        ("/items/1/sku", "E_PRODUCT_INVALID_SKU"),
        ("/items/1/category_id", "E_CATEGORY_INVALID"),
        ("/items/1/auto_categorize", "E_CATEGORY_AND_AUTO_CONFLICT"),
        ("/items/2", "E_PRODUCT_INVALID_BODY"),
        ("/items/3/category_id", "E_CATEGORY_INVALID"),
        ("/items/4/sku", "E_PRODUCT_INVALID_SKU"),
        ("/items/4", "E_PRODUCT_INVALID_BODY"),
        ("/listing_type_id", "E_PRODUCT_INVALID_BODY"),
        ("/tax_category_id", "E_PRODUCT_INVALID_BODY"),
        ("/scheduled_for", "E_PRODUCT_INVALID_BODY"),
    ]


async def test_validate_only_writes_nothing(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    async def add_product(connection: Any) -> None:
        await connection.execute(
            "INSERT INTO products (sku, title, category, cost_usd, image_urls)"
            " VALUES ('PLANNED001', 'Mesa', '', 10, '{}')"
        )

    await application.database.transact(add_product)
    request = publication(["PLANNED001", "UNKNOWN001"], validate_only=True, idempotency_key=str(uuid.uuid4()))
    for _ in range(2):
        answer = await stubs.publishing.CreateJob(request, metadata=key(tenant.live_key), timeout=DEADLINE)
        assert (answer.job_id, answer.credits_held, answer.replayed) == ("", 2, False)
    priced, unknown = answer.plan
    assert (priced.sku, priced.price, priced.HasField("problem")) == ("PLANNED001", 52_000, False)
    assert not priced.HasField("category_id")
    assert (unknown.problem.code, unknown.HasField("price")) == ("product_unknown", False)
    assert await tenant.credits() == (100_000, 100_000, 0, 0, 0)
    listed = await stubs.jobs.ListJobs(jobs_pb2.ListJobsRequest(), metadata=key(tenant.live_key), timeout=DEADLINE)
    assert listed.total == 0


async def test_a_schedule(stubs: Stubs, tenant: Tenant) -> None:
    moment = (datetime.now(UTC) + timedelta(hours=1)).replace(second=0, microsecond=0)
    answer = await create(stubs, tenant.live_key, scheduled_for=f"{moment:%Y-%m-%dT%H:%M}")
    assert answer.status == "queued"
    job = (await job_of(stubs, tenant.live_key, answer.job_id)).job
    assert job.status == "scheduled"
    assert job.scheduled_for.ToDatetime(tzinfo=UTC) == moment
    assert job.waiting_reason.startswith("scheduled for ")


async def test_without_a_test_account_the_job_fails_at_once(stubs: Stubs, new_tenant: NewTenant) -> None:
    tenant = await new_tenant(connected=["live"])
    answer = await create(stubs, tenant.test_key)
    page = await job_of(stubs, tenant.test_key, answer.job_id)
    assert (page.job.status, page.job.failed, page.job.pending) == ("failed", 3, 0)
    assert page.job.error_message
    assert page.job.HasField("completed_at")
    assert {(item.status, item.retryable, item.error.code) for item in page.items} == {
        ("failed", True, "account_not_connected")
    }


async def test_without_a_live_account_a_live_request_is_refused(stubs: Stubs, new_tenant: NewTenant) -> None:
    tenant = await new_tenant(connected=["test"])
    error = await refused(create(stubs, tenant.live_key))
    assert (error.status, error.code) == (grpc.StatusCode.NOT_FOUND, "E_ACCOUNT_NOT_FOUND")


async def test_credits_at_the_edge(stubs: Stubs, new_tenant: NewTenant) -> None:
    tenant = await new_tenant(balance=5)
    error = await refused(create(stubs, tenant.live_key, 6))
    assert (error.status, error.code) == (grpc.StatusCode.FAILED_PRECONDITION, "E_PRODUCT_CREDIT_EXHAUSTED")
    assert "6 credits are needed, 5 are available" in error.message
    assert (await create(stubs, tenant.live_key, 5)).credits_held == 5
    error = await refused(create(stubs, tenant.live_key, 1))
    assert error.code == "E_PRODUCT_CREDIT_EXHAUSTED"
    assert (await create(stubs, tenant.test_key, 6)).credits_held == 0
    assert await tenant.credits() == (5, 0, 5, 0, 0)


async def test_credits_in_a_race(stubs: Stubs, new_tenant: NewTenant) -> None:
    tenant = await new_tenant(balance=10)
    answers = await asyncio.gather(*(create(stubs, tenant.live_key, 3) for _ in range(6)), return_exceptions=True)
    made = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(made) == 3
    assert await tenant.credits() == (10, 1, 9, 0, 0)


async def test_the_sixth_slot_in_a_race(stubs: Stubs, tenant: Tenant) -> None:
    await asyncio.gather(*(create(stubs, tenant.live_key, 1) for _ in range(4)))
    secrets = [tenant.live_key, tenant.test_key] * 4
    answers = await asyncio.gather(*(create(stubs, secret, 1) for secret in secrets), return_exceptions=True)
    refusals = [answer for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
    assert len(answers) - len(refusals) == 2
    assert {error.code() for error in refusals} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    error = await refused(create(stubs, tenant.test_key, 1))
    assert error.code == "E_PRODUCT_MAX_CONCURRENT_JOBS"
    assert error.retry_after
    account = await stubs.account.GetAccount(
        account_pb2.GetAccountRequest(), metadata=key(tenant.live_key), timeout=DEADLINE
    )
    assert account.credits.total == account.credits.available + account.credits.used_live


async def test_equal_requests_at_once_make_one_job(stubs: Stubs, tenant: Tenant) -> None:
    request = publication(skus(5), idempotency_key=str(uuid.uuid4()))

    async def send(spelling: str) -> tuple[bytes, bool, bool]:
        mine = publishing_pb2.CreateJobRequest()
        mine.CopyFrom(request)
        mine.idempotency_key = spelling
        call = stubs.publishing.CreateJob(mine, metadata=key(tenant.live_key), timeout=DEADLINE)
        answer = await call
        told = dict(await call.trailing_metadata()).get("idempotent-replay") == "true"
        replayed = answer.replayed
        answer.replayed = False
        return answer.SerializeToString(deterministic=True), replayed, told

    name = request.idempotency_key
    answers = await asyncio.gather(*(send(name.upper() if place % 2 else name) for place in range(20)))
    assert len({body for body, _, _ in answers}) == 1
    assert [replayed for _, replayed, _ in answers].count(False) == 1
    assert all(replayed == told for _, replayed, told in answers)
    listed = await stubs.jobs.ListJobs(jobs_pb2.ListJobsRequest(), metadata=key(tenant.live_key), timeout=DEADLINE)
    assert listed.total == 1
    assert await tenant.credits() == (100_000, 99_995, 5, 0, 0)


async def test_idempotency_key_of_another_request_and_another_environment(stubs: Stubs, tenant: Tenant) -> None:
    name = str(uuid.uuid4())
    await create(stubs, tenant.live_key, 2, idempotency_key=name)
    error = await refused(create(stubs, tenant.live_key, 3, idempotency_key=name))
    assert (error.status, error.code) == (grpc.StatusCode.ALREADY_EXISTS, "E_IDEMPOTENCY_CONFLICT")
    error = await refused(create(stubs, tenant.live_key, 2, idempotency_key=name, tax_category_id=0))
    assert error.code == "E_IDEMPOTENCY_CONFLICT"
    assert not (await create(stubs, tenant.test_key, 3, idempotency_key=name)).replayed
    error = await refused(create(stubs, tenant.live_key, 3, idempotency_key="{" + name + "}"))
    assert (error.code, error.places) == (
        "E_PRODUCT_INVALID_BODY",
        [("idempotency_key", "E_PRODUCT_INVALID_BODY")],
    )


async def test_a_refused_request_is_not_remembered(stubs: Stubs, new_tenant: NewTenant) -> None:
    tenant = await new_tenant(balance=1)
    name = str(uuid.uuid4())
    await refused(create(stubs, tenant.live_key, 2, idempotency_key=name))
    assert not (await create(stubs, tenant.live_key, 1, idempotency_key=name)).replayed


# PromotionService


async def test_test_products_in_pages(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    for age, sku in enumerate(skus(5)):
        await add_test_listing(application.database, tenant.seller_id, sku, age=age)
    seen: list[str] = []
    token = ""
    while True:
        request = promotion_pb2.ListTestProductsRequest(page_size=2, page_token=token)
        answer = await stubs.promotion.ListTestProducts(request, metadata=key(tenant.live_key), timeout=DEADLINE)
        assert answer.total == 5
        seen += [product.sku for product in answer.products]
        token = answer.next_page_token
        if not token:
            break
    assert seen == skus(5)
    product = answer.products[0]
    assert product.listing_id_test == "MCO9" + product.sku
    assert not product.HasField("image")
    assert (product.price, product.currency, product.category_id, product.app_status) == (1000, "COP", "MCO1234", 1)
    for filters, expected in (
        ({"sku": "SKU0000003"}, 1),
        ({"sku": "SKU0000009"}, 0),
        ({"status_meli": "paused"}, 0),
        ({"app_status": 1}, 5),
        ({"app_status": 0}, 0),
        ({"already_published": False}, 5),
        ({"already_published": True}, 0),
        ({"skip": 4}, 1),
        ({"skip": 2**53}, 0),
    ):
        request = promotion_pb2.ListTestProductsRequest(**filters)
        answer = await stubs.promotion.ListTestProducts(request, metadata=key(tenant.live_key), timeout=DEADLINE)
        assert len(answer.products) == expected, filters
    for filters, place in (
        ({"sku": "x"}, ("sku", "E_PRODUCT_INVALID_SKU")),
        ({"status_meli": "gone"}, ("status_meli", "E_PRODUCT_INVALID_BODY")),
        ({"app_status": 2}, ("app_status", "E_PRODUCT_INVALID_BODY")),
        ({"page_size": 0}, ("page_size", "E_PRODUCT_INVALID_BODY")),
        ({"page_size": 1001}, ("page_size", "E_PRODUCT_INVALID_BODY")),
        ({"skip": -1}, ("skip", "E_PRODUCT_INVALID_BODY")),
        ({"page_token": "c2tpcD0x"}, ("page_token", "E_PRODUCT_INVALID_BODY")),
        ({"page_token": "é"}, ("page_token", "E_PRODUCT_INVALID_BODY")),
    ):
        request = promotion_pb2.ListTestProductsRequest(**filters)
        error = await refused(
            stubs.promotion.ListTestProducts(request, metadata=key(tenant.live_key), timeout=DEADLINE)
        )
        assert (error.status, error.places) == (grpc.StatusCode.INVALID_ARGUMENT, [place])


async def test_promotion(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    for age, sku in enumerate(skus(4)):
        await add_test_listing(application.database, tenant.seller_id, sku, price=1000 + age, age=age)
    metadata = key(tenant.live_key)
    request = promotion_pb2.PromoteTestProductsRequest(
        sku_list=promotion_pb2.SkuList(skus=["SKU0000001", "SKU0000001", "MISSING001"]),
        idempotency_key=str(uuid.uuid4()),
    )
    answer = await stubs.promotion.PromoteTestProducts(request, metadata=metadata, timeout=DEADLINE)
    assert (answer.promoted, answer.rejected, answer.total_candidates) == (1, 1, 2)
    assert list(answer.skus) == ["SKU0000001"]
    assert [(each.index, each.sku) for each in answer.rejections] == [(1, "MISSING001")]
    assert not answer.HasField("remaining")
    again = await stubs.promotion.PromoteTestProducts(request, metadata=metadata, timeout=DEADLINE)
    assert again.replayed
    assert again.job_id == answer.job_id
    rest = await stubs.promotion.PromoteTestProducts(
        promotion_pb2.PromoteTestProductsRequest(), metadata=metadata, timeout=DEADLINE
    )
    assert list(rest.skus) == ["SKU0000003", "SKU0000002", "SKU0000000"]
    assert (rest.remaining, rest.credits_held) == (0, 3)
    page = await job_of(stubs, tenant.live_key, rest.job_id)
    assert (page.job.kind, page.job.environment) == ("promotion", common_pb2.ENVIRONMENT_LIVE)
    assert [(item.price, item.category_id) for item in page.items] == [
        (1003, "MCO1234"),
        (1002, "MCO1234"),
        (1000, "MCO1234"),
    ]
    error = await refused(
        stubs.promotion.PromoteTestProducts(
            promotion_pb2.PromoteTestProductsRequest(), metadata=metadata, timeout=DEADLINE
        )
    )
    assert (error.status, error.code) == (grpc.StatusCode.FAILED_PRECONDITION, "E_PROMOTE_NO_CANDIDATES")
    empty = promotion_pb2.PromoteTestProductsRequest(sku_list=promotion_pb2.SkuList())
    error = await refused(stubs.promotion.PromoteTestProducts(empty, metadata=metadata, timeout=DEADLINE))
    assert error.places == [("/sku_list/skus", "E_PRODUCT_INVALID_BODY")]
    error = await refused(
        stubs.promotion.PromoteTestProducts(
            promotion_pb2.PromoteTestProductsRequest(), metadata=key(tenant.test_key), timeout=DEADLINE
        )
    )
    assert (error.status, error.code) == (grpc.StatusCode.PERMISSION_DENIED, "E_PROMOTE_REQUIRES_LIVE_KEY")
    plan = await stubs.promotion.PromoteTestProducts(
        promotion_pb2.PromoteTestProductsRequest(validate_only=True),
        metadata=key(await _other_tenant_with_listing(application)),
        timeout=DEADLINE,
    )
    assert [(each.sku, each.price) for each in plan.plan] == [("OTHER00001", 1000)]
    assert plan.job_id == ""


async def _other_tenant_with_listing(application: Application) -> str:
    from tests.support.service import new_tenant

    tenant = await new_tenant(application)
    await add_test_listing(application.database, tenant.seller_id, "OTHER00001")
    return tenant.live_key


# JobService


async def test_get_job_pages_and_filters(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    made = await create(stubs, tenant.test_key, 250)
    await finish(application.database, tenant.seller_id, made.job_id, 120)
    await finish(application.database, tenant.seller_id, made.job_id, 10, failure="title_refused")
    page = await job_of(stubs, tenant.live_key, made.job_id)
    assert (len(page.items), page.total) == (100, 250)
    item = page.items[0]
    assert (item.status, item.listing_id, item.price, item.currency, item.sequence) == (
        "success",
        "MCO1",
        1000,
        "COP",
        1,
    )
    assert item.environment == common_pb2.ENVIRONMENT_TEST
    assert not item.HasField("retryable")
    assert not item.HasField("status_meli")
    following = await job_of(stubs, tenant.live_key, made.job_id, page_token=page.next_page_token)
    assert following.items[0].ordinal == 100
    failed = await job_of(stubs, tenant.live_key, made.job_id, status="failed")
    assert (len(failed.items), failed.total, failed.next_page_token) == (10, 10, "")
    assert failed.items[0].error.who == common_pb2.WHO_SELLER
    pending = await job_of(stubs, tenant.live_key, made.job_id, status="pending", page_size=7, skip=119)
    assert [(each.ordinal, each.HasField("sequence")) for each in pending.items] == [(249, False)]
    error = await refused(job_of(stubs, tenant.live_key, "no-uuid", status="lost", page_size=0))
    assert error.places == [("page_size", "E_PRODUCT_INVALID_BODY"), ("status", "E_PRODUCT_INVALID_BODY")]


async def test_unknown_and_foreign_jobs_are_one(stubs: Stubs, tenant: Tenant, new_tenant: NewTenant) -> None:
    other = await new_tenant()
    made = await create(stubs, other.test_key)
    errors = []
    for job_id in (made.job_id, str(uuid.uuid4()), "", "x" * 36, made.job_id.replace("-", "")):
        metadata = key(tenant.test_key)
        for call in (
            stubs.jobs.GetJob(jobs_pb2.GetJobRequest(job_id=job_id), metadata=metadata, timeout=DEADLINE),
            stubs.jobs.RetryJob(jobs_pb2.RetryJobRequest(job_id=job_id), metadata=metadata, timeout=DEADLINE),
            stubs.jobs.CancelJob(jobs_pb2.CancelJobRequest(job_id=job_id), metadata=metadata, timeout=DEADLINE),
        ):
            errors.append(await refused(call))
    assert {(error.status, error.code, error.message) for error in errors} == {
        (grpc.StatusCode.NOT_FOUND, "E_JOB_NOT_FOUND", "There is no such job.")
    }
    assert (await job_of(stubs, other.test_key, made.job_id.upper())).job.job_id == made.job_id


async def test_list_jobs(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    made = [(await create(stubs, tenant.test_key, 1)).job_id for _ in range(5)]
    await finish(application.database, tenant.seller_id, made[0])

    async def ask(**filters: Any) -> jobs_pb2.ListJobsResponse:
        request = jobs_pb2.ListJobsRequest(**filters)
        answer: jobs_pb2.ListJobsResponse = await stubs.jobs.ListJobs(
            request, metadata=key(tenant.live_key), timeout=DEADLINE
        )
        return answer

    everything = await ask()
    assert [job.job_id for job in everything.jobs] == made[::-1]
    first = await ask(page_size=2)
    second = await ask(page_size=2, page_token=first.next_page_token)
    assert [job.job_id for job in second.jobs] == made[::-1][2:4]
    assert (await ask(skip=7)).total == 5
    assert [job.job_id for job in (await ask(status="completed")).jobs] == [made[0]]
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert (await ask(from_date=today, to_date=today, status="queued")).total == 4
    assert (await ask(to_date="2020-01-01")).total == 0
    assert (await ask(from_date="0001-01-01", to_date="9999-12-31")).total == 5
    for filters, places in (
        ({"status": "done"}, ["status"]),
        ({"from_date": "2026-02-30"}, ["from_date"]),
        ({"from_date": "2026-03-02", "to_date": "2026-03-01"}, ["from_date"]),
        ({"to_date": "", "page_size": 2000}, ["page_size", "to_date"]),
    ):
        assert [place for place, _ in (await refused(ask(**filters))).places] == places


@pytest.mark.parametrize("filters", [{}, {"to_date": "9999-12-31"}])
async def test_a_page_goes_on_where_the_last_one_ended(
    stubs: Stubs, tenant: Tenant, new_tenant: NewTenant, filters: dict[str, str]
) -> None:
    made = [(await create(stubs, tenant.test_key, 3)).job_id for _ in range(3)]

    async def ask(secret: str = tenant.live_key, **options: Any) -> jobs_pb2.ListJobsResponse:
        request = jobs_pb2.ListJobsRequest(**(filters | options))
        answer: jobs_pb2.ListJobsResponse = await stubs.jobs.ListJobs(request, metadata=key(secret), timeout=DEADLINE)
        return answer

    first = await ask(page_size=2)
    await create(stubs, tenant.test_key, 1)
    second = await ask(page_size=2, page_token=first.next_page_token)
    assert [job.job_id for job in (*first.jobs, *second.jobs)] == made[::-1]
    assert second.next_page_token == ""
    items = await job_of(stubs, tenant.live_key, made[0], page_size=2, status="pending")
    rest = await job_of(
        stubs, tenant.live_key, made[0], page_size=2, status="pending", page_token=items.next_page_token
    )
    assert ([item.ordinal for item in (*items.items, *rest.items)], rest.next_page_token) == ([0, 1, 2], "")
    token = first.next_page_token
    for call in (
        ask(page_token=token, status="queued"),
        ask(page_token=items.next_page_token),
        ask((await new_tenant()).live_key, page_token=token),
        job_of(stubs, tenant.live_key, made[0], page_token=token),
    ):
        error = await refused(call)
        assert (error.status, error.places) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            [("page_token", "E_PRODUCT_INVALID_BODY")],
        )


async def test_cancel(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    made = await create(stubs, tenant.live_key, 10)
    database, seller = application.database, tenant.seller_id
    await finish(database, seller, made.job_id, 3)
    await put_on_the_wire(database, seller, made.job_id, 2)
    request = jobs_pb2.CancelJobRequest(job_id=made.job_id)
    answer = await stubs.jobs.CancelJob(request, metadata=key(tenant.test_key), timeout=DEADLINE)
    assert (answer.job.status, answer.cancelled_items, answer.in_flight) == ("cancelled", 5, 2)
    assert (answer.job.successful, answer.job.skipped, answer.job.pending) == (3, 5, 2)
    assert answer.job.HasField("completed_at")
    assert await tenant.credits() == (100_000, 99_995, 2, 3, 0)
    error = await refused(stubs.jobs.CancelJob(request, metadata=key(tenant.test_key), timeout=DEADLINE))
    assert (error.status, error.code) == (grpc.StatusCode.FAILED_PRECONDITION, "E_JOB_ALREADY_TERMINAL")
    again = jobs_pb2.RetryJobRequest(job_id=made.job_id)
    error = await refused(stubs.jobs.RetryJob(again, metadata=key(tenant.live_key), timeout=DEADLINE))
    assert error.message == "No failed item of this job can be retried. What becomes of 2 is not known yet."
    await take_off_the_wire(database, seller, made.job_id)
    await finish(database, seller, made.job_id)
    job = (await job_of(stubs, tenant.live_key, made.job_id)).job
    assert (job.status, job.successful, job.skipped, job.pending) == ("cancelled", 5, 5, 0)
    assert await tenant.credits() == (100_000, 99_995, 0, 5, 0)


async def test_cancel_in_a_race(stubs: Stubs, tenant: Tenant) -> None:
    made = await create(stubs, tenant.live_key, 50)
    request = jobs_pb2.CancelJobRequest(job_id=made.job_id)
    answers = await asyncio.gather(
        *(stubs.jobs.CancelJob(request, metadata=key(tenant.live_key), timeout=DEADLINE) for _ in range(10)),
        return_exceptions=True,
    )
    won = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert [answer.cancelled_items for answer in won] == [50]
    assert await tenant.credits() == (100_000, 100_000, 0, 0, 0)


async def test_retry(stubs: Stubs, new_tenant: NewTenant, application: Application) -> None:
    tenant = await new_tenant(balance=10)
    database, seller = application.database, tenant.seller_id
    made = await create(stubs, tenant.live_key, 10)
    request = jobs_pb2.RetryJobRequest(job_id=made.job_id)

    async def retry(secret: str) -> jobs_pb2.RetryJobResponse:
        answer: jobs_pb2.RetryJobResponse = await stubs.jobs.RetryJob(request, metadata=key(secret), timeout=DEADLINE)
        return answer

    error = await refused(retry(tenant.live_key))
    assert (error.status, error.code) == (grpc.StatusCode.FAILED_PRECONDITION, "E_JOB_NOT_RETRYABLE")
    await finish(database, seller, made.job_id, 4)
    await finish(database, seller, made.job_id, 1, failure="title_refused")
    await finish(database, seller, made.job_id, failure="marketplace_busy")
    assert await tenant.credits() == (10, 6, 0, 4, 0)
    error = await refused(retry(tenant.test_key))
    assert error.code == "E_JOB_NOT_RETRYABLE"
    assert "live" in error.message
    answers = await asyncio.gather(*(retry(tenant.live_key) for _ in range(5)), return_exceptions=True)
    won = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert [(answer.retried, answer.job.status) for answer in won] == [(5, "queued")]
    job = won[0].job
    assert (job.pending, job.successful, job.failed, job.retries, job.last_sequence) == (5, 4, 1, 1, 10)
    assert not job.HasField("completed_at")
    assert not job.HasField("error_message")
    assert await tenant.credits() == (10, 1, 5, 4, 0)
    await finish(database, seller, made.job_id, failure="marketplace_busy")
    await create(stubs, tenant.live_key, 6)
    error = await refused(retry(tenant.live_key))
    assert error.code == "E_PRODUCT_CREDIT_EXHAUSTED"
    assert "5 credits are needed, 0 are available" in error.message


# AccountService


async def test_account(stubs: Stubs, new_tenant: NewTenant, application: Application) -> None:
    tenant = await new_tenant(connected=["test"], settings={"trm": 4100, "margin_percent": "12.50"})
    made = await create(stubs, tenant.test_key, 3)
    await finish(application.database, tenant.seller_id, made.job_id)

    async def ask(secret: str) -> account_pb2.GetAccountResponse:
        answer: account_pb2.GetAccountResponse = await stubs.account.GetAccount(
            account_pb2.GetAccountRequest(), metadata=key(secret), timeout=DEADLINE
        )
        return answer

    account = await ask(tenant.test_key)
    assert (account.seller_id, account.site_id, account.currency) == (tenant.seller_id, "MCO", "COP")
    assert account.ml_connected
    assert (account.credits.total, account.credits.used_test) == (100_000, 3)
    config = account.publishing_config
    assert (config.trm, config.warranty_time, config.manufacturing_time_days) == (4100, "90 días", 20)
    assert (config.margin_percent, config.stock_quantity, config.listing_type_id) == ("12.5", 5, "gold_special")
    assert not (await ask(tenant.live_key)).ml_connected


async def test_tax_categories(stubs: Stubs, tenant: Tenant) -> None:
    request = admin_pb2.SetTaxCategoryRequest(
        seller_id=tenant.seller_id, index=1, name="Electrónica", rate_percent="19.5"
    )
    answer = await stubs.admin.SetTaxCategory(request, metadata=OPERATOR, timeout=DEADLINE)
    assert list(answer.names) == ["General", "Electrónica"]
    found = await stubs.account.ListTaxCategories(
        account_pb2.ListTaxCategoriesRequest(), metadata=key(tenant.test_key), timeout=DEADLINE
    )
    assert [(each.index, each.name, each.rate_percent) for each in found.tax_categories] == [
        (0, "General", "0"),
        (1, "Electrónica", "19.5"),
    ]
    assert (await create(stubs, tenant.test_key, 1, tax_category_id=1)).accepted == 1
    error = await refused(create(stubs, tenant.test_key, 1, tax_category_id=2))
    assert error.places == [("/tax_category_id", "E_PRODUCT_INVALID_BODY")]


async def test_ping(stubs: Stubs, tenant: Tenant) -> None:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    key_id, secret = await tenant.key("live", ["products:read"], expires_at=ends)
    pong = await stubs.account.Ping(account_pb2.PingRequest(), metadata=key(secret), timeout=DEADLINE)
    assert (pong.seller_id, pong.environment, list(pong.scopes), pong.key_id) == (
        tenant.seller_id,
        common_pb2.ENVIRONMENT_LIVE,
        ["products:read"],
        key_id,
    )
    assert pong.expires_at.ToDatetime(tzinfo=UTC) == ends
    pong = await stubs.account.Ping(account_pb2.PingRequest(), metadata=key(tenant.test_key), timeout=DEADLINE)
    assert pong.environment == common_pb2.ENVIRONMENT_TEST
    assert not pong.HasField("expires_at")


# AdminService


async def test_administration(stubs: Stubs) -> None:
    admin = stubs.admin

    async def ask(method: str, request: Any) -> Any:
        return await getattr(admin, method)(request, metadata=OPERATOR, timeout=DEADLINE)

    made = await ask(
        "CreateSeller",
        admin_pb2.CreateSellerRequest(name="Nueva", credits=10, settings=admin_pb2.SellerSettings(trm=4200)),
    )
    seller_id = made.seller.seller_id
    assert (made.seller.trm, made.seller.stock_quantity, made.seller.name) == (4200, 5, "Nueva")
    changed = await ask(
        "UpdateSeller",
        admin_pb2.UpdateSellerRequest(
            seller_id=seller_id, settings=admin_pb2.SellerSettings(margin_percent="0", price_step=50)
        ),
    )
    assert (changed.seller.trm, changed.seller.margin_percent, changed.seller.price_step) == (4200, "0", 50)
    connected = await ask(
        "ConnectAccount",
        admin_pb2.ConnectAccountRequest(
            seller_id=seller_id,
            environment=common_pb2.ENVIRONMENT_LIVE,
            marketplace_user_id=77,
            access_token="APP_USR-1-77",
        ),
    )
    assert (connected.account.status, connected.account.marketplace_user_id) == ("connected", 77)
    seller = (await ask("GetSeller", admin_pb2.GetSellerRequest(seller_id=seller_id))).seller
    assert [(each.environment, each.status) for each in seller.accounts] == [(common_pb2.ENVIRONMENT_LIVE, "connected")]
    assert seller_id in [each.seller_id for each in (await ask("ListSellers", admin_pb2.ListSellersRequest())).sellers]
    gone = await ask(
        "DisconnectAccount",
        admin_pb2.DisconnectAccountRequest(seller_id=seller_id, environment=common_pb2.ENVIRONMENT_LIVE),
    )
    assert gone.account.status == "disconnected"
    balance = (await ask("GrantCredits", admin_pb2.GrantCreditsRequest(seller_id=seller_id, amount=5))).balance
    assert (balance.granted, balance.available) == (15, 15)
    credits_ = await ask("GetCredits", admin_pb2.GetCreditsRequest(seller_id=seller_id))
    assert [(entry.entry_number, entry.kind, entry.amount) for entry in credits_.latest_entries] == [
        (2, "grant", 5),
        (1, "grant", 10),
    ]
    new_key = await ask(
        "CreateKey",
        admin_pb2.CreateKeyRequest(
            seller_id=seller_id, environment=common_pb2.ENVIRONMENT_TEST, scopes=["account:read"]
        ),
    )
    assert new_key.secret.startswith("svc_test_")
    assert new_key.key.last_four == new_key.secret[-4:]
    listed = (await ask("ListKeys", admin_pb2.ListKeysRequest(seller_id=seller_id))).keys
    assert [each.key_id for each in listed] == [new_key.key.key_id]
    await stubs.account.Ping(account_pb2.PingRequest(), metadata=key(new_key.secret), timeout=DEADLINE)
    revoked = (await ask("RevokeKey", admin_pb2.RevokeKeyRequest(key_id=new_key.key.key_id))).key
    assert revoked.HasField("revoked_at")
    async with asyncio.timeout(1.5):
        while True:
            try:
                await stubs.account.Ping(account_pb2.PingRequest(), metadata=key(new_key.secret), timeout=DEADLINE)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAUTHENTICATED
                break
            await asyncio.sleep(0.05)


async def test_administration_refuses(stubs: Stubs, tenant: Tenant) -> None:
    seller = tenant.seller_id
    live = common_pb2.ENVIRONMENT_LIVE
    settings = admin_pb2.SellerSettings
    for method, request, code in (
        ("CreateSeller", admin_pb2.CreateSellerRequest(), "E_ADMIN_INVALID"),
        ("CreateSeller", admin_pb2.CreateSellerRequest(name="a\0b"), "E_ADMIN_INVALID"),
        ("CreateSeller", admin_pb2.CreateSellerRequest(name="a", credits=-1), "E_ADMIN_INVALID"),
        ("CreateSeller", admin_pb2.CreateSellerRequest(name="a", site_id="MLB"), "E_ADMIN_INVALID"),
        ("GetSeller", admin_pb2.GetSellerRequest(seller_id=2**62), "E_ADMIN_NOT_FOUND"),
        ("UpdateSeller", admin_pb2.UpdateSellerRequest(seller_id=seller), "E_ADMIN_INVALID"),
        (
            "UpdateSeller",
            admin_pb2.UpdateSellerRequest(seller_id=seller, settings=settings(warranty_time="a\0")),
            "E_ADMIN_INVALID",
        ),
        (
            "UpdateSeller",
            admin_pb2.UpdateSellerRequest(seller_id=seller, settings=settings(margin_percent="NaN")),
            "E_ADMIN_INVALID",
        ),
        (
            "UpdateSeller",
            admin_pb2.UpdateSellerRequest(seller_id=seller, settings=settings(margin_percent="1e999999")),
            "E_ADMIN_INVALID",
        ),
        ("UpdateSeller", admin_pb2.UpdateSellerRequest(seller_id=-1, settings=settings(trm=1)), "E_ADMIN_NOT_FOUND"),
        ("CreateKey", admin_pb2.CreateKeyRequest(seller_id=seller), "E_ADMIN_INVALID"),
        (
            "CreateKey",
            admin_pb2.CreateKeyRequest(seller_id=seller, environment=live, scopes=["all"]),
            "E_ADMIN_INVALID",
        ),
        (
            "CreateKey",
            admin_pb2.CreateKeyRequest(seller_id=seller, environment=live, expires_at={"seconds": 2**60}),  # type: ignore[arg-type]
            "E_ADMIN_INVALID",
        ),
        ("CreateKey", admin_pb2.CreateKeyRequest(seller_id=2**62, environment=live), "E_ADMIN_NOT_FOUND"),
        ("ListKeys", admin_pb2.ListKeysRequest(), "E_ADMIN_NOT_FOUND"),
        ("RevokeKey", admin_pb2.RevokeKeyRequest(key_id="\0"), "E_ADMIN_NOT_FOUND"),
        ("RevokeKey", admin_pb2.RevokeKeyRequest(key_id="key_x"), "E_ADMIN_NOT_FOUND"),
        ("GrantCredits", admin_pb2.GrantCreditsRequest(seller_id=seller), "E_ADMIN_INVALID"),
        ("GrantCredits", admin_pb2.GrantCreditsRequest(seller_id=0, amount=1), "E_ADMIN_NOT_FOUND"),
        ("GetCredits", admin_pb2.GetCreditsRequest(), "E_ADMIN_NOT_FOUND"),
        ("ConnectAccount", admin_pb2.ConnectAccountRequest(seller_id=seller, environment=live), "E_ADMIN_INVALID"),
        (
            "ConnectAccount",
            admin_pb2.ConnectAccountRequest(
                seller_id=seller, environment=live, marketplace_user_id=1, access_token="ñ"
            ),
            "E_ADMIN_INVALID",
        ),
        ("DisconnectAccount", admin_pb2.DisconnectAccountRequest(environment=live), "E_ADMIN_NOT_FOUND"),
        ("SetTaxCategory", admin_pb2.SetTaxCategoryRequest(seller_id=seller, index=5), "E_ADMIN_INVALID"),
        (
            "SetTaxCategory",
            admin_pb2.SetTaxCategoryRequest(seller_id=seller, index=5, name="x", rate_percent="1"),
            "E_ADMIN_INVALID",
        ),
        ("ActOnJobs", admin_pb2.ActOnJobsRequest(), "E_ADMIN_INVALID"),
        (
            "ActOnJobs",
            admin_pb2.ActOnJobsRequest(action=admin_pb2.JOB_ACTION_RETRY, error_code="\0"),
            "E_ADMIN_INVALID",
        ),
        (
            "ActOnJobs",
            admin_pb2.ActOnJobsRequest(action=admin_pb2.JOB_ACTION_CANCEL, status="\0"),
            "E_PRODUCT_INVALID_BODY",
        ),
    ):
        error = await refused(getattr(stubs.admin, method)(request, metadata=OPERATOR, timeout=DEADLINE))
        assert error.code == code, (method, request)


async def test_act_on_many_jobs(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    database, seller = application.database, tenant.seller_id
    busy = [(await create(stubs, tenant.test_key, 2)).job_id for _ in range(2)]
    refused_for_content = (await create(stubs, tenant.test_key, 2)).job_id
    for job_id in busy:
        await finish(database, seller, job_id, failure="marketplace_busy")
    await finish(database, seller, refused_for_content, failure="title_refused")
    request = admin_pb2.ActOnJobsRequest(
        action=admin_pb2.JOB_ACTION_RETRY, seller_id=seller, error_code="marketplace_busy", validate_only=True
    )
    planned = await stubs.admin.ActOnJobs(request, metadata=OPERATOR, timeout=DEADLINE)
    assert [(each.job.job_id, each.items) for each in planned.results] == [(job_id, 2) for job_id in busy]
    assert {each.job.status for each in planned.results} == {"failed"}
    request.validate_only = False
    done = await stubs.admin.ActOnJobs(request, metadata=OPERATOR, timeout=DEADLINE)
    assert [(each.job.status, each.items, each.refused_code) for each in done.results] == [("queued", 2, "")] * 2
    assert not done.more
    request = admin_pb2.ActOnJobsRequest(action=admin_pb2.JOB_ACTION_RETRY, seller_id=seller)
    rest = await stubs.admin.ActOnJobs(request, metadata=OPERATOR, timeout=DEADLINE)
    assert [(each.job.job_id, each.items, each.refused_code) for each in rest.results] == [
        (refused_for_content, 0, "E_JOB_NOT_RETRYABLE")
    ]
    request = admin_pb2.ActOnJobsRequest(action=admin_pb2.JOB_ACTION_CANCEL, seller_id=seller)
    cancelled = await stubs.admin.ActOnJobs(request, metadata=OPERATOR, timeout=DEADLINE)
    assert [(each.job.status, each.items) for each in cancelled.results] == [("cancelled", 2)] * 2
