"""Watch one job, or all jobs of a seller, as streams of events.

A stream is a loop over a cursor: what was told, what the hub last saw, what lies between is told next. It holds no
queue: it reads as fast as its reader takes, so it can stand still for an hour and then go on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from core.domain.api_key import Principal
from core.domain.jobs import Job
from core.domain.states import TERMINAL
from core.errors import ApiError, Violation, internal, invalid
from core.storage import jobs
from core.storage.database import DatabaseError
from core.use_cases.feeds import ItemResult, JobFeed, Progress, Waiter
from core.use_cases.hub import Caller, Hub, Recheck
from core.use_cases.read_jobs import check_job_id, job_not_found

PROGRESS_SECONDS = 1.0
MAX_GAPS = 5
"""Readings in a row with a missing sequence before the stream ends."""

log = structlog.get_logger("core.watch")


@dataclass(frozen=True, slots=True)
class JobSeen:
    """The job as it stands."""

    job: Job


@dataclass(frozen=True, slots=True)
class ItemSeen:
    """One item's result. ``job`` knows its environment and currency."""

    job: Job
    result: ItemResult


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing happened for a while; the server's time, UTC."""

    time: datetime


WatchEvent = JobSeen | ItemSeen | Progress | Quiet


class Limits:
    """What ends a stream: draining, its age, and a key that is no longer valid; and its heartbeat.

    Args:
        caller: who watches.
        max_age: seconds.
        heartbeat: seconds of quiet after which a sign of life is sent.
        resume: words that tell the client how to go on.
    """

    __slots__ = ("_caller", "_ends_at", "_heartbeat", "_hub", "_quiet_at", "_resume")

    def __init__(self, hub: Hub, caller: Caller, *, max_age: float, heartbeat: float, resume: str) -> None:
        now = time.monotonic()
        self._hub = hub
        self._caller = caller
        self._resume = resume
        self._ends_at = now + max_age
        self._heartbeat = heartbeat
        self._quiet_at = now + heartbeat

    def check(self) -> None:
        """Called between two events.

        Raises:
            ApiError: the stream ends.
        """
        if self._hub.draining:
            raise _ended(f"This server is stopping. {self._resume}")
        if self._caller.refusal is not None:
            # Raised in every stream of the key: each must not add its own traceback to the others'.
            raise self._caller.refusal.with_traceback(None)
        if time.monotonic() >= self._ends_at:
            raise _ended(f"This stream has reached its greatest age. {self._resume}")

    def spoke(self) -> None:
        """Something was sent."""
        self._quiet_at = time.monotonic() + self._heartbeat

    def is_quiet(self) -> bool:
        """Whether a heartbeat is due."""
        return time.monotonic() >= self._quiet_at

    def seconds_left(self) -> float:
        """Until something is due here."""
        return min(self._ends_at, self._quiet_at) - time.monotonic()


def _ended(words: str) -> ApiError:
    return ApiError("E_INTERNAL", words, retry_after=1)


async def watch_job(
    hub: Hub,
    principal: Principal,
    job_id: str,
    tell: Callable[[WatchEvent], Awaitable[None]],
    *,
    after_sequence: int,
    recheck: Recheck,
    max_age: float,
    heartbeat: float,
) -> None:
    """The job as it stands, then every item result after the cursor exactly once, in order, then the end.

    A change of the job's status is told by the job as it then stands, after the results that led to it;
    progress at most once a second. Ends after a last look at the job when the job is terminal and none of
    its items is pending: of a cancelled job some may still be on the wire. Waits, without ending, while
    the database is away.

    Args:
        tell: takes an event; returns when there is room for the next one.
        after_sequence: the last sequence the caller has seen; 0 for all.
        recheck: asks whether the caller's key is still valid.
        max_age: seconds after which the stream ends with a word to resume.
        heartbeat: seconds of quiet after which a sign of life is told.

    Raises:
        ApiError: E_JOB_NOT_FOUND; E_PRODUCT_INVALID_BODY for a cursor that the job has not reached;
            E_RATE_LIMITED for too many streams; E_AUTH_INVALID_KEY when the key ends; E_INTERNAL when the
            server drains, the stream is too old, or the database is away at the beginning.
    """
    if after_sequence < 0:
        raise _bad_cursor("must be at least 0")
    check_job_id(job_id)
    with hub.stream(principal, recheck) as caller:
        asked_at = time.monotonic()
        job = await _find(hub, principal.seller_id, job_id, after_sequence)
        resume = "Watch again from the last sequence seen."
        limits = Limits(hub, caller, max_age=max_age, heartbeat=heartbeat, resume=resume)
        with hub.job(job, asked_at, time.monotonic()) as feed:
            told = _Told(job, after_sequence)
            await tell(JobSeen(job))
            with Waiter(feed) as waiter:
                while True:
                    limits.check()
                    version, job = feed.version, feed.job
                    results: Sequence[ItemResult] = ()
                    if told.cursor < job.last_sequence:
                        results = await _results(hub, feed, told)
                    for result in results:
                        limits.check()
                        await tell(told.item(job, result))
                    news = told.news(feed)
                    if news is not None:
                        await tell(news)
                    if told.is_done(feed.job):
                        if not told.job_was_last_word:
                            await tell(told.word_of(feed.job))
                        return
                    if results or news is not None:
                        limits.spoke()
                    elif limits.is_quiet():
                        await tell(Quiet(datetime.now(UTC)))
                        limits.spoke()
                    if results and told.cursor < feed.job.last_sequence:
                        continue
                    pause = min(limits.seconds_left(), told.seconds_to_progress(feed))
                    if told.cursor < feed.job.last_sequence:
                        # The database is away, or a result is missing.
                        version, pause = feed.version, min(pause, hub.poll_seconds)
                    results, news = (), None  # not held while waiting
                    await waiter.wait(version, max(pause, 0.01))


