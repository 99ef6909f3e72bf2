"""What a worker makes of items (decisions, section 6): listings, prices, categories, promotion, and how jobs move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import pytest_asyncio

from core.domain.price import listing_price
from core.domain.states import JobStatus
from core.errors import ApiError
from core.use_cases import administration
from core.worker import decide
from tests.support.publishing import CATEGORY, LIVE, TEST, Shop, product, publishing, until
from tests.support.sandbox import RunningSandbox, run_sandbox
from tests.support.service import Tenant

LONG_TITLE, FEW_PICTURES = "MCO990005", "MCO990007"
"""Leaves of the sandbox's tree with limits of their own."""
IMAGES = tuple(f"https://images.example.com/{number}.jpg" for number in range(4))


@pytest.fixture(scope="module")
def market() -> Iterator[RunningSandbox]:
    with run_sandbox("--index-lag-seconds", "0.1", "--picture-delay-seconds", "0.1") as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module")
async def shop(database_url: str, market: RunningSandbox) -> AsyncIterator[Shop]:
    async with publishing(database_url, market) as opened:
        yield opened


@pytest_asyncio.fixture
async def seller(shop: Shop) -> Tenant:
    return await shop.tenant(balance=1000)


async def price_of(shop: Shop, seller: Tenant, cost: str, **changes: int | Decimal) -> int:
    settings = (await administration.get_seller(shop.application.database, seller.seller_id)).settings
    chosen: dict[str, int | Decimal] = {
        "trm": settings.trm, "tariff_percent": Decimal(0), "margin_percent": settings.margin_percent,
        "price_step": settings.price_step,
    }  # fmt: skip
    return listing_price(Decimal(cost), **(chosen | changes))  # type: ignore[arg-type]


# Listings.


