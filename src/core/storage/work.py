"""What the worker reads and writes about runs and results. Every write is guarded by owner and fence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import uuid_utils

from core.domain.publication import RUN_SIZE
from core.domain.states import TERMINAL, Environment, JobKind, JobStatus
from core.ports.work import Gauges, JobTerms, Recorded, Run, StoredDraft, WorkItem
from core.storage import credits as credit_store
from core.storage import jobs
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("work")
_JSON = msgspec.json.Encoder().encode

FIRST_CHECK_SECONDS = 5.0
"""When a listing just made is looked at for the first time: pictures are loading until then."""


class ItemResult(msgspec.Struct, kw_only=True, gc=False, omit_defaults=True):
    """What became of one item, as the record statement reads it.

    ``outcome``: success, failed, skipped, deferred (stays pending, tried again), unknown (to be searched
    for). ``intent``: an intent was written for it. ``attempts``: to be added to the item's count.
    """

    ordinal: int
    sku: str
    outcome: str
    intent: bool = msgspec.field(default=False)
    fence: int
    attempts: int = 0
    listing_id: str | None = None
    permalink: str | None = None
    price: int | None = None
    category_id: str | None = None
    category_name: str | None = None
    title: str | None = None
    image: str | None = None
    listing_type_id: str | None = None
    status_meli: str | None = None
    sub_status: Sequence[str] = ()
    app_status: int = 1
    described: bool = False
    retryable: bool | None = None
    error: dict[str, Any] | None = None


async def promotable(connection: Connection, seller_id: int, skus: Sequence[str]) -> dict[str, tuple[str, int]]:
    """(category, price) of the test listings among these SKUs that a live publication takes over."""
    if not skus:
        return {}
    cursor = await connection.execute(_SQL["select_promotable"], {"seller_id": seller_id, "skus": list(skus)})
    return {row[0]: (row[1], row[2]) for row in await cursor.fetchall()}


async def due(connection: Connection) -> list[tuple[int, Environment]]:
    """Sellers and environments with runs to be claimed now."""
    cursor = await connection.execute(_SQL["select_due"])
    return [(row[0], Environment(row[1])) for row in await cursor.fetchall()]


async def claim(
    connection: Connection, seller_id: int, environment: Environment, *, owner: str, lease: float, limit: int
) -> list[Run]:
    """Lease runs of one seller. The lease ends ``lease`` seconds after the database's now."""
    cursor = await connection.execute(
        _SQL["claim"],
        {"seller_id": seller_id, "environment": environment, "owner": owner, "lease": lease, "limit": limit},
    )
    return [
        Run(
            seller_id=row[0],
            job_id=row[1],
            environment=Environment(row[2]),
            first_ordinal=row[3],
            last_ordinal=row[4],
            fence=row[5],
            returns=row[6],
            terms=_terms(row[7:]),
        )
        for row in await cursor.fetchall()
    ]


async def start_jobs(connection: Connection, seller_id: int, job_ids: Iterable[str]) -> None:
    """Move queued jobs to processing. In a transaction of its own: a claim that held its runs while
    waiting for the job's row could wait for somebody who waits for the runs."""
    await connection.execute(_SQL["start_jobs"], {"seller_id": seller_id, "job_ids": list(job_ids)})


async def renew(connection: Connection, runs: Sequence[Run], *, owner: str, lease: float) -> set[tuple[str, int, int]]:
    """Prolong leases; returns (job, first ordinal, fence) of those still held."""
    cursor = await connection.execute(
        _SQL["renew"],
        {
            "seller_ids": [run.seller_id for run in runs],
            "job_ids": [run.job_id for run in runs],
            "firsts": [run.first_ordinal for run in runs],
            "fences": [run.fence for run in runs],
            "owner": owner,
            "lease": lease,
        },
    )
    return {(row[0], row[1], row[2]) for row in await cursor.fetchall()}


async def job_terms(connection: Connection, seller_id: int, job_id: str) -> JobTerms | None:
    """What was frozen into the job, and its present status."""
    cursor = await connection.execute(_SQL["select_job_terms"], {"seller_id": seller_id, "job_id": job_id})
    row = await cursor.fetchone()
    return _terms(row) if row else None


def _terms(row: tuple[Any, ...]) -> JobTerms:
    frozen = dict(row[4])
    frozen["margin_percent"] = Decimal(frozen["margin_percent"])
    frozen["tariff_percent"] = Decimal(frozen["tariff_percent"])
    return JobTerms(
        kind=JobKind(row[0]),
        environment=Environment(row[1]),
        listing_type_id=row[2],
        tax_category_id=row[3],
        status=JobStatus(row[5]),
        trace_context=row[6],
        retries=row[7],
        **frozen,
    )


async def run_items(connection: Connection, run: Run, terms: JobTerms) -> list[WorkItem]:
    """The items of a run that are still to be tried, with all that is known of them."""
    cursor = await connection.execute(
        _SQL["select_run_items"],
        {
            "seller_id": run.seller_id,
            "job_id": run.job_id,
            "environment": run.environment,
            "first_ordinal": run.first_ordinal,
            "last_ordinal": run.last_ordinal,
            "promotion": terms.kind is JobKind.PROMOTION,
            "site_id": terms.site_id,
        },
        # The pictures of a product come as an array, which is cheaper to read like this.
        binary=True,
    )
    return [WorkItem(*row) for row in await cursor.fetchall()]


