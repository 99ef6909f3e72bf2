"""Cancel and retry jobs, one or many."""

from __future__ import annotations

from dataclasses import dataclass

from core.domain.failures import KINDS, Failure
from core.domain.jobs import Job
from core.domain.sku import is_uuid
from core.domain.states import ACTIVE, TERMINAL, Environment, JobStatus
from core.errors import ApiError, invalid
from core.storage import credits as credit_store
from core.storage import jobs, sellers
from core.storage.database import Connection, Database
from core.use_cases.create_job import credits_exhausted
from core.use_cases.read_jobs import check_job_id, job_filter, job_not_found

MAX_ACTED_ON = 1_000
"""Jobs of one call that acts on many."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """``items`` were skipped by this call; ``in_flight`` are recorded as what they become."""

    job: Job
    items: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Retried:
    """``items`` are sent again."""

    job: Job
    items: int


@dataclass(frozen=True, slots=True)
class ActedOn:
    """What became of one job of many; ``refused`` when the rules forbade it."""

    job: Job
    items: int
    refused: ApiError | None = None


async def cancel_job(database: Database, seller_id: int, job_id: str) -> Cancelled:
    """Cancel a job that is not terminal.

    Raises:
        ApiError: E_JOB_NOT_FOUND, E_JOB_ALREADY_TERMINAL.
    """
    check_job_id(job_id)

    async def work(connection: Connection) -> Cancelled:
        locked = await jobs.lock(connection, seller_id, job_id)
        if locked is None:
            raise job_not_found()
        if locked.status in TERMINAL:
            raise ApiError("E_JOB_ALREADY_TERMINAL", f"The job is already {locked.status.value}.")
        items = await jobs.close_pending(connection, seller_id, job_id, failure=Failure("cancelled"), cancel=True)
        in_flight = await jobs.count_in_flight(connection, seller_id, job_id)
        await jobs.notify(connection, seller_id, job_id)
        return Cancelled(await _present(connection, seller_id, job_id), items, in_flight)

    return await database.transact(work)


async def retry_job(
    database: Database, seller_id: int, job_id: str, *, environment: Environment | None = None
) -> Retried:
    """Send the failed, retryable items of a terminal job again: all or none.

    Args:
        environment: the caller's; None for an operator, who may retry any.

    Raises:
        ApiError: E_JOB_NOT_FOUND, E_JOB_NOT_RETRYABLE, E_PRODUCT_CREDIT_EXHAUSTED.
    """
    check_job_id(job_id)

    async def work(connection: Connection) -> Retried:
        # The seller first (rule 6): the hold must not race with another job's.
        await sellers.lock(connection, seller_id)
        locked = await jobs.lock(connection, seller_id, job_id)
        if locked is None:
            raise job_not_found()
        if environment is not None and environment is not locked.environment:
            raise ApiError(
                "E_JOB_NOT_RETRYABLE",
                f"This is a {locked.environment.value} job: retry it with a {locked.environment.value} key.",
            )
        if locked.status not in TERMINAL:
            raise ApiError("E_JOB_NOT_RETRYABLE", f"The job is {locked.status.value}; only a finished job is retried.")
        items = await jobs.count_retryable(connection, seller_id, job_id)
        if items == 0:
            waiting = f" What becomes of {locked.pending} is not known yet." if locked.pending else ""
            raise ApiError("E_JOB_NOT_RETRYABLE", f"No failed item of this job can be retried.{waiting}")
        if locked.environment is Environment.LIVE:
            await _hold(connection, seller_id, job_id, items, locked.last_sequence)
        reopened = await jobs.reopen(connection, seller_id, job_id)
        if reopened != items:
            # The job's row is locked, so nobody else can have changed them: what is held would not be what is sent.
            raise RuntimeError(f"job {job_id}: {items} items to be sent again, {reopened} reopened")
        await jobs.notify(connection, seller_id, job_id)
        return Retried(await _present(connection, seller_id, job_id), items)

    retried = await database.transact(work)
    database.wake_ups.soon()
    return retried


async def act_on_jobs(
    database: Database,
    *,
    retry: bool,
    seller_id: int | None,
    status: str | None,
    from_date: str | None,
    to_date: str | None,
    error_code: str | None,
    validate_only: bool,
    after: tuple[int, str] | None = None,
) -> tuple[list[ActedOn], bool]:
    """Retry or cancel the jobs that match, one transaction each, oldest first.

    Args:
        after: (seller, job) of the last result of the call before. Refused jobs match again: without it they would
            keep the jobs behind them from ever being acted on.

    Returns:
        A result per job (at most MAX_ACTED_ON), and whether more match.

    Raises:
        ApiError: 422 for the filter; E_ADMIN_INVALID for an unknown error code.
    """
    (from_time, to_time), found = job_filter(status=status, from_date=from_date, to_date=to_date)
    if found:
        raise invalid(found)
    if error_code is not None and error_code not in KINDS:
        raise ApiError("E_ADMIN_INVALID", "error_code must be a code of the table of item failures.")
    if after is not None and not is_uuid(after[1]):
        raise ApiError("E_ADMIN_INVALID", "after_job_id must be a job's UUID.")

    async def choose(connection: Connection) -> list[tuple[int, str]]:
        return await jobs.to_act_on(
            connection,
            seller_id=seller_id,
            status=JobStatus(status) if status is not None else None,
            statuses=sorted(TERMINAL if retry else ACTIVE),
            from_time=from_time,
            to_time=to_time,
            error_code=error_code,
            retryable=retry,
            after=after,
            limit=MAX_ACTED_ON + 1,
        )

    chosen = await database.read(choose)
    results = []
    for owner, job_id in chosen[:MAX_ACTED_ON]:
        results.append(await _act(database, owner, job_id, retry=retry, validate_only=validate_only))
    return results, len(chosen) > MAX_ACTED_ON


async def _act(database: Database, seller_id: int, job_id: str, *, retry: bool, validate_only: bool) -> ActedOn:
    async def look(connection: Connection) -> ActedOn:
        job = await _present(connection, seller_id, job_id)
        items = await jobs.count_retryable(connection, seller_id, job_id) if retry else job.pending
        return ActedOn(job, items)

    if validate_only:
        return await database.read(look)
    try:
        if retry:
            retried = await retry_job(database, seller_id, job_id)
            return ActedOn(retried.job, retried.items)
        cancelled = await cancel_job(database, seller_id, job_id)
        return ActedOn(cancelled.job, cancelled.items)
    except ApiError as error:
        seen = await database.read(look)
        return ActedOn(seen.job, 0, refused=error)


async def _hold(connection: Connection, seller_id: int, job_id: str, items: int, last_sequence: int) -> None:
    if not await credit_store.hold(connection, seller_id, job_id=job_id, amount=items, last_sequence=last_sequence):
        balance = await credit_store.balance(connection, seller_id)
        raise credits_exhausted(needed=items, available=balance.available if balance else 0)


async def _present(connection: Connection, seller_id: int, job_id: str) -> Job:
    job = await jobs.find(connection, seller_id, job_id)
    if job is None:
        raise job_not_found()
    return job
