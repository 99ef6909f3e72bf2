"""What watchers of one job, or of one seller's jobs, share. Bounded, whatever the readers do."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from core.domain.jobs import Job, JobItem
from core.domain.states import JobStatus
from core.storage.jobs import SellerJobs

PAGE = 500
"""Results read at once."""
TAIL = 2 * PAGE
"""Results of one job kept for the watchers that keep up."""
ENDED_KEPT = 200
"""Ended jobs of one seller kept for those who watch the seller's jobs."""
RATE_SECONDS = 10.0
"""The rate of a job is measured over this time."""
SAMPLE_SECONDS = 0.25
"""Readings of a job that follow each other faster are one sample of its rate."""

_RANK = {JobStatus.SCHEDULED: 0, JobStatus.QUEUED: 1, JobStatus.PROCESSING: 2}


class ItemResult:
    """One item's result. ``rendered`` is for the face that sends it: what it made for one watcher serves all."""

    __slots__ = ("item", "rendered")

    def __init__(self, item: JobItem) -> None:
        self.item = item
        self.rendered: Any = None


class Feed:
    """Something watched. ``version`` rises at each change, which wakes all that wait."""

    __slots__ = ("version", "waiters", "watchers")

    def __init__(self) -> None:
        self.watchers = 0
        self.version = 0
        self.waiters: list[Waiter] = []

    def bump(self) -> None:
        """Tell all watchers that there is something new."""
        self.version += 1
        for waiter in self.waiters:
            waiter.wake()


class Waiter:
    """One watcher of a feed, between two looks at it; a context manager.

    Its timer outlives the waits: mostly a change comes first and the next wait is to last longer still, so that the
    timer already set does for it. A timer for each wait cost as much as the rest of the wait.
    """

    __slots__ = ("_feed", "_future", "_loop", "_rings_at", "_timer", "_until")

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = self._until = 0.0

    def __enter__(self) -> Waiter:
        """From here on changes are heard."""
        self._feed.waiters.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop hearing."""
        self._feed.waiters.remove(self)
        if self._timer is not None:
            self._timer.cancel()

    async def wait(self, seen: int, seconds: float) -> None:
        """Return when the feed's version is no longer ``seen``, or after so many seconds."""
        if self._feed.version != seen or seconds <= 0:
            return
        self._until = time.monotonic() + seconds
        if self._timer is None or self._until < self._rings_at:
            self._set(seconds)
        self._future = self._loop.create_future()
        try:
            await self._future
        finally:
            self._future = None

    def wake(self) -> None:
        """Look again."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def _set(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = self._until
        self._timer = self._loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._future is None:
            return
        left = self._until - time.monotonic()
        if left > 0:
            self._set(left)
        else:
            self.wake()


class Progress:
    """Counters as they stand in ``job``. ``items_per_second`` is 0, ``eta_seconds`` None, while unknown.

    ``rendered`` is for the face that sends it, as for a result.
    """

    __slots__ = ("eta_seconds", "items_per_second", "job", "rendered", "standing")

    def __init__(self, job: Job, items_per_second: float = 0.0) -> None:
        self.job = job
        self.items_per_second = items_per_second
        self.eta_seconds = job.pending / items_per_second if items_per_second else None
        self.standing = (
            job.pending,
            job.successful,
            job.failed,
            job.skipped,
            job.status,
            job.waiting_reason,
            items_per_second > 0,
        )
        """What must differ for it to be news."""
        self.rendered: Any = None


class JobFeed(Feed):
    """One watched job: as it last stood, its most recent results, and how fast it goes."""

    __slots__ = ("_samples", "answered_at", "job", "progress", "start", "tail")

    def __init__(self, job: Job, answered_at: float) -> None:
        super().__init__()
        self.job = job
        self.answered_at = answered_at
        """When the reading was answered that ``job`` stems from, or one that said the same; monotonic."""
        self.tail: list[ItemResult] = []
        self.start = job.last_sequence
        """The sequence before the tail's first."""
        self._samples: list[tuple[float, int]] = [(answered_at, job.last_sequence)]
        self.progress = Progress(job)

    @property
    def end(self) -> int:
        """The sequence of the tail's last result."""
        return self.start + len(self.tail)

    def offer(self, job: Job, asked_at: float, answered_at: float) -> bool:
        """Take a reading unless the present one is newer; returns whether anything changed.

        Two readings may overtake each other on their way; told in the wrong order a finished job would come
        alive again.
        """
        if asked_at < self.answered_at and _age(job) < _age(self.job):
            return False
        self.answered_at = max(answered_at, self.answered_at)
        self._sample(answered_at, job.last_sequence)
        changed = job != self.job
        if changed:
            # Otherwise the old one stays, which the watchers hold too.
            self.job = job
        before, rate = self.progress, self.items_per_second()
        if changed or rate != before.items_per_second:
            self.progress = Progress(self.job, rate)
        return changed or self.progress.standing != before.standing

    def _sample(self, at: float, sequence: int) -> None:
        samples = self._samples
        if len(samples) > 1 and (at - samples[-2][0] < SAMPLE_SECONDS or samples[-2][1] == sequence):
            samples[-1] = (at, sequence)
        else:
            samples.append((at, sequence))
        while len(samples) > 2 and samples[1][0] < at - RATE_SECONDS:
            samples.pop(0)

    def items_per_second(self) -> float:
        """Results per second over the last RATE_SECONDS; 0 while that is not known yet."""
        (began, first), (ended, last) = self._samples[0], self._samples[-1]
        if self._samples[1:] and self._samples[1][1] == first:
            # Of a time without results the samples keep both ends only.
            began = max(began, ended - RATE_SECONDS)
        return (last - first) / (ended - began) if ended - began >= 1 else 0.0

    def append(self, items: Sequence[JobItem]) -> None:
        """Continue the tail; what does not follow on it is left to the readers, who notice gaps."""
        for item in items:
            if item.sequence == self.end + 1:
                self.tail.append(ItemResult(item))
        if len(self.tail) > TAIL:
            dropped = len(self.tail) - PAGE
            del self.tail[:dropped]
            self.start += dropped

    def after(self, sequence: int) -> list[ItemResult] | None:
        """The shared results after this sequence; None when they are no longer (or not yet) kept."""
        if not self.start <= sequence < self.end:
            return None
        return self.tail[sequence - self.start : sequence - self.start + PAGE]


