"""Workers that die, stall, stop and start: leases, fences, recovery, and what nobody must wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from core.domain.states import JobStatus
from tests.support.publishing import LIVE, TEST, Ended, Gate, Shop, publishing, until
from tests.support.sandbox import RunningSandbox, run_sandbox
from tests.support.service import Tenant

STOLEN = "UPDATE work_runs SET owner = gen_random_uuid(), leased_until = now() - interval '1 second'"
"""As when the holder's lease has ended: nobody renews it any more."""


@pytest.fixture(scope="module")
def market() -> Iterator[RunningSandbox]:
    with run_sandbox("--index-lag-seconds", "0", "--picture-delay-seconds", "0") as sandbox:
        yield sandbox


@pytest_asyncio.fixture
async def shop(own_database_url: str, market: RunningSandbox) -> AsyncIterator[Shop]:
    """A shop without a worker, on a database of its own."""
    async with publishing(own_database_url, market, working=False) as opened:
        yield opened


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"listings_{name}", labels) or 0.0


def all_published_once(shop: Shop, seller: Tenant, ended: Ended) -> None:
    assert ended.job.status is JobStatus.COMPLETED
    for item in ended.items:
        assert [each["id"] for each in shop.on_market(seller, item.sku, LIVE)] == [item.listing_id]
    assert shop.created(seller, LIVE) == len(ended.items)


async def test_a_worker_that_dies_after_its_sends_is_rescued_and_its_late_results_are_fenced_off(shop: Shop) -> None:
    seller = await shop.tenant(balance=100)
    skus = await shop.stock("DEAD", 30)
    fenced, rescued = metric("fenced_writes_total"), metric("runs_rescued_total")
    doubted = metric("intents_unknown_total", cause="lease_ended")
    gate = Gate("after_send", dies=True)
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, skus, environment=LIVE)
        await gate.arrived()
        await until(lambda: all_made(shop, seller, 30))
        await shop.change(STOLEN)
        async with shop.working():
            ended = await shop.ended(seller, job_id)
        before = await seller.credits()
        gate.open()

        async def fenced_off() -> bool:
            return metric("fenced_writes_total") == fenced + 30

        await until(fenced_off)
        after = await shop.look(seller, job_id)

    all_published_once(shop, seller, ended)
    assert metric("runs_rescued_total") == rescued + 1
    assert metric("intents_unknown_total", cause="lease_ended") == doubted + 30
    assert after == ended
    assert before == await seller.credits() == (100, 70, 0, 30, 0)


async def all_made(shop: Shop, seller: Tenant, count: int) -> bool:
    return shop.created(seller, LIVE) == count


async def test_a_worker_that_lost_its_lease_begins_no_send(shop: Shop) -> None:
    seller = await shop.tenant()
    skus = await shop.stock("LATE", 5)
    lost = metric("leases_lost_total")
    gate = Gate("before_send", dies=True)
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, skus, environment=LIVE)
        await gate.arrived()
        await shop.change(STOLEN)

        async def noticed() -> bool:
            return metric("leases_lost_total") > lost

        await until(noticed)
        creations = shop.sandbox.requests("item_create")
        gate.open()

        async def given_up() -> bool:
            return await shop.rows("SELECT 1 FROM intents") == []

        await until(given_up)
        assert shop.sandbox.requests("item_create") == creations
    async with shop.working():
        all_published_once(shop, seller, await shop.ended(seller, job_id))


async def test_a_run_taken_over_before_its_intents_stand_sends_nothing(shop: Shop) -> None:
    seller = await shop.tenant()
    skus = await shop.stock("OVER", 5)
    gate = Gate("before_intent_commit", dies=True)
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, skus, environment=LIVE)
        await gate.arrived()
        await shop.change(STOLEN)
        async with shop.working():
            ended = await shop.ended(seller, job_id)
        gate.open()
    all_published_once(shop, seller, ended)
    # Nobody was in doubt: no intent stood when the run was taken over.
    assert [item.attempts for item in ended.items] == [1] * 5


