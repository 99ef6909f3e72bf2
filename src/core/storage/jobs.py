"""Jobs and items: reading pages, and the guarded moves that are not the worker's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from core.domain.failures import Failure
from core.domain.jobs import Job, JobItem, JobList, JobPage
from core.domain.publication import RUN_SIZE
from core.domain.states import Environment, ItemStatus, JobKind, JobStatus
from core.storage import credits as credit_store
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("jobs")

# Looked up for every job and item read: to call an enumeration takes ten times as long.
_JOB_STATUS = {status.value: status for status in JobStatus}
_JOB_KIND = {kind.value: kind for kind in JobKind}
_ENVIRONMENT = {environment.value: environment for environment in Environment}
_ITEM_STATUS = {status.value: status for status in ItemStatus}


def job_from(row: tuple[Any, ...]) -> Job:
    """A row of the job statements as a value."""
    return Job(
        seller_id=row[0],
        job_id=row[1],
        job_number=row[2],
        status=_JOB_STATUS[row[3]],
        environment=_ENVIRONMENT[row[4]],
        kind=_JOB_KIND[row[5]],
        total_items=row[6],
        successful=row[7],
        failed=row[8],
        skipped=row[9],
        pending=row[10],
        reconciling=row[11],
        last_sequence=row[12],
        retries=row[13],
        currency=row[14],
        created_at=row[15],
        scheduled_for=row[16],
        started_at=row[17],
        completed_at=row[18],
        error_message=row[19],
        waiting_reason=row[20],
    )


_ItemColumns = tuple[
    list[int],
    list[str],
    list[ItemStatus],
    list[str | None],
    list[str | None],
    list[int | None],
    list[str | None],
    list[bool | None],
    list[dict[str, Any] | None],
    list[int | None],
    list[int],
    list[str | None],
]
"""The fields of JobItem, in their order, each with a value for every item."""
_read_columns = msgspec.json.Decoder(_ItemColumns).decode
_LAST_ORDINAL = 2**31 - 1
"""What the column can hold: no bound."""


def _item(row: tuple[Any, ...]) -> JobItem:
    return JobItem(row[0], row[1], _ITEM_STATUS[row[2]], *row[3:])


async def find(connection: Connection, seller_id: int, job_id: str) -> Job | None:
    """The seller's job; None for unknown and foreign ids alike."""
    cursor = await connection.execute(_SQL["select_job"], {"seller_id": seller_id, "job_id": job_id})
    row = await cursor.fetchone()
    return job_from(row) if row else None