async def test_publishing_again_changes_the_listing_and_makes_no_second_one(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("TWICE")
    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    await shop.put(product(sku, cost_usd=Decimal("49.5")))
    second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    (item,) = shop.on_market(seller, sku)

    assert (second.status, second.listing_id) == ("success", first.listing_id)
    assert first.price != second.price == item["price"] == await price_of(shop, seller, "49.5")
    assert shop.created(seller) == 1
    assert (await shop.listing(seller, sku))["price"] == second.price


async def test_a_listing_made_by_hand_is_found_and_changed(shop: Shop, seller: Tenant) -> None:
    sku, other = await shop.stock("HAND", 2)
    by_hand = await shop.make_by_hand(seller, sku)
    await shop.make_by_hand(seller, "not one of ours"[:10])
    ended = await shop.ended(seller, await shop.publish(seller, [sku, other]))
    (item,) = shop.on_market(seller, sku)

    assert [each.status for each in ended.items] == ["success", "success"]
    assert ended.items[0].listing_id == by_hand == item["id"]
    assert item["price"] == ended.items[0].price == await price_of(shop, seller, "19.99")
    assert item["available_quantity"] > 1
    assert shop.created(seller) == 3


async def test_a_listing_made_by_hand_between_two_jobs_is_found(shop: Shop, seller: Tenant) -> None:
    first, second = await shop.stock("LATER", 2)
    await shop.ended(seller, await shop.publish(seller, [first]))
    by_hand = await shop.make_by_hand(seller, second)
    ended = await shop.ended(seller, await shop.publish(seller, [second]))

    assert ended.items[0].listing_id == by_hand
    assert len(shop.on_market(seller, second)) == 1


async def test_a_listing_closed_at_the_marketplace_is_made_anew(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("CLOSED")
    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert first.listing_id is not None
    shop.sandbox.change_item(first.listing_id, status="closed")
    second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    (item,) = shop.on_market(seller, sku)

    assert second.status == "success"
    assert second.listing_id == item["id"] != first.listing_id
    assert (await shop.listing(seller, sku))["listing_id"] == second.listing_id


async def test_a_listing_that_counts_as_closed_here_but_is_open_there_is_found_again(
    shop: Shop, seller: Tenant
) -> None:
    (sku,) = await shop.stock("WRONG")
    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert first.listing_id is not None
    shop.sandbox.change_item(first.listing_id, index_lag_seconds=0)
    await shop.change("UPDATE listings SET status_meli = 'closed', app_status = 0 WHERE sku = %s", sku)
    second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]

    assert (second.status, second.listing_id) == ("success", first.listing_id)
    assert shop.created(seller) == 1


@pytest.mark.parametrize("category", [FEW_PICTURES, CATEGORY])
async def test_publishing_again_keeps_to_the_pictures_that_the_listings_category_takes(
    shop: Shop, seller: Tenant, category: str
) -> None:
    """Whichever is named then, the listing stays where it is."""
    (sku,) = await shop.stock("PICTUR", image_urls=IMAGES)
    first = await shop.ended(seller, await shop.publish(seller, [sku], category=FEW_PICTURES))
    second = await shop.ended(seller, await shop.publish(seller, [sku], category=category))
    (item,) = shop.on_market(seller, sku)

    assert (first.codes(), second.codes()) == ([None], [None])
    assert second.items[0].listing_id == first.items[0].listing_id == item["id"]


async def test_a_price_that_the_marketplace_keeps_is_what_the_item_shows(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("AUTO")
    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert first.listing_id is not None
    shop.sandbox.change_item(first.listing_id, price_automation=True)
    await shop.put(product(sku, cost_usd=Decimal(99)))
    second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]

    assert (second.status, second.price) == ("success", first.price)


async def test_two_jobs_with_one_sku_at_once_make_one_listing(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("RACE", 20)
    shop.fault(seller, "delay_before", operation="item_create", seconds=0.2)
    jobs = await asyncio.gather(*(shop.publish(seller, order) for order in (skus, skus[::-1], skus[5:15])))
    ended = [await shop.ended(seller, job) for job in jobs]

    listings = {sku: {item["id"] for item in shop.on_market(seller, sku)} for sku in skus}
    assert all(len(ids) == 1 for ids in listings.values())
    assert shop.created(seller) == 20
    for each in ended:
        assert each.job.status is JobStatus.COMPLETED
        assert all({item.listing_id} == listings[item.sku] for item in each.items)


async def test_repeated_skus_are_skipped_at_no_cost(shop: Shop, seller: Tenant) -> None:
    first, second = await shop.stock("SAME", 2)
    job_id = await shop.publish(seller, [first, second, first, first], environment=LIVE)
    ended = await shop.ended(seller, job_id)

    assert [item.status for item in ended.items] == ["success", "success", "skipped", "skipped"]
    assert ended.codes() == [None, None, "duplicate_sku", "duplicate_sku"]
    assert await seller.credits() == (1000, 998, 0, 2, 0)


async def test_what_the_catalogue_cannot_price_fails_before_any_call(shop: Shop, seller: Tenant) -> None:
    (unpriced,) = await shop.stock("FREE", cost_usd=None)
    (at_zero,) = await shop.stock("ZERO", cost_usd=Decimal(0))
    before = shop.sandbox.requests("item_create")
    job_id = await shop.publish(seller, [unpriced, at_zero, "NOSUCHSKU1"], environment=LIVE)
    ended = await shop.ended(seller, job_id)

    assert ended.codes() == ["price_missing", "price_missing", "product_unknown"]
    assert [item.retryable for item in ended.items] == [False] * 3
    assert ended.job.status is JobStatus.FAILED
    assert ended.job.error_message
    assert shop.sandbox.requests("item_create") == before
    assert await seller.credits() == (1000, 1000, 0, 0, 0)


# Prices and categories.


async def test_the_price_follows_the_rule_with_the_terms_of_the_acceptance(shop: Shop, seller: Tenant) -> None:
    database, seller_id = shop.application.database, seller.seller_id
    await administration.update_seller(database, seller_id, {"trm": 4123, "margin_percent": "12.5", "price_step": 50})
    await administration.set_tax_category(database, seller_id, index=1, name="Ropa", rate_percent="7.25")
    (sku,) = await shop.stock("PRICE", cost_usd=Decimal("33.3333"))
    job_id = await shop.publish(seller, [sku], tax_category_id=1)
    item = (await shop.ended(seller, job_id)).items[0]

    expected = await price_of(shop, seller, "33.3333", tariff_percent=Decimal("7.25"))
    assert item.price == expected == shop.on_market(seller, sku)[0]["price"]
    assert expected % 50 == 0


async def test_a_category_is_inferred_once_per_title_and_shown_with_its_name(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("GUESS", 8, title="Maleta de cabina para inferir una vez")
    before = shop.sandbox.requests("domain_discovery")
    ended = await shop.ended(seller, await shop.publish(seller, skus, category=None))
    again = await shop.ended(seller, await shop.publish(seller, skus, category=None))

    assert shop.sandbox.requests("domain_discovery") == before + 1
    categories = {item.category_id for item in (*ended.items, *again.items)}
    assert len(categories) == 1
    assert (await shop.listing(seller, skus[0]))["category_name"]


async def test_an_explicit_category_is_shown_with_its_name(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("NAMED")
    await shop.ended(seller, await shop.publish(seller, [sku], category=CATEGORY))
    listing = await shop.listing(seller, sku)

    assert listing["category_id"] == CATEGORY
    assert listing["category_name"]


async def test_a_category_that_the_marketplace_replaces_does_not_keep_the_old_name(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("MOVED")
    item = (await shop.ended(seller, await shop.publish(seller, [sku], category="MCO195399"))).items[0]
    listing = await shop.listing(seller, sku)

    assert item.category_id == listing["category_id"] == "MCO195301"
    assert listing["category_name"] is None


async def test_a_category_that_is_not_told_for_a_moment_does_not_fail_its_items(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the category's limits more pictures are sent than it takes."""
    nothing_known(monkeypatch, shop)
    monkeypatch.setattr("core.marketplace.connector.CATEGORY_FAILED_SECONDS", 0.2)
    (sku,) = await shop.stock("MOMENT", image_urls=IMAGES)
    rule = shop.fault(seller, "error_500", operation="category", times=1)
    ended = await shop.ended(seller, await shop.publish(seller, [sku], category=FEW_PICTURES))

    assert shop.fired(rule) == 1
    assert ended.codes() == [None]
    assert len(shop.on_market(seller, sku)) == 1


async def test_a_category_whose_look_up_is_throttled_is_waited_for(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the category's limits the title is cut to the usual ones."""
    nothing_known(monkeypatch, shop)
    title = "Maleta rígida mediana con ruedas giratorias y candado de combinación, color azul marino, 65 litros"
    (sku,) = await shop.stock("THROTT", title=title)
    # Asked for its name, and then for its limits.
    rule = shop.fault(seller, "rate_limit_seconds", operation="category", seconds=1, times=2)
    await shop.ended(seller, await shop.publish(seller, [sku], category=LONG_TITLE))
    (item,) = shop.on_market(seller, sku)

    assert item["title"] == title
    assert shop.fired(rule) == 2


def nothing_known(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> None:
    """The worker has to ask for every category."""
    monkeypatch.setattr(shop.worker.context.marketplace, "_categories", {})


async def test_a_title_without_a_suggestion_fails(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("DIGIT", title="12345 67890")
    ended = await shop.ended(seller, await shop.publish(seller, [sku], category=None))
    assert (ended.codes(), ended.items[0].retryable) == (["category_not_found"], False)


async def test_a_promotion_takes_category_and_price_as_they_were_tested(shop: Shop, seller: Tenant) -> None:
    changed, costless, gone = await shop.stock("PROMO", 3)
    tested = await shop.ended(seller, await shop.publish(seller, [changed, costless, gone], category=None))
    await shop.put(product(changed, cost_usd=Decimal(500)), product(costless, cost_usd=None))
    await administration.update_seller(shop.application.database, seller.seller_id, {"trm": 9999})
    await shop.change("DELETE FROM products WHERE sku = %s", gone)
    ended = await shop.ended(seller, await shop.promote(seller, [changed, costless, gone]))

    assert ended.codes() == [None, None, "product_unknown"]
    for before, after in list(zip(tested.items, ended.items, strict=True))[:2]:
        assert (after.price, after.category_id) == (before.price, before.category_id)
        assert shop.on_market(seller, after.sku, LIVE)[0]["price"] == before.price
        assert (await shop.listing(seller, after.sku, LIVE))["category_name"]
    assert await seller.credits() == (1000, 998, 0, 2, 3)


async def test_a_promotion_whose_test_listing_has_gone_is_refused(shop: Shop, seller: Tenant) -> None:
    sku, _ = skus = await shop.stock("GONE", 2)
    await shop.ended(seller, await shop.publish(seller, skus))
    blocked = shop.fault(seller, "delay_before", LIVE, operation="users_me", seconds=0.5)
    job_id = await shop.promote(seller, skus)
    await shop.change(
        "UPDATE listings SET status_meli = 'closed', app_status = 0 WHERE seller_id = %s AND environment = 'test'"
        " AND sku = %s", seller.seller_id, sku,
    )  # fmt: skip
    ended = await shop.ended(seller, job_id)
    shop.forget(blocked)

    assert ended.codes() == ["not_promotable", None]
    assert await seller.credits() == (1000, 999, 0, 1, 2)


async def test_a_live_publication_takes_over_the_test_run_unless_a_category_is_named(
    shop: Shop, seller: Tenant
) -> None:
    taken, named = await shop.stock("OVER", 2)
    tested = await shop.ended(seller, await shop.publish(seller, [taken, named], category=None))
    await shop.put(product(taken, cost_usd=Decimal(80)), product(named, cost_usd=Decimal(80)))
    first = (await shop.ended(seller, await shop.publish(seller, [taken], environment=LIVE, category=None))).items[0]
    second = (await shop.ended(seller, await shop.publish(seller, [named], environment=LIVE))).items[0]
    # Once it is on the real account, the test run is no longer what counts.
    third = (await shop.ended(seller, await shop.publish(seller, [taken], environment=LIVE, category=None))).items[0]

    assert (first.price, first.category_id) == (tested.items[0].price, tested.items[0].category_id)
    assert (second.price, second.category_id) == (await price_of(shop, seller, "80"), CATEGORY)
    assert (third.price, third.listing_id) == (await price_of(shop, seller, "80"), first.listing_id)


async def test_published_to_live_stays_true_when_the_sku_is_tested_again(shop: Shop, seller: Tenant) -> None:
    published, untouched = await shop.stock("FLAG", 2)
    await shop.ended(seller, await shop.publish(seller, [published, untouched]))
    before = await shop.listing(seller, published)
    await shop.ended(seller, await shop.publish(seller, [published], environment=LIVE))
    await shop.ended(seller, await shop.publish(seller, [published]))
    after = await shop.listing(seller, published)

    assert (before["published_to_live"], after["published_to_live"]) == (False, True)
    assert (await shop.listing(seller, untouched))["published_to_live"] is False
    with pytest.raises(ApiError) as refused:
        await shop.promote(seller, [published])
    assert refused.value.code == "E_PROMOTE_NO_CANDIDATES"


# Jobs.


async def test_a_job_that_is_cancelled_while_it_runs_keeps_what_was_published(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("MIDST", 400)
    shop.fault(seller, "delay_before", LIVE, operation="item_create", seconds=0.2)
    job_id = await shop.publish(seller, skus, environment=LIVE)

    async def some() -> bool:
        return (await shop.job(seller, job_id)).successful > 0

    await until(some)
    cancelled = await shop.cancel(seller, job_id)
    ended = await shop.ended(seller, job_id)

    assert cancelled.items > 0
    assert cancelled.in_flight > 0
    assert ended.job.status is JobStatus.CANCELLED
    assert set(ended.codes()) == {None, "cancelled"}
    assert ended.job.skipped >= cancelled.items
    assert ended.job.successful == shop.created(seller, LIVE)
    published = ended.job.successful
    assert await seller.credits() == (1000, 1000 - published, 0, published, 0)


async def test_a_retry_sends_the_retryable_items_again_and_keeps_the_sequence_whole(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The pauses between five tries would take a quarter of a minute.
    monkeypatch.setattr(decide, "MAX_TRIES", 2)
    skus = await shop.stock("AGAIN", 6)
    (unpriced,) = await shop.stock("NOPE", cost_usd=None)
    rule = shop.fault(seller, "conflict_409", LIVE, operation="item_create", sku=skus[2])
    shop.fault(seller, "conflict_409", LIVE, operation="item_create", sku=skus[4], times=2)
    job_id = await shop.publish(seller, [*skus, unpriced], environment=LIVE)
    first = await shop.ended(seller, job_id)
    retried = await shop.retry(seller, job_id)
    held = (await seller.credits())[2]
    shop.forget(rule)
    second = await shop.ended(seller, job_id)

    assert first.job.status is JobStatus.COMPLETED
    assert first.codes() == [None, None, "marketplace_conflict", None, "marketplace_conflict", None, "price_missing"]
    assert [item.attempts for item in first.items] == [1, 1, 2, 1, 2, 1, 0]
    assert (retried.items, retried.job.status, retried.job.completed_at) == (2, JobStatus.QUEUED, None)
    assert held == 2
    assert second.codes() == [None] * 6 + ["price_missing"]
    assert second.job.last_sequence == 7 + 2
    assert await seller.credits() == (1000, 994, 0, 6, 0)
    with pytest.raises(ApiError) as refused:
        await shop.retry(seller, job_id)
    assert refused.value.code == "E_JOB_NOT_RETRYABLE"


def due(job_id: str) -> tuple[str, str]:
    return "UPDATE jobs SET scheduled_for = now() + interval '0.6 seconds' WHERE job_id = %s", job_id


async def test_a_schedule_is_kept_to_the_moment_and_never_early(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("CLOCK")
    moment = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M")
    job_id = await shop.publish(seller, [sku], environment=LIVE, scheduled_for=moment)
    scheduled = await shop.job(seller, job_id)
    await shop.change("UPDATE work_runs SET due_at = now() - interval '1 hour' WHERE job_id = %s", job_id)
    await shop.change(*due(job_id))
    ended = await shop.ended(seller, job_id)

    assert (scheduled.status, scheduled.pending) == (JobStatus.SCHEDULED, 1)
    assert scheduled.waiting_reason == f"scheduled for {moment}Z"
    assert ended.job.scheduled_for is not None
    assert ended.job.started_at is not None
    assert ended.job.scheduled_for <= ended.job.started_at < ended.job.scheduled_for + timedelta(seconds=10)
    assert ended.job.status is JobStatus.COMPLETED


async def test_a_scheduled_job_that_is_cancelled_never_runs(shop: Shop, seller: Tenant) -> None:
    sku, other = await shop.stock("NEVER", 2)
    moment = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M")
    job_id = await shop.publish(seller, [sku], environment=LIVE, scheduled_for=moment)
    await shop.cancel(seller, job_id)
    await shop.change(*due(job_id))
    await shop.ended(seller, await shop.publish(seller, [other], environment=LIVE))
    ended = await shop.ended(seller, job_id)

    assert (ended.job.status, ended.codes()) == (JobStatus.CANCELLED, ["cancelled"])
    assert shop.on_market(seller, sku, LIVE) == []
    assert await seller.credits() == (1000, 999, 0, 1, 0)


@pytest.mark.parametrize("scheduled", [False, True])
async def test_a_test_job_without_an_account_fails_at_once(shop: Shop, scheduled: bool) -> None:
    seller = await shop.tenant(connected=["live"])
    skus = await shop.stock("ALONE", 3)
    moment = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M") if scheduled else None
    job_id = await shop.publish(seller, [*skus, skus[0]], scheduled_for=moment)
    ended = await shop.look(seller, job_id)

    assert ended.job.status is JobStatus.FAILED
    assert ended.job.error_message
    assert ended.codes() == ["account_not_connected"] * 3 + ["duplicate_sku"]
    assert [item.retryable for item in ended.items] == [True, True, True, False]
    await shop.check(seller, ended)


async def test_an_account_disconnected_while_a_job_is_scheduled_is_told_when_it_starts(
    shop: Shop, seller: Tenant
) -> None:
    (sku,) = await shop.stock("OFF")
    moment = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M")
    job_id = await shop.publish(seller, [sku], environment=LIVE, scheduled_for=moment)
    await administration.disconnect_account(shop.application.database, seller.seller_id, LIVE)
    before = await shop.job(seller, job_id)
    await shop.change(*due(job_id))
    ended = await shop.ended(seller, job_id)

    assert before.status is JobStatus.SCHEDULED
    assert (ended.job.status, ended.codes()) == (JobStatus.FAILED, ["account_not_connected"])
    assert ended.items[0].retryable
    assert await seller.credits() == (1000, 1000, 0, 0, 0)


async def test_another_user_connected_to_the_account_gets_listings_of_its_own(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("USER")
    first_user, second_user = seller.marketplace_users[TEST], seller.marketplace_users[TEST] + 1

    async def connect(user: int) -> None:
        await administration.connect_account(
            shop.application.database, shop.application.cipher, seller.seller_id, TEST,
            marketplace_user_id=user, access_token=f"APP_USR-again-{user}",
        )  # fmt: skip

    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    await connect(second_user)
    gone = await shop.listing(seller, sku)
    second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    await connect(first_user)
    third = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]

    assert gone["app_status"] == 0
    assert [item.status for item in (first, second, third)] == ["success"] * 3
    assert second.listing_id != first.listing_id
    assert third.listing_id == first.listing_id
    assert [item["user_id"] for item in shop.sandbox.items(sku=sku)] == [first_user, second_user]


async def test_jobs_of_the_other_environment_are_not_touched_by_an_account_that_stops(
    shop: Shop, seller: Tenant
) -> None:
    skus = await shop.stock("OTHER", 3)
    shop.fault(seller, "payment_402", LIVE)
    live = await shop.publish(seller, skus, environment=LIVE)
    test = await shop.publish(seller, skus, environment=TEST)

    assert (await shop.ended(seller, live)).job.status is JobStatus.FAILED
    assert (await shop.ended(seller, test)).job.status is JobStatus.COMPLETED
