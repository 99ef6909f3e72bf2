"""What happens to a listing after its publication: descriptions, slow pictures, moderation, late doubles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from core.domain.states import Environment
from core.storage import listings
from tests.support.publishing import LIVE, TEST, Shop, leave_out_once, product, publishing, until
from tests.support.sandbox import RunningSandbox, run_sandbox
from tests.support.service import Tenant


@pytest.fixture(scope="module")
def market() -> Iterator[RunningSandbox]:
    with run_sandbox("--index-lag-seconds", "0", "--picture-delay-seconds", "0.3") as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module")
async def shop(database_url: str, market: RunningSandbox) -> AsyncIterator[Shop]:
    async with publishing(database_url, market) as opened:
        yield opened


@pytest_asyncio.fixture
async def seller(shop: Shop) -> Tenant:
    return await shop.tenant()


async def becomes(shop: Shop, seller: Tenant, sku: str, *, environment: Environment = TEST, **wanted: Any) -> None:
    """The stored listing becomes so once it is looked at again; brings its checks forward as time would."""

    async def so() -> bool:
        await bring_forward(shop, seller, "check")
        listing = await shop.listing(seller, sku, environment)
        return all(listing[name] == value for name, value in wanted.items())

    await until(so, what=f"{wanted}")


async def bring_forward(shop: Shop, seller: Tenant, kind: str) -> int:
    return await shop.change(
        "UPDATE follow_ups SET due_at = now() WHERE seller_id = %s AND kind = %s AND leased_until IS NULL",
        seller.seller_id, kind,
    )  # fmt: skip


def described(shop: Shop, seller: Tenant, sku: str) -> str | None:
    (item,) = shop.on_market(seller, sku)
    description: str | None = item["description"]
    return description


async def test_a_listing_whose_pictures_load_counts_as_active_and_becomes_active(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("PICTUR")
    item = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    at_first = await shop.listing(seller, sku)
    await becomes(shop, seller, sku, status_meli="active", app_status=1)
    shown = (await shop.look(seller, (await newest(shop, seller)))).items[0]

    assert (item.status, at_first["status_meli"], at_first["app_status"]) == ("success", "paused", 1)
    assert shown.status_meli == "active"


async def newest(shop: Shop, seller: Tenant) -> str:
    ((job_id,),) = await shop.rows(
        "SELECT job_id::text FROM jobs WHERE seller_id = %s ORDER BY job_number DESC LIMIT 1", seller.seller_id
    )
    return str(job_id)


@pytest.mark.parametrize(
    ("change", "status", "app_status"),
    [
        ({"status": "paused"}, "paused", 0),
        ({"status": "under_review", "sub_status": ["forbidden"]}, "under_review", 1),
        ({"status": "closed"}, "closed", 0),
        ({"status": "inactive"}, "inactive", 1),
    ],
)
async def test_what_becomes_of_a_listing_is_seen(
    shop: Shop, seller: Tenant, change: dict[str, Any], status: str, app_status: int
) -> None:
    (sku,) = await shop.stock("LATER")
    await shop.ended(seller, await shop.publish(seller, [sku]))
    await becomes(shop, seller, sku, status_meli="active")
    shop.sandbox.change_item((await shop.listing(seller, sku))["listing_id"], **change)
    await becomes(shop, seller, sku, status_meli=status, app_status=app_status)
    candidates = await shop.rows(
        "SELECT 1 FROM listings WHERE seller_id = %s AND app_status = 1 AND status_meli NOT IN ('closed', 'inactive')",
        seller.seller_id,
    )
    assert bool(candidates) == (status == "under_review")


async def test_a_listing_that_was_published_again_is_checked_by_the_newer_check_alone(
    shop: Shop, seller: Tenant
) -> None:
    (sku,) = await shop.stock("CHAIN")

    async def checks() -> int:
        return len(
            await shop.rows("SELECT 1 FROM follow_ups WHERE seller_id = %s AND kind = 'check'", seller.seller_id)
        )

    for _ in range(4):
        await shop.ended(seller, await shop.publish(seller, [sku]))
    many = await checks()
    await becomes(shop, seller, sku, status_meli="active")

    async def one() -> bool:
        await bring_forward(shop, seller, "check")
        return await checks() == 1

    await until(one)
    assert many >= 2


async def test_a_listing_that_a_check_was_not_told_of_is_checked_again(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sku,) = await shop.stock("UNTOLD")
    item = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert item.listing_id is not None
    untold = leave_out_once(monkeypatch, shop.worker, item.listing_id)

    async def checked() -> bool:
        await bring_forward(shop, seller, "check")
        return untold.is_set()

    await until(checked)

    async def over() -> bool:
        busy = "SELECT 1 FROM follow_ups WHERE seller_id = %s AND kind = 'check' AND leased_until IS NOT NULL"
        return not await shop.rows(busy, seller.seller_id)

    await until(over)
    checks = "SELECT skus FROM follow_ups WHERE seller_id = %s AND kind = 'check'"
    assert await shop.rows(checks, seller.seller_id) == [([sku],)]
    await becomes(shop, seller, sku, status_meli="active")


async def test_descriptions_are_written_after_the_item_has_its_result(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("TEXT", 3, description="Una maleta de tamaño mediano.")
    rule = shop.fault(seller, "error_503", operation="description_create", times=2)
    await shop.ended(seller, await shop.publish(seller, skus))

    async def all_described() -> bool:
        await bring_forward(shop, seller, "description")
        return all(described(shop, seller, sku) for sku in skus)

    await until(all_described)
    creations = shop.created(seller)
    await shop.put(*(product(sku, description="Otro texto.") for sku in skus))
    await shop.ended(seller, await shop.publish(seller, skus))
    await until(lambda: changed(shop, seller, skus[0]))

    assert shop.fired(rule) == 2
    assert creations == shop.created(seller) == 3


async def changed(shop: Shop, seller: Tenant, sku: str) -> bool:
    return described(shop, seller, sku) == "Otro texto."


async def test_a_refused_description_leaves_the_item_as_it_is(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("NOTEXT", description="Un texto que no gusta.")
    rule = shop.fault(seller, "cause_as_string", operation="description_create")
    ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    async def over() -> bool:
        left = "SELECT 1 FROM follow_ups WHERE seller_id = %s AND kind = 'description'"
        return await shop.rows(left, seller.seller_id) == []

    await until(over)
    assert shop.fired(rule) >= 1
    assert (ended.items[0].status, described(shop, seller, sku)) == ("success", None)


async def test_descriptions_wait_for_an_account_that_is_refused_as_a_whole(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("WAIT", description="Para más tarde.")
    rule = shop.fault(seller, "forbidden_403", operation="description_create")
    await shop.ended(seller, await shop.publish(seller, [sku]))

    async def tried() -> bool:
        return shop.fired(rule) > 0

    await until(tried)
    shop.forget(rule)

    async def written() -> bool:
        await bring_forward(shop, seller, "description")
        return described(shop, seller, sku) == "Para más tarde."

    await until(written)
    assert shop.created(seller) == 1


async def test_a_creation_that_comes_after_the_repost_is_closed_and_counted(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("GHOST")
    shop.fault(seller, "created_late", LIVE, operation="item_create", sku=sku, seconds=3, then="reset", times=1)
    ended = await shop.ended(seller, await shop.publish(seller, [sku], environment=LIVE))
    item = ended.items[0]

    async def doubled() -> bool:
        return len(shop.on_market(seller, sku, LIVE)) == 2

    await until(doubled)

    async def closed() -> bool:
        await bring_forward(shop, seller, "late_creation")
        return [each["id"] for each in shop.on_market(seller, sku, LIVE)] == [item.listing_id]

    await until(closed)
    assert item.status == "success"
    assert shop.created(seller, LIVE) == 2


async def test_a_late_creation_that_the_last_look_cannot_close_is_closed_by_one_more(
    shop: Shop, seller: Tenant
) -> None:
    (sku,) = await shop.stock("STUCK")
    shop.fault(seller, "created_late", operation="item_create", sku=sku, seconds=3, then="reset", times=1)
    item = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]

    async def doubled() -> bool:
        return len(shop.on_market(seller, sku)) == 2

    await until(doubled)
    rule = shop.fault(seller, "conflict_409", operation="item_update", times=1)
    # Of four looks.
    await shop.change(
        "UPDATE follow_ups SET tries = 3 WHERE seller_id = %s AND kind = 'late_creation'", seller.seller_id
    )

    async def closed() -> bool:
        await bring_forward(shop, seller, "late_creation")
        return [each["id"] for each in shop.on_market(seller, sku)] == [item.listing_id]

    await until(closed, 5)
    assert shop.fired(rule) == 1


@pytest.mark.parametrize("published_before", [False, True])
async def test_a_late_creation_that_a_look_through_the_account_found_first_is_closed_too(
    shop: Shop, seller: Tenant, published_before: bool
) -> None:
    (sku,) = await shop.stock("LATER")
    if published_before:
        former = (await shop.ended(seller, await shop.publish(seller, [sku], environment=LIVE))).items[0]
        assert former.listing_id is not None
        shop.sandbox.change_item(former.listing_id, status="closed")
        await becomes(shop, seller, sku, environment=LIVE, status_meli="closed")
    shop.fault(seller, "created_late", LIVE, operation="item_create", sku=sku, seconds=6, then="reset", times=1)
    rule = shop.fault(seller, "reset_before", LIVE, operation="item_create", sku=sku)
    job_id = await shop.publish(seller, [sku], environment=LIVE)
    assert (await shop.ended(seller, job_id)).codes() == ["outcome_unknown"]
    shop.forget(rule)

    async def made() -> bool:
        return bool(shop.on_market(seller, sku, LIVE))

    await until(made)
    # Each job looks through the account's newest listings.
    await shop.ended(seller, await shop.publish(seller, await shop.stock("OTHER"), environment=LIVE))
    query = "SELECT status_meli <> 'closed' FROM listings WHERE seller_id = %s AND sku = %s"
    assert await shop.rows(query, seller.seller_id, sku) == [(True,)]

    async def closed() -> bool:
        await bring_forward(shop, seller, "late_creation")
        return not shop.on_market(seller, sku, LIVE)

    await until(closed)
    assert await shop.rows(query, seller.seller_id, sku) == [(False,)]
    await shop.retry(seller, job_id)
    item = (await shop.ended(seller, job_id)).items[0]
    assert item.status == "success"
    assert [each["id"] for each in shop.on_market(seller, sku, LIVE)] == [item.listing_id]


async def test_only_a_listing_that_nothing_is_or_was_sent_to_is_disowned(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("DISOWN")
    item = (await shop.ended(seller, await shop.publish(seller, [sku], environment=TEST))).items[0]

    assert item.listing_id is not None
    listing_id = item.listing_id

    doubtful = datetime.now(UTC) - timedelta(hours=1)

    async def disowned() -> bool:
        return await shop.application.database.transact(
            lambda connection: listings.disown(connection, seller.seller_id, TEST, sku, listing_id, since=doubtful)
        )

    assert not await disowned()
    await shop.change(
        "UPDATE listings SET published_at = %s WHERE seller_id = %s", doubtful - timedelta(seconds=1), seller.seller_id
    )
    await shop.change(
        "INSERT INTO intents (seller_id, environment, sku, job_id, ordinal, first_ordinal, fence, owner, kind, attempt,"
        " state, draft, started_at) SELECT seller_id, 'test', %s, job_id, 0, 0, 0, gen_random_uuid(), 'update', 1,"
        " 'sending', '{}', now() FROM jobs WHERE seller_id = %s",
        sku, seller.seller_id,
    )  # fmt: skip
    assert not await disowned()
    await shop.change("DELETE FROM intents WHERE seller_id = %s", seller.seller_id)
    assert await disowned()
    assert not await disowned()


async def test_a_listing_just_made_is_not_taken_for_a_late_creation(shop: Shop, seller: Tenant) -> None:
    """The first job gave up; a retry has made the listing and its answer is not on record yet."""
    (sku,) = await shop.stock("FRESH")
    rule = shop.fault(seller, "reset_before", operation="item_create", sku=sku)
    job_id = await shop.publish(seller, [sku])
    assert (await shop.ended(seller, job_id)).codes() == ["outcome_unknown"]
    shop.forget(rule)
    # Made at once, told after seconds.
    shop.fault(seller, "delay_after", operation="item_create", sku=sku, seconds=0.9, times=1)
    await shop.retry(seller, job_id)

    async def made() -> bool:
        return bool(shop.on_market(seller, sku))

    await until(made)
    searches = shop.sandbox.requests("item_search")
    assert await bring_forward(shop, seller, "late_creation") == 1

    async def looked() -> bool:
        return shop.sandbox.requests("item_search") > searches

    await until(looked)
    ended = await shop.ended(seller, job_id)
    found = shop.on_market(seller, sku)

    assert ended.items[0].status == "success"
    assert [each["id"] for each in found] == [ended.items[0].listing_id]


async def test_follow_ups_of_one_seller_do_not_wait_behind_anothers_thousands(shop: Shop, seller: Tenant) -> None:
    other = await shop.tenant()
    (sku,) = await shop.stock("FAIR")
    await shop.ended(seller, await shop.publish(seller, [sku], environment=TEST))
    await shop.change(
        "WITH forward AS (UPDATE follow_ups SET due_at = now() WHERE seller_id = %s AND kind = 'check')"
        " INSERT INTO follow_ups (seller_id, follow_up_id, environment, kind, skus, due_at)"
        " SELECT %s, gen_random_uuid(), 'test', 'check', ARRAY['OTHER' || lpad(number::text, 5, '0')],"
        " now() - interval '1 hour' FROM generate_series(1, 5000) AS number",
        seller.seller_id, other.seller_id,
    )  # fmt: skip

    async def first_looked_at() -> bool:
        ((tries,),) = await shop.rows(
            "SELECT max(tries) FROM follow_ups WHERE seller_id = %s AND kind = 'check'", seller.seller_id
        )
        return int(tries) > 0

    await until(first_looked_at)
    assert await shop.change("DELETE FROM follow_ups WHERE seller_id = %s", other.seller_id) > 0


async def test_a_listing_that_the_seller_gave_to_another_product_is_changed_no_more(shop: Shop, seller: Tenant) -> None:
    sku, other = await shop.stock("GIVEN", 2)
    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    assert first.listing_id is not None
    headers = {"Authorization": f"Bearer APP_USR-9-9-9-{seller.marketplace_users[TEST]}"}
    given = {"attributes": [{"id": "SELLER_SKU", "value_name": other}]}
    async with (
        aiohttp.ClientSession(shop.sandbox.url, headers=headers) as session,
        session.put(f"/items/{first.listing_id}", json=given) as answer,
    ):
        assert answer.status == 200
    await becomes(shop, seller, sku, status_meli="closed")
    second = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]

    assert second.status == "success"
    assert second.listing_id != first.listing_id
    assert [each["id"] for each in shop.on_market(seller, other)] == [first.listing_id]
