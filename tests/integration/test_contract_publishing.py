"""Lines of the contract that show only when items are really published: results, prices, promotion, credits."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Any

import psycopg
import pytest_asyncio

from core.domain.states import Environment
from core.use_cases import administration
from tests.support.gateway import until_async
from tests.support.rest import Seller, problem
from tests.support.whole_service import UNKNOWN, UNPRICED, WholeService, whole_service

CATEGORY = "MCO158426"
"""A leaf of the sandbox's category tree that takes the stock's products."""


@pytest_asyncio.fixture(scope="module")
async def running(database_url: str) -> AsyncIterator[WholeService]:
    """The whole service, shared by the module's tests, each with sellers of its own."""
    async with whole_service(database_url) as service:
        yield service


@pytest_asyncio.fixture
async def seller(running: WholeService) -> Seller:
    """A fresh seller with both accounts connected."""
    return await running.new_seller()


async def change(database_url: str, statement: str, *values: object) -> int:
    """Changes rows behind the service's back, as the passing of time would; the number of rows. In a thread: the row
    may be locked by a transaction that needs this event loop to go on."""

    def work() -> int:
        with psycopg.connect(database_url, autocommit=True) as connection:
            return connection.execute(statement.encode(), values).rowcount

    return await asyncio.to_thread(work)


def price_of(cost: Decimal, *, trm: int, tariff: str = "0", margin: str = "0", step: int = 100) -> int:
    """The formula of decisions, section 6, written down a second time."""
    exact = cost * trm * (100 + Decimal(tariff)) * (100 + Decimal(margin)) / 10000
    return int((exact / step).to_integral_value(rounding=ROUND_CEILING)) * step


async def publish_on_test(seller: Seller, skus: list[str], **options: Any) -> dict[str, Any]:
    """A finished test job of these SKUs, its detail with every item."""
    answer = await seller.test.publish(*skus, **options)
    assert answer.status == 202, answer.body
    detail: dict[str, Any] = await seller.test.finished(answer.json["job_id"], seconds=60, limit=1000)
    return detail


def adds_up(job: dict[str, int]) -> bool:
    """Decisions, section 2: the counters of a job add up in every answer."""
    return job["total_items"] == sum(job[name] for name in ("pending", "successful", "failed", "skipped"))


# Publishing.


async def test_a_finished_job_shows_each_result(running: WholeService, seller: Seller) -> None:
    skus = await running.stock(5, "SHOWN")
    detail = await publish_on_test(seller, [*skus, UNPRICED, UNKNOWN])
    job, items = detail["job"], {item["sku"]: item for item in detail["items"]}
    config = (await seller.test.get("/account")).json["publishing_config"]

    assert (job["status"], job["successful"], job["failed"], job["total_items"]) == ("completed", 5, 2, 7)
    assert adds_up(job)
    assert job["started_at"] <= job["completed_at"]
    assert [item["sku"] for item in detail["items"]] == [*skus, UNPRICED, UNKNOWN]
    for sku in skus:
        item = items[sku]
        assert item["status"] == "success"
        assert item["listing_id"].startswith("MCO")
        assert item["permalink"].startswith("http")
        assert item["price"] == price_of(
            running.costs[sku],
            trm=config["trm"],
            margin=str(config["margin_percent"]),
            step=config["price_step"],
        )
        assert (item["currency"], item["environment"]) == ("COP", "test")
        assert item["category_id"].startswith("MCO")
        assert item["status_meli"]
        assert "error" not in item
    filtered = await seller.live.job(job["job_id"], status="failed", limit=1, offset=1)
    assert [item["sku"] for item in filtered["items"]] == [UNKNOWN]
    assert filtered["pagination"] == {"limit": 1, "offset": 1, "returned": 1, "total": 2}


async def test_products_unknown_or_without_a_price_fail_before_any_call(running: WholeService, seller: Seller) -> None:
    await running.stock(1)
    before = (await running.market("GET", "/counters"))["requests"].get("item_create", 0)
    detail = await publish_on_test(seller, [UNPRICED, UNKNOWN])

    assert detail["job"]["status"] == "failed"
    assert detail["job"]["error_message"]
    for item in detail["items"]:
        assert item["status"] == "failed"
        assert item["retryable"] is False
        assert set(item["error"]) == {"code", "message", "who", "causes"}
        assert item["error"]["who"] == "seller"
        assert (item["listing_id"], item["permalink"]) == (None, None)
    assert (await running.market("GET", "/counters"))["requests"].get("item_create", 0) == before
    problem(await seller.test.post(f"/products/jobs/{detail['job']['job_id']}/retry"), 400, "E_JOB_NOT_RETRYABLE")


