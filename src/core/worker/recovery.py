"""The repeating sweep: ended leases, due schedules, stranded jobs, the audit and the gauges (rule 14)."""

from __future__ import annotations

from core import metrics
from core.domain.failures import Failure
from core.domain.states import JobStatus
from core.errors import ApiError
from core.storage import acceptance, intents, jobs, sellers, vitals, work
from core.storage import credits as credit_store
from core.storage.database import Connection, DatabaseError
from core.worker.context import WorkerContext, log

SPREAD_SECONDS = 2.0
"""Rescued runs come back spread over this time."""


class Recovery:
    """Small units, one transaction each; one bad row does not stop the others."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    async def rescue_expired(self) -> int:
        """Take back runs and reposts whose holder let the lease end; returns how many runs."""
        rescued = 0
        for run in await self._context.database.read(work.expired):
            rescued += await self.rescue(run)

        async def doubt(connection: Connection) -> int:
            return await intents.doubt_expired(connection, settle=self._context.settle)

        await self._context.database.read(doubt)
        return rescued

    async def rescue(self, run: tuple[int, str, int, int], *, spread: float | None = None) -> int:
        """Take back one run; 1 when this call did it."""
        wait = self._context.random.random() * SPREAD_SECONDS if spread is None else spread

        async def take(connection: Connection) -> int | None:
            return await work.rescue(
                connection, run, owner=self._context.owner, settle=self._context.settle, spread=wait
            )

        try:
            await self._context.point("before_rescue")
            doubted = await self._context.database.transact(take, _read_back)
            await self._context.point("after_rescue")
        except Exception:
            log.exception("rescue_failed", job_id=run[1], first_ordinal=run[2])
            return 0
        if doubted is None:
            return 0
        metrics.runs_rescued.inc()
        if doubted:
            metrics.intents_unknown.labels("lease_ended").inc(doubted)
        log.info("run_rescued", job_id=run[1], first_ordinal=run[2], doubted=doubted)
        return 1

    async def start_schedules(self) -> int:
        """Queue scheduled jobs whose time has come; fail those whose account is gone."""
        started = 0
        for seller_id, job_id, connected in await self._context.database.read(work.due_schedules):

            async def start(
                connection: Connection, seller_id: int = seller_id, job_id: str = job_id, connected: bool = connected
            ) -> bool:
                locked = await jobs.lock(connection, seller_id, job_id)
                if locked is None or locked.status is not JobStatus.SCHEDULED:
                    return False
                if not connected:
                    failure = Failure("account_not_connected")
                    await jobs.close_pending(connection, seller_id, job_id, failure=failure, cancel=False)
                    return True
                return await work.queue_scheduled(connection, seller_id, job_id)

            try:
                started += await self._context.database.transact(start, _read_back_false)
                self._context.database.wake_ups.soon()
            except Exception:
                log.exception("schedule_failed", job_id=job_id)
        return started

    async def restore_stranded(self) -> int:
        """Give jobs that nothing would work on again their runs back. Finding one means a bug."""
        restored = 0
        for seller_id, job_id in await self._context.database.read(work.stranded):

            async def restore(connection: Connection, seller_id: int = seller_id, job_id: str = job_id) -> int:
                return await work.restore_runs(connection, seller_id, job_id, settle=self._context.settle)

            try:
                amiss = await self._context.database.transact(restore, _read_back)
            except Exception:
                log.exception("restore_failed", job_id=job_id)
                continue
            if amiss:
                restored += 1
                log.error("stranded_job_restored", job_id=job_id, amiss=amiss)
        return restored

    async def audit(self) -> int:
        """Check every seller's books; alarms, never repairs. Returns how many do not add up."""
        findings = 0
        for seller in await self._context.database.read(sellers.select):

            async def look(connection: Connection, seller_id: int = seller.seller_id) -> str | None:
                what = await credit_store.audit(connection, seller_id)
                if what is not None:
                    await work.report_finding(connection, seller_id, what)
                return what

            if self._context.stopping.is_set():
                break
            try:
                what = await self._context.database.read(look)
            except Exception:
                log.exception("audit_failed", seller_id=seller.seller_id)
                continue
            if what is not None:
                findings += 1
                metrics.audit_findings.inc()
                log.error("books_do_not_add_up", seller_id=seller.seller_id, what=what)
        return findings

    async def forget_old_keys(self) -> None:
        """Remove idempotency keys past their life, as many at once as a short statement takes, until there is none."""
        while await self._context.database.read(acceptance.forget_old_keys) and not self._context.stopping.is_set():
            pass

    async def measure(self) -> None:
        """Set the gauges an operator looks at first."""
        try:
            gauges = await self._context.database.read(work.gauges)
            health = await self._context.database.read(vitals.read)
        except (ApiError, DatabaseError):
            metrics.database_up.labels("worker").set(0)
            raise
        metrics.database_up.labels("worker").set(1)
        metrics.runs_due.set(gauges.runs_due)
        metrics.oldest_due_seconds.set(gauges.oldest_due)
        metrics.oldest_pending_seconds.set(gauges.oldest_pending)
        metrics.reconciling_items.set(gauges.reconciling)
        metrics.oldest_transaction_seconds.set(health.oldest_transaction)
        metrics.dead_rows.set(health.dead_rows)
        for status, number in (
            ("queued", gauges.queued),
            ("processing", gauges.processing),
            ("scheduled", gauges.scheduled),
        ):
            metrics.jobs_by_status.labels(status).set(number)


async def _read_back(_connection: Connection) -> int | None:
    """These transactions are guarded by state: doing one again that was committed changes nothing."""
    return None


async def _read_back_false(_connection: Connection) -> bool | None:
    return None
