"""What all watch streams of one process share: one look at the database for everybody.

A batched poll reads all watched jobs (and all watched sellers' jobs) in one statement each; a notification only
brings it forward. Per watched job the hub keeps the most recent results, read once and shared by every watcher that
keeps up; one that lags reads pages itself as fast as its reader takes them. Nothing is queued per watcher, so a slow
or dead reader costs no memory and delays nobody. Keys are asked about once for all streams opened with them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Any, Generic, TypeVar

import structlog

from core import metrics
from core.domain.api_key import Principal
from core.domain.jobs import Job, JobItem
from core.errors import ApiError
from core.storage import jobs
from core.storage.database import Connection, Database, DatabaseError
from core.storage.listen import listen
from core.use_cases.feeds import PAGE, Feed, ItemResult, JobFeed, SellerFeed

CACHED_PAGES = 32
"""Full pages of all jobs kept for watchers that lag: many of them often start at the beginning together."""
GATHER_SECONDS = 0.005
"""From one look to the next on average at least, however many notifications come."""
GATHER_SHARE = 2.0
"""And at least so many times as long as a look took: the more is watched, the more is gathered."""
BURST_SECONDS = 0.05
"""So much of that may be put off: a look that took long for once does not delay the next ones as well."""
HEARD = 4
"""A job that notifications tell of is read anew this many times more rarely than one nobody tells of."""
RECHECK_SECONDS = 2.0
"""A stream of a revoked key ends within 5 seconds: this, the key cache's 0.8, and what a look-up takes."""
RECHECKED_AT_ONCE = 4
"""Keys; leaves connections to the others."""

Recheck = Callable[[], Awaitable[None]]
"""Raises ApiError when the caller's key is no longer valid."""

log = structlog.get_logger("core.hub")

F = TypeVar("F", bound=Feed)


class Caller:
    """An API key with open streams. ``refusal`` is what ends them once the key is no longer valid."""

    __slots__ = ("recheck", "refusal", "streams")

    def __init__(self, recheck: Recheck) -> None:
        self.recheck = recheck
        self.refusal: ApiError | None = None
        self.streams = 0


class OpenStream:
    """Counts a stream for as long as its block lasts; gives who called."""

    __slots__ = ("_caller", "_hub", "_principal")

    def __init__(self, hub: Hub, principal: Principal, caller: Caller) -> None:
        self._hub = hub
        self._principal = principal
        self._caller = caller

    def __enter__(self) -> Caller:
        """One more."""
        self._hub.count(self._principal, self._caller, 1)
        return self._caller

    def __exit__(self, *_: object) -> None:
        """One less."""
        self._hub.count(self._principal, self._caller, -1)


class Watched(Generic[F]):
    """Keeps a feed for as long as its block lasts."""

    __slots__ = ("_feed", "_hub", "_key", "_registry")

    def __init__(self, hub: Hub, feed: F, registry: dict[Any, F], key: object) -> None:
        self._hub = hub
        self._feed = feed
        self._registry = registry
        self._key = key

    def __enter__(self) -> F:
        """One watcher more."""
        self._feed.watchers += 1
        self._hub.needed.set()
        return self._feed

    def __exit__(self, *_: object) -> None:
        """One watcher less; the last one takes the feed with it."""
        self._feed.watchers -= 1
        if not self._feed.watchers:
            self._registry.pop(self._key, None)
            self._hub.rest()


