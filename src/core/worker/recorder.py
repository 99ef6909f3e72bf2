"""Writes results in batches as they come: those of PERIOD seconds together, or all that is left of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core import metrics
from core.domain.failures import Failure
from core.domain.listing import app_status
from core.domain.states import JobStatus
from core.ports.marketplace import Listing
from core.ports.work import JobTerms, Recorded, Run, StoredDraft
from core.storage import jobs, work
from core.storage.database import Connection
from core.storage.work import ItemResult
from core.worker.context import WorkerContext, log

PERIOD = 0.25
"""Seconds a result waits for others: each write costs a commit and its turn at the job's row, and a run's last ones
go with its end."""


def success(
    *, ordinal: int, fence: int, stored: StoredDraft, listing: Listing, known_permalink: str = "", attempts: int = 1
) -> ItemResult:
    """The result of an item whose listing stands."""
    draft = stored.draft
    return ItemResult(
        ordinal=ordinal,
        sku=draft.sku,
        outcome="success",
        intent=True,
        fence=fence,
        attempts=attempts,
        listing_id=listing.listing_id,
        permalink=listing.permalink or known_permalink,
        # The marketplace may keep another price (an active price automation): what it says counts.
        price=listing.price if listing.price is not None else draft.price,
        category_id=listing.category_id or draft.category_id,
        category_name=stored.category_name,
        title=listing.title or draft.title,
        # Pictures are still loading: the marketplace shows a placeholder until the first check.
        image=draft.image_urls[0] if draft.image_urls else (listing.image or None),
        listing_type_id=listing.listing_type_id or draft.listing_type_id,
        status_meli=listing.status,
        sub_status=tuple(listing.sub_status),
        app_status=app_status(listing.status, listing.sub_status),
        described=stored.described,
    )


def failed(
    *, ordinal: int, sku: str, fence: int, failure: Failure, intent: bool, attempts: int = 0, skipped: bool = False
) -> ItemResult:
    """The result of an item that failed or is skipped."""
    return ItemResult(
        ordinal=ordinal,
        sku=sku,
        outcome="skipped" if skipped else "failed",
        intent=intent,
        fence=fence,
        attempts=attempts,
        retryable=failure.kind.retryable,
        error=failure.stored(),
    )


def pending(*, ordinal: int, sku: str, fence: int, outcome: str, attempts: int, intent: bool = True) -> ItemResult:
    """An item that stays pending: deferred, or unknown."""
    return ItemResult(ordinal=ordinal, sku=sku, outcome=outcome, intent=intent, fence=fence, attempts=attempts)


def count(terms: JobTerms, results: Sequence[ItemResult], recorded: Recorded) -> None:
    """Count what was really written."""
    environment = terms.environment.value
    for status, number in (
        ("success", recorded.successful),
        ("failed", recorded.failed),
        ("skipped", recorded.skipped),
    ):
        if number:
            metrics.items_finished.labels(environment, status).inc(number)
    for each in results:
        if each.error is not None and each.outcome == "failed":
            metrics.items_failed.labels(str(each.error["code"])).inc()
    if recorded.accepted and recorded.status in (JobStatus.COMPLETED, JobStatus.FAILED):
        # Only the write that takes the last pending item finds the job like this.
        metrics.jobs_finished.labels(recorded.status.value).inc()
    fenced = len(results) - recorded.accepted - recorded.doubted
    if fenced:
        metrics.fenced_writes.inc(fenced)
        log.warning("results_fenced_off", count=fenced)


class Recorder:
    """Results of one run on their way to the database.

    ``put`` never waits for the database; ``finish`` writes what is left together with the run's end.
    """

    def __init__(self, context: WorkerContext, run: Run, terms: JobTerms) -> None:
        self._context = context
        self._run = run
        self._terms = terms
        self._waiting: list[ItemResult] = []
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._writes: set[asyncio.Task[None]] = set()
        self._trouble: BaseException | None = None
        self._stop: Failure | None = None
        self.marketplace_user_id: int | None = None
        """Whose account the run sends to, once that is known."""

    def stop(self, failure: Failure) -> None:
        """The account stops: with the next write the job fails, and with it every item that is not on the wire. Said
        before the result that tells it is put, which may be the job's last."""
        self._stop = failure

    def put(self, result: ItemResult) -> None:
        """Add a result."""
        self._waiting.append(result)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD, self._write)

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        if batch:
            task = asyncio.create_task(self._store(batch))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)

    async def _store(self, batch: list[ItemResult]) -> None:
        async def some(connection: Connection) -> tuple[Recorded | None, Failure | None]:
            written = await self._record(connection, batch)
            if self._stop is not None:
                # In the same transaction, so that nobody claims them in between.
                await jobs.close_leftovers(connection, self._run.seller_id, self._run.job_id)
            return written

        try:
            async with self._lock:
                await self._context.point("before_result_commit")
                written = await self._context.database.transact(some, self._read_back)
                await self._context.point("after_result_commit")
                self._count(batch, *written)
        except BaseException as error:
            self._trouble = error

    async def _record(
        self, connection: Connection, batch: Sequence[ItemResult]
    ) -> tuple[Recorded | None, Failure | None]:
        """What was recorded, and what this has stopped the job for."""
        seller_id, job_id, stop = self._run.seller_id, self._run.job_id, self._stop
        stopped = stop is not None and await jobs.stop(
            connection, seller_id, job_id, failure=stop, retries=self._terms.retries
        )
        recorded = None
        if batch:
            recorded = await work.record(
                connection,
                seller_id,
                job_id,
                batch,
                owner=self._context.owner,
                terms=self._terms,
                first_ordinal=self._run.first_ordinal,
                settle=self._context.settle,
                first_search=self._context.first_search,
                marketplace_user_id=self.marketplace_user_id,
            )
        return recorded, stop if stopped else None

    def _count(self, batch: Sequence[ItemResult], recorded: Recorded | None, stopped: Failure | None) -> None:
        if recorded is not None:
            count(self._terms, batch, recorded)
        if stopped is not None:
            metrics.jobs_stopped.labels(stopped.code).inc()

    async def _read_back(self, _connection: Connection) -> tuple[Recorded | None, Failure | None] | None:
        # Nothing needs to be read: every row of a batch is guarded by its intent or its pending item, so
        # writing a batch again that was committed changes nothing.
        return None

    async def finish(self, delay: float, *, returns: int) -> None:
        """Write what is left and give the run back, due again after ``delay`` seconds if items remain.

        Args:
            delay: in seconds.
            returns: how often the run will then have come back in a row with nothing done.

        Raises:
            Exception: a write failed for good; the run stays leased and is rescued when the lease ends.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._writes:
            await asyncio.wait(self._writes)
        if self._trouble is not None:
            raise self._trouble
        batch, self._waiting = self._waiting, []

        async def last(connection: Connection) -> tuple[Recorded | None, Failure | None]:
            recorded, stopped = await self._record(connection, batch)
            await work.end_run(
                connection,
                self._run,
                owner=self._context.owner,
                delay=delay,
                returns=returns,
                recorded=recorded,
            )
            return recorded, stopped

        await self._context.point("before_result_commit")
        written = await self._context.database.transact(last, self._read_back)
        await self._context.point("after_result_commit")
        self._count(batch, *written)
