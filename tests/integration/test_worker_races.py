"""Two of them at once: a worker held at a named point while a cancellation, a rescue or another job comes in."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime

import msgspec
import psycopg
import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from core.domain.publication import RUN_SIZE
from core.domain.states import JobStatus
from core.ports.marketplace import Outcome, StatesResult
from core.ports.work import Recorded, Run
from core.storage import jobs, listings, work
from core.storage.database import Connection
from core.worker.decide import Send, first_step
from tests.support.publishing import LIVE, TEST, Gate, Shop, publishing, until
from tests.support.sandbox import RunningSandbox, run_sandbox
from tests.support.service import Tenant


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
    gate = Gate("after_intent_commit", dies=True)
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, [sku], environment=LIVE)
        await gate.arrived()
        await shop.cancel(seller, job_id)
        await shop.change("UPDATE work_runs SET owner = gen_random_uuid(), leased_until = now() - interval '1 second'")
        async with shop.working():
            # Not by the sweep that looks for stranded jobs every quarter of a minute.
            ended = await shop.ended(seller, job_id, 9)
        gate.open()

    assert (ended.job.status, ended.codes()) == (JobStatus.CANCELLED, ["cancelled"])
    assert await seller.credits() == (5, 4, 0, 1, 0)


async def test_items_that_come_back_into_a_stopped_job_fail_with_its_reason(shop: Shop) -> None:
    """Two runs: the account is refused in one while the items of the other are throttled."""
    seller = await shop.tenant()
    skus = await shop.stock("STOP", RUN_SIZE + 1)
    shop.fault(seller, "rate_limit_seconds", TEST, operation="item_create", sku=skus[RUN_SIZE], seconds=1)
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


async def test_a_listing_that_is_gone_when_the_intents_stand_is_made_and_searched_for_after_a_crash(
    shop: Shop,
) -> None:
    """Planned as an update, sent as a creation: a crash then must not be taken for a lost update."""
    seller = await shop.tenant()
    (sku,) = await shop.stock("KIND")
    async with shop.working():
        await shop.ended(seller, await shop.publish(seller, [sku]))
    first = await shop.listing(seller, sku)
    planned, sent = Gate("before_intent_commit"), Gate("after_send", dies=True)

    async def gates(point: str) -> None:
        await planned(point)
        await sent(point)

    async with shop.working(reached=gates, dies_at=sent):
        job_id = await shop.publish(seller, [sku])
        await planned.arrived()
        # Between the plan and the intents another process learns that the listing was closed.
        shop.sandbox.change_item(first["listing_id"], status="closed")
        await shop.change("UPDATE listings SET status_meli = 'closed', app_status = 0 WHERE sku = %s", sku)
        planned.open()
        await sent.arrived()
        kinds = await shop.rows("SELECT kind FROM intents WHERE sku = %s", sku)
        await shop.change("UPDATE work_runs SET owner = gen_random_uuid(), leased_until = now() - interval '1 second'")
        async with shop.working():
            ended = await shop.ended(seller, job_id)
        sent.open()

    assert kinds == [("create",)]
    assert [item["id"] for item in shop.on_market(seller, sku)] == [ended.items[0].listing_id]
    assert ended.items[0].listing_id != first["listing_id"]


async def test_a_listing_that_the_marketplace_does_not_know_yet_is_not_made_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after a creation an unknown id may be propagation (reference, section 6.2)."""
    seller = await shop.tenant()
    (sku,) = await shop.stock("PROPAG")
    async with shop.working() as worker:
        first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
        assert first.listing_id is not None
        unknown, asked = StatesResult(outcome=Outcome.DONE, missing=[first.listing_id]), []
        market = worker.context.marketplace
        get_listings = market.get_listings

        async def slow_to_know(account, listing_ids):  # type: ignore[no-untyped-def]
            asked.append(listing_ids)
            return unknown if len(asked) == 1 else await get_listings(account, listing_ids)

        monkeypatch.setattr(market, "get_listings", slow_to_know)
        shop.fault(seller, "not_found_404", operation="item_update", listing_id=first.listing_id, times=1)
        await shop.change("DELETE FROM follow_ups")
        ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    assert asked[0] == [first.listing_id]
    assert (ended.items[0].listing_id, ended.items[0].attempts) == (first.listing_id, 2)
    assert shop.created(seller) == 1