async def test_a_run_that_nobody_holds_any_more_gets_no_intents(shop: Shop) -> None:
    """Its lease has ended and no other worker has come yet: what was sent now, nobody would answer for."""
    seller = await shop.tenant()
    skus = await shop.stock("STALE", 5)
    gate = Gate("before_intent_commit", dies=True)
    async with shop.working(reached=gate) as stale:
        job_id = await shop.publish(seller, skus, environment=LIVE)
        await gate.arrived()
        await shop.change("UPDATE work_runs SET leased_until = now() - interval '1 second'")
        creations = shop.sandbox.requests("item_create")
        gate.open()

        async def let_go() -> bool:
            return not stale._held

        await until(let_go)
        assert await shop.rows("SELECT 1 FROM intents") == []
        assert shop.sandbox.requests("item_create") == creations
    async with shop.working():
        all_published_once(shop, seller, await shop.ended(seller, job_id))


async def test_a_repost_whose_sender_dies_is_searched_for(shop: Shop) -> None:
    seller = await shop.tenant()
    (sku,) = await shop.stock("REPOST")
    shop.fault(seller, "reset_before", LIVE, operation="item_create", sku=sku, times=1)
    gate = Gate("after_repost_send", dies=True)
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, [sku], environment=LIVE)
        await gate.arrived()
        await shop.change("UPDATE intents SET owner = gen_random_uuid(), leased_until = now() - interval '1 second'")
        async with shop.working():
            ended = await shop.ended(seller, job_id)
        gate.open()
    all_published_once(shop, seller, ended)


async def test_a_worker_that_stops_in_the_middle_gives_its_runs_back_and_another_ends_the_job(shop: Shop) -> None:
    seller = await shop.tenant(balance=1000)
    skus = await shop.stock("STOP", 400)
    shop.fault(seller, "delay_before", LIVE, operation="item_create", seconds=0.2)
    async with shop.working() as stopping:
        job_id = await shop.publish(seller, skus, environment=LIVE)

        async def some() -> bool:
            return (await shop.job(seller, job_id)).successful > 0

        await until(some)
        assert stopping.context.owner
        started = time.monotonic()
    took = time.monotonic() - started
    job = await shop.job(seller, job_id)
    held = await shop.rows("SELECT 1 FROM work_runs WHERE owner IS NOT NULL OR due_at > now()")
    unanswered = await shop.rows("SELECT 1 FROM intents")
    async with shop.working():
        ended = await shop.ended(seller, job_id)

    assert took < 15
    assert 0 < job.successful < 400
    # What was on the wire was finished and recorded, nothing is left in doubt, and all is due now.
    assert (held, unanswered) == ([], [])
    all_published_once(shop, seller, ended)


async def test_sends_cut_off_by_a_stop_are_searched_for_by_the_next_worker(
    own_database_url: str, market: RunningSandbox
) -> None:
    settings = {"drain_seconds": 2, "marketplace_timeout_seconds": 10, "lease_seconds": 25}
    async with publishing(own_database_url, market, working=False, **settings) as shop:
        seller = await shop.tenant()
        skus = await shop.stock("CUT", 5)
        shop.fault(seller, "silence_after", LIVE, operation="item_create", sku=skus[2], times=1)
        async with shop.working():
            job_id = await shop.publish(seller, skus, environment=LIVE)
            await until(lambda: all_made(shop, seller, 5))
        states = await shop.rows("SELECT state, sku FROM intents")
        async with shop.working():
            ended = await shop.ended(seller, job_id)

    assert states == [("unknown", skus[2])]
    all_published_once(shop, seller, ended)


