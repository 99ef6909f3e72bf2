"""What watchers share: readings in the right order, a tail without gaps, changes told once, all of it bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from core.domain.jobs import Job, JobItem
from core.domain.states import ItemStatus, JobStatus
from core.storage.jobs import SellerJobs
from core.use_cases.feeds import ENDED_KEPT, PAGE, RATE_SECONDS, TAIL, JobFeed, SellerFeed, Waiter
from tests.unit.test_grpc_convert import NOON, job


def results(first: int, last: int) -> list[JobItem]:
    return [
        JobItem(number, "A", ItemStatus.SUCCESS, "M", "https://x", 1, None, None, None, number, 1)
        for number in range(first, last + 1)
    ]


def advanced(feed: JobFeed, at: float, **changes: Any) -> bool:
    return feed.offer(replace(feed.job, **changes), at, at)


def test_a_reading_that_was_overtaken_is_not_taken() -> None:
    feed = JobFeed(job(status=JobStatus.COMPLETED, last_sequence=3, pending=0), answered_at=10.0)
    old = job(status=JobStatus.PROCESSING, last_sequence=2, pending=1)
    assert not feed.offer(old, asked_at=9.0, answered_at=11.0)
    assert feed.job.status is JobStatus.COMPLETED
    # Asked after the last answer: whatever it says is newer.
    assert feed.offer(
        replace(old, retries=1, status=JobStatus.QUEUED, last_sequence=3), asked_at=11.0, answered_at=12.0
    )
    assert feed.job.retries == 1
    assert not feed.offer(feed.job, asked_at=13.0, answered_at=13.0), "nothing changed"


def test_a_reading_asked_earlier_may_still_be_newer() -> None:
    feed = JobFeed(job(last_sequence=1), answered_at=10.0)
    assert feed.offer(job(last_sequence=2), asked_at=9.0, answered_at=11.0)
    assert feed.job.last_sequence == 2


def test_the_rate_is_that_of_the_last_seconds() -> None:
    feed = JobFeed(job(), answered_at=0.0)
    assert feed.items_per_second() == 0
    advanced(feed, 0.5, last_sequence=10)
    assert feed.items_per_second() == 0, "too early to tell"
    advanced(feed, 2.0, last_sequence=20)
    assert feed.items_per_second() == 10
    for second in range(3, 40):
        advanced(feed, float(second), last_sequence=20 + second)
    assert feed.items_per_second() == pytest.approx(1.0, rel=0.05)
    for second in range(40, 40 + int(RATE_SECONDS) + 2):
        advanced(feed, float(second))
    assert feed.items_per_second() == 0


def test_a_rate_needs_few_readings_and_forgets_a_time_without_results() -> None:
    feed = JobFeed(job(), answered_at=0.0)
    for reading in range(1, 3001):
        advanced(feed, reading / 100, last_sequence=reading)
    assert feed.items_per_second() == pytest.approx(100, rel=0.05)
    assert len(feed._samples) < 60
    for second in range(31, 90):
        advanced(feed, float(second), last_sequence=3000)
    assert len(feed._samples) <= 3
    advanced(feed, 90.0, last_sequence=3010)
    assert feed.items_per_second() == pytest.approx(1.0, rel=0.1), "over the last ten seconds, not the last minute"


def test_the_tail_is_bounded_and_without_gaps() -> None:
    feed = JobFeed(job(last_sequence=100), answered_at=0.0)
    assert feed.after(100) is None
    feed.append(results(101, 105))
    assert [each.item.sequence for each in feed.after(102) or ()] == [103, 104, 105]
    assert feed.after(105) is None
    assert feed.after(99) is None, "older than what is kept"
    feed.append(results(107, 110))
    assert feed.end == 105, "what does not follow is left out"
    for first in range(106, 5000, PAGE):
        feed.append(results(first, first + PAGE - 1))
        assert len(feed.tail) <= TAIL
    kept = feed.after(feed.start) or []
    assert kept[0].item.sequence == feed.start + 1
    assert len(kept) <= PAGE


async def test_watchers_are_woken_by_changes_and_by_time() -> None:
    feed = JobFeed(job(), answered_at=0.0)

    async def watch() -> None:
        with Waiter(feed) as waiter:
            await waiter.wait(feed.version, 30)

    waiting = [asyncio.create_task(watch()) for _ in range(3)]
    await asyncio.sleep(0)
    feed.bump()
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)
        with Waiter(feed) as waiter:
            await waiter.wait(feed.version - 1, 30)
            await waiter.wait(feed.version, 0.01)
    assert feed.version == 1
    assert not feed.waiters


async def test_a_watchers_timer_serves_the_waits_that_follow() -> None:
    feed = JobFeed(job(), answered_at=0.0)
    loop = asyncio.get_running_loop()
    with Waiter(feed) as waiter:
        for seconds in (30, 0.05, 0.2, 0.05, 30):
            waiting = asyncio.create_task(waiter.wait(feed.version, seconds))
            began = loop.time()
            await asyncio.sleep(0)
            if seconds == 30:
                feed.bump()
            async with asyncio.timeout(5):
                await waiting
            assert seconds == 30 or seconds - 0.01 < loop.time() - began, "not before its time"


def named(number: int, **changes: Any) -> Job:
    return job(job_id=f"job-{number}", job_number=number, **changes)


def test_a_sellers_jobs_are_told_once_per_change() -> None:
    feed = SellerFeed()
    feed.take(SellerJobs(0, []), [])
    assert feed.version == 1, "read once, though there is nothing"
    feed.take(SellerJobs(1, [named(1)]), [])
    seen = feed.version
    assert [each.job_id for each in feed.after(1)] == ["job-1"]
    feed.take(SellerJobs(1, [named(1)]), [])
    assert feed.version == seen
    feed.take(SellerJobs(2, [named(1, pending=2), named(2)]), [])
    assert [(each.job_id, each.pending) for each in feed.after(seen)] == [("job-1", 2), ("job-2", 3)]
    assert feed.active() == {"job-1", "job-2"}
    seen = feed.version
    feed.take(SellerJobs(2, [named(2)]), [named(1, status=JobStatus.COMPLETED, completed_at=NOON)])
    assert [(each.job_id, each.status) for each in feed.after(seen)] == [("job-1", JobStatus.COMPLETED)]
    assert feed.active() == {"job-2"}


def test_ended_jobs_are_forgotten_and_it_is_known_since_when() -> None:
    feed = SellerFeed()
    for number in range(ENDED_KEPT + 50):
        ended = named(number, status=JobStatus.COMPLETED, completed_at=NOON)
        feed.take(SellerJobs(number, [ended]), [])
    assert len(feed.jobs) == ENDED_KEPT
    assert feed.forgotten == 50
    assert len(feed.after(feed.forgotten)) == ENDED_KEPT