async def _find(hub: Hub, seller_id: int, job_id: str, after_sequence: int) -> Job:
    job = await hub.database.read(lambda connection: jobs.find(connection, seller_id, job_id))
    if job is None:
        raise job_not_found()
    if after_sequence > job.last_sequence:
        raise _bad_cursor(f"must be at most {job.last_sequence}, the last sequence of this job")
    return job


class _Told:
    """What one stream has told so far."""

    __slots__ = ("_gaps", "_progress", "_progress_at", "_state", "cursor", "job_was_last_word")

    def __init__(self, job: Job, cursor: int) -> None:
        self._state = job.status, job.retries
        self.cursor = cursor
        self.job_was_last_word = True
        self._gaps = 0
        self._progress = Progress(job).standing
        self._progress_at = time.monotonic() + PROGRESS_SECONDS

    def note_gap(self, job: Job) -> None:
        """A sequence that the job has is not there. Never skipped: read again, and at last given up."""
        self._gaps += 1
        log.error("sequence_gap", job_id=job.job_id, after=self.cursor, last=job.last_sequence, tries=self._gaps)
        if self._gaps >= MAX_GAPS:
            raise internal()

    def item(self, job: Job, result: ItemResult) -> ItemSeen:
        """The next result."""
        self.cursor += 1
        self._gaps = 0
        self.job_was_last_word = False
        return ItemSeen(job, result)

    def word_of(self, job: Job) -> JobSeen:
        """The job as it stands."""
        self._state, self.job_was_last_word = (job.status, job.retries), True
        self._progress = Progress(job).standing
        return JobSeen(job)

    def news(self, feed: JobFeed) -> WatchEvent | None:
        """A change of status, or progress, that is to be told now."""
        job, progress = feed.job, feed.progress
        if (job.status, job.retries) != self._state and (
            job.status not in TERMINAL or self.cursor >= job.last_sequence
        ):
            return self.word_of(job)
        if progress.standing == self._progress:
            return None
        now = time.monotonic()
        if now < self._progress_at:
            return None
        self._progress, self._progress_at = progress.standing, now + PROGRESS_SECONDS
        self.job_was_last_word = False
        return progress

    def is_done(self, job: Job) -> bool:
        """Whether all is told; of a cancelled job some items may still be on the wire."""
        return job.status in TERMINAL and job.pending == 0 and self.cursor >= job.last_sequence

    def seconds_to_progress(self, feed: JobFeed) -> float:
        """Until progress may be told; as good as never when there is none."""
        if feed.progress.standing == self._progress:
            return 3600.0
        return self._progress_at - time.monotonic()


async def _results(hub: Hub, feed: JobFeed, told: _Told) -> list[ItemResult]:
    """What follows the cursor, without a gap; empty when the database is away or a result is missing."""
    job, cursor = feed.job, told.cursor
    results = feed.after(cursor)
    if results is None:
        try:
            results = await hub.page(job, cursor)
        except (ApiError, DatabaseError):
            return []
    for place, result in enumerate(results):
        if result.item.sequence != cursor + 1 + place:
            results = results[:place]
            break
    if not results:
        told.note_gap(job)
    return results


async def watch_jobs(
    hub: Hub,
    principal: Principal,
    tell: Callable[[JobSeen | Quiet], Awaitable[None]],
    *,
    recheck: Recheck,
    max_age: float,
    heartbeat: float,
) -> None:
    """The seller's active jobs as they stand, then each job that changes, appears or ends; arguments as above.

    Raises:
        ApiError: as for watch_job, and E_INTERNAL when the reader was left so far behind that ends of jobs
            were forgotten: it reloads and watches again.
    """
    resume = "Watch again; the active jobs are told first."
    with hub.stream(principal, recheck) as caller:
        limits = Limits(hub, caller, max_age=max_age, heartbeat=heartbeat, resume=resume)
        async with hub.seller(principal.seller_id) as feed:
            version = feed.version
            for job in feed.after(0):
                if job.status not in TERMINAL:
                    await tell(JobSeen(job))
            with Waiter(feed) as waiter:
                while True:
                    limits.check()
                    seen, version = version, feed.version
                    if feed.forgotten > seen:
                        raise _ended(f"This stream fell behind. {resume}")
                    for job in feed.after(seen):
                        await tell(JobSeen(job))
                        limits.spoke()
                    if limits.is_quiet():
                        await tell(Quiet(datetime.now(UTC)))
                        limits.spoke()
                    await waiter.wait(version, max(limits.seconds_left(), 0.01))


def _bad_cursor(rule: str) -> ApiError:
    return invalid([Violation("E_PRODUCT_INVALID_BODY", rule, parameter="after_sequence")])
