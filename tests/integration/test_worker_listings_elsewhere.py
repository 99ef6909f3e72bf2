"""Listings that the seller, or a tool of the seller's, makes, closes and makes anew: a SKU never gets a second one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.publishing import TEST, Gate, Shop, leave_out_once, publishing, until
from tests.support.sandbox import RunningSandbox, run_sandbox
from tests.support.service import Tenant


@pytest.fixture(scope="module")
def market() -> Iterator[RunningSandbox]:
    with run_sandbox("--index-lag-seconds", "0", "--picture-delay-seconds", "0.1") as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module")
async def shop(database_url: str, market: RunningSandbox) -> AsyncIterator[Shop]:
    async with publishing(database_url, market) as opened:
        yield opened


@pytest_asyncio.fixture
async def seller(shop: Shop) -> Tenant:
    return await shop.tenant(balance=1000)


@pytest.fixture
def pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest listings come by two and not by a hundred."""
    for module in ("core.marketplace.connector", "core.worker.accounts"):
        monkeypatch.setattr(f"{module}.NEWEST_PAGE", 2)


def open_ids(shop: Shop, seller: Tenant, sku: str) -> list[str]:
    return [each["id"] for each in shop.on_market(seller, sku)]


# Looking through the account.


@pytest.mark.usefixtures("pages_of_two")
async def test_a_listing_made_by_hand_while_a_job_publishes_is_found_by_the_next(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job makes more listings after it than a page holds, and all of those are known."""
    (first,), (by_hand,), skus = await shop.stock("FIRST"), await shop.stock("HAND"), await shop.stock("MANY", 5)
    await shop.ended(seller, await shop.publish(seller, [first]))
    gate = Gate("before_send")
    monkeypatch.setattr(shop.worker.context, "reached", gate)
    job_id = await shop.publish(seller, skus)
    await gate.arrived()
    listing_id = await shop.make_by_hand(seller, by_hand)
    gate.open()
    await shop.ended(seller, job_id)
    ended = await shop.ended(seller, await shop.publish(seller, [by_hand]))

    assert open_ids(shop, seller, by_hand) == [listing_id]
    assert ended.items[0].listing_id == listing_id


@pytest.mark.usefixtures("pages_of_two")
async def test_a_look_through_the_account_that_was_cut_short_is_taken_to_its_end(shop: Shop, seller: Tenant) -> None:
    """The second page fails: what the first one told is on record by then, what the second one would is not."""
    await shop.ended(seller, await shop.publish(seller, await shop.stock("FIRST")))
    skus = await shop.stock("HAND", 4)
    made = [await shop.make_by_hand(seller, sku) for sku in skus]
    rule = shop.fault(seller, "error_503", operation="item_search", skip=1, times=1)
    ended = await shop.ended(seller, await shop.publish(seller, [skus[0]]))

    assert shop.fired(rule) == 1
    assert open_ids(shop, seller, skus[0]) == [made[0]]
    assert ended.items[0].listing_id == made[0]


@pytest.mark.usefixtures("pages_of_two")
async def test_more_new_listings_than_can_be_paged_through_are_not_taken_for_all(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After all were known a tool makes more than the thousand that can be paged through, which are four here."""
    monkeypatch.setattr("core.worker.accounts.MAX_OFFSET", 4)
    await shop.ended(seller, await shop.publish(seller, await shop.stock("FIRST")))
    skus = await shop.stock("TOOL", 8)
    made = [await shop.make_by_hand(seller, sku) for sku in skus]
    ended = await shop.ended(seller, await shop.publish(seller, [skus[0]]))

    assert open_ids(shop, seller, skus[0]) == [made[0]]
    assert ended.items[0].listing_id == made[0]


async def test_a_listing_that_the_look_through_is_not_told_of_gets_no_double(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sku,) = await shop.stock("UNTOLD")
    by_hand = await shop.make_by_hand(seller, sku)
    untold = leave_out_once(monkeypatch, shop.worker, by_hand)
    ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    assert untold.is_set()
    assert open_ids(shop, seller, sku) == [by_hand]
    assert ended.items[0].listing_id == by_hand


async def test_a_retry_looks_through_the_account_again(shop: Shop, seller: Tenant) -> None:
    """Days may lie between a job and its retry, in which the seller helps himself."""
    (sku,) = await shop.stock("RETRY")
    rule = shop.fault(seller, "payment_402", operation="item_create", sku=sku)
    job_id = await shop.publish(seller, [sku])
    first = await shop.ended(seller, job_id)
    shop.forget(rule)
    by_hand = await shop.make_by_hand(seller, sku)
    await shop.retry(seller, job_id)
    second = await shop.ended(seller, job_id)

    assert first.codes() == ["account_payment_required"]
    assert open_ids(shop, seller, sku) == [by_hand]
    assert second.items[0].listing_id == by_hand


# Listings that the seller closes and makes anew.


async def test_a_listing_that_the_seller_closed_and_made_anew_is_changed(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("ANEW")
    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert first.listing_id is not None
    shop.sandbox.change_item(first.listing_id, status="closed")
    by_hand = await shop.make_by_hand(seller, sku)
    ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    assert open_ids(shop, seller, sku) == [by_hand]
    assert ended.items[0].listing_id == by_hand


async def test_a_second_listing_that_the_seller_made_before_closing_the_first_is_changed(
    shop: Shop, seller: Tenant
) -> None:
    """A job has seen both of them before; a check has seen the closing."""
    sku, other = await shop.stock("BESIDE", 2)
    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert first.listing_id is not None
    by_hand = await shop.make_by_hand(seller, sku)
    await shop.ended(seller, await shop.publish(seller, [other]))
    shop.sandbox.change_item(first.listing_id, status="closed")

    async def seen() -> bool:
        await shop.change(
            "UPDATE follow_ups SET due_at = now() WHERE seller_id = %s AND leased_until IS NULL", seller.seller_id
        )
        return bool((await shop.listing(seller, sku, TEST))["status_meli"] == "closed")

    await until(seen)
    ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    assert open_ids(shop, seller, sku) == [by_hand]
    assert ended.items[0].listing_id == by_hand
