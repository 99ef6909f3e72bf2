"""The worker's decisions under a virtual clock: thousands of histories, each told by its seed alone.

What is simulated is everything around ``core.worker.decide``: workers that die and oversleep, leases, fences, intents,
and a marketplace that answers, refuses, stays silent, creates late and hides new listings from its search. What decides
is the real code. The same seed gives the same history, event by event.

    python -m tests.faults.simulation SEED     prints one history
"""

from __future__ import annotations

import hashlib
import heapq
import math
import random
import sys
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from core.domain.failures import Failure
from core.domain.states import JobStatus
from core.ports.marketplace import Listing, ListingDraft, ListingResult, Outcome
from core.ports.work import DoubtfulItem, StoredDraft
from core.worker.decide import (
    CREATION_TOLERANCE,
    MAX_TRIES,
    MAX_UNSENT,
    Breaker,
    Heard,
    Next,
    Search,
    after_call,
    after_search,
    delay_after,
    heard,
)
from tests.faults.campaign import Campaign

LEASE, TIMEOUT, SETTLE, MARGIN = 60.0, 15.0, 150.0, 17.5
FAULTS_END = 1800.0
"""Virtual seconds; afterwards the marketplace is well and nobody dies."""
GIVE_UP_AFTER = 8 * 3600.0
HOPELESS = 600.0
LATE_LOOKS = (600.0, 3600.0, 6 * 3600.0)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

Activity = Generator[float, None, None]


class BrokenPromiseError(Exception):
    """Something that must never happen did."""


@dataclass
class _Made:
    """A listing at the marketplace."""

    number: int
    sku: str
    made_at: float
    visible_at: float
    open: bool = True

    def shown(self) -> Listing:
        return Listing(
            listing_id=f"MCO{self.number}",
            sku=self.sku,
            status="active",
            created_at=EPOCH + timedelta(seconds=self.made_at),
        )


@dataclass
class _Item:
    sku: str
    status: str = "pending"
    attempts: int = 0
    listing: str = ""
    sends: int = 0


@dataclass
class _Intent:
    """``settle_until`` is set while its outcome is unknown."""

    owner: int
    fence: int
    attempt: int = 1
    started_at: float = 0.0
    settle_until: float | None = None
    due_at: float = 0.0
    searches: int = 0
    unsent: int = 0
    leased_until: float = 0.0
    sent: bool = False
    nothing_found_at: float = -1.0


@dataclass
class _Worker:
    number: int
    life: int = 0
    asleep_until: float = 0.0
    breaker: Breaker = field(default_factory=Breaker)
    rests_until: float = 0.0

    @property
    def owner(self) -> int:
        return self.number * 1000 + self.life


