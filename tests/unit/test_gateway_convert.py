"""JSON to proto and back: field by field."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from http_gateway import convert
from http_gateway.decode import decode_create_job, decode_promote
from http_gateway.schemas import to_json
from listing_publication.v1 import account_pb2, common_pb2, jobs_pb2, promotion_pb2, publishing_pb2

WHEN = Timestamp(seconds=1_764_286_327, nanos=999_999_999)
WHEN_TEXT = "2025-11-27T23:32:07.999Z"
JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def shown(value: Any) -> Any:
    """What a client reads."""
    return json.loads(to_json(value))


def a_job(**more: Any) -> jobs_pb2.Job:
    return jobs_pb2.Job(
        job_id=JOB_ID,
        status="queued",
        environment=common_pb2.ENVIRONMENT_LIVE,
        kind="publication",
        total_items=3,
        successful=0,
        failed=0,
        skipped=1,
        pending=2,
        created_at=WHEN,
        **more,
    )


JOB = {
    "job_id": JOB_ID,
    "status": "queued",
    "environment": "live",
    "kind": "publication",
    "total_items": 3,
    "successful": 0,
    "failed": 0,
    "skipped": 1,
    "pending": 2,
    "created_at": WHEN_TEXT,
    "completed_at": None,
}


def test_timestamps_have_milliseconds_and_z() -> None:
    assert convert.timestamp(WHEN) == WHEN_TEXT
    assert convert.timestamp(Timestamp()) == "1970-01-01T00:00:00.000Z"
    assert convert.timestamp(Timestamp(seconds=1_801_439_999, nanos=5_000_000)) == "2027-01-31T23:59:59.005Z"


def test_create_job_request_keeps_presence() -> None:
    body = decode_create_job(
        b'{"items":[{"sku":"a","category_id":""},{"sku":"b","auto_categorize":false},{"sku":"c","category_id":null}],'
        b'"listing_type_id":"","tax_category_id":0}'
    )
    message = convert.create_job_request(body, JOB_ID)
    assert [item.sku for item in message.items] == ["a", "b", "c"]
    assert [item.HasField("category_id") for item in message.items] == [True, False, False]
    assert [item.HasField("auto_categorize") for item in message.items] == [False, True, False]
    assert message.HasField("listing_type_id")
    assert message.HasField("tax_category_id")
    assert not message.HasField("scheduled_for")
    assert message.idempotency_key == JOB_ID
    assert not message.validate_only
    plain = convert.create_job_request(decode_create_job(b'{"items":[{"sku":"a"}]}'), None)
    assert not plain.HasField("tax_category_id")
    assert not plain.HasField("idempotency_key")


def test_promote_request_tells_none_from_a_list() -> None:
    assert not convert.promote_request(decode_promote(b""), None).HasField("sku_list")
    message = convert.promote_request(decode_promote(b'{"skus":["a","b"],"tax_category_id":3}'), None)
    assert list(message.sku_list.skus) == ["a", "b"]
    assert message.tax_category_id == 3


def test_job_created() -> None:
    message = publishing_pb2.CreateJobResponse(
        job_id=JOB_ID, status="queued", accepted=2, rejected=1, total_items=3, credits_held=2
    )
    assert shown(convert.job_created(message)) == {
        "job_id": JOB_ID,
        "status": "queued",
        "accepted": 2,
        "rejected": 1,
        "total_items": 3,
    }
    first = to_json(convert.job_created(message))
    message.rejections.add(index=2, sku="a", code="duplicate_sku", detail="again")
    assert shown(convert.job_created(message))["rejections"] == [
        {"index": 2, "sku": "a", "code": "duplicate_sku", "detail": "again"}
    ]
    del message.rejections[:]
    message.replayed = True
    assert to_json(convert.job_created(message)) == first


def test_promoted() -> None:
    message = promotion_pb2.PromoteTestProductsResponse(
        job_id=JOB_ID, status="queued", promoted=1, rejected=1, total_candidates=2, skus=["a"], remaining=0
    )
    assert shown(convert.promoted(message)) == {
        "job_id": JOB_ID,
        "status": "queued",
        "promoted": 1,
        "rejected": 1,
        "total_candidates": 2,
        "skus": ["a"],
        "remaining": 0,
    }
    message.ClearField("remaining")
    assert "remaining" not in shown(convert.promoted(message))


def test_test_products_show_every_field_of_the_contract() -> None:
    bare = promotion_pb2.TestProduct(sku="a", app_status=1)
    full = promotion_pb2.TestProduct(
        sku="b",
        listing_id_test="MCO1",
        title="t",
        image="https://i",
        permalink_test="https://p",
        listing_type_id="gold_pro",
        price=1200,
        currency="COP",
        category_id="MCO2",
        category_name="c",
        tax_category_id=1,
        status_meli="active",
        app_status=0,
        published_to_live=True,
        test_published_at=WHEN,
    )
    page = shown(
        convert.test_product_page(
            promotion_pb2.ListTestProductsResponse(products=[bare, full], total=9), limit=2, offset=4
        )
    )
    assert page["pagination"] == {"limit": 2, "offset": 4, "returned": 2, "total": 9}
    first, second = page["products"]
    assert first == {
        "sku": "a", "listing_id_test": None, "title": None, "image": None, "permalink_test": None,
        "listing_type_id": None, "price": None, "currency": None, "category_id": None, "category_name": None,
        "tax_category_id": 0, "status_meli": None, "app_status": 1, "published_to_live": False,
        "test_published_at": None,
    }  # fmt: skip
    assert second == {
        "sku": "b", "listing_id_test": "MCO1", "title": "t", "image": "https://i", "permalink_test": "https://p",
        "listing_type_id": "gold_pro", "price": 1200, "currency": "COP", "category_id": "MCO2",
        "category_name": "c", "tax_category_id": 1, "status_meli": "active", "app_status": 0,
        "published_to_live": True, "test_published_at": WHEN_TEXT,
    }  # fmt: skip


def test_jobs_leave_out_what_does_not_apply() -> None:
    assert shown(convert.job(a_job())) == JOB
    full = a_job(
        scheduled_for=WHEN,
        started_at=WHEN,
        completed_at=WHEN,
        error_message="e",
        waiting_reason="w",
        retries=2,
        reconciling=1,
    )
    assert shown(convert.job(full)) == {
        **JOB,
        "completed_at": WHEN_TEXT,
        "scheduled_for": WHEN_TEXT,
        "started_at": WHEN_TEXT,
        "error_message": "e",
        "waiting_reason": "w",
        "reconciling": 1,
        "retries": 2,
    }
    assert shown(convert.job_page(jobs_pb2.ListJobsResponse(jobs=[a_job()], total=5), 1, 0)) == {
        "jobs": [JOB],
        "pagination": {"limit": 1, "offset": 0, "returned": 1, "total": 5},
    }


def test_retry_and_cancel_add_their_counts() -> None:
    assert shown(convert.job_retried(jobs_pb2.RetryJobResponse(job=a_job(), retried=2))) == {**JOB, "retried": 2}
    cancelled = jobs_pb2.CancelJobResponse(job=a_job(), cancelled_items=0, in_flight=1)
    assert shown(convert.job_cancelled(cancelled)) == {**JOB, "cancelled_items": 0, "in_flight": 1}


def test_items_of_each_status() -> None:
    test = common_pb2.ENVIRONMENT_TEST
    success = jobs_pb2.JobItem(
        ordinal=0, sku="a", status="success", listing_id="MCO1", permalink="https://p", price=100, currency="COP",
        category_id="MCO2", environment=test, sequence=1, status_meli="active", attempts=1,
    )  # fmt: skip
    pending = jobs_pb2.JobItem(ordinal=1, sku="b", status="pending", currency="COP", environment=test)
    failed = jobs_pb2.JobItem(
        ordinal=2, sku="c", status="failed", currency="COP", environment=test, retryable=False, sequence=2,
        error=common_pb2.ItemError(
            code="title_too_long", message="m", who=common_pb2.WHO_SELLER,
            causes=[common_pb2.Cause(code="x", message="y", field="title"), common_pb2.Cause(code="z", message="")],
        ),
    )  # fmt: skip
    detail = shown(
        convert.job_detail(
            jobs_pb2.GetJobResponse(job=a_job(), items=[success, pending, failed], total=3), limit=100, offset=0
        )
    )
    assert detail["job"] == JOB
    assert detail["pagination"] == {"limit": 100, "offset": 0, "returned": 3, "total": 3}
    assert detail["items"] == [
        {
            "sku": "a", "status": "success", "listing_id": "MCO1", "permalink": "https://p", "price": 100,
            "currency": "COP", "category_id": "MCO2", "environment": "test", "status_meli": "active", "attempts": 1,
        },
        {
            "sku": "b", "status": "pending", "listing_id": None, "permalink": None, "price": None,
            "currency": "COP", "category_id": None, "environment": "test",
        },
        {
            "sku": "c", "status": "failed", "listing_id": None, "permalink": None, "price": None,
            "currency": "COP", "category_id": None, "environment": "test", "retryable": False,
            "error": {
                "code": "title_too_long", "message": "m", "who": "seller",
                "causes": [
                    {"code": "x", "message": "y", "field": "title"},
                    {"code": "z", "message": "", "field": None},
                ],
            },
        },
    ]  # fmt: skip
    assert shown(convert.job_event_item(failed))["sequence"] == 2
    assert shown(convert.job_event_item(failed))["ordinal"] == 2


def test_every_who_has_a_word() -> None:
    words = {
        shown(convert.job_item(jobs_pb2.JobItem(status="failed", error=common_pb2.ItemError(who=who))))["error"]["who"]
        for who in common_pb2.Who.values()
    }
    assert words == {None, "seller", "integrator", "marketplace", "operator", "nobody"}


def test_progress() -> None:
    message = jobs_pb2.Progress(
        pending=1, successful=2, failed=3, skipped=4, items_per_second=1.23456, status="processing"
    )
    assert shown(convert.progress(message)) == {
        "status": "processing", "pending": 1, "successful": 2, "failed": 3, "skipped": 4,
        "items_per_second": 1.235, "eta_seconds": None,
    }  # fmt: skip
    message.eta_seconds = 2.0
    message.waiting_reason = "w"
    assert shown(convert.progress(message)) | {"eta_seconds": 2.0, "waiting_reason": "w"} == shown(
        convert.progress(message)
    )


def test_account_and_tariffs_and_ping() -> None:
    account = account_pb2.GetAccountResponse(
        seller_id=7, site_id="MCO", currency="COP", ml_connected=True,
        credits=account_pb2.Credits(total=10, available=8, used_live=2, used_test=5),
        publishing_config=account_pb2.PublishingConfig(
            trm=4000, warranty_time="90 d\u00edas", manufacturing_time_days=3, stock_quantity=9,
            margin_percent="12.5", price_step=100, listing_type_id="gold_special",
        ),
    )  # fmt: skip
    assert shown(convert.account(account)) == {
        "seller_id": 7, "site_id": "MCO", "currency": "COP",
        "credits": {"total": 10, "available": 8, "used_live": 2, "used_test": 5},
        "publishing_config": {
            "trm": 4000, "warranty_time": "90 d\u00edas", "manufacturing_time_days": 3, "stock_quantity": 9,
            "margin_percent": 12.5, "price_step": 100, "listing_type_id": "gold_special",
        },
        "ml_connected": True,
    }  # fmt: skip
    tariffs = account_pb2.ListTaxCategoriesResponse(
        tax_categories=[
            account_pb2.TaxCategory(index=0, name="General", rate_percent="0"),
            account_pb2.TaxCategory(index=1, name="IVA", rate_percent="19.25"),
        ]
    )
    assert to_json(convert.tax_categories(tariffs)) == (
        b'{"tax_categories":[{"index":0,"name":"General","rate_percent":0},'
        b'{"index":1,"name":"IVA","rate_percent":19.25}]}'
    )
    ping = account_pb2.PingResponse(
        seller_id=7, environment=common_pb2.ENVIRONMENT_TEST, scopes=["products:read"], key_id="k"
    )
    expected = {"status": "ok", "seller_id": 7, "environment": "test", "scopes": ["products:read"], "key_id": "k"}
    assert shown(convert.ping(ping)) == expected
    ping.expires_at.CopyFrom(WHEN)
    assert shown(convert.ping(ping)) == {**expected, "expires_at": WHEN_TEXT}