Granted = dict[str, tuple[str, str] | None]
"""SKUs whose intent stands; with the open listing (id, permalink) that is to be changed, or None for a creation."""


async def insert_intents(
    connection: Connection,
    run: Run,
    *,
    owner: str,
    marketplace_user_id: int,
    intents: Sequence[tuple[int, str, StoredDraft]],
) -> Granted:
    """Commit what is about to be sent to this user's account: (ordinal, SKU, draft).

    Takes part in the caller's transaction, which must commit before anything is sent.

    Returns:
        Those whose intent is now ours.
    """
    key = {"seller_id": run.seller_id, "job_id": run.job_id}
    cursor = await connection.execute(_SQL["share_job"], key)
    job = await cursor.fetchone()
    if job is None or job[0] not in (JobStatus.QUEUED, JobStatus.PROCESSING):
        return {}
    cursor = await connection.execute(
        _SQL["insert_intents"],
        {
            **key,
            "environment": run.environment,
            "first_ordinal": run.first_ordinal,
            "fence": run.fence,
            "owner": owner,
            "marketplace_user_id": marketplace_user_id,
            # One text each: psycopg writes a list item by item, in Python. A SKU has no comma, JSON no line feed.
            "ordinals": ",".join([str(ordinal) for ordinal, _, _ in intents]),
            "skus": ",".join([sku for _, sku, _ in intents]),
            "drafts": b"\n".join([_JSON(draft) for _, _, draft in intents]).decode(),
        },
    )
    granted: Granted = {row[0]: None for row in await cursor.fetchall()}
    if granted:
        cursor = await connection.execute(
            _SQL["mark_updates"],
            {
                "seller_id": run.seller_id,
                "environment": run.environment,
                "skus": ",".join(sorted(granted)),
                "fence": run.fence,
                "owner": owner,
            },
        )
        granted |= {row[0]: (row[1], row[2]) for row in await cursor.fetchall()}
    return granted


async def granted_intents(connection: Connection, run: Run, *, owner: str, skus: Sequence[str]) -> Granted:
    """What a commit of ``insert_intents`` whose answer was lost left behind; empty when it did not go through."""
    cursor = await connection.execute(
        _SQL["select_intents"],
        {
            "seller_id": run.seller_id,
            "environment": run.environment,
            "job_id": run.job_id,
            "fence": run.fence,
            "owner": owner,
            "skus": list(skus),
        },
    )
    return {row[0]: (row[1], row[2]) if row[1] else None for row in await cursor.fetchall()}