async def test_what_the_marketplace_refuses_for_its_content_is_explained_and_not_retryable(
    running: WholeService, seller: Seller
) -> None:
    (sku,) = await running.stock(1, "REFUSED")
    cause = {"department": "items", "cause_id": 147, "type": "error", "code": "item.attributes.missing_required",
             "references": ["item.attributes"], "message": "The attributes [BRAND] are required"}  # fmt: skip
    await running.fault(fault="refuse_400", sku=sku, causes=[cause])
    item = (await publish_on_test(seller, [sku]))["items"][0]

    assert (item["status"], item["retryable"]) == ("failed", False)
    assert item["error"]["who"] in ("seller", "integrator")
    assert set(item["error"]["causes"][0]) == {"code", "message", "field"}


async def test_publishing_twice_keeps_one_listing(running: WholeService, seller: Seller) -> None:
    (sku,) = await running.stock(1, "TWICE")
    first = (await publish_on_test(seller, [sku]))["items"][0]
    second = (await publish_on_test(seller, [sku]))["items"][0]
    user = seller.tenant.marketplace_users[Environment.TEST]

    assert second["status"] == "success"
    assert second["listing_id"] == first["listing_id"]
    assert (await running.market("GET", f"/items?user={user}&sku={sku}"))["total"] == 1
    assert (await seller.test.get("/products/test", sku=sku)).json["pagination"]["total"] == 1


async def test_an_explicit_category_is_kept(running: WholeService, seller: Seller) -> None:
    (sku,) = await running.stock(1, "CATEGORY")
    body = {"items": [{"sku": sku, "category_id": CATEGORY}]}
    made = (await seller.test.post("/products", body)).json
    detail = await seller.test.finished(made["job_id"])

    assert detail["items"][0]["category_id"] == CATEGORY
    assert detail["items"][0]["status"] == "success", detail["items"][0]


async def test_options_are_frozen_when_the_job_is_accepted(
    running: WholeService, seller: Seller, database_url: str
) -> None:
    (sku,) = await running.stock(1, "FROZEN")
    database, seller_id = running.application.database, seller.tenant.seller_id
    await administration.update_seller(database, seller_id, {"trm": 4000, "margin_percent": "10"})
    await administration.set_tax_category(database, seller_id, index=1, name="Books", rate_percent="5")
    moment = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M")
    made = (await seller.test.publish(sku, tax_category_id=1, listing_type_id="gold_pro", scheduled_for=moment)).json
    await administration.update_seller(database, seller_id, {"trm": 9999, "margin_percent": "80"})
    await administration.set_tax_category(database, seller_id, index=1, name="Books", rate_percent="50")
    await bring_forward(database_url, made["job_id"])
    item = (await seller.test.finished(made["job_id"]))["items"][0]
    product = (await seller.test.get("/products/test", sku=sku)).json["products"][0]

    assert item["price"] == price_of(running.costs[sku], trm=4000, tariff="5", margin="10")
    assert (product["listing_type_id"], product["tax_category_id"]) == ("gold_pro", 1)


# Schedules.


async def bring_forward(database_url: str, job_id: str) -> None:
    """Lets a job's time come, as hours of waiting would."""
    passed = "now() - interval '1 second'"
    assert await change(database_url, f"UPDATE work_runs SET due_at = {passed} WHERE job_id = %s", job_id) == 1
    assert await change(database_url, f"UPDATE jobs SET scheduled_for = {passed} WHERE job_id = %s", job_id) == 1


