"""What all watch streams of one process share: one look at the database for everybody.

A batched poll reads all watched jobs (and all watched sellers' jobs) in one statement each; a notification only
brings it forward. Per watched job the hub keeps the most recent results, read once and shared by every watcher that
keeps up; one that lags reads pages itself as fast as its reader takes them. Nothing is queued per watcher, so a slow
or dead reader costs no memory and delays nobody.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import islice
from typing import Any

import structlog

from core import metrics
from core.domain.jobs import Job, JobItem
from core.errors import ApiError
from core.storage import jobs
from core.storage.database import Connection, Database, DatabaseError
from core.storage.listen import listen
from core.use_cases.feeds import PAGE, Feed, ItemResult, JobFeed, SellerFeed

CACHED_PAGES = 32
"""Full pages of all jobs kept for watchers that lag: many of them often start at the beginning together."""
GATHER_SECONDS = 0.005
"""From one look to the next at least, however many notifications come."""
GATHER_SHARE = 2.0
"""And at least so many times as long as the last look took: the more is watched, the more is gathered."""

log = structlog.get_logger("core.hub")


class Hub:
    """One per process. ``start`` and ``stop`` frame its life.

    Args:
        poll_seconds: between two looks; notifications make it sooner.
        listening: whether to hear notifications; everything works without, only later.
        max_streams: open streams of one seller in this process.
    """

    def __init__(self, database: Database, *, poll_seconds: float, listening: bool, max_streams: int) -> None:
        self.database = database
        self.poll_seconds = poll_seconds
        self._listening = listening
        self._max_streams = max_streams
        self.draining = False
        self._jobs: dict[tuple[int, str], JobFeed] = {}
        self._sellers: dict[int, SellerFeed] = {}
        self._streams: Counter[int] = Counter()
        self._hinted: set[tuple[int, str]] = set()
        self._hint = asyncio.Event()
        self._needed = asyncio.Event()
        self._pages: OrderedDict[tuple[int, str, int], list[ItemResult]] = OrderedDict()
        self._reading: dict[tuple[int, str, int], asyncio.Task[list[ItemResult]]] = {}
        self._seller_look = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to look."""
        self._tasks.append(asyncio.create_task(self._poll_for_ever(), name="hub poll"))
        if self._listening:
            listening = listen(self.database, self._hear, self._hear_anew)
            self._tasks.append(asyncio.create_task(listening, name="hub listen"))

    def drain(self) -> None:
        """End every stream at once, with a status that tells its client to resume elsewhere."""
        self.draining = True
        for feed in [*self._jobs.values(), *self._sellers.values()]:
            feed.bump()

    async def stop(self) -> None:
        """End all streams and stop looking."""
        self.drain()
        running = [*self._tasks, *self._reading.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._tasks.clear()

    @contextmanager
    def stream(self, seller_id: int) -> Iterator[None]:
        """Counts a stream for as long as the block lasts.

        Raises:
            ApiError: E_RATE_LIMITED when the seller has as many as it may; E_INTERNAL while draining.
        """
        if self.draining:
            raise ApiError("E_INTERNAL", "This server is stopping. Watch again elsewhere.")
        if self._streams[seller_id] >= self._max_streams:
            raise ApiError(
                "E_RATE_LIMITED", f"At most {self._max_streams} watch streams may be open at once.", retry_after=10
            )
        self._streams[seller_id] += 1
        metrics.watchers.inc()
        try:
            yield
        finally:
            metrics.watchers.dec()
            self._streams[seller_id] -= 1
            if not self._streams[seller_id]:
                del self._streams[seller_id]

    @contextmanager
    def job(self, job: Job, asked_at: float, answered_at: float) -> Iterator[JobFeed]:
        """The shared feed of a job that was just read."""
        key = (job.seller_id, job.job_id)
        feed = self._jobs.get(key)
        if feed is None:
            feed = self._jobs[key] = JobFeed(job, answered_at)
        elif feed.offer(job, asked_at, answered_at):
            feed.bump()
        with self._watched(feed, self._jobs, key):
            yield feed

    @asynccontextmanager
    async def seller(self, seller_id: int) -> AsyncIterator[SellerFeed]:
        """The shared feed of a seller's jobs, which has been read at least once.

        Raises:
            ApiError, DatabaseError: the database is away.
        """
        feed = self._sellers.setdefault(seller_id, SellerFeed())
        with self._watched(feed, self._sellers, seller_id):
            if not feed.version:
                await self._look_at_sellers({seller_id})
            yield feed

    @contextmanager
    def _watched(self, feed: Feed, registry: dict[Any, Any], key: Any) -> Iterator[None]:
        feed.watchers += 1
        self._needed.set()
        try:
            yield
        finally:
            feed.watchers -= 1
            if not feed.watchers:
                registry.pop(key, None)
                if not self._jobs and not self._sellers:
                    self._needed.clear()

    async def page(self, job: Job, after: int) -> list[ItemResult]:
        """Results after this sequence for a reader that lags, at most PAGE; full pages are shared.

        Raises:
            ApiError, DatabaseError: the database is away; ask again later.
        """
        first = after - after % PAGE
        key = (job.seller_id, job.job_id, first)
        results = self._pages.get(key)
        if results is None:
            reading = self._reading.get(key)
            if reading is None:
                reading = self._reading[key] = asyncio.create_task(self._read_page(key))
                reading.add_done_callback(lambda task: self._page_read(key, task))
            # Shielded: one watcher that leaves must not take the page from the others.
            results = await asyncio.shield(reading)
        else:
            self._pages.move_to_end(key)
        return list(islice(results, after - first, None))

    async def _read_page(self, key: tuple[int, str, int]) -> list[ItemResult]:
        seller_id, job_id, first = key

        async def work(connection: Connection) -> list[JobItem]:
            return await jobs.results_after(connection, seller_id, job_id, after=first, limit=PAGE)

        results = [ItemResult(item) for item in await self.database.read(work)]
        if len(results) == PAGE and results[-1].item.sequence == first + PAGE:
            # Results never change, so a page without a gap can be kept.
            self._pages[key] = results
            if len(self._pages) > CACHED_PAGES:
                self._pages.popitem(last=False)
        return results

    def _page_read(self, key: tuple[int, str, int], task: asyncio.Task[list[ItemResult]]) -> None:
        self._reading.pop(key, None)
        if not task.cancelled():
            # Looked at here, because all who waited for it may have left.
            task.exception()

    def _hear(self, seller_id: int, job_id: str) -> None:
        if (seller_id, job_id) in self._jobs or seller_id in self._sellers:
            self._hinted.add((seller_id, job_id))
            self._hint.set()

    def _hear_anew(self) -> None:
        self._hinted.update(self._jobs)
        self._hint.set()

    async def _poll_for_ever(self) -> None:
        failing = False
        due = 0.0
        while True:
            await self._needed.wait()
            began = time.monotonic()
            everything = began >= due
            try:
                if everything:
                    due = time.monotonic() + self.poll_seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spread
                await self._look(everything)
                if failing:
                    log.info("watching_again")
                failing = False
            except (ApiError, DatabaseError) as error:
                # The streams wait: what they miss meanwhile is read when the database is back.
                if not failing:
                    log.warning("watching_interrupted", error=type(error).__name__)
                failing = True
            except Exception:
                # One reading that fails for a reason of its own must not end all streams of the process.
                log.exception("watching_failed")
            looked_at = time.monotonic()
            gather = max(GATHER_SECONDS, GATHER_SHARE * (looked_at - began))
            with suppress(TimeoutError):
                async with asyncio.timeout(max(gather, due - looked_at)):
                    await self._hint.wait()
                    await asyncio.sleep(looked_at + gather - time.monotonic())
            self._hint.clear()

    async def _look(self, everything: bool) -> None:
        """Read the watched jobs, or only those hinted at, then their new results; then the watched sellers."""
        hinted, self._hinted = self._hinted, set()
        if everything:
            # Those read on a hint since the last time need no second look.
            stale = time.monotonic() - self.poll_seconds / 2
            watched = [key for key, feed in self._jobs.items() if key in hinted or feed.answered_at <= stale]
        else:
            watched = [key for key in hinted if key in self._jobs]
        if watched:
            asked_at = time.monotonic()
            found = await self.database.read(lambda connection: jobs.watched(connection, watched))
            answered_at = time.monotonic()
            for job in found:
                feed = self._jobs.get((job.seller_id, job.job_id))
                if feed is not None:
                    await self._advance(feed, job, asked_at, answered_at)
        sellers = set(self._sellers)
        if not everything:
            sellers &= {seller for seller, _ in hinted}
        if sellers:
            await self._look_at_sellers(sellers)

    async def _advance(self, feed: JobFeed, job: Job, asked_at: float, answered_at: float) -> None:
        if not feed.offer(job, asked_at, answered_at):
            return
        if job.last_sequence > feed.end:
            if job.last_sequence - feed.end > PAGE:
                # Too much at once for the tail: whoever lags reads pages; the tail goes on at the end.
                feed.tail.clear()
                feed.start = job.last_sequence - PAGE
            after = feed.end

            async def work(connection: Connection) -> list[JobItem]:
                return await jobs.results_after(connection, job.seller_id, job.job_id, after=after, limit=PAGE)

            try:
                feed.append(await self.database.read(work))
            except (ApiError, DatabaseError):
                # The job's new state is taken already: the watchers read these results themselves.
                feed.bump()
                raise
        feed.bump()

    async def _look_at_sellers(self, sellers: set[int]) -> None:
        # One at a time: a reading that is overtaken would bring ended jobs back.
        async with self._seller_look:
            after = [(seller, self._sellers[seller].job_count) for seller in sorted(sellers & set(self._sellers))]
            found = await self.database.read(lambda connection: jobs.of_sellers(connection, after))
            feeds = [(seller, self._sellers[seller]) for seller in found if seller in self._sellers]
            gone = [
                (seller, job_id)
                for seller, feed in feeds
                for job_id in feed.active() - {j.job_id for j in found[seller].jobs}
            ]
            ended = await self.database.read(lambda connection: jobs.watched(connection, gone)) if gone else []
            for seller, feed in feeds:
                feed.take(found[seller], [job for job in ended if job.seller_id == seller])
