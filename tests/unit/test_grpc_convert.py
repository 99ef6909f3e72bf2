"""Proto ↔ domain: absent is not empty, nothing is lost, and what cannot be is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from core.domain import jobs as domain
from core.domain.failures import KINDS, Cause, Failure
from core.domain.jobs import Job, JobItem
from core.domain.publication import Answer, Item, PlannedItem, PromotionResult, PublicationResult, Rejection
from core.domain.seller import KeyRecord
from core.domain.states import Environment, ItemStatus, JobKind, JobStatus
from core.errors import ApiError
from core.use_cases.feeds import ItemResult, Progress
from core.use_cases.watch_job import ItemSeen, JobSeen, Quiet
from grpc_server import convert
from listing_publication.v1 import admin_pb2, common_pb2, jobs_pb2, promotion_pb2, publishing_pb2

NOON = datetime(2026, 11, 28, 12, 0, 0, 123456, tzinfo=UTC)

Asked = publishing_pb2.PublicationItem


def job(**changes: Any) -> Job:
    fields: dict[str, Any] = {
        "seller_id": 1,
        "job_id": "01900000-0000-7000-8000-000000000000",
        "job_number": 1,
        "status": JobStatus.QUEUED,
        "environment": Environment.TEST,
        "kind": JobKind.PUBLICATION,
        "total_items": 3,
        "successful": 0,
        "failed": 0,
        "skipped": 0,
        "pending": 3,
        "reconciling": 0,
        "last_sequence": 0,
        "retries": 0,
        "currency": "COP",
        "created_at": NOON,
        "scheduled_for": None,
        "started_at": None,
        "completed_at": None,
        "error_message": None,
        "waiting_reason": None,
    }
    return Job(**(fields | changes))


def set_fields(message: Any) -> set[str]:
    return {field.name for field, _ in message.ListFields()}


@pytest.mark.parametrize(
    ("asked", "item"),
    [
        (Asked(sku="A", category_id="MCO1"), Item("A", "MCO1", None)),
        (Asked(sku="A", category_id=""), Item("A", "", None)),
        (Asked(sku="A", auto_categorize=True), Item("A", None, True)),
        (Asked(sku="A", auto_categorize=False), Item("A", None, None)),
        (Asked(sku="A", category_id="MCO1", auto_categorize=True), Item("A", "MCO1", True)),
        (Asked(), Item("", None, None)),
    ],
)
def test_items_keep_absent_and_empty_apart(asked: publishing_pb2.PublicationItem, item: Item) -> None:
    assert convert.from_create_job(publishing_pb2.CreateJobRequest(items=[asked])).items == [item]


def test_options_keep_absent_and_default_apart() -> None:
    bare = convert.from_create_job(publishing_pb2.CreateJobRequest(items=[Asked(sku="A")]))
    assert (bare.listing_type_id, bare.tax_category_id, bare.scheduled_for, bare.idempotency_key) == (None,) * 4
    assert not bare.validate_only
    given = convert.from_create_job(
        publishing_pb2.CreateJobRequest(
            items=[Asked(sku="A")],
            listing_type_id="",
            tax_category_id=0,
            scheduled_for="",
            idempotency_key="",
            validate_only=True,
        )
    )
    assert (given.listing_type_id, given.tax_category_id, given.scheduled_for, given.idempotency_key) == ("", 0, "", "")
    assert given.validate_only
    assert bare.fingerprint() != given.fingerprint()
    false = publishing_pb2.CreateJobRequest(items=[Asked(sku="A", auto_categorize=False)])
    assert convert.from_create_job(false).fingerprint() == bare.fingerprint()


def test_skus_keep_absent_and_empty_apart() -> None:
    assert convert.from_promote(promotion_pb2.PromoteTestProductsRequest()).skus is None
    named = promotion_pb2.PromoteTestProductsRequest(sku_list=promotion_pb2.SkuList(skus=["A", "A"]))
    assert convert.from_promote(named).skus == ["A", "A"]
    for count in (0, 10_001):
        wrong = promotion_pb2.PromoteTestProductsRequest(sku_list=promotion_pb2.SkuList(skus=["A"] * count))
        with pytest.raises(ApiError) as caught:
            convert.from_promote(wrong)
        assert [violation.pointer for violation in caught.value.violations] == ["/sku_list/skus"]


def test_the_answer_of_create_job() -> None:
    result = PublicationResult(
        job_id="j",
        accepted=2,
        rejected=1,
        total_items=3,
        credits_held=2,
        rejections=(Rejection(1, "A", "duplicate_sku", "Again."),),
    )
    plan = [
        PlannedItem(sku="A", category_id="MCO1", price=0),
        PlannedItem(sku="B", category_id=None, price=None, problem="price_missing"),
    ]
    message = convert.to_create_job(Answer(result=result, replayed=True, plan=plan))
    assert (message.job_id, message.status, message.accepted, message.rejected) == ("j", "queued", 2, 1)
    assert (message.total_items, message.replayed, message.credits_held) == (3, True, 2)
    rejection = message.rejections[0]
    assert (rejection.index, rejection.sku, rejection.code, rejection.detail) == (1, "A", "duplicate_sku", "Again.")
    first, second = message.plan
    assert (first.category_id, first.price, first.HasField("price"), first.HasField("problem")) == (
        "MCO1",
        0,
        True,
        False,
    )
    assert set_fields(second) == {"sku", "problem"}
    assert second.problem.message == KINDS["price_missing"].message
    assert second.problem.who == common_pb2.WHO_SELLER


@pytest.mark.parametrize("remaining", [None, 0, 7])
def test_the_answer_of_promote(remaining: int | None) -> None:
    result = PromotionResult(
        job_id="j",
        promoted=1,
        rejected=0,
        total_candidates=1,
        credits_held=1,
        skus=("A",),
        remaining=remaining,
    )
    message = convert.to_promote(Answer(result=result))
    assert list(message.skus) == ["A"]
    assert (message.remaining if message.HasField("remaining") else None) == remaining


def test_a_job_shows_only_what_is_known() -> None:
    message = convert.to_job(job())
    assert set_fields(message) == {
        "job_id",
        "status",
        "environment",
        "kind",
        "total_items",
        "pending",
        "created_at",
    }
    assert message.created_at.ToDatetime(tzinfo=UTC) == NOON
    known = convert.to_job(
        job(
            status=JobStatus.FAILED,
            environment=Environment.LIVE,
            kind=JobKind.PROMOTION,
            scheduled_for=NOON,
            started_at=NOON,
            completed_at=NOON,
            error_message="Why.",
            waiting_reason="Waits.",
            successful=1,
            failed=2,
            skipped=3,
            pending=4,
            reconciling=5,
            last_sequence=6,
            retries=7,
        )
    )
    assert set_fields(known) == {field.name for field in jobs_pb2.Job.DESCRIPTOR.fields}
    assert (known.status, known.kind, known.environment) == ("failed", "promotion", common_pb2.ENVIRONMENT_LIVE)
    assert (known.successful, known.failed, known.skipped, known.pending) == (1, 2, 3, 4)
    assert (known.reconciling, known.last_sequence, known.retries) == (5, 6, 7)


def test_an_item_shows_only_what_is_known() -> None:
    pending = JobItem(0, "A", ItemStatus.PENDING, None, None, None, None, None, None, None, 0)
    assert set_fields(convert.to_item(pending, job())) == {"sku", "status", "currency", "environment"}
    error = Failure("title_refused", [Cause("item.title.invalid", "Too long", "title")]).stored()
    failed = JobItem(4, "A", ItemStatus.FAILED, "M", "https://x", 0, "MCO1", False, error, 9, 2, "active")
    message = convert.to_item(failed, job())
    assert (message.ordinal, message.sequence, message.attempts, message.status_meli) == (4, 9, 2, "active")
    assert message.HasField("price")
    assert message.HasField("retryable")
    assert not message.retryable
    cause = message.error.causes[0]
    assert (cause.code, cause.message, cause.field) == ("item.title.invalid", "Too long", "title")
    assert message.error.message == KINDS["title_refused"].message
    assert message.error.who == common_pb2.WHO_SELLER


def test_a_failure_of_a_newer_release_is_shown_by_its_code() -> None:
    item = JobItem(0, "A", ItemStatus.FAILED, None, None, None, None, True, {"code": "of_tomorrow"}, 1, 1)
    error = convert.to_item(item, job()).error
    assert (error.code, error.message, error.who) == ("of_tomorrow", "of_tomorrow", common_pb2.WHO_UNSPECIFIED)


@pytest.mark.parametrize("code", sorted(KINDS))
def test_every_failure_has_somebody_who_must_act(code: str) -> None:
    item = JobItem(0, "A", ItemStatus.FAILED, None, None, None, None, True, Failure(code).stored(), 1, 1)
    assert convert.to_item(item, job()).error.who != common_pb2.WHO_UNSPECIFIED


def test_watch_messages() -> None:
    item = JobItem(0, "A", ItemStatus.SUCCESS, "M", "https://x", 1, "MCO1", None, None, 1, 1)
    result = ItemResult(item)
    first = convert.to_watch_job(ItemSeen(job(), result))
    assert first.item.listing_id == "M"
    assert convert.to_watch_job(ItemSeen(job(), result)) is first, "one message serves all watchers"
    assert convert.to_watch_job(JobSeen(job())).job.status == "queued"
    unknown = convert.to_watch_job(Progress(job(), 0.0)).progress
    assert (unknown.pending, unknown.HasField("eta_seconds"), unknown.HasField("waiting_reason")) == (3, False, False)
    known = convert.to_watch_job(Progress(job(waiting_reason="Waits."), 1.5)).progress
    assert (known.items_per_second, known.eta_seconds, known.waiting_reason) == (1.5, 2.0, "Waits.")
    assert convert.to_watch_job(Quiet(NOON)).heartbeat.time.ToDatetime(tzinfo=UTC) == NOON
    assert convert.to_watch_jobs(JobSeen(job())).job.pending == 3
    assert convert.to_watch_jobs(Quiet(NOON)).HasField("heartbeat")


def test_a_test_product() -> None:
    product = domain.TestProduct(
        sku="A",
        listing_id="M",
        title="T",
        image=None,
        permalink="https://x",
        listing_type_id="gold",
        price=None,
        currency="COP",
        category_id="MCO1",
        category_name=None,
        tax_category_id=0,
        status_meli="active",
        app_status=0,
        published_to_live=False,
        published_at=NOON,
    )
    request = promotion_pb2.ListTestProductsRequest(status_meli="active")
    answer = convert.to_list_test_products(domain.TestProductList(products=[product], total=9, more=True), request, 7)
    message = answer.products[0]
    assert not {"image", "price", "category_name"} & set_fields(message)
    assert message.test_published_at.ToDatetime(tzinfo=UTC) == NOON
    request = promotion_pb2.ListTestProductsRequest(status_meli="active", page_token=answer.next_page_token, skip=7)
    assert convert.from_products_page(request, 7) == (0, (NOON, "A"))


def test_times_that_cannot_be() -> None:
    request = admin_pb2.CreateKeyRequest()
    assert convert.from_timestamp(request, "expires_at") is None
    request.expires_at.FromDatetime(NOON)
    assert convert.from_timestamp(request, "expires_at") == NOON
    for seconds in (2**62, -(2**62), 253402300800):
        request.expires_at.CopyFrom(Timestamp(seconds=seconds))
        with pytest.raises(ApiError) as caught:
            convert.from_timestamp(request, "expires_at")
        assert caught.value.code == "E_ADMIN_INVALID"


def test_environments() -> None:
    request = admin_pb2.CreateKeyRequest(environment=common_pb2.ENVIRONMENT_LIVE)
    assert convert.from_environment(request) is Environment.LIVE
    for number in (0, 3):
        with pytest.raises(ApiError):
            convert.from_environment(admin_pb2.CreateKeyRequest(environment=number))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("number", "text"),
    [("30.000", "30"), ("12.500", "12.5"), ("0", "0"), ("0.001", "0.001"), ("1E+3", "1000"), ("100", "100")],
)
def test_decimals_are_plain(number: str, text: str) -> None:
    assert convert.plain(Decimal(number)) == text


def test_settings_given() -> None:
    assert convert.from_settings(admin_pb2.SellerSettings()) == {}
    given = admin_pb2.SellerSettings(trm=0, margin_percent="", stock_quantity=5)
    assert convert.from_settings(given) == {"trm": 0, "margin_percent": "", "stock_quantity": 5}


def test_actions() -> None:
    assert convert.from_action(admin_pb2.ActOnJobsRequest(action=admin_pb2.JOB_ACTION_RETRY))
    assert not convert.from_action(admin_pb2.ActOnJobsRequest(action=admin_pb2.JOB_ACTION_CANCEL))
    with pytest.raises(ApiError):
        convert.from_action(admin_pb2.ActOnJobsRequest())


def test_a_key_never_shows_its_secret() -> None:
    record = KeyRecord(
        key_id="key_1",
        seller_id=1,
        environment=Environment.LIVE,
        scopes=("products:read",),
        last_four="abcd",
        created_at=NOON,
        expires_at=None,
        revoked_at=NOON + timedelta(days=1),
    )
    message = convert.to_key(record)
    assert set_fields(message) == {
        "key_id",
        "seller_id",
        "environment",
        "scopes",
        "last_four",
        "created_at",
        "revoked_at",
    }