async def test_a_schedule_runs_at_its_time_and_not_before(
    running: WholeService, seller: Seller, database_url: str
) -> None:
    (sku,) = await running.stock(1, "LATER")
    (other,) = await running.stock(1, "NOW")
    moment = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M")
    made = (await seller.test.publish(sku, scheduled_for=moment)).json
    # Another job of the same seller runs to its end meanwhile: the worker is awake and leaves this one alone.
    await publish_on_test(seller, [other])
    waiting = (await seller.test.job(made["job_id"]))["job"]
    await bring_forward(database_url, made["job_id"])
    detail = await seller.test.finished(made["job_id"])

    assert (waiting["status"], waiting["pending"]) == ("scheduled", 1)
    assert waiting["waiting_reason"]
    assert detail["job"]["status"] == "completed"


async def test_a_scheduled_job_whose_account_has_gone_fails_at_its_time(
    running: WholeService, seller: Seller, database_url: str
) -> None:
    (sku,) = await running.stock(1, "GONE")
    moment = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M")
    made = (await seller.live.publish(sku, scheduled_for=moment)).json
    await administration.disconnect_account(running.application.database, seller.tenant.seller_id, Environment.LIVE)
    before = (await seller.live.job(made["job_id"]))["job"]["status"]
    await bring_forward(database_url, made["job_id"])
    detail = await seller.live.finished(made["job_id"])

    assert before == "scheduled"
    assert detail["job"]["status"] == "failed"
    assert detail["job"]["error_message"]
    assert detail["items"][0]["retryable"] is True
    assert await seller.tenant.credits() == (100_000, 100_000, 0, 0, 0)


# Test products.


async def test_a_test_product_has_the_fields_of_the_contract(running: WholeService, seller: Seller) -> None:
    skus = await running.stock(3, "FIELDS")
    detail = await publish_on_test(seller, skus)
    item = {each["sku"]: each for each in detail["items"]}[skus[1]]
    page = (await seller.live.get("/products/test", sku=skus[1])).json
    product = page["products"][0]

    assert page["pagination"] == {"limit": 50, "offset": 0, "returned": 1, "total": 1}
    assert {
        "sku", "listing_id_test", "title", "image", "permalink_test", "listing_type_id", "price", "currency",
        "category_id", "category_name", "tax_category_id", "status_meli", "app_status", "published_to_live",
        "test_published_at",
    } <= set(product)  # fmt: skip
    assert (product["listing_id_test"], product["permalink_test"]) == (item["listing_id"], item["permalink"])
    assert (product["price"], product["category_id"], product["currency"]) == (
        item["price"],
        item["category_id"],
        "COP",
    )
    assert (product["app_status"], product["published_to_live"], product["tax_category_id"]) == (1, False, 0)
    assert product["category_name"]
    assert product["title"]
    assert datetime.fromisoformat(product["test_published_at"]).tzinfo is not None
    assert product["test_published_at"].endswith("Z")


async def test_test_products_come_fifty_a_page_newest_first_then_by_sku(running: WholeService, seller: Seller) -> None:
    skus = await running.stock(51, "PAGED")
    await publish_on_test(seller, skus)
    (newer,) = await running.stock(1, "NEWER")
    await publish_on_test(seller, [newer])
    page = (await seller.live.get("/products/test")).json
    rest = (await seller.live.get("/products/test", offset=50)).json
    order = [(product["test_published_at"], product["sku"]) for product in page["products"] + rest["products"]]

    assert page["pagination"] == {"limit": 50, "offset": 0, "returned": 50, "total": 52}
    assert page["products"][0]["sku"] == newer
    assert [moment for moment, _ in order] == sorted((moment for moment, _ in order), reverse=True)
    for moment in {moment for moment, _ in order}:
        same = [sku for each, sku in order if each == moment]
        assert same == sorted(same)
    assert {sku for _, sku in order} == {*skus, newer}


async def test_test_products_are_filtered(running: WholeService, seller: Seller, database_url: str) -> None:
    skus = await running.stock(4, "FILTER")
    await publish_on_test(seller, skus)
    await promoted(seller, skus[:1])
    await pause(running, seller, database_url, skus[1])

    async def found(**query: Any) -> list[str]:
        products = (await seller.test.get("/products/test", **query)).json["products"]
        return sorted(product["sku"] for product in products)

    assert await found(already_published="false") == skus[1:]
    assert await found(already_published="true") == skus[:1]
    assert await found(app_status=0) == [skus[1]]
    assert await found(app_status=1) == [skus[0], *skus[2:]]
    assert await found(status_meli="paused") == [skus[1]]
    assert skus[1] not in await found(status_meli="active")
    for status in ("closed", "under_review", "inactive", "not_yet_active", "payment_required"):
        assert await found(status_meli=status) == []
    assert await found(sku=skus[3]) == [skus[3]]
    assert await found(sku=skus[3].lower()) == []