async def page(
    connection: Connection,
    seller_id: int,
    job_id: str,
    *,
    status: ItemStatus | None,
    limit: int,
    offset: int = 0,
    after: int | None = None,
) -> JobPage | None:
    """A job with some of its items, those after the ordinal ``after`` if it is given, both as of one moment; None for
    unknown and foreign ids alike."""
    after = -1 if after is None else after
    last = _LAST_ORDINAL
    if status is None:
        # Every item counts, so an offset is an ordinal, and every page costs the same.
        after, offset = after + offset, 0
        last = after + limit
    cursor = await connection.execute(
        _SQL["select_page"],
        {
            "seller_id": seller_id,
            "job_id": job_id,
            "limit": limit,
            "offset": offset,
            "status": status,
            "after": after,
            "last": last,
        },
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    job = job_from(row)
    totals = {
        None: job.total_items,
        ItemStatus.SUCCESS: job.successful,
        ItemStatus.FAILED: job.failed,
        ItemStatus.SKIPPED: job.skipped,
        ItemStatus.PENDING: job.pending,
    }
    items = list(map(JobItem, *_read_columns(row[21]))) if row[21] is not None else []
    return JobPage(job=job, items=items, total=totals[status])


async def results_after(
    connection: Connection, seller_id: int, job_id: str, *, after: int, limit: int
) -> list[JobItem]:
    """Item results in the order they happened, without holes."""
    cursor = await connection.execute(
        _SQL["select_results_after"], {"seller_id": seller_id, "job_id": job_id, "after": after, "limit": limit}
    )
    return [_item(row) for row in await cursor.fetchall()]


async def newest(
    connection: Connection,
    seller_id: int,
    *,
    status: JobStatus | None,
    from_time: datetime | None,
    to_time: datetime | None,
    limit: int,
    offset: int = 0,
    before: int | None = None,
) -> JobList:
    """Some of the seller's jobs, newest first, those before the job number ``before`` if it is given. ``to_time`` is
    exclusive."""
    parameters: dict[str, Any] = {"seller_id": seller_id, "limit": limit, "offset": offset, "before": before}
    if status is None and from_time is None and to_time is None:
        cursor = await connection.execute(_SQL["select_jobs_newest"], parameters)
        rows = await cursor.fetchall()
        jobs = [job_from(row) for row in rows if row[0] is not None]
        return JobList(jobs=jobs, total=rows[0][21] if rows else 0)
    parameters |= {"status": status, "from_time": from_time, "to_time": to_time}
    cursor = await connection.execute(_SQL["count_jobs_filtered"], parameters)
    count = await cursor.fetchone()
    cursor = await connection.execute(_SQL["select_jobs_filtered"], parameters)
    return JobList(jobs=[job_from(row) for row in await cursor.fetchall()], total=count[0] if count else 0)


async def active(connection: Connection, seller_id: int) -> list[Job]:
    """The seller's jobs that are not done, oldest first."""
    cursor = await connection.execute(_SQL["select_active_jobs"], {"seller_id": seller_id})
    return [job_from(row) for row in await cursor.fetchall()]


async def watched(connection: Connection, pairs: Sequence[tuple[int, str]]) -> list[Job]:
    """These (seller, job) as they stand, in one statement; unknown ones are left out."""
    cursor = await connection.execute(
        _SQL["select_watched"],
        # As PostgreSQL writes arrays: psycopg takes longer to write them down one by one than to read the rows.
        {
            "seller_ids": f"{{{','.join(str(seller) for seller, _ in pairs)}}}",
            "job_ids": f"{{{','.join(job for _, job in pairs)}}}",
        },
    )
    return [job_from(row) for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class SellerJobs:
    """A watched seller's jobs. ``job_count`` is the number of the newest job there is."""

    job_count: int
    jobs: list[Job]


async def of_sellers(connection: Connection, after: Sequence[tuple[int, int | None]]) -> dict[int, SellerJobs]:
    """By seller: the active jobs, and every job with a number above the one given (None: only the active)."""
    cursor = await connection.execute(
        _SQL["select_jobs_of_sellers"],
        {"seller_ids": [seller for seller, _ in after], "after_numbers": [number for _, number in after]},
    )
    found: dict[int, SellerJobs] = {}
    for row in await cursor.fetchall():
        of_seller = found.setdefault(row[21], SellerJobs(row[22], []))
        if row[1] is not None:
            of_seller.jobs.append(job_from(row))
    return found


async def notify(connection: Connection, seller_id: int, job_id: str) -> None:
    """Wake the watchers of a job when the transaction commits; one call per transaction is enough."""
    await connection.execute(_SQL["notify_changed"], {"seller_id": seller_id, "job_id": job_id})


async def to_act_on(
    connection: Connection,
    *,
    seller_id: int | None,
    status: JobStatus | None,
    statuses: Sequence[JobStatus],
    from_time: datetime | None,
    to_time: datetime | None,
    error_code: str | None,
    retryable: bool,
    after: tuple[int, str] | None,
    limit: int,
) -> list[tuple[int, str]]:
    """(seller, job) of the jobs that match, oldest first, after one of them if it is given."""
    after_seller, after_job = after or (0, "00000000-0000-0000-0000-000000000000")
    cursor = await connection.execute(
        _SQL["select_jobs_to_act_on"],
        {
            "seller_id": seller_id,
            "status": status,
            "statuses": [each.value for each in statuses],
            "from_time": from_time,
            "to_time": to_time,
            "error_code": error_code,
            "retryable": retryable,
            "after_seller": after_seller,
            "after_job": after_job,
            "limit": limit,
        },
    )
    return [(row[0], row[1]) for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class LockedJob:
    """What the holder of the job's row may rely on until its transaction ends."""

    status: JobStatus
    environment: Environment
    pending: int
    failed: int
    last_sequence: int
    currency: str
    stopped_by: str | None
    retries: int


async def lock(connection: Connection, seller_id: int, job_id: str) -> LockedJob | None:
    """Lock the job's row until the transaction ends; None for unknown and foreign ids alike."""
    cursor = await connection.execute(_SQL["lock_job"], {"seller_id": seller_id, "job_id": job_id})
    row = await cursor.fetchone()
    return LockedJob(JobStatus(row[0]), Environment(row[1]), *row[2:]) if row else None


async def close_pending(connection: Connection, seller_id: int, job_id: str, *, failure: Failure, cancel: bool) -> int:
    """End every pending item that is not on the wire, release its credit, and move the job.

    The job's row is locked. With ``cancel`` the items are skipped and the job cancelled at once;
    otherwise they are failed, and the job is failed as soon as nothing of it is on the wire.

    Returns:
        How many items were ended.
    """
    key = {"seller_id": seller_id, "job_id": job_id}
    item_status = ItemStatus.SKIPPED if cancel else ItemStatus.FAILED
    cursor = await connection.execute(
        _SQL["end_pending"],
        {
            **key,
            "item_status": item_status,
            "retryable": failure.kind.retryable,
            "error": Jsonb(failure.stored()),
        },
    )
    ended = cursor.rowcount
    cursor = await connection.execute(
        _SQL["close_job"],
        {
            **key,
            "ended": ended,
            "item_status": item_status,
            "error_message": None if cancel else failure.kind.message,
            "stopped_by": None if cancel else failure.code,
            "job_status": JobStatus.CANCELLED if cancel else JobStatus.FAILED,
        },
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - the job's row is locked, so it is there
    last_sequence, environment = row
    if environment == Environment.LIVE:
        await credit_store.settle(
            connection,
            seller_id,
            job_id=job_id,
            captured=0,
            released=ended,
            first_sequence=last_sequence - ended + 1,
            last_sequence=last_sequence,
        )
    return ended


async def stop(connection: Connection, seller_id: int, job_id: str, *, failure: Failure, retries: int) -> bool:
    """The account stops: from here on the job can only fail, however well its last items went. To be followed by
    their results and ``close_leftovers``. A job that has ended, was stopped before, or was retried since (``retries``
    then) is left as it is: False. Locks the job's row."""
    cursor = await connection.execute(
        _SQL["stop_job"],
        {
            "seller_id": seller_id,
            "job_id": job_id,
            "stopped_by": failure.code,
            "error_message": failure.kind.message,
            "retries": retries,
        },
    )
    return cursor.rowcount == 1


async def close_leftovers(connection: Connection, seller_id: int, job_id: str) -> None:
    """End what a run brings back untried into a job that was cancelled or stopped meanwhile: no run of it is
    ever claimed again, so such items would stay pending for ever. Locks the job's row."""
    locked = await lock(connection, seller_id, job_id)
    if locked is None or locked.pending == 0:
        return
    if locked.status is JobStatus.CANCELLED:
        await close_pending(connection, seller_id, job_id, failure=Failure("cancelled"), cancel=True)
    elif locked.stopped_by is not None and locked.status in (JobStatus.QUEUED, JobStatus.PROCESSING):
        await close_pending(connection, seller_id, job_id, failure=Failure(locked.stopped_by), cancel=False)
    else:
        return
    await notify(connection, seller_id, job_id)


async def count_retryable(connection: Connection, seller_id: int, job_id: str) -> int:
    """Items a retry would send again."""
    cursor = await connection.execute(_SQL["count_retryable"], {"seller_id": seller_id, "job_id": job_id})
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def reopen(connection: Connection, seller_id: int, job_id: str) -> int:
    """Send the failed, retryable items again. The job's row is locked and its status terminal.

    Returns:
        How many items are pending again.
    """
    key = {"seller_id": seller_id, "job_id": job_id}
    await connection.execute(_SQL["keep_replaced"], {**key, "run_size": RUN_SIZE})
    cursor = await connection.execute(_SQL["reopen_items"], key)
    items = cursor.rowcount
    await connection.execute(_SQL["reopen_job"], {**key, "items": items, "run_size": RUN_SIZE})
    return items


async def count_in_flight(connection: Connection, seller_id: int, job_id: str) -> int:
    """Items on the wire or being searched for."""
    cursor = await connection.execute(_SQL["count_in_flight"], {"seller_id": seller_id, "job_id": job_id})
    row = await cursor.fetchone()
    return int(row[0]) if row else 0