class Hub:
    """One per process. ``start`` and ``stop`` frame its life.

    Args:
        poll_seconds: between two looks; notifications make it sooner.
        listening: whether to hear notifications; everything works without, only later.
        max_streams: open streams of one seller in this process.
        max_streams_in_all: open streams of all sellers in this process. Fewer than the calls it takes at once:
            streams last for hours, and if they took every place no other call would ever get one.
    """

    def __init__(
        self, database: Database, *, poll_seconds: float, listening: bool, max_streams: int, max_streams_in_all: int
    ) -> None:
        self.database = database
        self.poll_seconds = poll_seconds
        self._listening = listening
        self._max_streams = max_streams
        self._max_streams_in_all = max_streams_in_all
        self.draining = False
        self._jobs: dict[tuple[int, str], JobFeed] = {}
        self._sellers: dict[int, SellerFeed] = {}
        self._streams: Counter[int] = Counter()
        self._callers: dict[tuple[int, str], Caller] = {}
        self._hinted: set[tuple[int, str]] = set()
        self._hint = asyncio.Event()
        self.needed = asyncio.Event()
        """Set while anything is watched."""
        self._pages: OrderedDict[tuple[int, str, int], list[ItemResult]] = OrderedDict()
        self._reading: dict[tuple[int, str, int], asyncio.Task[list[ItemResult]]] = {}
        self._seller_look = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to look."""
        self._tasks.append(asyncio.create_task(self._poll_for_ever(), name="hub poll"))
        self._tasks.append(asyncio.create_task(self._recheck_for_ever(), name="hub recheck"))
        if self._listening:
            listening = listen(self.database, self._hear, self._hear_anew)
            self._tasks.append(asyncio.create_task(listening, name="hub listen"))

    def drain(self) -> None:
        """End every stream at once, with a status that tells its client to resume elsewhere."""
        self.draining = True
        self._wake_all()

    def _wake_all(self) -> None:
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

    def stream(self, principal: Principal, recheck: Recheck) -> OpenStream:
        """A context manager that counts a stream for as long as the block lasts.

        Args:
            recheck: asks whether the key is still valid; one serves all streams of the key.

        Raises:
            ApiError: E_RATE_LIMITED when the seller has as many as it may; E_INTERNAL while draining, and when
                there are as many in all as there may be.
        """
        if self.draining:
            raise ApiError("E_INTERNAL", "This server is stopping. Watch again elsewhere.")
        if self._streams[principal.seller_id] >= self._max_streams:
            raise ApiError(
                "E_RATE_LIMITED", f"At most {self._max_streams} watch streams may be open at once.", retry_after=10
            )
        if self._streams.total() >= self._max_streams_in_all:
            raise ApiError(
                "E_INTERNAL", "This server has no place for another watch stream. Watch elsewhere.", retry_after=10
            )
        key = (principal.seller_id, principal.key_id)
        caller = self._callers.get(key)
        return OpenStream(self, principal, Caller(recheck) if caller is None else caller)

    def count(self, principal: Principal, caller: Caller, change: int) -> None:
        """Note that the caller has one stream more or less."""
        seller_id = principal.seller_id
        metrics.watchers.inc(change)
        self._streams[seller_id] += change
        if not self._streams[seller_id]:
            del self._streams[seller_id]
        caller.streams += change
        if caller.streams:
            self._callers[seller_id, principal.key_id] = caller
        else:
            self._callers.pop((seller_id, principal.key_id), None)

    def job(self, job: Job, asked_at: float, answered_at: float) -> Watched[JobFeed]:
        """A context manager that gives the shared feed of a job that was just read."""
        key = (job.seller_id, job.job_id)
        feed = self._jobs.get(key)
        if feed is None:
            feed = self._jobs[key] = JobFeed(job, answered_at)
        elif feed.offer(job, asked_at, answered_at):
            feed.bump()
        return Watched(self, feed, self._jobs, key)

    @asynccontextmanager
    async def seller(self, seller_id: int) -> AsyncIterator[SellerFeed]:
        """The shared feed of a seller's jobs, which has been read at least once.

        Raises:
            ApiError, DatabaseError: the database is away.
        """
        feed = self._sellers.setdefault(seller_id, SellerFeed())
        with Watched(self, feed, self._sellers, seller_id):
            if not feed.version:
                await self._look_at_sellers({seller_id})
            yield feed

    def rest(self) -> None:
        """Stop looking when nothing is watched."""
        if not self._jobs and not self._sellers:
            self.needed.clear()

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

    async def _recheck_for_ever(self) -> None:
        while True:
            await self.needed.wait()
            await asyncio.sleep(RECHECK_SECONDS)
            callers = list(self._callers.values())
            for first in range(0, len(callers), RECHECKED_AT_ONCE):
                with suppress(TimeoutError):
                    # A key whose look-up hangs must not keep the others from theirs.
                    async with asyncio.timeout(RECHECK_SECONDS / 2):
                        await asyncio.gather(
                            *(self._recheck(caller) for caller in callers[first : first + RECHECKED_AT_ONCE])
                        )

    async def _recheck(self, caller: Caller) -> None:
        try:
            await caller.recheck()
        except ApiError as error:
            # E_INTERNAL: the database is away; asked again at the next check.
            if error.code != "E_INTERNAL":
                caller.refusal = error
                self._wake_all()
        except DatabaseError:
            pass
        except Exception:
            # One key that cannot be asked about must not keep the others from being.
            log.exception("watching_failed")

    async def _poll_for_ever(self) -> None:
        failing = False
        due = paid_until = 0.0
        while True:
            await self.needed.wait()
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
            paid_until = max(paid_until, looked_at) + max(GATHER_SECONDS, GATHER_SHARE * (looked_at - began))
            gather = max(paid_until - BURST_SECONDS - looked_at, 0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(gather, due - looked_at)):
                    await self._hint.wait()
                    left = looked_at + gather - time.monotonic()
                    if left > 0:
                        await asyncio.sleep(left)
            self._hint.clear()

    async def _look(self, everything: bool) -> None:
        """Read the watched jobs, or only those hinted at, then their new results; then the watched sellers."""
        hinted, self._hinted = self._hinted, set()
        if everything:
            # Those read on a hint not long ago need no second look.
            stale = time.monotonic() - self.poll_seconds * (HEARD if self._listening else 0.5)
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