class World:
    """One history."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.random = chance = random.Random(seed)
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        self.trace: list[str] | None = [] if keep_trace else None
        self._digest = hashlib.sha256()
        self._queue: list[tuple[float, int, _Worker | None, int, Activity]] = []
        self._ticket = 0
        self.items = {f"SIM{number:07d}": _Item(f"SIM{number:07d}") for number in range(chance.randint(1, 5))}
        self.intents: dict[str, _Intent] = {}
        self.market: list[_Made] = []
        self.late: list[tuple[float, str, float, int]] = []
        self.job = JobStatus.QUEUED
        self.run_owner: int | None = None
        self.run_fence = 0
        self.run_until = 0.0
        self.run_due = 0.0
        self.run_returns = 0
        self.run_exists = True
        self.fences = 0
        self.trouble = chance.choice((0.05, 0.3, 0.6, 0.9))
        self.deaths = chance.choice((0.0, 0.02, 0.1))
        self.lag = chance.choice((0.0, 2.0, 120.0))
        self.workers = [_Worker(number) for number in range(1, chance.randint(2, 3) + 1)]

    # Time.

    def note(self, text: str) -> None:
        """An event of the history."""
        line = f"{self.now:10.3f} {text}"
        self._digest.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    @property
    def digest(self) -> str:
        """Of the whole history."""
        return self._digest.hexdigest()

    def start(self, activity: Activity, worker: _Worker | None, delay: float = 0.0) -> None:
        """Let something go on beside everything else; it ends with the worker's life."""
        self._ticket += 1
        life = worker.life if worker is not None else 0
        heapq.heappush(self._queue, (self.now + delay, self._ticket, worker, life, activity))

    def play(self) -> None:
        """To the end."""
        for each in self.workers:
            self._begin(each)
        if self.random.random() < 0.2:
            self.start(self._cancel(), None, self.random.uniform(0, 400))
        while self._queue:
            self.now, _, worker, life, activity = heapq.heappop(self._queue)
            if self.is_over():
                break
            if self.now > GIVE_UP_AFTER:
                raise BrokenPromiseError(f"not done after {GIVE_UP_AFTER:.0f} virtual seconds")
            if worker is not None:
                if life != worker.life:
                    continue
                if worker.asleep_until > self.now:
                    self.start(activity, worker, worker.asleep_until - self.now)
                    continue
                if self._befalls(worker, activity):
                    continue
            try:
                pause = next(activity)
            except StopIteration:
                continue
            self.start(activity, worker, pause)
        self.judge()

    def _begin(self, worker: _Worker) -> None:
        self.start(self._publish(worker), worker, self.random.uniform(0, 2))
        self.start(self._sweep(worker), worker, self.random.uniform(0, 2))
        self.start(self._renew(worker), worker, LEASE / 3)

    def _befalls(self, worker: _Worker, activity: Activity) -> bool:
        """Whether the worker dies or falls asleep at this step."""
        if self.now > FAULTS_END or self.random.random() >= self.deaths:
            return False
        if self.random.random() < 0.5:
            self.note(f"worker {worker.number} dies")
            self.counts["deaths"] += 1
            worker.life += 1
            worker.breaker, worker.rests_until = Breaker(), 0.0
            self.start(self._reborn(worker), None, self.random.uniform(0.5, 5))
        else:
            self.counts["pauses"] += 1
            worker.asleep_until = self.now + self.random.choice((5.0, 70.0, 200.0))
            self.note(f"worker {worker.number} sleeps until {worker.asleep_until:.1f}")
            self.start(activity, worker, worker.asleep_until - self.now)
        return True

    def _reborn(self, worker: _Worker) -> Activity:
        self._begin(worker)
        yield from ()

    def is_over(self) -> bool:
        """Whether nothing is left to be done."""
        return (
            self.now > FAULTS_END / 6
            and all(item.status != "pending" for item in self.items.values())
            and not self.intents
            and not self.late
            and not any(each.made_at > self.now for each in self.market)
        )

    # The marketplace.

    def _create(self, sku: str, delay: float) -> _Made:
        lag = self.random.uniform(0, self.lag)
        made = _Made(len(self.market) + 1, sku, self.now + delay, self.now + delay + lag)
        self.market.append(made)
        return made

    def _send(self, sku: str) -> tuple[float, ListingResult, _Made | None]:
        """Seconds until the answer, the answer as the connector tells it, and the listing it speaks of."""
        chance = self.random
        if self.now > FAULTS_END or chance.random() >= self.trouble:
            made = self._create(sku, 0.0)
            return chance.uniform(0.1, 2), ListingResult(outcome=Outcome.DONE, listing=made.shown()), made
        kind = chance.choice(
            ("refused", "throttled", "not_sent", "retry", "lost_before", "lost_after", "late", "very_late", "silent")
        )
        self.counts[f"call {kind}"] += 1
        unknown = ListingResult(outcome=Outcome.UNKNOWN, failure=Failure("outcome_unknown"))
        if kind == "refused":
            return 0.3, ListingResult(outcome=Outcome.REFUSED, failure=Failure("content_refused")), None
        if kind == "throttled":
            failure = Failure("marketplace_busy")
            return 0.1, ListingResult(outcome=Outcome.THROTTLED, failure=failure, retry_after=3.0), None
        if kind == "not_sent":
            return 0.1, ListingResult(outcome=Outcome.NOT_SENT, failure=Failure("marketplace_unavailable")), None
        if kind == "retry":
            failure = Failure("marketplace_conflict")
            return 0.3, ListingResult(outcome=Outcome.RETRY, failure=failure, retry_after=2.0), None
        if kind == "lost_after":
            self._create(sku, 0.0)
        elif kind == "late":
            self._create(sku, chance.uniform(1, SETTLE * 0.8))
        elif kind == "very_late":
            self._create(sku, chance.uniform(SETTLE, SETTLE * 3))
        return (TIMEOUT if kind == "silent" else chance.uniform(0.1, TIMEOUT)), unknown, None

    def _search(self, sku: str) -> list[Listing] | None:
        if self.now <= FAULTS_END and self.random.random() < self.trouble * 0.4:
            return None
        return [
            each.shown()
            for each in self.market
            if each.sku == sku and each.open and each.made_at <= self.now and each.visible_at <= self.now
        ]

    # A worker.

    def _hear(self, worker: _Worker, result: ListingResult) -> None:
        match heard(result):
            case Heard.ANSWER:
                worker.breaker.succeeded()
            case Heard.SLOW_DOWN:
                worker.rests_until = max(worker.rests_until, self.now + (result.retry_after or 1.0))
            case Heard.SILENCE:
                pause = worker.breaker.failed(self.now)
                if pause is not None:
                    worker.rests_until = max(worker.rests_until, self.now + pause)

    def _publish(self, worker: _Worker) -> Activity:
        while True:
            if (
                self.run_exists
                and self.run_owner is None
                and self.run_due <= self.now
                and worker.rests_until <= self.now
                and self.job in (JobStatus.QUEUED, JobStatus.PROCESSING)
            ):
                yield from self._work(worker)
            yield self._idle(self.random.uniform(1, 3))

    def _idle(self, pause: float) -> float:
        """The pause between two looks, longer when nothing but late looks is left."""
        if self.intents or self.run_exists or self.run_owner is not None:
            return pause
        return pause + max(0.0, min((each[0] for each in self.late), default=self.now + 30.0) - self.now)

    def _work(self, worker: _Worker) -> Activity:
        """One claimed run."""
        self.fences += 1
        fence, until = self.fences, self.now + LEASE
        self.run_owner, self.run_fence, self.run_until = worker.owner, fence, until
        self.job = JobStatus.PROCESSING
        returns, done, delay = self.run_returns, 0, 0.0
        self.note(f"worker {worker.number} claims with fence {fence}")
        yield self.random.uniform(0.01, 0.3)
        # The intents, in one transaction that sees whether the lease is still ours and the job still on.
        if self._holds(worker, fence) and self.job is JobStatus.PROCESSING:
            for sku, item in self.items.items():
                if item.status == "pending" and sku not in self.intents:
                    self.intents[sku] = _Intent(worker.owner, fence, started_at=self.now)
        yield self.random.uniform(0.0, 0.1)
        for sku, item in self.items.items():
            intent = self.intents.get(sku)
            if intent is None or (intent.owner, intent.fence) != (worker.owner, fence) or intent.sent:
                continue
            # Where the lease was renewed meanwhile, the worker knows; here it counts from the claim.
            if worker.rests_until > self.now or self.now + MARGIN >= until:
                self._record(worker, sku, fence, "deferred", "", 0)
                delay = max(delay, worker.rests_until - self.now)
                continue
            result, made = yield from self._call(worker, sku, intent)
            decided = after_call(result, item.attempts, returns)
            delay = max(delay, result.retry_after or 0.0)
            listing = f"MCO{made.number}" if made is not None else ""
            yield self.random.uniform(0.0, 0.25)
            self._record(worker, sku, fence, decided.next.value, listing, decided.attempts)
            done += decided.next in (Next.SUCCESS, Next.FAILED, Next.UNKNOWN)
        yield self.random.uniform(0.0, 0.1)
        if self._holds(worker, fence):
            left = any(item.status == "pending" and sku not in self.intents for sku, item in self.items.items())
            self.run_owner, self.run_exists = None, left
            self.run_returns = 0 if done else returns + 1
            self.run_due = self.now + max(delay, delay_after(self.run_returns, self.random.random()))
            self.note(f"worker {worker.number} gives back, {'more is left' if left else 'done'}")

    def _holds(self, worker: _Worker, fence: int) -> bool:
        return self.run_exists and (self.run_owner, self.run_fence) == (worker.owner, fence)

    def _call(
        self, worker: _Worker, sku: str, intent: _Intent
    ) -> Generator[float, None, tuple[ListingResult, _Made | None]]:
        """One send, with what must hold at its instant."""
        if self.intents.get(sku) is not intent or intent.owner != worker.owner or intent.settle_until is not None:
            raise BrokenPromiseError(f"{sku}: sent without an intent of the sender's own")
        if intent.sent:
            raise BrokenPromiseError(f"{sku}: a second send for one intent")
        intent.sent = True
        self.items[sku].sends += 1
        if self.items[sku].sends > MAX_TRIES * 100 + MAX_UNSENT:
            raise BrokenPromiseError(f"{sku}: sent without end")
        pause, result, made = self._send(sku)
        self.note(f"worker {worker.number} sends {sku}: {result.outcome.value}")
        self.counts["sends"] += 1
        yield pause
        self._hear(worker, result)
        return result, made

    def _record(self, worker: _Worker, sku: str, fence: int, outcome: str, listing: str, attempts: int) -> None:
        """The guarded write: nothing counts from one who no longer owns the intent."""
        intent = self.intents.get(sku)
        if intent is None or (intent.owner, intent.fence) != (worker.owner, fence) or intent.settle_until is not None:
            self.counts["fenced"] += 1
            self.note(f"worker {worker.number} is fenced off from {sku}")
            return
        item = self.items[sku]
        item.attempts += attempts
        if outcome == "unknown":
            self.counts["unknown"] += 1
            intent.settle_until, intent.due_at, intent.searches = self.now + SETTLE, self.now + 2.0, 0
            intent.leased_until = 0.0
            return
        if outcome == "deferred" and self.job is JobStatus.CANCELLED:
            outcome = "skipped"
        if outcome != "deferred":
            item.status, item.listing = outcome, listing
            self.note(f"{sku} is {outcome} {listing}")
        if intent.attempt > 1:
            self._look_later(sku, intent)
        del self.intents[sku]

    def _look_later(self, sku: str, intent: _Intent) -> None:
        self.late.append((self.now + LATE_LOOKS[0], sku, intent.started_at, 0))

    def _sweep(self, worker: _Worker) -> Activity:
        while True:
            if self.run_owner is not None and self.run_until < self.now:
                self._rescue()
            for sku in list(self.intents):
                intent = self.intents.get(sku)
                if intent is None:
                    continue
                if intent.settle_until is None and intent.attempt == 2 and intent.leased_until < self.now:
                    intent.settle_until, intent.due_at, intent.searches = self.now + SETTLE, self.now, 0
                elif intent.settle_until is not None and intent.due_at <= self.now and intent.leased_until < self.now:
                    yield from self._resolve(worker, sku, intent)
            for look in [each for each in self.late if each[0] <= self.now]:
                self._look(look)
            yield self._idle(self.random.uniform(1, 4))

    def _rescue(self) -> None:
        self.note(f"fence {self.run_fence} is rescued")
        self.counts["rescues"] += 1
        for intent in self.intents.values():
            if intent.fence == self.run_fence and intent.settle_until is None and intent.attempt == 1:
                intent.settle_until, intent.due_at, intent.searches = self.now + SETTLE, self.now + 1.0, 0
                intent.leased_until = 0.0
                self.counts["unknown"] += 1
        self.run_owner, self.run_due = None, self.now + self.random.uniform(0, 2)
        self.run_exists = any(item.status == "pending" and sku not in self.intents for sku, item in self.items.items())

    def _resolve(self, worker: _Worker, sku: str, intent: _Intent) -> Activity:
        """One search for an unknown outcome, and what follows from it."""
        assert intent.settle_until is not None
        self.fences += 1
        fence = intent.fence = self.fences
        intent.owner, intent.leased_until, intent.searches = worker.owner, self.now + LEASE, intent.searches + 1
        until = self.now + LEASE
        item = DoubtfulItem(
            sku=sku,
            job_id="job",
            ordinal=0,
            fence=fence,
            attempt=intent.attempt,
            stored=StoredDraft(
                draft=ListingDraft(
                    sku=sku,
                    title="Silla",
                    category_id="MCO1",
                    price=1,
                    listing_type_id="gold_special",
                    quantity=1,
                    image_urls=(),
                    warranty_time="90 días",
                )
            ),
            started_at=EPOCH + timedelta(seconds=intent.started_at),
            searches=intent.searches,
            settled=intent.settle_until <= self.now,
            hopeless=intent.settle_until < self.now - HOPELESS,
            seconds_left=max(0.0, intent.settle_until - self.now),
            job_status=self.job,
            unsent=intent.unsent,
        )
        found = None if worker.rests_until > self.now else self._search(sku)
        if found == []:
            intent.nothing_found_at = self.now
        yield self.random.uniform(0.05, 1.0)
        decided = after_search(item, found)
        self.counts[f"search {decided.step.value}"] += 1
        if not self._owns(worker, sku, fence):
            self.counts["fenced"] += 1
            return
        match decided.step:
            case Search.ADOPT:
                assert decided.adopted is not None
                self._finish(sku, intent, "success", decided.adopted.listing_id)
                for surplus in decided.surplus:
                    self._close(surplus.listing_id)
            case Search.AGAIN:
                intent.due_at, intent.leased_until = self.now + decided.delay, 0.0
            case Search.SKIP:
                self._finish(sku, intent, "skipped", "")
                self._look_later(sku, intent)
            case Search.GIVE_UP:
                self._finish(sku, intent, "failed", "")
                self._look_later(sku, intent)
            case Search.REPOST:
                yield from self._repost(worker, sku, intent, fence, until)

    def _owns(self, worker: _Worker, sku: str, fence: int) -> bool:
        intent = self.intents.get(sku)
        return intent is not None and (intent.owner, intent.fence) == (worker.owner, fence)

    def _finish(self, sku: str, intent: _Intent, status: str, listing: str) -> None:
        self.items[sku].status, self.items[sku].listing = status, listing
        self.note(f"{sku} is {status} {listing} after a search")
        if intent.attempt > 1 and status == "success":
            self._look_later(sku, intent)
        del self.intents[sku]

    def _close(self, listing_id: str) -> None:
        self.note(f"{listing_id} is closed")
        self.counts["closed"] += 1
        for each in self.market:
            if f"MCO{each.number}" == listing_id:
                each.open = False

    def _repost(self, worker: _Worker, sku: str, intent: _Intent, fence: int, until: float) -> Activity:
        if intent.attempt != 1 or intent.settle_until is None:
            raise BrokenPromiseError(f"{sku}: reposted twice")
        if self.now < intent.settle_until or intent.nothing_found_at < intent.settle_until:
            raise BrokenPromiseError(f"{sku}: reposted without a search after the whole window")
        intent.attempt, intent.settle_until, intent.started_at, intent.sent = 2, None, self.now, False
        self.note(f"worker {worker.number} reposts {sku}")
        yield self.random.uniform(0.0, 0.5)
        if self.now + MARGIN >= until or self.job is JobStatus.CANCELLED:
            result, made = ListingResult(outcome=Outcome.NOT_SENT, failure=Failure("internal_error")), None
        else:
            result, made = yield from self._call(worker, sku, intent)
        if not self._owns(worker, sku, fence):
            self.counts["fenced"] += 1
            return
        decided = after_call(result, 0, 0)
        if decided.next is Next.DEFERRED:
            intent.attempt, intent.settle_until, intent.leased_until = 1, self.now, 0.0
            intent.unsent += 1
            intent.due_at = self.now + max(5.0, result.retry_after or 0.0)
            return
        self._record(worker, sku, fence, decided.next.value, f"MCO{made.number}" if made else "", decided.attempts)

    def _look(self, look: tuple[float, str, float, int]) -> None:
        """A late look: what the doubtful sends made and nobody has on record is closed."""
        _, sku, since, tries = look
        self.late.remove(look)
        found = self._search(sku)
        if found is None:
            self.late.append((self.now + 60.0, sku, since, tries))
            return
        earliest = EPOCH + timedelta(seconds=since) - CREATION_TOLERANCE - timedelta(seconds=SETTLE * 2)
        for each in found:
            if each.listing_id != self.items[sku].listing and each.created_at and each.created_at >= earliest:
                self._close(each.listing_id)
        if tries + 1 < len(LATE_LOOKS):
            self.late.append((self.now + LATE_LOOKS[tries + 1], sku, since, tries + 1))

    def _renew(self, worker: _Worker) -> Activity:
        while True:
            if self.run_owner == worker.owner and self.run_until > self.now:
                self.run_until = self.now + LEASE
            yield self._idle(LEASE / 3)

    def _cancel(self) -> Activity:
        if self.job in (JobStatus.QUEUED, JobStatus.PROCESSING) and any(
            item.status == "pending" for item in self.items.values()
        ):
            self.job = JobStatus.CANCELLED
            self.counts["cancels"] += 1
            self.note("cancelled")
            for sku, item in self.items.items():
                if item.status == "pending" and sku not in self.intents:
                    item.status = "skipped"
            if self.run_owner is None:
                self.run_exists = False
        yield from ()

    # The end.

    def judge(self) -> None:
        """What must hold when nothing is left to be done."""
        for sku, item in self.items.items():
            present = [f"MCO{each.number}" for each in self.market if each.sku == sku and each.open]
            expected = [item.listing] if item.status == "success" else []
            if item.status == "pending" or present != expected:
                raise BrokenPromiseError(f"{sku} is {item.status} {item.listing}, open are {present}")
            self.counts[f"item {item.status}"] += 1


