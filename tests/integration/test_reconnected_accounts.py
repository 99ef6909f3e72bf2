"""Accounts that are connected to another user, or wrongly and then right, while there is work for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec
import pytest
import pytest_asyncio

from core.ports.marketplace import Account, StatesResult
from core.use_cases import administration
from tests.support.publishing import TEST, Gate, Shop, publishing
from tests.support.sandbox import RunningSandbox, run_sandbox
from tests.support.service import Tenant

DEADLINE = 20.0


@pytest.fixture(scope="module")
def market() -> Iterator[RunningSandbox]:
    with run_sandbox("--index-lag-seconds", "0.1", "--picture-delay-seconds", "0.1") as sandbox:
        yield sandbox


@pytest_asyncio.fixture
async def shop(database_url: str, market: RunningSandbox) -> AsyncIterator[Shop]:
    async with publishing(database_url, market, working=False) as opened:
        yield opened


async def connect(shop: Shop, seller: Tenant, user: int) -> None:
    await administration.connect_account(
        shop.application.database,
        shop.application.cipher,
        seller.seller_id,
        TEST,
        marketplace_user_id=user,
        access_token=f"APP_USR-again-{user}",
    )


async def test_a_wrong_connection_that_is_put_right_makes_no_second_listing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An account's row is believed for two seconds; people take longer.
    monkeypatch.setattr("core.worker.accounts.CONTEXT_SECONDS", 0.0)
    seller = await shop.tenant(balance=1000)
    first_user = seller.marketplace_users[TEST]
    (sku,) = await shop.stock("PUTRIGHT")
    by_hand = await shop.make_by_hand(seller, sku)
    async with shop.working():
        first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
        await connect(shop, seller, first_user + 1)
        await connect(shop, seller, first_user)
        second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert first.listing_id == second.listing_id == by_hand
    assert len(shop.on_market(seller, sku)) == 1


async def test_a_send_on_the_wire_to_a_former_user_leaves_the_sku_publishable(shop: Shop) -> None:
    seller = await shop.tenant(balance=1000)
    first_user = seller.marketplace_users[TEST]
    sku, other = await shop.stock("WIRED", 2)
    gate = Gate("before_send")
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, [sku])
        await gate.arrived()
        await connect(shop, seller, first_user + 1)
        gate.open()
        first = (await shop.ended(seller, job_id)).items[0]
        second = await shop.ended(seller, await shop.publish(seller, [other, sku]))
    assert first.status == "success"
    assert [item.status for item in second.items] == ["success", "success"]
    found = shop.sandbox.items(sku=sku)
    assert second.items[1].listing_id in [item["id"] for item in found if item["user_id"] == first_user + 1]


async def test_a_check_on_the_wire_to_a_former_user_does_not_open_its_listing_again(shop: Shop) -> None:
    seller = await shop.tenant(balance=1000)
    second_user = seller.marketplace_users[TEST] + 1
    (sku,) = await shop.stock("CHECK")
    asked, go_on = asyncio.Event(), asyncio.Event()
    async with shop.working() as worker:
        await shop.ended(seller, await shop.publish(seller, [sku]))
        market = worker.context.marketplace
        look = market.get_listings

        async def slow(account: Account, listing_ids: Sequence[str]) -> StatesResult:
            states = await look(account, listing_ids)
            asked.set()
            await go_on.wait()
            return states

        market.get_listings = slow  # type: ignore[method-assign]
        await shop.change("UPDATE follow_ups SET due_at = now() WHERE seller_id = %s", seller.seller_id)
        async with asyncio.timeout(DEADLINE):
            await asked.wait()
        await connect(shop, seller, second_user)
        market.get_listings = look  # type: ignore[method-assign]
        go_on.set()
        again = await shop.ended(seller, await shop.publish(seller, [sku]))
    assert again.items[0].status == "success"
    assert [item["user_id"] for item in shop.sandbox.items(sku=sku)][-1] == second_user


@pytest.mark.parametrize("told", ["untold", "missing"])
async def test_a_listing_that_the_look_through_did_not_get_told_is_asked_for_again(shop: Shop, told: str) -> None:
    """One entry of a multiget fails once, with a code of its own."""
    seller = await shop.tenant(balance=1000)
    other, sku = await shop.stock("UNTOLD", 2)
    by_hand = await shop.make_by_hand(seller, sku)
    async with shop.working() as worker:
        market = worker.context.marketplace
        look = market.get_listings
        lost: list[str] = []

        async def losing(account: Account, listing_ids: Sequence[str]) -> StatesResult:
            states = await look(account, listing_ids)
            if by_hand in states.listings and not lost:
                lost.append(by_hand)
                rest = {key: value for key, value in states.listings.items() if key != by_hand}
                missing = (*states.missing, *([by_hand] if told == "missing" else []))
                states = msgspec.structs.replace(states, listings=rest, missing=missing)
            return states

        market.get_listings = losing  # type: ignore[method-assign]
        await shop.ended(seller, await shop.publish(seller, [other]))
        second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert lost
    assert second.listing_id == by_hand
    assert len(shop.on_market(seller, sku)) == 1


async def test_a_listing_taken_over_and_then_taken_for_closed_is_found_again(shop: Shop) -> None:
    seller = await shop.tenant(balance=1000)
    (sku,) = await shop.stock("WRONG")
    by_hand = await shop.make_by_hand(seller, sku)
    async with shop.working():
        first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
        await shop.change("UPDATE listings SET status_meli = 'closed', app_status = 0 WHERE sku = %s", sku)
        second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert first.listing_id == second.listing_id == by_hand
    assert len(shop.on_market(seller, sku)) == 1