async def record(
    connection: Connection,
    seller_id: int,
    job_id: str,
    results: Sequence[ItemResult],
    *,
    owner: str,
    terms: JobTerms,
    first_ordinal: int,
    settle: float,
    first_search: float,
    reconciling: str | None = None,
    marketplace_user_id: int | None = None,
) -> Recorded | None:
    """Record what became of items of one job: items, listings, ``published_to_live``, counters, sequence,
    credits, follow-ups and the notification, in the caller's transaction.

    Args:
        reconciling: None for results of a run; ``unknown`` or ``sending`` for results of a search or of
            its repost, the state the intents must be in.
        marketplace_user_id: whose account it was sent to or found on; None: the present user's.

    Returns:
        What counted; None when the job is gone.
    """
    cursor = await connection.execute(_SQL["lock_for_results"], {"seller_id": seller_id, "job_id": job_id})
    if await cursor.fetchone() is None:
        return None
    cursor = await connection.execute(
        _SQL["record"],
        {
            "seller_id": seller_id,
            "job_id": job_id,
            "environment": terms.environment,
            "owner": owner,
            "state": reconciling or "sending",
            "reconciling": reconciling is not None,
            "results": _JSON(results).decode(),
            "first_ordinal": first_ordinal,
            "settle": settle,
            "first_search": first_search,
            "currency": terms.currency,
            "tax_category_id": terms.tax_category_id,
            "check_id": str(uuid_utils.uuid7()),
            "description_id": str(uuid_utils.uuid7()),
            "first_check": FIRST_CHECK_SECONDS,
            "marketplace_user_id": marketplace_user_id,
        },
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - the job's row is locked, so it is there
    successful, failed, skipped, last_sequence = row[0], row[1], row[2], row[3]
    if terms.environment is Environment.LIVE:
        await credit_store.settle(
            connection,
            seller_id,
            job_id=job_id,
            captured=successful,
            released=failed + skipped,
            first_sequence=last_sequence - successful - failed - skipped + 1,
            last_sequence=last_sequence,
        )
    else:
        await credit_store.meter_test(connection, seller_id, successful)
    if JobStatus(row[6]) in TERMINAL:
        # A run whose items all went to the search waits for nobody any more.
        await connection.execute(_SQL["delete_useless"], {"seller_id": seller_id, "job_id": job_id})
    return Recorded(
        successful=successful,
        failed=failed,
        skipped=skipped,
        accepted=row[4],
        doubted=row[5],
        status=JobStatus(row[6]),
        ended=row[7],
    )


async def end_run(
    connection: Connection, run: Run, *, owner: str, delay: float, returns: int, recorded: Recorded | None = None
) -> None:
    """Give a run back: deleted when nothing of it is left to be tried, else due again after ``delay``
    seconds. What it brings back into a cancelled or stopped job ends with the job. In the caller's transaction,
    which locks the job's row here.

    Args:
        recorded: what this transaction has just recorded, and done nothing since: the job's row is locked by that,
            and its state known.
    """
    if recorded is None or recorded.ended:
        await jobs.close_leftovers(connection, run.seller_id, run.job_id)
    await connection.execute(
        _SQL["end_run"],
        {
            "seller_id": run.seller_id,
            "job_id": run.job_id,
            "environment": run.environment,
            "first_ordinal": run.first_ordinal,
            "last_ordinal": run.last_ordinal,
            "owner": owner,
            "fence": run.fence,
            "delay": delay,
            "returns": min(returns, 1000),
        },
    )


async def expired(connection: Connection) -> list[tuple[int, str, int, int]]:
    """(seller, job, first ordinal, fence) of runs whose lease has ended."""
    cursor = await connection.execute(_SQL["select_expired"])
    return [(row[0], row[1], row[2], row[3]) for row in await cursor.fetchall()]


async def owned(connection: Connection, owner: str) -> list[tuple[int, str, int, int]]:
    """The same, of runs that this worker holds."""
    cursor = await connection.execute(_SQL["select_owned"], {"owner": owner})
    return [(row[0], row[1], row[2], row[3]) for row in await cursor.fetchall()]


async def rescue(
    connection: Connection, expired_run: tuple[int, str, int, int], *, owner: str, settle: float, spread: float
) -> int | None:
    """Take back a run whose lease has ended, or that ``owner`` itself gives up.

    Returns:
        How many sends of it are now searched for; None when somebody else was first.
    """
    seller_id, job_id, first_ordinal, fence = expired_run
    await jobs.lock(connection, seller_id, job_id)
    cursor = await connection.execute(
        _SQL["rescue"],
        {
            "seller_id": seller_id,
            "job_id": job_id,
            "first_ordinal": first_ordinal,
            "fence": fence,
            "owner": owner,
            "settle": settle,
            "spread": spread,
        },
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    await jobs.close_leftovers(connection, seller_id, job_id)
    await connection.execute(_SQL["delete_useless"], {"seller_id": seller_id, "job_id": job_id})
    return int(row[0])


async def due_schedules(connection: Connection) -> list[tuple[int, str, bool]]:
    """(seller, job, account connected) of scheduled jobs whose time has come."""
    cursor = await connection.execute(_SQL["select_due_schedules"])
    return [(row[0], row[1], row[2]) for row in await cursor.fetchall()]


async def queue_scheduled(connection: Connection, seller_id: int, job_id: str) -> bool:
    """From scheduled to queued; False when somebody else was first."""
    cursor = await connection.execute(_SQL["queue_scheduled"], {"seller_id": seller_id, "job_id": job_id})
    return cursor.rowcount == 1


async def stranded(connection: Connection) -> list[tuple[int, str]]:
    """Active jobs that nothing would ever work on again."""
    cursor = await connection.execute(_SQL["select_stranded"])
    return [(row[0], row[1]) for row in await cursor.fetchall()]


async def restore_runs(connection: Connection, seller_id: int, job_id: str, *, settle: float) -> int:
    """Let a stranded job go on: sends that nobody answers for are searched for, pending items that nobody would
    try have runs again, or end with their job; returns how much was amiss."""
    locked = await jobs.lock(connection, seller_id, job_id)
    if locked is None:
        return 0
    key = {"seller_id": seller_id, "job_id": job_id}
    cursor = await connection.execute(_SQL["doubt_orphans"], {**key, "settle": settle})
    found = cursor.rowcount
    cursor = await connection.execute(_SQL["restore_runs"], {**key, "run_size": RUN_SIZE})
    found += cursor.rowcount
    cursor = await connection.execute(_SQL["select_leftovers"], key)
    if await cursor.fetchone() is not None:
        await jobs.close_leftovers(connection, seller_id, job_id)
        found += 1
    return found


async def gauges(connection: Connection) -> Gauges:
    """What an operator looks at first."""
    cursor = await connection.execute(_SQL["select_gauges"])
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - a SELECT of scalars gives a row
    return Gauges(
        runs_due=row[0],
        oldest_due=row[1],
        oldest_pending=row[2],
        queued=row[3],
        processing=row[4],
        scheduled=row[5],
        reconciling=row[6],
    )


async def report_finding(connection: Connection, seller_id: int, what: str) -> None:
    """Keep what the audit found."""
    await connection.execute(
        _SQL["insert_finding"], {"seller_id": seller_id, "finding_id": str(uuid_utils.uuid7()), "what": what}
    )
