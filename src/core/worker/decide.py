"""The worker's decisions, as pure functions of state, input and time.

They are simulated with a virtual clock (``tests/faults``); whatever needs a database, a network or
chance is elsewhere, and random spread comes in as a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import msgspec

from core.domain.failures import Failure
from core.domain.price import MAX_PRICE, listing_price
from core.domain.states import JobKind, JobStatus
from core.ports.marketplace import Listing, ListingDraft, Outcome, Result
from core.ports.work import DoubtfulItem, JobTerms, StoredDraft, WorkItem

MAX_TRIES = 5
"""Tries of one item that ended in a transient answer before it is failed, retryable."""
MAX_RETURNS = 20
"""Times in a row that a run may come back with nothing done, because the marketplace was away or asked to slow
down, before its items are failed, retryable: with the growing delay some quarter of an hour. Until then such items
wait and do not fail; a 429 is no try of the SKU (reference, section 7)."""
MAX_UNSENT = 6
"""Times that the one repost may come to nothing for certain before it is given up."""
LONGEST_DELAY = 60.0
"""Seconds; the reference's 1, 2, 4 … 60."""
SEARCH_DELAYS = (2.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds between the searches for an unknown outcome; the last one repeats until the window is over."""
CREATION_TOLERANCE = timedelta(minutes=5)
"""How far the marketplace's clock may be from the database's when a creation is matched by its time."""


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Failed before any call."""

    failure: Failure


class Predict(msgspec.Struct, frozen=True, gc=False):
    """The category has to be asked for, by this title."""

    title: str


class Send(msgspec.Struct, frozen=True, gc=False):
    """Ready: create a listing, or update the open one (``listing_id``)."""

    stored: StoredDraft
    listing_id: str | None


def first_step(item: WorkItem, terms: JobTerms) -> Refuse | Predict | Send:
    """What to do with a pending item, from what is known without asking the marketplace."""
    if not item.known:
        return Refuse(Failure("product_unknown"))
    title = (item.title or "").strip()
    if not title:
        return Refuse(Failure("title_missing"))
    category_id, category_name = item.category_id, None
    price: int | None
    if terms.kind is JobKind.PROMOTION:
        if not item.promotable or item.price is None or item.category_id is None:
            return Refuse(Failure("not_promotable"))
        price, category_name = item.price, item.test_category_name
    elif category_id is None and item.promotable:
        # An explicit category wins; without one the test run's category and price are taken over.
        category_id, category_name, price = item.test_category_id, item.test_category_name, item.test_price
    else:
        if item.cost_usd is None or item.cost_usd <= 0:
            return Refuse(Failure("price_missing"))
        price = listing_price(
            item.cost_usd,
            trm=terms.trm,
            tariff_percent=terms.tariff_percent,
            margin_percent=terms.margin_percent,
            price_step=terms.price_step,
        )
    if price is None or not 0 < price <= MAX_PRICE:
        return Refuse(Failure("price_out_of_range"))
    if category_id is None:
        if not item.predicted:
            return Predict(title=item.title or "")
        if item.predicted_category_id is None:
            return Refuse(Failure("category_not_found"))
        category_id, category_name = item.predicted_category_id, item.predicted_category_name
    draft = ListingDraft(
        sku=item.sku,
        title=title,
        category_id=category_id,
        price=price,
        listing_type_id=terms.listing_type_id,
        quantity=terms.stock_quantity,
        image_urls=item.image_urls,
        warranty_time=terms.warranty_time,
        manufacturing_time_days=terms.manufacturing_time_days,
        brand=item.brand,
        model=item.model,
        gtin=item.gtin,
        weight_grams=item.weight_grams,
    )
    open_listing = item.listing_id if item.listing_status not in (None, "closed") else None
    return Send(StoredDraft(draft=draft, category_name=category_name, described=item.described), open_listing)


class Next(StrEnum):
    """What becomes of an item after a call."""

    SUCCESS = "success"
    FAILED = "failed"
    DEFERRED = "deferred"
    UNKNOWN = "unknown"


class AfterCall(msgspec.Struct, frozen=True, gc=False):
    """``attempts`` is added to the item's count; ``failure`` is set when FAILED."""

    next: Next
    failure: Failure | None = None
    attempts: int = 0


_SUCCESS = AfterCall(Next.SUCCESS, attempts=1)


def after_call(result: Result, attempts: int, returns: int) -> AfterCall:
    """What a finished call means for its item, which was tried ``attempts`` times before, in a run that came
    back ``returns`` times in a row with nothing done.

    An unknown outcome never goes straight back to a send, and an answer that time heals never fails an
    item at once; none of them defers it without end.
    """
    match result.outcome:
        case Outcome.DONE:
            return _SUCCESS
        case Outcome.REFUSED:
            return AfterCall(Next.FAILED, result.failure or Failure("content_refused"), attempts=1)
        case Outcome.UNKNOWN:
            return AfterCall(Next.UNKNOWN, attempts=1)
        case Outcome.RETRY:
            if attempts + 1 >= MAX_TRIES:
                return AfterCall(Next.FAILED, result.failure or Failure("marketplace_unavailable"), attempts=1)
            return AfterCall(Next.DEFERRED, attempts=1)
        case Outcome.THROTTLED | Outcome.NOT_SENT:
            if returns >= MAX_RETURNS and not is_own_doing(result):
                busy = result.outcome is Outcome.THROTTLED
                failure = Failure("marketplace_busy" if busy else "marketplace_unavailable")
                return AfterCall(Next.FAILED, result.failure or failure)
            return AfterCall(Next.DEFERRED)


def is_own_doing(result: Result) -> bool:
    """Whether a call ended before the marketplace was asked and through no fault of its: our own rate was used
    up, the lease had grown too old, our storage failed."""
    if result.failure is None or result.outcome not in (Outcome.NOT_SENT, Outcome.THROTTLED):
        return False
    return result.failure.code == "internal_error" or any(
        cause.code == "application_rate" for cause in result.failure.causes
    )


class Heard(StrEnum):
    """What a finished call says about the marketplace itself."""

    ANSWER = "answer"
    SLOW_DOWN = "slow_down"
    SILENCE = "silence"
    NOTHING = "nothing"


def heard(result: Result) -> Heard:
    """Answers of substance count as such, whatever they say; a call that never left for reasons of our own says
    nothing."""
    if is_own_doing(result):
        return Heard.NOTHING
    match result.outcome:
        case Outcome.DONE | Outcome.REFUSED:
            return Heard.ANSWER
        case Outcome.THROTTLED:
            return Heard.SLOW_DOWN
        case Outcome.UNKNOWN | Outcome.NOT_SENT:
            return Heard.SILENCE
        case Outcome.RETRY:
            unavailable = result.failure is None or result.failure.code == "marketplace_unavailable"
            return Heard.SILENCE if unavailable else Heard.ANSWER


def delay_after(returns: int, spread: float) -> float:
    """Seconds until a run that came back is due again: doubling, at most LONGEST_DELAY, spread by
    ``spread`` in 0..1 so that a stall of all workers does not become one burst (rule 16)."""
    return min(LONGEST_DELAY, 2.0 ** min(returns, 6)) * (0.5 + 0.5 * spread)


class Search(StrEnum):
    """What a search for an unknown outcome leads to."""

    ADOPT = "adopt"
    AGAIN = "again"
    REPOST = "repost"
    GIVE_UP = "give_up"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class AfterSearch:
    """``adopted`` is the listing taken over, ``surplus`` those to be closed, oldest first;
    ``delay`` the seconds until the next search."""

    step: Search
    adopted: Listing | None = None
    surplus: Sequence[Listing] = ()
    delay: float = 0.0


def after_search(item: DoubtfulItem, found: Sequence[Listing] | None) -> AfterSearch:
    """What to do about an unknown outcome.

    Of several listings the oldest is adopted; to be closed are those that the doubtful send may have made, by
    their time of creation: what the seller made by hand before it is the seller's.

    Args:
        item: the intent, leased.
        found: open listings of the account with the SKU, oldest first; None when the marketplace could
            not be asked, which is never taken for "nothing there".
    """
    if found:
        earliest = item.started_at - CREATION_TOLERANCE
        surplus = tuple(each for each in found[1:] if each.created_at is not None and each.created_at >= earliest)
        return AfterSearch(Search.ADOPT, adopted=found[0], surplus=surplus)
    delay = SEARCH_DELAYS[max(0, min(item.searches, len(SEARCH_DELAYS)) - 1)]
    if not item.settled:
        # The last search falls at the window's end, not before it.
        return AfterSearch(Search.AGAIN, delay=min(delay, item.seconds_left + 0.1))
    if found is None:
        if item.hopeless:
            return AfterSearch(Search.GIVE_UP)
        return AfterSearch(Search.AGAIN, delay=delay)
    if item.job_status is JobStatus.CANCELLED:
        return AfterSearch(Search.SKIP)
    if item.attempt == 1 and item.unsent < MAX_UNSENT and not item.job_stopped:
        return AfterSearch(Search.REPOST)
    return AfterSearch(Search.GIVE_UP)


class Breaker:
    """A circuit breaker for one account: opens after consecutive failures, longer each time (rule 29).

    Open means items wait, not fail. Pure: time comes in, in seconds on any clock that does not go back.
    """

    THRESHOLD = 8
    FIRST_PAUSE = 5.0
    LONGEST_PAUSE = 120.0

    def __init__(self) -> None:
        self.failures = 0
        self.opened = 0
        self.open_until = -math.inf

    def succeeded(self) -> None:
        """An answer came: whatever it says, the marketplace is there."""
        self.failures = 0
        self.opened = 0

    def failed(self, now: float) -> float | None:
        """A call ended without an answer of substance; the seconds to pause when this one opens it.

        Failures while it is open are those of calls that were on their way: one burst opens it once.
        """
        if now < self.open_until:
            return None
        self.failures += 1
        if self.failures < self.THRESHOLD:
            return None
        self.failures = 0
        pause = min(self.LONGEST_PAUSE, self.FIRST_PAUSE * 2.0 ** min(self.opened, 10))
        self.opened += 1
        self.open_until = now + pause
        return pause