async def pause(running: WholeService, seller: Seller, database_url: str, sku: str) -> None:
    """The seller pauses a test listing on the marketplace's site, and the next check of it comes at once."""
    product = (await seller.test.get("/products/test", sku=sku)).json["products"][0]
    await running.market("POST", f"/items/{product['listing_id_test']}", {"status": "paused"})

    async def seen() -> bool:
        await change(database_url, "UPDATE follow_ups SET due_at = now() WHERE seller_id = %s", seller.tenant.seller_id)
        shown = (await seller.test.get("/products/test", sku=sku)).json["products"][0]
        return bool(shown["status_meli"] == "paused")

    await until_async(seen, 20)


# Promotion.


async def promoted(seller: Seller, skus: list[str] | None, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer to a promotion, and its finished job's detail."""
    body = options if skus is None else {"skus": skus, **options}
    answer = await seller.live.post("/products/test/promote", body or None)
    assert answer.status == 202, answer.body
    return answer.json, await seller.live.finished(answer.json["job_id"], seconds=60, limit=1000)


async def test_a_promotion_publishes_with_category_and_price_of_the_test_run(
    running: WholeService, seller: Seller
) -> None:
    skus = await running.stock(6, "PROMOTE")
    tested = {item["sku"]: item for item in (await publish_on_test(seller, skus))["items"]}
    # A change of the seller's settings between test and promotion changes no price.
    await administration.update_seller(running.application.database, seller.tenant.seller_id, {"trm": 9999})
    answer, detail = await promoted(seller, skus)

    assert set(answer) >= {"job_id", "status", "promoted", "rejected", "total_candidates", "skus"}
    assert (answer["status"], answer["promoted"], answer["rejected"], answer["total_candidates"]) == ("queued", 6, 0, 6)
    assert sorted(answer["skus"]) == skus
    assert (detail["job"]["kind"], detail["job"]["environment"]) == ("promotion", "live")
    assert detail["job"]["successful"] == 6
    for item in detail["items"]:
        test = tested[item["sku"]]
        assert (item["price"], item["category_id"]) == (test["price"], test["category_id"])
        assert item["listing_id"] != test["listing_id"]
    pending = (await seller.test.get("/products/test", already_published="false")).json["products"]
    assert pending == []


async def test_credits_are_one_per_published_item_and_nothing_else(running: WholeService, seller: Seller) -> None:
    skus = await running.stock(4, "CREDIT")
    await publish_on_test(seller, skus)
    assert await seller.tenant.credits() == (100_000, 100_000, 0, 0, 4)
    await promoted(seller, skus[:3])
    live = (await seller.live.get("/account")).json["credits"]
    test = (await seller.test.get("/account")).json["credits"]
    made = (await seller.live.publish(UNPRICED, UNKNOWN)).json
    await seller.live.finished(made["job_id"])

    assert live == {"total": 100_000, "available": 99_997, "used_live": 3, "used_test": 4}
    assert test == {"total": 100_000, "available": 100_000, "used_live": 3, "used_test": 4}
    assert await seller.tenant.credits() == (100_000, 99_997, 0, 3, 4)


async def test_named_skus_that_are_no_candidates_are_rejected_each_with_its_reason(
    running: WholeService, seller: Seller, database_url: str
) -> None:
    skus = await running.stock(4, "NAMED")
    await publish_on_test(seller, skus)
    await promoted(seller, skus[:1])
    await pause(running, seller, database_url, skus[1])
    moment = (datetime.now(UTC) + timedelta(minutes=20)).strftime("%Y-%m-%dT%H:%M")
    assert (await seller.live.publish(skus[2], scheduled_for=moment)).status == 202
    answer, detail = await promoted(seller, [*skus, skus[3], "NEVERSEEN1"])

    assert (answer["promoted"], answer["rejected"], answer["total_candidates"]) == (1, 4, 5)
    assert answer["skus"] == [skus[3]]
    assert [item["sku"] for item in detail["items"]] == [skus[3]]
    reasons = {each["sku"]: each["code"] for each in answer["rejections"]}
    assert set(reasons) == {*skus[:3], "NEVERSEEN1"}
    assert len(set(reasons.values())) == 4
    problem(await seller.live.post("/products/test/promote", {"skus": skus[:3]}), 400, "E_PROMOTE_NO_CANDIDATES")
    problem(await seller.live.post("/products/test/promote"), 400, "E_PROMOTE_NO_CANDIDATES")


async def test_a_promotion_without_skus_takes_the_thousand_oldest_and_tells_what_is_left(
    running: WholeService, seller: Seller
) -> None:
    first, second = await running.stock(1000, "MANY1"), await running.stock(3, "MANY2")
    await publish_on_test(seller, first)
    await publish_on_test(seller, second)
    answer, detail = await promoted(seller, None)

    assert (answer["promoted"], answer["rejected"], answer["total_candidates"]) == (1000, 0, 1000)
    assert answer["remaining"] == 3
    assert sorted(answer["skus"]) == first
    assert detail["job"]["successful"] == 1000
    again, _ = await promoted(seller, None)
    assert (again["promoted"], again["remaining"], sorted(again["skus"])) == (3, 0, second)
    assert await seller.tenant.credits() == (100_000, 98_997, 0, 1003, 1003)


async def test_a_promotion_needs_a_credit_per_sku(running: WholeService) -> None:
    seller = await running.new_seller(balance=1)
    skus = await running.stock(2, "POOR")
    await publish_on_test(seller, skus)
    body = problem(await seller.live.post("/products/test/promote"), 400, "E_PRODUCT_CREDIT_EXHAUSTED")
    answer, _ = await promoted(seller, skus[:1])

    assert "2" in body["detail"]
    assert "1" in body["detail"]
    assert answer["promoted"] == 1


async def test_a_promotion_replays_and_counts_as_an_active_job(running: WholeService, seller: Seller) -> None:
    skus = await running.stock(2, "REPLAY")
    await publish_on_test(seller, skus)
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    first = await seller.live.post("/products/test/promote", {"skus": skus[:1]}, headers=headers)
    again = await seller.live.post("/products/test/promote", {"skus": skus[:1]}, headers=headers)
    moment = (datetime.now(UTC) + timedelta(minutes=20)).strftime("%Y-%m-%dT%H:%M")
    await seller.live.finished(first.json["job_id"])
    for _ in range(6):
        assert (await seller.test.publish(skus[1], scheduled_for=moment)).status == 202

    assert first.status == 202
    assert (again.status, again.body) == (202, first.body)
    assert again.headers["idempotent-replay"] == "true"
    problem(await seller.live.post("/products/test/promote"), 429, "E_PRODUCT_MAX_CONCURRENT_JOBS")


async def test_a_live_publish_marks_its_test_product_for_good(running: WholeService, seller: Seller) -> None:
    (sku,) = await running.stock(1, "MARKED")
    tested = (await publish_on_test(seller, [sku]))["items"][0]
    await administration.update_seller(running.application.database, seller.tenant.seller_id, {"trm": 9999})
    made = (await seller.live.publish(sku)).json
    live = (await seller.live.finished(made["job_id"]))["items"][0]
    await publish_on_test(seller, [sku])
    product = (await seller.live.get("/products/test", sku=sku)).json["products"][0]

    # With `auto_categorize` a SKU that could be promoted takes category and price of its test run.
    assert (live["price"], live["category_id"]) == (tested["price"], tested["category_id"])
    assert product["published_to_live"] is True


async def test_an_explicit_category_prices_a_tested_sku_anew(running: WholeService, seller: Seller) -> None:
    (sku,) = await running.stock(1, "ANEW")
    await publish_on_test(seller, [sku])
    await administration.update_seller(running.application.database, seller.tenant.seller_id, {"trm": 9000})
    margin = str((await seller.live.get("/account")).json["publishing_config"]["margin_percent"])
    made = (await seller.live.post("/products", {"items": [{"sku": sku, "category_id": CATEGORY}]})).json
    item = (await seller.live.finished(made["job_id"]))["items"][0]

    assert item["category_id"] == CATEGORY
    assert item["price"] == price_of(running.costs[sku], trm=9000, margin=margin)


# Retrying and losing the account.


async def test_a_retry_holds_a_credit_per_item_and_publishes(running: WholeService) -> None:
    seller = await running.new_seller(balance=2)
    skus = await running.stock(2, "RETRY")
    user = seller.tenant.marketplace_users[Environment.LIVE]
    await running.market("POST", f"/users/{user}", {"list_allow": False, "list_codes": ["address_pending"]})
    made = (await seller.live.publish(*skus)).json
    failed = await seller.live.finished(made["job_id"])
    released = await seller.tenant.credits()
    await running.market("POST", f"/users/{user}", {"list_allow": True, "list_codes": []})
    answer = await seller.live.post(f"/products/jobs/{made['job_id']}/retry")
    detail = await seller.live.finished(made["job_id"])

    assert failed["job"]["status"] == "failed"
    assert failed["job"]["error_message"]
    assert [item["retryable"] for item in failed["items"]] == [True, True]
    assert released == (2, 2, 0, 0, 0)
    assert (answer.status, answer.json["retried"]) == (202, 2)
    assert (detail["job"]["status"], detail["job"]["successful"]) == ("completed", 2)
    assert await seller.tenant.credits() == (2, 0, 0, 2, 0)


async def test_a_retry_without_credits_is_refused_whole(running: WholeService) -> None:
    seller = await running.new_seller(balance=3)
    skus = await running.stock(3, "BROKE")
    user = seller.tenant.marketplace_users[Environment.LIVE]
    await running.market("POST", f"/users/{user}", {"list_allow": False, "list_codes": ["address_pending"]})
    made = (await seller.live.publish(*skus)).json
    await seller.live.finished(made["job_id"])
    moment = (datetime.now(UTC) + timedelta(minutes=20)).strftime("%Y-%m-%dT%H:%M")
    assert (await seller.live.publish(skus[0], scheduled_for=moment)).status == 202
    body = problem(await seller.live.post(f"/products/jobs/{made['job_id']}/retry"), 400, "E_PRODUCT_CREDIT_EXHAUSTED")

    assert "3" in body["detail"]
    assert "2" in body["detail"]
    assert (await seller.live.job(made["job_id"]))["job"]["status"] == "failed"


async def test_a_connection_lost_in_mid_job_fails_the_job_and_leaves_the_rest_retryable(
    running: WholeService, seller: Seller
) -> None:
    skus = await running.stock(6, "LOST")
    user = seller.tenant.marketplace_users[Environment.TEST]
    await publish_on_test(seller, skus[:1])
    await running.market("POST", "/tokens/revoke", {"user_id": user, "grant": True})
    detail = await publish_on_test(seller, skus[1:])

    assert detail["job"]["status"] == "failed"
    assert detail["job"]["error_message"]
    assert all(item["retryable"] is True for item in detail["items"])
    assert {item["error"]["who"] for item in detail["items"]} == {"seller"}
    assert adds_up(detail["job"])


async def test_cancel_in_mid_job_keeps_what_was_published(running: WholeService, seller: Seller) -> None:
    skus = await running.stock(400, "MIDWAY")
    user = seller.tenant.marketplace_users[Environment.LIVE]
    await running.fault(fault="delay_before", operation="item_create", user_id=user, seconds=0.3)
    job_id = (await seller.live.publish(*skus)).json["job_id"]

    async def some_done() -> bool:
        return bool((await seller.live.job(job_id, limit=1))["job"]["successful"] > 0)

    await until_async(some_done, 20)
    answer = await seller.live.post(f"/products/jobs/{job_id}/cancel")

    async def settled() -> Any:
        job = (await seller.live.job(job_id, limit=1))["job"]
        return job if job["pending"] == 0 else None

    job = await until_async(settled, 30)
    assert answer.json["status"] == "cancelled"
    assert answer.json["cancelled_items"] > 0
    assert job["status"] == "cancelled"
    assert adds_up(job)
    assert job["skipped"] >= answer.json["cancelled_items"]
    listings = (await running.market("GET", f"/items?user={user}"))["total"]
    assert listings == job["successful"]
    granted, available, held, used, _ = await seller.tenant.credits()
    assert (granted, available, held, used) == (100_000, 100_000 - job["successful"], 0, job["successful"])