async def test_a_worker_never_waits_for_a_lease_it_holds_too_long(
    own_database_url: str, market: RunningSandbox
) -> None:
    """Renewals stop coming through: sends stop before the lease ends, though the worker itself is well."""
    settings = {"lease_seconds": 9, "marketplace_timeout_seconds": 0.5}
    async with publishing(own_database_url, market, working=False, **settings) as shop:
        seller = await shop.tenant()
        skus = await shop.stock("OLD", 3)
        renewals, sends = Gate("before_renewal", skip=1), Gate("before_send")

        async def gates(point: str) -> None:
            await renewals(point)
            await sends(point)

        async with shop.working(reached=gates) as worker:
            job_id = await shop.publish(seller, skus, environment=LIVE)
            await sends.arrived()
            held = next(iter(worker._held.values()))
            # As if the clock had moved on: seconds of waiting show nothing more.
            held.until = time.monotonic() + worker.context.send_margin - 0.1
            creations = shop.sandbox.requests("item_create")
            sends.open()

            async def back() -> bool:
                return await shop.rows("SELECT 1 FROM work_runs WHERE owner IS NOT NULL") == []

            await until(back)
            assert shop.sandbox.requests("item_create") == creations
            renewals.open()
            all_published_once(shop, seller, await shop.ended(seller, job_id))