class SellerFeed(Feed):
    """One watched seller: each job with the version at which it last changed, ended ones for a while."""

    __slots__ = ("forgotten", "job_count", "jobs")

    def __init__(self) -> None:
        super().__init__()
        self.job_count: int | None = None
        self.jobs: OrderedDict[str, tuple[int, Job]] = OrderedDict()
        self.forgotten = 0
        """The newest version of a change that is no longer kept."""

    def take(self, found: SellerJobs, ended: Sequence[Job]) -> None:
        """Take a reading: the active jobs and those made since, and how the missing ones ended."""
        version = self.version + 1
        changed = False
        for job in [*found.jobs, *ended]:
            known = self.jobs.get(job.job_id)
            if known is None or known[1] != job:
                self.jobs[job.job_id] = (version, job)
                self.jobs.move_to_end(job.job_id)
                changed = True
        over = [job_id for job_id, (_, job) in self.jobs.items() if job.completed_at is not None][:-ENDED_KEPT]
        for job_id in over:
            self.forgotten = max(self.forgotten, self.jobs.pop(job_id)[0])
        first = self.job_count is None
        self.job_count = found.job_count
        if changed or first:
            self.bump()

    def active(self) -> set[str]:
        """The ids of the jobs that were not done at the last look."""
        return {job_id for job_id, (_, job) in self.jobs.items() if job.completed_at is None}

    def after(self, seen: int) -> list[Job]:
        """The jobs that changed after this version, in the order of their changes."""
        return [job for version, job in self.jobs.values() if version > seen]


def _age(job: Job) -> tuple[int, int, int]:
    """Never falls in the life of a job: results are only added, and states only go on between two retries."""
    return job.retries, job.last_sequence, _RANK.get(job.status, 3)
