"""The worker process: its loops, its leases and its orderly end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from structlog.contextvars import bind_contextvars

from core import metrics
from core.domain.states import Environment, JobStatus
from core.errors import ApiError
from core.ports.work import Run
from core.slots import Slots
from core.storage import intents, work
from core.storage.database import Connection, DatabaseError
from core.storage.listen import hear
from core.storage.wake import CHANNEL
from core.worker.accounts import Accounts
from core.worker.context import AHEAD, WorkerContext, log
from core.worker.follow_ups import FollowUps
from core.worker.reconcile import Reconciler
from core.worker.recovery import Recovery
from core.worker.run import Held, RunWork

FOLLOW_UP_CALLS = 8
"""Calls in flight for what comes after publication, beside the sends."""
NEWCOMERS = 20
"""With so many times the items that can be in flight in hand, also accounts that have none must wait."""
RESCUE_PERIOD = 1.0
SCHEDULE_PERIOD = 1.0
SEARCH_PERIOD = 0.5
FOLLOW_UP_PERIOD = 1.0
GAUGE_PERIOD = 5.0
STRANDED_PERIOD = 15.0
AUDIT_PERIOD = 120.0
HOUSEKEEPING_PERIOD = 600.0


class Worker:
    """Claims runs and works them, and lets every sweep turn.

    ``wake`` may be called by whoever learns that work is due; polling is the base and works alone.
    """

    def __init__(self, context: WorkerContext) -> None:
        self.context = context
        self._slots = Slots(context.settings.worker_concurrency)
        self._accounts = Accounts(context)
        self._recovery = Recovery(context)
        self._reconciler = Reconciler(context, self._accounts, self._slots)
        self._follow_ups = FollowUps(context, self._accounts, Slots(FOLLOW_UP_CALLS))
        self._held: dict[tuple[str, int, int], Held] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._enough = AHEAD * context.settings.worker_concurrency
        self._at_hand = 0
        self._in_hand: Counter[tuple[int, Environment]] = Counter()
        self._woken = asyncio.Event()
        self._turn = 0

    def wake(self) -> None:
        """Look for work now."""
        self._woken.set()

    async def run(self) -> None:
        """Work until ``context.stopping`` is set, then stop in order within the grace period."""
        context = self.context
        log.info("worker_started", owner=context.owner, concurrency=context.settings.worker_concurrency)
        loops = [
            asyncio.create_task(loop)
            for loop in (
                self._claim_loop(),
                # With the jitter never later than a third of the lease.
                self._every(context.lease / 3.75, self._renew),
                self._every(RESCUE_PERIOD, self._recovery.rescue_expired),
                self._every(SCHEDULE_PERIOD, self._recovery.start_schedules),
                self._every(SEARCH_PERIOD, self._reconciler.sweep),
                self._every(FOLLOW_UP_PERIOD, self._follow_ups.sweep),
                self._every(GAUGE_PERIOD, self._recovery.measure),
                self._every(STRANDED_PERIOD, self._recovery.restore_stranded),
                self._every(AUDIT_PERIOD, self._recovery.audit),
                self._every(HOUSEKEEPING_PERIOD, self._recovery.forget_old_keys),
            )
        ]
        listener = asyncio.create_task(self._listen())
        try:
            await context.stopping.wait()
        finally:
            listener.cancel()
            context.stopping.set()
            await self._stop(loops)
            await asyncio.gather(listener, return_exceptions=True)

    async def _listen(self) -> None:
        """Look for work as soon as somebody says that there is some; everything works without, only later."""
        if self.context.settings.database_listen:
            await hear(self.context.database, CHANNEL, lambda _payload: self.wake(), self.wake)

    async def _every(self, period: float, step: Callable[[], Awaitable[object]]) -> None:
        """Repeat a step with jitter, whatever it raises."""
        while not self.context.stopping.is_set():
            await self._attempt(step)
            await self._pause(period * (0.75 + 0.5 * self.context.random.random()))

    async def _attempt(self, step: Callable[[], Awaitable[object]]) -> None:
        try:
            await step()
        except (ApiError, DatabaseError) as error:
            log.warning("step_failed", step=getattr(step, "__qualname__", "step"), error=type(error).__name__)
        except Exception:
            log.exception("step_failed", step=getattr(step, "__qualname__", "step"))

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.context.stopping.wait(), seconds)
        except TimeoutError:
            return

    # Claiming.

    async def _claim_loop(self) -> None:
        context = self.context
        while not context.stopping.is_set():
            claimed = 0
            # Before the look: who wakes during it is heard after it.
            self._woken.clear()
            try:
                claimed = await self._claim()
            except (ApiError, DatabaseError) as error:
                log.warning("claim_failed", error=type(error).__name__)
                await self._pause(0.5)
            except Exception:
                log.exception("claim_failed")
                await self._pause(1.0)
            if not claimed:
                await self._sleep_until_woken(context.settings.poll_seconds * (0.5 + context.random.random()))

    async def _sleep_until_woken(self, seconds: float) -> None:
        waits = [asyncio.ensure_future(self._woken.wait()), asyncio.ensure_future(self.context.stopping.wait())]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    def _has_room(self, account: tuple[int, Environment]) -> bool:
        """Whether a run of this account may still be taken: some times the items that can be in flight, so that no slot
        waits for a claim; beyond it only by accounts that have none in hand, so that none waits behind others."""
        most = NEWCOMERS * self.context.settings.worker_concurrency
        return self._at_hand < self._enough or (self._in_hand[account] == 0 and self._at_hand < most)

    def _answered(self, held: Held, count: int) -> None:
        """So many more items of a run need no call: the next run is claimed while the last ones are in flight."""
        count = min(count, held.left - 1)
        held.left -= count
        self._put_down(held.run, count)

    def _put_down(self, run: Run, count: int) -> None:
        self._in_hand[run.seller_id, run.environment] -= count
        before, self._at_hand = self._at_hand, self._at_hand - count
        if self._at_hand < self._enough <= before:
            self._woken.set()

    async def _claim(self) -> int:
        """One turn round the sellers with due work: one run each, so that none waits behind another."""
        due = await self.context.database.read(work.due)
        due = [each for each in due if self._accounts.rests(*each) == 0]
        if not due:
            return 0
        self._turn = (self._turn + 1) % len(due)
        claimed = 0
        for seller_id, environment in due[self._turn :] + due[: self._turn]:
            if self.context.stopping.is_set():
                break
            if self._has_room((seller_id, environment)):
                claimed += await self._claim_from(seller_id, environment)
        return claimed

    async def _claim_from(self, seller_id: int, environment: Environment) -> int:
        context = self.context
        before = time.monotonic()

        async def claim(connection: Connection) -> list[Run]:
            return await work.claim(
                connection, seller_id, environment, owner=context.owner, lease=context.lease, limit=1
            )

        await context.point("before_claim_commit")
        runs = await context.database.read(claim)
        await context.point("after_claim_commit")
        if not runs:
            return 0

        starting = {run.job_id for run in runs if run.terms.status is JobStatus.QUEUED}
        if starting:

            async def start(connection: Connection) -> None:
                await work.start_jobs(connection, seller_id, starting)

            await context.database.read(start)
        for run in runs:
            metrics.runs_claimed.inc()
            held = Held(run, before + context.lease, left=run.size)
            self._held[_key(run)] = held
            self._in_hand[seller_id, environment] += run.size
            self._at_hand += run.size
            task = asyncio.create_task(self._work(held))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        metrics.runs_held.set(len(self._held))
        return len(runs)

    async def _work(self, held: Held) -> None:
        # Each run is a task of its own, so whatever logs inside of it names the job.
        bind_contextvars(job_id=held.run.job_id)
        try:
            await RunWork(self.context, self._accounts, self._slots, held, self._answered).work()
        except (ApiError, DatabaseError) as error:
            log.warning("run_abandoned", job_id=held.run.job_id, error=type(error).__name__)
            await self._abandon(held.run)
        except Exception:
            log.exception("run_abandoned", job_id=held.run.job_id)
            await self._abandon(held.run)
        finally:
            self._held.pop(_key(held.run), None)
            self._put_down(held.run, held.left)
            metrics.runs_held.set(len(self._held))
            self._woken.set()

    async def _abandon(self, run: Run) -> None:
        """Give an unfinished run back at once, its sends to be searched for. Where even that fails the lease
        ends by itself and another worker does it."""
        self._held[_key(run)].lost = True
        key = (run.seller_id, run.job_id, run.first_ordinal, run.fence)
        await self._attempt(lambda: self._recovery.rescue(key))

    # Leases.

    async def _renew(self) -> None:
        """Renew all leases in one statement; what cannot be renewed starts no further call."""
        held = list(self._held.values())
        if not held:
            return
        before = time.monotonic()

        async def renew(connection: Connection) -> set[tuple[str, int, int]]:
            return await work.renew(
                connection, [each.run for each in held], owner=self.context.owner, lease=self.context.lease
            )

        await self.context.point("before_renewal")
        renewed = await self.context.database.read(renew)
        for each in held:
            if _key(each.run) in renewed:
                each.until = before + self.context.lease
            elif _key(each.run) in self._held:
                each.lost = True
                metrics.leases_lost.inc()
                log.warning("lease_lost", job_id=each.run.job_id, first_ordinal=each.run.first_ordinal)

    # The end.

    async def _stop(self, loops: list[asyncio.Task[None]]) -> None:
        context = self.context
        # The loops end after their present step: a search or a repost on the wire is finished as well.
        await asyncio.wait({*self._tasks, *loops}, timeout=context.settings.drain_seconds * 0.6)
        for task in (*self._tasks, *loops):
            task.cancel()
        await asyncio.gather(*self._tasks, *loops, return_exceptions=True)
        try:
            await asyncio.wait_for(self._give_back(), context.settings.drain_seconds * 0.3)
        except (ApiError, DatabaseError, TimeoutError) as error:
            log.warning("leases_left_to_end", error=type(error).__name__)
        log.info("worker_stopped", owner=context.owner)

    async def _give_back(self) -> None:
        """What is still held goes back now: sends cut off in the middle are searched for by the others."""

        async def owned(connection: Connection) -> list[tuple[int, str, int, int]]:
            return await work.owned(connection, self.context.owner)

        for run in await self.context.database.read(owned):
            await self._recovery.rescue(run, spread=0.0)

        async def release(connection: Connection) -> None:
            await intents.release_owned(connection, self.context.owner)

        await self.context.database.read(release)


def _key(run: Run) -> tuple[str, int, int]:
    return run.job_id, run.first_ordinal, run.fence
