"""Two of them at once: a worker held at a named point while a cancellation, a rescue or another job comes in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from core.domain.states import JobStatus
from tests.support.publishing import LIVE, TEST, Gate, Shop, publishing, until
from tests.support.sandbox import RunningSandbox, run_sandbox


@pytest.fixture(scope="module")
def market() -> Iterator[RunningSandbox]:
    with run_sandbox("--index-lag-seconds", "0", "--picture-delay-seconds", "0") as sandbox:
        yield sandbox


@pytest_asyncio.fixture
async def shop(own_database_url: str, market: RunningSandbox) -> AsyncIterator[Shop]:
    """A shop without a worker, on a database of its own."""
    async with publishing(own_database_url, market, working=False) as opened:
        yield opened


async def test_an_item_that_comes_back_untried_into_a_cancelled_job_is_skipped(shop: Shop) -> None:
    seller = await shop.tenant(balance=5)
    skus = await shop.stock("BACK", 5)
    throttled = shop.fault(seller, "rate_limit_seconds", LIVE, operation="item_create", seconds=1)
    gate = Gate("before_send")
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, skus, environment=LIVE)
        await gate.arrived()
        cancelled = await shop.cancel(seller, job_id)
        gate.open()
        ended = await shop.ended(seller, job_id)

    assert (cancelled.items, cancelled.in_flight) == (0, 5)
    assert shop.fired(throttled) > 0
    assert (ended.job.status, ended.job.skipped) == (JobStatus.CANCELLED, 5)
    assert ended.codes() == ["cancelled"] * 5
    assert await seller.credits() == (5, 5, 0, 0, 0)


async def test_updates_of_a_dead_worker_in_a_cancelled_job_are_skipped(shop: Shop) -> None:
    seller = await shop.tenant(balance=5)
    (sku,) = await shop.stock("DEAD")
    async with shop.working():
        await shop.ended(seller, await shop.publish(seller, [sku], environment=LIVE))
    gate = Gate("after_intent_commit")
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, [sku], environment=LIVE)
        await gate.arrived()
        await shop.cancel(seller, job_id)
        await shop.change("UPDATE work_runs SET owner = gen_random_uuid(), leased_until = now() - interval '1 second'")
        async with shop.working():
            ended = await shop.ended(seller, job_id)
        gate.open()

    assert (ended.job.status, ended.codes()) == (JobStatus.CANCELLED, ["cancelled"])
    assert await seller.credits() == (5, 4, 0, 1, 0)


async def test_items_that_come_back_into_a_stopped_job_fail_with_its_reason(shop: Shop) -> None:
    """Two runs: the account is refused in one while the items of the other are throttled."""
    seller = await shop.tenant()
    skus = await shop.stock("STOP", 101)
    shop.fault(seller, "rate_limit_seconds", TEST, operation="item_create", sku=skus[100], seconds=1)
    shop.fault(seller, "payment_402", TEST, operation="item_create")
    gate = Gate("before_send")
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, skus)
        await gate.arrived()
        gate.open()
        ended = await shop.ended(seller, job_id)

    assert ended.job.status is JobStatus.FAILED
    assert set(ended.codes()) == {"account_payment_required"}
    assert all(item.retryable for item in ended.items)


async def test_a_listing_that_is_gone_when_the_intents_stand_is_searched_for_after_a_crash(shop: Shop) -> None:
    """Planned as an update, sent as a creation: a crash then must not be taken for a lost update."""
    seller = await shop.tenant()
    (sku,) = await shop.stock("KIND")
    async with shop.working():
        await shop.ended(seller, await shop.publish(seller, [sku]))
    first = await shop.listing(seller, sku)
    planned = Gate("before_intent_commit")
    async with shop.working(reached=planned) as dying:
        job_id = await shop.publish(seller, [sku])
        await planned.arrived()
        # Between the plan and the intents another process learns that the listing was closed.
        shop.sandbox.change_item(first["listing_id"], status="closed")
        await shop.change("UPDATE listings SET status_meli = 'closed', app_status = 0 WHERE sku = %s", sku)
        planned.open()
        await until(lambda: made_again(shop, seller, sku))
        kinds = await shop.rows("SELECT kind FROM intents WHERE sku = %s", sku)
        assert dying.context.owner
        ended = await shop.ended(seller, job_id)

    assert kinds in ([], [("create",)])
    assert ended.items[0].listing_id != first["listing_id"]


async def made_again(shop: Shop, seller: object, sku: str) -> bool:
    return len(shop.on_market(seller, sku)) == 1  # type: ignore[arg-type]