async def test_a_listing_that_is_really_gone_is_made_again(shop: Shop) -> None:
    seller = await shop.tenant()
    (sku,) = await shop.stock("REALLY")
    async with shop.working():
        first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
        # Of long ago, and an id that no account has.
        await shop.change(
            "UPDATE listings SET listing_id = 'MCO999999999999', published_at = now() - interval '1 hour'"
            " WHERE sku = %s", sku,
        )  # fmt: skip
        shop.sandbox.change_item(str(first.listing_id), status="closed")
        ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    assert [item["id"] for item in shop.on_market(seller, sku)] == [ended.items[0].listing_id]


async def test_results_of_another_owner_fence_or_state_change_nothing(shop: Shop) -> None:
    """The guard itself: a stale result that found an intent of the same item would delete somebody else's send."""
    seller = await shop.tenant(balance=5)
    (sku,) = await shop.stock("GUARD")
    gate = Gate("after_intent_commit")
    async with shop.working(reached=gate) as worker:
        job_id = await shop.publish(seller, [sku], environment=LIVE)
        await gate.arrived()
        (held,) = worker._held.values()
        terms = await shop.application.database.read(lambda c: work.job_terms(c, seller.seller_id, job_id))
        assert terms is not None
        before = await shop.rows("SELECT * FROM intents")

        async def record(owner: str, fence: int, state: str | None, outcome: str) -> Recorded | None:
            stale = work.ItemResult(ordinal=0, sku=sku, outcome=outcome, intent=True, fence=fence, error={"code": "x"})
            given = {"owner": owner, "terms": terms, "first_ordinal": 0, "settle": 1, "first_search": 1}
            return await shop.application.database.transact(
                lambda c: work.record(c, seller.seller_id, job_id, [stale], reconciling=state, **given)  # type: ignore[arg-type]
            )

        mine, fence = worker.context.owner, held.run.fence
        other = str(uuid.uuid4())
        for owner, number, state in (
            (mine, fence - 1, None),
            (mine, fence + 1, None),
            (other, fence, None),
            (mine, fence, "unknown"),
        ):
            for outcome in ("failed", "deferred", "unknown"):
                recorded = await record(owner, number, state, outcome)
                assert recorded is not None
                assert (recorded.accepted, recorded.doubted, recorded.failed) == (0, 0, 0)
        assert await shop.rows("SELECT * FROM intents") == before
        gate.open()
        ended = await shop.ended(seller, job_id)

    assert ended.codes() == [None]
    assert await seller.credits() == (5, 4, 0, 1, 0)


Writing = Callable[[Connection], Awaitable[work.Granted]]


async def claimed(shop: Shop, seller: Tenant, *, owner: str) -> tuple[Run, Writing]:
    """The seller's one due run, claimed, and what writes the intent of its one item."""
    database = shop.application.database
    (run,) = await database.read(lambda c: work.claim(c, seller.seller_id, LIVE, owner=owner, lease=60, limit=1))
    (item,) = await database.read(lambda c: work.run_items(c, run, run.terms))
    step = first_step(msgspec.structs.replace(item, category_id="MCO1234"), run.terms)
    assert isinstance(step, Send)
    intents = [(item.ordinal, item.sku, step.stored)]
    ((user,),) = await shop.rows(
        "SELECT marketplace_user_id FROM marketplace_accounts WHERE seller_id = %s AND environment = 'live'",
        seller.seller_id,
    )

    async def write(connection: Connection) -> work.Granted:
        return await work.insert_intents(connection, run, owner=owner, marketplace_user_id=user, intents=intents)

    return run, write


async def test_while_intents_are_written_results_are_recorded_but_no_item_is_ended(shop: Shop) -> None:
    """A cancellation, a stop or a rescue in between would not see the intents, and end or give back what is sent."""
    seller = await shop.tenant(balance=5)
    (sku,) = await shop.stock("BESIDE")
    job_id = await shop.publish(seller, [sku], environment=LIVE)
    database, owner = shop.application.database, str(uuid.uuid4())
    run, write = await claimed(shop, seller, owner=owner)

    async def end(connection: Connection) -> None:
        await connection.execute("SET LOCAL lock_timeout = '1ms'")
        await jobs.lock(connection, seller.seller_id, job_id)

    async def record(connection: Connection) -> Recorded | None:
        given = {"owner": owner, "terms": run.terms, "first_ordinal": 0, "settle": 1, "first_search": 1}
        return await work.record(connection, seller.seller_id, job_id, [], **given)  # type: ignore[arg-type]

    async def beside(connection: Connection) -> work.Granted:
        granted = await write(connection)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            await database.transact(end)
        assert await database.transact(record) is not None
        return granted

    assert await database.transact(beside) == {sku: None}
    await database.transact(end)