async def run(campaign: Campaign) -> None:
    """So many histories; one in fifty is played twice and must be the same."""
    outcome = campaign.outcome
    first = campaign.random.randrange(10**9)
    for seed in range(first, first + campaign.volumes.simulations):
        world = World(seed)
        try:
            world.play()
        except BrokenPromiseError as broken:
            outcome.violations.append(f"seed {seed}: {broken} (python -m tests.faults.simulation {seed})")
            if len(outcome.violations) > 10:
                break
        outcome.counts["histories"] += 1
        outcome.counts.update(world.counts)
        if seed % 50 == 0:
            again = World(seed)
            again.play()
            outcome.counts["histories played twice"] += 1
            if again.digest != world.digest:
                outcome.violations.append(f"seed {seed}: two plays differ")
    outcome.want("histories", campaign.volumes.simulations)
    outcome.want("histories played twice", campaign.volumes.simulations // 60)
    for name in ("deaths", "pauses", "rescues", "fenced", "search adopt", "search repost", "search give_up", "closed"):
        outcome.want(name, campaign.volumes.simulations // 300)


def main() -> None:
    """Print one history."""
    world = World(int(sys.argv[1]), keep_trace=True)
    try:
        world.play()
    except BrokenPromiseError as broken:
        world.note(f"BROKEN {broken}")
    assert world.trace is not None
    print("\n".join(world.trace))
    print(dict(world.counts), math.floor(world.now))


if __name__ == "__main__":
    main()