async def test_an_update_that_waits_beyond_its_lease_is_not_made(
    own_database_url: str, market: RunningSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would overwrite what a later job has set since."""
    async with publishing(own_database_url, market, working=False) as shop:
        seller = await shop.tenant()
        (sku,) = await shop.stock("WAITS")
        async with shop.working():
            first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
        async with shop.working() as worker:
            marketplace, begun = worker.context.marketplace, asyncio.Event()
            update, updates = marketplace.update_listing, []

            async def waiting(account, listing_id, draft):  # type: ignore[no-untyped-def]
                updates.append(listing_id)
                if len(updates) == 1:
                    begun.set()
                    await asyncio.Event().wait()  # for a slot of the application's rate, say
                return await update(account, listing_id, draft)

            monkeypatch.setattr(marketplace, "update_listing", waiting)
            monkeypatch.setattr("core.worker.run.Held.seconds_left", lambda held: 0.3 if not begun.is_set() else 9.0)
            before = shop.sandbox.requests("item_update")
            ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    assert len(updates) == 2
    assert shop.sandbox.requests("item_update") == before + 1
    assert (ended.items[0].listing_id, ended.items[0].attempts) == (first.listing_id, 2)


async def test_a_schedule_whose_time_passed_while_no_worker_ran_runs_at_once(shop: Shop) -> None:
    seller = await shop.tenant()
    early, late = await shop.stock("PAST", 2)
    moment = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M")
    missed = await shop.publish(seller, [early], environment=LIVE, scheduled_for=moment)
    ahead = await shop.publish(seller, [late], environment=LIVE, scheduled_for=moment)
    past = "now() - interval '2 hours'"
    await shop.change(f"UPDATE jobs SET scheduled_for = {past} WHERE job_id = %s", missed)
    await shop.change(f"UPDATE work_runs SET due_at = {past} WHERE job_id = %s", missed)
    async with shop.working():
        ended = await shop.ended(seller, missed)
    async with shop.working():
        await shop.ended(seller, await shop.publish(seller, [early], environment=TEST))
        waiting = await shop.job(seller, ahead)

    assert ended.job.status is JobStatus.COMPLETED
    assert waiting.status is JobStatus.SCHEDULED
    assert shop.on_market(seller, late, LIVE) == []


# States that nothing leads to, and books that do not add up.


async def test_stranded_jobs_are_restored(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.worker.process.STRANDED_PERIOD", 0.3)
    seller = await shop.tenant(balance=100)
    skus = await shop.stock("STRAND", 6)
    without_runs = await shop.publish(seller, skus[:2], environment=LIVE)
    with_orphan = await shop.publish(seller, skus[2:4], environment=LIVE)
    cancelled = await shop.publish(seller, skus[4:], environment=LIVE)
    await shop.change("DELETE FROM work_runs WHERE job_id <> %s", with_orphan)
    await shop.change("UPDATE jobs SET status = 'processing' WHERE job_id = %s", without_runs)
    await shop.change("UPDATE jobs SET status = 'cancelled', completed_at = now() WHERE job_id = %s", cancelled)
    # A send that nobody answers for: its run was claimed anew since.
    await shop.change(
        "INSERT INTO intents (seller_id, environment, sku, job_id, ordinal, first_ordinal, fence, owner, kind, attempt,"
        " state, draft, started_at) SELECT seller_id, 'live', %s, job_id, 0, 0, 0, gen_random_uuid(), 'create', 1,"
        " 'sending', %s, now() FROM jobs WHERE job_id = %s",
        skus[2], DRAFT.replace("SKU", skus[2]), with_orphan,
    )  # fmt: skip
    async with shop.working():
        ended = [await shop.ended(seller, job) for job in (without_runs, with_orphan, cancelled)]

    assert [each.codes() for each in ended] == [[None, None], [None, None], ["cancelled", "cancelled"]]
    assert shop.created(seller, LIVE) == 4
    assert await seller.credits() == (100, 96, 0, 4, 0)


DRAFT = (
    '{"draft": {"sku": "SKU", "title": "Maleta", "category_id": "MCO158426", "price": 90000,'
    ' "listing_type_id": "gold_special", "quantity": 3, "image_urls": ["https://images.example.com/a.jpg"]}}'
)


async def test_the_audit_finds_a_doctored_balance_and_repairs_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.worker.process.AUDIT_PERIOD", 0.3)
    honest, doctored = await shop.tenant(balance=50), await shop.tenant(balance=50)
    for seller in (honest, doctored):
        await shop.publish(seller, await shop.stock("BOOKS", 3), environment=LIVE)
    await shop.change(
        "UPDATE credit_balances SET used = used + 2, available = available - 2 WHERE seller_id = %s",
        doctored.seller_id,
    )
    before = metric("audit_findings_total")
    async with shop.working():

        async def found() -> list[tuple[object, ...]]:
            return await shop.rows("SELECT seller_id, what FROM audit_findings")

        findings = await until(found)

    assert {row[0] for row in findings} == {doctored.seller_id}
    assert "used" in str(findings[0][1])
    assert metric("audit_findings_total") > before
    # In one statement: the seller's items may still be settled while this is read.
    surplus = await shop.rows(
        "SELECT (b.used - coalesce((SELECT sum(l.amount) FROM credit_ledger l WHERE l.seller_id = b.seller_id"
        " AND l.kind = 'capture'), 0))::int FROM credit_balances b WHERE b.seller_id = %s",
        doctored.seller_id,
    )
    assert surplus == [(2,)]


# Nobody waits for another.


async def test_ten_thousand_items_hold_up_neither_another_seller_nor_a_second_job(
    own_database_url: str, market: RunningSandbox
) -> None:
    async with publishing(own_database_url, market, worker_concurrency=16) as shop:
        large, small = await shop.tenant(), await shop.tenant()
        skus, few = await shop.stock("LARGE", 9_000), await shop.stock("FEW", 10)
        more = await shop.stock("MORE", 2_000)
        # Each call takes a second, so a run of a hundred keeps the sixteen slots busy for seven.
        slow = shop.fault(large, "delay_before", operation="item_create", seconds=1)
        first = await shop.publish(large, [*skus, *more[:1_000]])

        async def under_way() -> bool:
            return (await shop.job(large, first)).successful > 0

        await until(under_way)
        started = time.monotonic()
        ended = await shop.ended(small, await shop.publish(small, few))
        took = time.monotonic() - started
        shop.forget(slow)
        # The first job is far ahead by now: its early items are done, or wait for their turn.
        await shop.change(
            "UPDATE work_runs SET due_at = now() + interval '1 hour' WHERE job_id = %s AND first_ordinal < 4000"
            " AND owner IS NULL", first,
        )  # fmt: skip
        at_the_start = (await shop.job(large, first)).successful
        second = await shop.publish(large, more[1_000:])
        await shop.ended(large, second, 60)
        at_the_end = (await shop.job(large, first)).successful
        await shop.cancel(large, first)
        await shop.ended(large, first)

    assert ended.job.successful == 10
    assert took < 5
    # While the second job's thousand were published, the first went on side by side.
    assert at_the_end - at_the_start >= 500


async def test_a_job_does_not_wait_for_the_next_poll(own_database_url: str, market: RunningSandbox) -> None:
    """Created, retried, promoted: each wakes the worker, which would otherwise look in up to a minute and a half."""
    async with publishing(own_database_url, market, poll_seconds=60) as shop:
        seller = await shop.tenant()
        (sku,) = await shop.stock("AWAKE")
        rule = shop.fault(seller, "payment_402", operation="item_create")
        listening = "SELECT 1 FROM pg_stat_activity WHERE query = 'LISTEN work_due' AND datname = current_database()"
        await until(lambda: shop.rows(listening))
        first = await shop.ended(seller, await shop.publish(seller, [sku]), 5)
        shop.forget(rule)
        await shop.retry(seller, first.job.job_id)
        second = await shop.ended(seller, first.job.job_id, 5)
        promoted = await shop.ended(seller, await shop.promote(seller, [sku]), 5)

    assert (first.codes(), second.codes(), promoted.codes()) == (["account_payment_required"], [None], [None])


async def test_a_listener_that_loses_its_connection_comes_back(own_database_url: str, market: RunningSandbox) -> None:
    async with publishing(own_database_url, market, poll_seconds=60) as shop:
        seller = await shop.tenant()
        (sku,) = await shop.stock("LOST")
        who = "FROM pg_stat_activity WHERE query = 'LISTEN work_due' AND datname = current_database()"
        ((first,),) = await until(lambda: shop.rows(f"SELECT pid {who}"))
        await shop.rows("SELECT pg_terminate_backend(%s::int)", first)

        async def another() -> bool:
            return [row[0] for row in await shop.rows(f"SELECT pid {who}")] not in ([], [first])

        await until(another)
        ended = await shop.ended(seller, await shop.publish(seller, [sku]), 5)
    assert ended.job.successful == 1


async def test_work_goes_on_without_notifications(own_database_url: str, market: RunningSandbox) -> None:
    async with publishing(own_database_url, market, database_listen=False) as shop:
        seller = await shop.tenant()
        ended = await shop.ended(seller, await shop.publish(seller, await shop.stock("QUIET", 3)))
    assert ended.job.successful == 3


# All at once.


@pytest.mark.parametrize("seed", [20261128])
async def test_overlapping_jobs_cancels_retries_and_two_workers_leave_exact_books(shop: Shop, seed: int) -> None:
    import random

    print(f"seed {seed}")
    chance = random.Random(seed)
    seller = await shop.tenant(balance=10_000)
    skus = await shop.stock("CHAOS", 60)
    for fault, probability in (
        ("reset_after", 0.06), ("error_500", 0.04), ("conflict_409", 0.08), ("error_after", 0.06),
    ):  # fmt: skip
        shop.fault(seller, fault, LIVE, operation="item_create", probability=probability, seed=seed)
    shop.fault(seller, "conflict_409", LIVE, operation="item_update", probability=0.1, seed=seed)
    shop.fault(seller, "rate_limit_seconds", LIVE, operation="item_create", nth=[40, 90], seconds=1)
    jobs: list[str] = []
    async with shop.working(), shop.working():
        for _ in range(5):
            jobs.append(await shop.publish(seller, chance.sample(skus, chance.randrange(10, 50)), environment=LIVE))

        async def meddle(job_id: str) -> None:
            for _ in range(3):
                await asyncio.sleep(chance.random())
                for change in (shop.cancel, shop.retry):
                    if chance.random() < 0.35:
                        try:
                            await change(seller, job_id)
                        except Exception as error:
                            assert getattr(error, "code", "").startswith("E_JOB_"), error

        await asyncio.gather(*(meddle(job) for job in jobs[:3]))
        ended = [await shop.ended(seller, job, 60) for job in jobs]

    published = sum(each.job.successful for each in ended)
    assert await seller.credits() == (10_000, 10_000 - published, 0, published, 0), f"seed {seed}"
    for each in ended:
        for item in each.items:
            if item.status == "success":
                assert [found["id"] for found in shop.on_market(seller, item.sku, LIVE)] == [item.listing_id], seed
    assert sum(shop.sandbox.fired().values()) > 10