async def test_a_listing_that_is_about_to_be_sent_to_is_not_disowned(shop: Shop) -> None:
    """It would be closed as a late creation, and the send be recorded as a success."""
    seller = await shop.tenant(balance=5)
    (sku,) = await shop.stock("ABOUT")
    async with shop.working():
        item = (await shop.ended(seller, await shop.publish(seller, [sku], environment=LIVE))).items[0]
    listing_id = item.listing_id
    assert listing_id is not None
    await shop.change("UPDATE listings SET published_at = NULL WHERE seller_id = %s", seller.seller_id)
    await shop.publish(seller, [sku], environment=LIVE)
    database = shop.application.database
    _, write = await claimed(shop, seller, owner=str(uuid.uuid4()))

    async def disown(connection: Connection) -> bool:
        await connection.execute("SET LOCAL lock_timeout = '1ms'")
        return await listings.disown(connection, seller.seller_id, LIVE, sku, listing_id, since=datetime.now(UTC))

    async def beside(connection: Connection) -> work.Granted:
        granted = await write(connection)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            await database.transact(disown)
        return granted

    granted = (await database.transact(beside))[sku]
    assert granted is not None
    assert granted[0] == listing_id
    assert not await database.transact(disown)


async def test_published_to_live_is_true_from_the_instant_of_the_success(shop: Shop) -> None:
    seller = await shop.tenant()
    (sku,) = await shop.stock("FLAG")
    async with shop.working():
        await shop.ended(seller, await shop.publish(seller, [sku]))
    before, after = Gate("before_result_commit"), Gate("after_result_commit")

    async def gates(point: str) -> None:
        await before(point)
        await after(point)

    async with shop.working(reached=gates):
        job_id = await shop.publish(seller, [sku], environment=LIVE)
        await before.arrived()
        unwritten = (await shop.look(seller, job_id)).items[0].status, (await shop.listing(seller, sku))
        before.open()
        await after.arrived()
        written = (await shop.look(seller, job_id)).items[0].status, (await shop.listing(seller, sku))
        credits_then = await seller.credits()
        after.open()
        await shop.ended(seller, job_id)

    assert (unwritten[0], unwritten[1]["published_to_live"]) == ("pending", False)
    assert (written[0], written[1]["published_to_live"]) == ("success", True)
    assert credits_then[2:4] == (0, 1)


async def test_an_absurd_retry_after_is_bounded_and_the_waiting_job_can_be_cancelled(shop: Shop) -> None:
    seller = await shop.tenant(balance=3)
    skus = await shop.stock("ABSURD", 3)
    shop.fault(seller, "rate_limit_absurd", LIVE, operation="item_create")
    async with shop.working():
        job_id = await shop.publish(seller, skus, environment=LIVE)

        async def rests() -> bool:
            reason = (await shop.job(seller, job_id)).waiting_reason or ""
            return "slow down" in reason and not await shop.rows("SELECT 1 FROM work_runs WHERE owner IS NOT NULL")

        await until(rests)
        ((seconds,),) = await shop.rows(
            "SELECT extract(epoch FROM paused_until - now())::float8 FROM marketplace_accounts"
            " WHERE seller_id = %s AND environment = 'live'",
            seller.seller_id,
        )
        reason = (await shop.job(seller, job_id)).waiting_reason
        await shop.cancel(seller, job_id)
        ended = await shop.ended(seller, job_id)

    assert 200 < seconds <= 301
    assert reason is not None
    assert "asked to slow down" in reason
    assert ended.codes() == ["cancelled"] * 3
    assert await seller.credits() == (3, 3, 0, 0, 0)


