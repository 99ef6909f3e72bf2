"""Gives items of a job their results as the schema demands, for tests of what follows from results.

A stand-in for a worker's recording step: one transaction, job row locked, gapless sequences, counters, credits.
"""

from __future__ import annotations

from psycopg.types.json import Jsonb

from core.domain.failures import Failure
from core.domain.states import Environment, JobStatus, end_status
from core.storage import credits as credit_store
from core.storage import jobs
from core.storage.database import Connection, Database

_START = """
UPDATE jobs SET status = 'processing', started_at = now()
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND status = 'queued'
"""

_FINISH = """
WITH target AS MATERIALIZED (
    SELECT job_id, ordinal, row_number() OVER (ORDER BY ordinal) AS place FROM job_items
    WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND status = 'pending'
    ORDER BY ordinal LIMIT %(count)s
)
UPDATE job_items i SET status = %(status)s::item_status, sequence = %(last)s::int + t.place, attempts = 1,
    listing_id = CASE WHEN %(status)s = 'success' THEN 'MCO' || (%(last)s::int + t.place) END,
    permalink = CASE WHEN %(status)s = 'success' THEN 'https://example.com/' || i.sku END,
    price = CASE WHEN %(status)s = 'success' THEN 1000 END,
    retryable = %(retryable)s, error = %(error)s
FROM target t
WHERE i.seller_id = %(seller_id)s AND i.job_id = t.job_id AND i.ordinal = t.ordinal AND i.status = 'pending'
"""

_COUNT = """
UPDATE jobs SET pending = pending - %(done)s, successful = successful + %(successful)s, failed = failed + %(failed)s,
    last_sequence = last_sequence + %(done)s
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s
RETURNING pending, successful, failed
"""

_END = """
UPDATE jobs SET status = %(end)s::job_status, completed_at = coalesce(completed_at, now()),
    error_message = CASE WHEN %(end)s = 'failed' THEN 'Not one item was published.' END
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s
"""

_RUNS = "DELETE FROM work_runs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s"


async def start(database: Database, seller_id: int, job_id: str) -> None:
    """As when a worker takes the first item."""

    async def work(connection: Connection) -> None:
        await connection.execute(_START, {"seller_id": seller_id, "job_id": job_id})

    await database.transact(work)


async def finish(
    database: Database,
    seller_id: int,
    job_id: str,
    count: int = 1_000_000,
    *,
    failure: str | None = None,
    notify: bool = True,
) -> int:
    """Give the next ``count`` pending items a result, and the job its end when none is left.

    Args:
        failure: a code of the table of failures; None: they succeed.
        notify: whether to notify, as a worker does.

    Returns:
        How many got a result.
    """

    async def work(connection: Connection) -> int:
        key = {"seller_id": seller_id, "job_id": job_id}
        locked = await jobs.lock(connection, seller_id, job_id)
        assert locked is not None
        await connection.execute(_START, key)
        reason = Failure(failure) if failure else None
        cursor = await connection.execute(
            _FINISH,
            key
            | {
                "count": count,
                "last": locked.last_sequence,
                "status": "failed" if reason else "success",
                "retryable": reason.kind.retryable if reason else None,
                "error": Jsonb(reason.stored()) if reason else None,
            },
        )
        done = cursor.rowcount
        counted = await connection.execute(
            _COUNT, key | {"done": done, "successful": 0 if reason else done, "failed": done if reason else 0}
        )
        row = await counted.fetchone()
        assert row is not None
        if locked.environment is Environment.LIVE:
            await credit_store.settle(
                connection,
                seller_id,
                job_id=job_id,
                captured=0 if reason else done,
                released=done if reason else 0,
                first_sequence=locked.last_sequence + 1,
                last_sequence=locked.last_sequence + done,
            )
        elif not reason:
            await credit_store.meter_test(connection, seller_id, done)
        if row[0] == 0:
            end = end_status(successful=row[1], failed=row[2])
            await connection.execute(
                _END, key | {"end": locked.status if locked.status is JobStatus.CANCELLED else end}
            )
            await connection.execute(_RUNS, key)
        if notify:
            await jobs.notify(connection, seller_id, job_id)
        return int(done)

    return await database.transact(work)


async def put_on_the_wire(database: Database, seller_id: int, job_id: str, count: int = 1) -> None:
    """As when a worker has committed the intents of the first ``count`` items and is sending them."""

    async def work(connection: Connection) -> None:
        await connection.execute(_START, {"seller_id": seller_id, "job_id": job_id})
        await connection.execute(
            """
            INSERT INTO intents (seller_id, environment, sku, job_id, ordinal, first_ordinal, fence, owner, kind,
                attempt, state, draft, started_at)
            SELECT i.seller_id, j.environment, i.sku, i.job_id, i.ordinal, i.ordinal / 100 * 100, 1, gen_random_uuid(),
                'create', 1, 'sending', '{}', now()
            FROM job_items i JOIN jobs j USING (seller_id, job_id)
            WHERE i.seller_id = %(seller_id)s AND i.job_id = %(job_id)s AND i.status = 'pending'
            ORDER BY i.ordinal LIMIT %(count)s
            """,
            {"seller_id": seller_id, "job_id": job_id, "count": count},
        )

    await database.transact(work)


async def take_off_the_wire(database: Database, seller_id: int, job_id: str) -> None:
    """Their outcomes are known; ``finish`` records them."""

    async def work(connection: Connection) -> None:
        await connection.execute(
            "DELETE FROM intents WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s",
            {"seller_id": seller_id, "job_id": job_id},
        )

    await database.transact(work)


async def add_test_listing(database: Database, seller_id: int, sku: str, *, price: int = 1000, age: int = 0) -> None:
    """A test product, published ``age`` seconds ago."""

    async def work(connection: Connection) -> None:
        await connection.execute(
            """
            INSERT INTO listings (seller_id, environment, sku, listing_id, permalink, title, image, listing_type_id,
                price, currency, category_id, category_name, status_meli, app_status, published_at)
            VALUES (%(seller_id)s, 'test', %(sku)s, 'MCO9' || %(sku)s, 'https://example.com/', 'Silla', NULL,
                'gold_special', %(price)s, 'COP', 'MCO1234', 'Sillas', 'active', 1,
                now() - make_interval(secs => %(age)s))
            """,
            {"seller_id": seller_id, "sku": sku, "price": price, "age": age},
        )

    await database.transact(work)
