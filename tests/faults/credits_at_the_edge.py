"""Eight writers on the credits of one seller who never has enough."""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import dataclass, field

from core.domain.api_key import Principal, Scope
from core.domain.publication import Item, PublicationRequest
from core.domain.states import Environment
from core.errors import ApiError
from core.storage import credits as credit_store
from core.storage.database import Connection, Database, DatabaseError
from core.use_cases.create_job import create_job
from core.use_cases.steer_jobs import cancel_job, retry_job
from tests.faults.campaign import Campaign
from tests.faults.checker import check
from tests.support import finishing, service
from tests.support.postgres import start_test_postgres

WRITERS = 8
GRANTED = 60
SHARE_OF_USE_CASES = 0.15
"""The rest are the same statements without a job around them, which are far quicker."""


async def run(campaign: Campaign) -> None:
    """Half of the sellers through jobs, half through holds and settlements alone."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    url = service.new_database()
    application = service.new_application(url, database_pool_size=WRITERS + 2)
    await application.open()
    try:
        database = application.database
        whole = await service.new_tenant(application, balance=GRANTED // 2)
        bare = await service.new_tenant(application, balance=GRANTED)
        counts = outcome.counts
        books = _Books(granted=GRANTED)
        by_jobs = int(volumes.credit_operations * SHARE_OF_USE_CASES)
        await asyncio.gather(
            *(
                _bare(database, bare.seller_id, books, counts, random.Random(chance.random()), share)
                for share in _shares(volumes.credit_operations - by_jobs)
            )
        )
        expected = (books.granted, books.granted - books.held - books.used, books.held, books.used)
        balance = (await bare.credits())[:4]
        if balance != expected:
            outcome.violations.append(f"books: the writers count {expected}, the database {balance}")
        await _edge_is_exact(campaign, database, bare.seller_id, expected[1])
        jobs: list[str] = []
        await asyncio.gather(
            *(
                _by_jobs(database, whole.seller_id, jobs, counts, random.Random(chance.random()), share)
                for share in _shares(by_jobs)
            )
        )
        for job_id in {job_id for (job_id,) in await _open_jobs(database, whole.seller_id)}:
            await finishing.finish(database, whole.seller_id, job_id, failure="marketplace_unavailable")
        # The holds of bare jobs belong to no job: only the sums of that seller are judged.
        report = check(url)
        outcome.violations += report.violations
        counts.update(report.counts)
    finally:
        await application.close()
        start_test_postgres().drop_database(url)
    counts["credit operations"] = sum(
        counts[each]
        for each in ("holds", "holds refused", "settlements", "settled twice refused", "grants", "job steps")
    )
    outcome.want("credit operations", volumes.credit_operations)
    outcome.want("holds refused", volumes.credit_operations // 50)
    outcome.want("settled twice refused", volumes.credit_operations // 200)
    outcome.want("jobs refused for credits", by_jobs // 100)


async def _open_jobs(database: Database, seller_id: int) -> list[tuple[str]]:
    async def look(connection: Connection) -> list[tuple[str]]:
        cursor = await connection.execute(
            "SELECT job_id::text FROM jobs WHERE seller_id = %s AND pending > 0", [seller_id]
        )
        return [(row[0],) for row in await cursor.fetchall()]

    return await database.read(look)


def _shares(total: int) -> list[int]:
    return [total // WRITERS + (number < total % WRITERS) for number in range(WRITERS)]


@dataclass
class _Books:
    """What the writers together know to have done."""

    granted: int
    held: int = 0
    used: int = 0


@dataclass
class _Hold:
    job_id: str
    left: int
    sequence: int = 0
    last: tuple[int, int, int] | None = field(default=None)


async def _bare(
    database: Database, seller_id: int, books: _Books, counts: dict[str, int], chance: random.Random, steps: int
) -> None:
    holds: list[_Hold] = []
    for _ in range(steps):
        roll = chance.random()
        if roll < 0.02:
            await _grant(database, seller_id, 1)
            books.granted += 1
            counts["grants"] += 1
        elif roll < 0.5 or not holds:
            hold = _Hold(str(uuid.UUID(int=chance.getrandbits(128), version=4)), chance.randint(1, 12))
            if await _hold(database, seller_id, hold):
                books.held += hold.left
                holds.append(hold)
                counts["holds"] += 1
            else:
                counts["holds refused"] += 1
        else:
            hold = chance.choice(holds)
            if hold.last is not None and chance.random() < 0.15:
                await _settle_again(database, seller_id, hold, counts)
                continue
            captured = chance.randint(0, hold.left)
            # Nearly all is given back, or the seller would soon have nothing left to race for.
            captured = captured if chance.random() < 0.02 else 0
            released = chance.randint(0 if captured else 1, hold.left - captured) if captured < hold.left else 0
            await _settle(database, seller_id, hold, captured, released)
            books.held -= captured + released
            books.used += captured
            counts["settlements"] += 1
            if hold.left == 0:
                holds.remove(hold)


async def _grant(database: Database, seller_id: int, amount: int) -> None:
    async def work(connection: Connection) -> None:
        await credit_store.grant(connection, seller_id, amount)

    await database.transact(work)


async def _hold(database: Database, seller_id: int, hold: _Hold) -> bool:
    async def work(connection: Connection) -> bool:
        return await credit_store.hold(connection, seller_id, job_id=hold.job_id, amount=hold.left, last_sequence=0)

    return await database.transact(work)


async def _settle(database: Database, seller_id: int, hold: _Hold, captured: int, released: int) -> None:
    first, last = hold.sequence + 1, hold.sequence + captured + released

    async def work(connection: Connection) -> None:
        await credit_store.settle(
            connection,
            seller_id,
            job_id=hold.job_id,
            captured=captured,
            released=released,
            first_sequence=first,
            last_sequence=last,
        )

    await database.transact(work)
    hold.left -= captured + released
    hold.sequence, hold.last = last, (captured, released, first)


async def _settle_again(database: Database, seller_id: int, hold: _Hold, counts: dict[str, int]) -> None:
    """The same results settled once more: refused, and nothing of it stays."""
    assert hold.last is not None
    captured, released, first = hold.last

    async def work(connection: Connection) -> None:
        await credit_store.settle(
            connection,
            seller_id,
            job_id=hold.job_id,
            captured=captured,
            released=released,
            first_sequence=first,
            last_sequence=hold.sequence,
        )

    try:
        await database.transact(work)
    except (DatabaseError, RuntimeError):
        counts["settled twice refused"] += 1


async def _edge_is_exact(campaign: Campaign, database: Database, seller_id: int, available: int) -> None:
    """One more than there is is refused, all that there is is not."""
    for amount, expected in ((available + 1, False), (available, available > 0)):
        if amount and await _hold(database, seller_id, _Hold(str(uuid.uuid4()), amount)) is not expected:
            campaign.outcome.violations.append(f"a hold of {amount} of {available} credits: expected {expected}")


async def _by_jobs(
    database: Database, seller_id: int, jobs: list[str], counts: dict[str, int], chance: random.Random, steps: int
) -> None:
    principal = Principal(
        seller_id=seller_id,
        key_id="harness",
        environment=Environment.LIVE,
        scopes=frozenset(Scope),
    )
    for _ in range(steps):
        counts["job steps"] += 1
        job_id = chance.choice(jobs) if jobs else ""
        roll = chance.random()
        try:
            if roll < 0.45 or not job_id:
                items = [Item(f"C{chance.randrange(10**9):09d}", None, True) for _ in range(chance.randint(1, 15))]
                answer = await create_job(database, principal, PublicationRequest(items=items))
                jobs.append(answer.result.job_id)
            elif roll < 0.65:
                await cancel_job(database, seller_id, job_id)
            elif roll < 0.8:
                await retry_job(database, seller_id, job_id)
            else:
                failure = None if chance.random() < 0.03 else "marketplace_unavailable"
                await finishing.finish(database, seller_id, job_id, chance.randint(1, 20), failure=failure)
        except ApiError as error:
            counts[f"refused {error.code}"] += 1
            if error.code == "E_PRODUCT_CREDIT_EXHAUSTED":
                counts["jobs refused for credits"] += 1
            elif error.code not in (
                "E_PRODUCT_MAX_CONCURRENT_JOBS",
                "E_JOB_ALREADY_TERMINAL",
                "E_JOB_NOT_RETRYABLE",
            ):
                raise
        if len(jobs) > 40:
            del jobs[0]