async def test_a_retry_while_a_cancelled_run_is_still_held_loses_nothing(shop: Shop) -> None:
    """The run of the cancelled job ends after the retry has made its failed item pending again."""
    seller = await shop.tenant(balance=10)
    skus = await shop.stock("HELD", 3)
    (unpriced,) = await shop.stock("NONE", cost_usd=None)
    shop.fault(seller, "unable_to_list_403", LIVE, operation="item_create", sku=skus[0], times=1)
    gate = Gate("before_send", skip=1)
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, [*skus, unpriced], environment=LIVE)
        await gate.arrived()

        async def refused() -> bool:
            return "account_not_allowed" in (await shop.look(seller, job_id)).codes()

        await until(refused)
        await shop.cancel(seller, job_id)
        retried = await shop.retry(seller, job_id)
        gate.open()
        ended = await shop.ended(seller, job_id)

    assert retried.items == 1
    assert ended.codes() == [None, None, None, "price_missing"]
    assert ended.job.status is JobStatus.COMPLETED
    assert await seller.credits() == (10, 7, 0, 3, 0)


async def test_what_an_answer_lost_at_the_commit_of_intents_left_behind_is_read_back(shop: Shop) -> None:
    """The intents stand, the commit's answer is lost: their items are sent, not searched for as if they had been."""
    seller = await shop.tenant()
    skus = await shop.stock("LOST", 3)
    database = shop.application.database
    async with shop.working():
        await shop.ended(seller, await shop.publish(seller, skus[:1]))
    transact = database.transact
    lost: list[object] = []

    async def losing(work, committed=None):  # type: ignore[no-untyped-def]
        result = await transact(work, committed)
        if "_write_intents" in work.__qualname__ and not lost:
            lost.append(result)
            # What Database does when a commit's answer does not come: reads back, and only then runs again.
            async with database.connection() as connection:
                return await committed(connection)
        return result

    database.transact = losing  # type: ignore[method-assign]
    try:
        async with shop.working():
            before = shop.sandbox.requests("item_search")
            ended = await shop.ended(seller, await shop.publish(seller, skus))
            after = shop.sandbox.requests("item_search")
    finally:
        database.transact = transact  # type: ignore[method-assign]

    assert len(lost) == 1
    assert ended.count("success") == 3
    assert after == before + 1  # only the look through the account at the start of the job
    assert shop.created(seller) == 3


async def test_a_product_that_breaks_the_decision_fails_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    seller = await shop.tenant(balance=10)
    skus = await shop.stock("BREAK", 4)

    def breaking(item, terms):  # type: ignore[no-untyped-def]
        if item.sku == skus[2]:
            raise ArithmeticError("broken")
        return first_step(item, terms)

    monkeypatch.setattr("core.worker.run.first_step", breaking)
    async with shop.working():
        ended = await shop.ended(seller, await shop.publish(seller, skus, environment=LIVE))

    assert ended.codes() == [None, None, "internal_error", None]
    assert ended.items[2].retryable
    assert await seller.credits() == (10, 7, 0, 3, 0)


async def test_a_send_that_breaks_is_searched_for_and_the_others_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    seller = await shop.tenant()
    skus = await shop.stock("BREAK", 4)
    async with shop.working() as worker:
        market = worker.context.marketplace
        create = market.create_listing
        broken: list[str] = []

        async def breaking(account, draft, may_send):  # type: ignore[no-untyped-def]
            result = await create(account, draft, may_send)
            if draft.sku == skus[1] and not broken:
                broken.append(draft.sku)
                raise RuntimeError("broken after the answer came")
            return result

        monkeypatch.setattr(market, "create_listing", breaking)
        ended = await shop.ended(seller, await shop.publish(seller, skus))

    assert broken == [skus[1]]
    assert ended.count("success") == 4
    assert shop.created(seller) == 4


async def test_a_double_of_the_doubtful_send_is_closed_and_the_older_one_kept(shop: Shop) -> None:
    """While the send waits, the seller makes the listing by hand; the send's own is made all the same, unheard."""
    seller = await shop.tenant()
    (sku,) = await shop.stock("DOUBLE")
    closed = REGISTRY.get_sample_value("listings_duplicates_closed_total") or 0
    gate = Gate("before_send")
    async with shop.working(reached=gate):
        job_id = await shop.publish(seller, [sku])
        await gate.arrived()
        by_hand = await shop.make_by_hand(seller, sku)
        shop.fault(seller, "reset_after", operation="item_create", sku=sku, times=1)
        gate.open()
        ended = await shop.ended(seller, job_id)

        async def only() -> bool:
            return [item["id"] for item in shop.on_market(seller, sku)] == [by_hand]

        await until(only)

    assert (ended.items[0].status, ended.items[0].listing_id) == ("success", by_hand)
    assert shop.created(seller) == 2
    assert REGISTRY.get_sample_value("listings_duplicates_closed_total") == closed + 1
