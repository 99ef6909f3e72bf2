"""The worker's decisions: every branch, and what holds whatever comes in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.failures import Cause, Failure
from core.domain.price import MAX_PRICE, listing_price
from core.domain.states import Environment, JobKind, JobStatus
from core.ports.marketplace import Listing, ListingDraft, Outcome, Result
from core.ports.work import DoubtfulItem, JobTerms, StoredDraft, WorkItem
from core.worker import decide
from core.worker.decide import (
    MAX_RETURNS,
    MAX_TRIES,
    MAX_UNSENT,
    SEARCH_DELAYS,
    Breaker,
    Heard,
    Next,
    Predict,
    Refuse,
    Search,
    Send,
    after_call,
    after_search,
    delay_after,
    first_step,
    heard,
    is_own_doing,
)

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def terms(kind: JobKind = JobKind.PUBLICATION, **changes: Any) -> JobTerms:
    chosen: dict[str, Any] = {
        "kind": kind,
        "environment": Environment.LIVE,
        "status": JobStatus.PROCESSING,
        "listing_type_id": "gold_special",
        "tax_category_id": 0,
        "trm": 4000,
        "margin_percent": Decimal(10),
        "tariff_percent": Decimal(5),
        "price_step": 100,
        "stock_quantity": 7,
        "warranty_time": "90 días",
        "manufacturing_time_days": 20,
        "site_id": "MCO",
        "currency": "COP",
    }
    return JobTerms(**(chosen | changes))


def work_item(**changes: Any) -> WorkItem:
    chosen: dict[str, Any] = {
        "ordinal": 0,
        "sku": "B07N4M94X4",
        "category_id": "MCO1055",
        "price": None,
        "attempts": 0,
        "known": True,
        "title": "Silla plegable",
        "cost_usd": Decimal("19.99"),
        "image_urls": ("https://images.example.com/a.jpg",),
        "brand": "Acme",
        "model": "X1",
        "gtin": None,
        "weight_grams": 900,
        "described": False,
        "listing_id": None,
        "permalink": None,
        "listing_status": None,
        "listing_category_id": None,
        "listing_category_name": None,
        "promotable": False,
        "test_category_id": None,
        "test_price": None,
        "test_category_name": None,
        "predicted": False,
        "predicted_category_id": None,
        "predicted_category_name": None,
    }
    return WorkItem(**(chosen | changes))


TESTED: dict[str, Any] = {
    "promotable": True, "test_category_id": "MCO77", "test_price": 55_000, "test_category_name": "Sillas",
}  # fmt: skip


def refused(step: object) -> str:
    assert isinstance(step, Refuse)
    return step.failure.code


def sent(step: object) -> StoredDraft:
    assert isinstance(step, Send)
    return step.stored


# The first step.


def test_the_draft_holds_what_catalogue_and_job_say() -> None:
    stored = sent(first_step(work_item(gtin="7702004003508", described=True), terms()))
    price = listing_price(
        Decimal("19.99"), trm=4000, tariff_percent=Decimal(5), margin_percent=Decimal(10), price_step=100
    )

    assert stored.draft == ListingDraft(
        sku="B07N4M94X4",
        title="Silla plegable",
        category_id="MCO1055",
        price=price,
        listing_type_id="gold_special",
        quantity=7,
        image_urls=("https://images.example.com/a.jpg",),
        warranty_time="90 días",
        manufacturing_time_days=20,
        brand="Acme",
        model="X1",
        gtin="7702004003508",
        weight_grams=900,
    )
    assert (stored.category_name, stored.described) == (None, True)


@pytest.mark.parametrize("kind", JobKind)
def test_a_sku_that_the_catalogue_does_not_know_is_refused(kind: JobKind) -> None:
    item = work_item(known=False, title=None, cost_usd=None, price=1000, **TESTED)
    assert refused(first_step(item, terms(kind))) == "product_unknown"


@pytest.mark.parametrize("title", [None, "", "   ", "\t\n"])
def test_a_product_without_a_title_is_refused(title: str | None) -> None:
    assert refused(first_step(work_item(title=title), terms())) == "title_missing"


@pytest.mark.parametrize("cost", [None, Decimal(0), Decimal("-0.01")])
def test_a_product_without_a_cost_above_zero_is_refused(cost: Decimal | None) -> None:
    assert refused(first_step(work_item(cost_usd=cost), terms())) == "price_missing"


def test_a_price_that_the_marketplace_does_not_take_is_refused() -> None:
    highest = work_item(cost_usd=Decimal(MAX_PRICE))
    plain = terms(trm=1, tariff_percent=Decimal(0), margin_percent=Decimal(0), price_step=1)

    assert sent(first_step(highest, plain)).draft.price == MAX_PRICE
    above = msgspec.structs.replace(highest, cost_usd=Decimal(MAX_PRICE + 1))
    assert refused(first_step(above, plain)) == "price_out_of_range"
    promoted = work_item(price=0, **TESTED)
    assert refused(first_step(promoted, terms(JobKind.PROMOTION))) == "price_out_of_range"


def test_a_category_that_is_not_known_is_asked_for_by_title() -> None:
    assert first_step(work_item(category_id=None, title=" Silla "), terms()) == Predict(" Silla ")


def test_a_predicted_category_is_taken_with_its_name() -> None:
    item = work_item(category_id=None, predicted=True, predicted_category_id="MCO9", predicted_category_name="Muebles")
    stored = sent(first_step(item, terms()))
    assert (stored.draft.category_id, stored.category_name) == ("MCO9", "Muebles")


def test_a_title_without_a_suggestion_is_refused() -> None:
    assert refused(first_step(work_item(category_id=None, predicted=True), terms())) == "category_not_found"


def test_the_price_is_judged_before_the_category_is_asked_for() -> None:
    assert refused(first_step(work_item(category_id=None, cost_usd=None), terms())) == "price_missing"


def test_a_promotion_takes_price_and_category_of_the_item_as_they_are() -> None:
    # The catalogue's cost is gone and the test listing shows other values by now: what was accepted counts.
    item = work_item(category_id="MCO5", price=123_456, cost_usd=None, **TESTED)
    stored = sent(first_step(item, terms(JobKind.PROMOTION)))
    assert (stored.draft.category_id, stored.draft.price, stored.category_name) == ("MCO5", 123_456, "Sillas")


@pytest.mark.parametrize("changes", [{"promotable": False}, {"price": None}, {"category_id": None}])
def test_a_promotion_without_its_test_listing_is_refused(changes: dict[str, Any]) -> None:
    item = work_item(**({"category_id": "MCO5", "price": 1000} | TESTED | changes))
    assert refused(first_step(item, terms(JobKind.PROMOTION))) == "not_promotable"


def test_a_publication_without_a_category_takes_over_the_test_run() -> None:
    stored = sent(first_step(work_item(category_id=None, cost_usd=None, **TESTED), terms()))
    assert (stored.draft.category_id, stored.draft.price, stored.category_name) == ("MCO77", 55_000, "Sillas")


def test_an_explicit_category_wins_over_the_test_run_and_is_priced_anew() -> None:
    stored = sent(first_step(work_item(**TESTED), terms()))
    assert stored.draft.category_id == "MCO1055"
    assert stored.draft.price != 55_000
    assert stored.category_name is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [("active", "MCO1"), ("paused", "MCO1"), ("under_review", "MCO1"), ("inactive", "MCO1"), ("closed", None)],
)
def test_an_open_listing_is_changed_and_a_closed_one_made_anew(status: str, expected: str | None) -> None:
    step = first_step(work_item(listing_id="MCO1", listing_status=status), terms())
    assert isinstance(step, Send)
    assert step.listing_id == expected


ITEMS = st.builds(
    work_item,
    known=st.booleans(),
    title=st.sampled_from([None, "", "Silla", "  Mesa "]),
    cost_usd=st.none() | st.decimals("-1", "99999999", places=4, allow_nan=False, allow_infinity=False),
    category_id=st.sampled_from([None, "MCO1", "MCO22"]),
    price=st.none() | st.integers(-1, MAX_PRICE + 2),
    promotable=st.booleans(),
    test_category_id=st.just("MCO77"),
    test_price=st.integers(1, MAX_PRICE),
    predicted=st.booleans(),
    predicted_category_id=st.sampled_from([None, "MCO9"]),
    listing_id=st.sampled_from([None, "MCO1"]),
    listing_status=st.sampled_from([None, "active", "closed"]),
)


@given(item=ITEMS, kind=st.sampled_from(JobKind), step=st.integers(1, 10_000))
def test_whatever_is_sent_is_complete_and_priced_by_the_rule(item: WorkItem, kind: JobKind, step: int) -> None:
    agreed = terms(kind, price_step=step)
    decided = first_step(item, agreed)
    if isinstance(decided, Predict):
        assert item.category_id is None
        assert not item.predicted
        assert kind is JobKind.PUBLICATION
        return
    if isinstance(decided, Refuse):
        assert not decided.failure.kind.retryable
        return
    draft = decided.stored.draft
    assert item.known
    assert 0 < draft.price <= MAX_PRICE
    assert draft.title == (item.title or "").strip() != ""
    assert draft.category_id
    if kind is JobKind.PROMOTION:
        assert (draft.price, draft.category_id) == (item.price, item.category_id)
    elif item.category_id is None and item.promotable:
        assert (draft.price, draft.category_id) == (item.test_price, item.test_category_id)
    else:
        assert item.cost_usd is not None
        assert draft.price % step == 0
        exact = item.cost_usd * 4000 * Decimal("1.05") * Decimal("1.10")
        assert exact <= draft.price < exact + step
    assert decided.listing_id == (item.listing_id if item.listing_status == "active" else None)


# After a call.


def ended(outcome: Outcome, failure: Failure | None = None, retry_after: float | None = None) -> Result:
    return Result(outcome=outcome, failure=failure, retry_after=retry_after)


OWN = [
    ended(Outcome.NOT_SENT, Failure("internal_error", (Cause("held_back", ""),))),
    ended(Outcome.THROTTLED, Failure("marketplace_busy", (Cause("application_rate", ""),)), 40.0),
]


def test_done_is_success_and_refused_is_failed_with_its_reason() -> None:
    assert after_call(ended(Outcome.DONE), 0, 0) == decide.AfterCall(Next.SUCCESS, attempts=1)
    reason = Failure("title_refused")
    assert after_call(ended(Outcome.REFUSED, reason), 3, 3) == decide.AfterCall(Next.FAILED, reason, 1)
    assert after_call(ended(Outcome.REFUSED), 0, 0).failure == Failure("content_refused")


@given(attempts=st.integers(0, 50), returns=st.integers(0, 1000))
def test_an_unknown_outcome_is_searched_for_however_often_it_was_tried(attempts: int, returns: int) -> None:
    decided = after_call(ended(Outcome.UNKNOWN, Failure("outcome_unknown")), attempts, returns)
    assert (decided.next, decided.attempts) == (Next.UNKNOWN, 1)


def test_what_time_heals_is_tried_again_a_bounded_number_of_times() -> None:
    reason = Failure("marketplace_conflict")
    decisions = [after_call(ended(Outcome.RETRY, reason), attempts, 0) for attempts in range(MAX_TRIES)]
    assert [each.next for each in decisions] == [Next.DEFERRED] * (MAX_TRIES - 1) + [Next.FAILED]
    assert all(each.attempts == 1 for each in decisions)
    assert decisions[-1].failure == reason
    assert after_call(ended(Outcome.RETRY), MAX_TRIES - 1, 0).failure == Failure("marketplace_unavailable")


@pytest.mark.parametrize(
    ("outcome", "code"), [(Outcome.THROTTLED, "marketplace_busy"), (Outcome.NOT_SENT, "marketplace_unavailable")]
)
def test_a_call_that_was_not_taken_is_no_try_but_does_not_wait_for_ever(outcome: Outcome, code: str) -> None:
    for attempts in (0, 99):
        for returns in range(MAX_RETURNS):
            assert after_call(ended(outcome), attempts, returns) == decide.AfterCall(Next.DEFERRED)
    last = after_call(ended(outcome), 0, MAX_RETURNS)
    assert (last.next, last.failure, last.attempts) == (Next.FAILED, Failure(code), 0)
    assert last.failure is not None
    assert last.failure.kind.retryable


@pytest.mark.parametrize("result", OWN)
def test_what_we_held_back_ourselves_never_fails_an_item(result: Result) -> None:
    assert is_own_doing(result)
    assert after_call(result, 99, 999).next is Next.DEFERRED


@given(outcome=st.sampled_from(Outcome), attempts=st.integers(0, 30), returns=st.integers(0, 60))
def test_only_a_definite_end_ends_an_item(outcome: Outcome, attempts: int, returns: int) -> None:
    decided = after_call(ended(outcome, Failure("marketplace_busy")), attempts, returns)
    if decided.next is Next.FAILED:
        assert decided.failure is not None
        assert outcome not in (Outcome.DONE, Outcome.UNKNOWN)
    if decided.next is Next.SUCCESS:
        assert outcome is Outcome.DONE
    assert decided.attempts in (0, 1)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (ended(Outcome.DONE), Heard.ANSWER),
        (ended(Outcome.REFUSED, Failure("title_refused")), Heard.ANSWER),
        (ended(Outcome.THROTTLED, Failure("marketplace_busy"), 3.0), Heard.SLOW_DOWN),
        (ended(Outcome.UNKNOWN, Failure("outcome_unknown")), Heard.SILENCE),
        (ended(Outcome.NOT_SENT, Failure("marketplace_unavailable")), Heard.SILENCE),
        (ended(Outcome.RETRY, Failure("marketplace_unavailable")), Heard.SILENCE),
        (ended(Outcome.RETRY), Heard.SILENCE),
        (ended(Outcome.RETRY, Failure("marketplace_conflict")), Heard.ANSWER),
        (ended(Outcome.RETRY, Failure("pictures_processing")), Heard.ANSWER),
        (OWN[0], Heard.NOTHING),
        (OWN[1], Heard.NOTHING),
    ],
)
def test_what_a_call_says_about_the_marketplace(result: Result, said: Heard) -> None:
    assert heard(result) is said


@given(returns=st.integers(0, 1000), spread=st.floats(0, 1))
def test_delays_double_up_to_a_minute_and_are_spread(returns: int, spread: float) -> None:
    whole = min(60.0, 2.0**returns) if returns < 7 else 60.0
    assert whole / 2 <= delay_after(returns, spread) <= whole
    assert delay_after(returns, 1.0) == whole


# After a search.


def doubtful(**changes: Any) -> DoubtfulItem:
    chosen: dict[str, Any] = {
        "sku": "B07N4M94X4",
        "job_id": "job",
        "ordinal": 0,
        "fence": 1,
        "attempt": 1,
        "stored": sent(first_step(work_item(), terms())),
        "started_at": NOW,
        "searches": 1,
        "settled": False,
        "hopeless": False,
        "seconds_left": 100.0,
        "job_status": JobStatus.PROCESSING,
    }
    return DoubtfulItem(**(chosen | changes))


def listing(number: int, created: timedelta | None) -> Listing:
    created_at = None if created is None else NOW + created
    return Listing(listing_id=f"MCO{number}", sku="B07N4M94X4", status="active", created_at=created_at)


SETTLED: dict[str, Any] = {"settled": True, "seconds_left": 0.0}


@given(attempt=st.integers(1, 2), settled=st.booleans(), hopeless=st.booleans(), status=st.sampled_from(JobStatus))
def test_what_is_found_is_adopted_whatever_else_holds(
    attempt: int, settled: bool, hopeless: bool, status: JobStatus
) -> None:
    item = doubtful(attempt=attempt, settled=settled, hopeless=hopeless, job_status=status, job_stopped=hopeless)
    one = listing(1, timedelta(seconds=1))
    assert after_search(item, [one]) == decide.AfterSearch(Search.ADOPT, adopted=one)


def test_of_several_the_oldest_is_adopted_and_those_of_the_send_are_closed() -> None:
    by_hand, ours, twice, undated = (
        listing(1, timedelta(days=-3)),
        listing(3, timedelta(seconds=1)),
        listing(4, timedelta(seconds=2)),
        listing(5, None),
    )
    also_by_hand = listing(2, timedelta(days=-2))
    decided = after_search(doubtful(), [by_hand, also_by_hand, ours, twice, undated])
    assert (decided.step, decided.adopted) == (Search.ADOPT, by_hand)
    # What the seller made by hand before is left alone, and what cannot be dated is not guessed at.
    assert decided.surplus == (ours, twice)


def test_clocks_that_differ_by_minutes_do_not_hide_a_double() -> None:
    first, second = listing(1, timedelta(minutes=-4)), listing(2, timedelta(minutes=-3))
    assert after_search(doubtful(), [first, second]).surplus == (second,)


@pytest.mark.parametrize("found", [[], None])
def test_before_the_window_is_over_it_is_searched_again(found: list[Listing] | None) -> None:
    for searches in range(20):
        decided = after_search(doubtful(searches=searches), found)
        assert decided.step is Search.AGAIN
        assert decided.delay == SEARCH_DELAYS[max(0, min(searches, len(SEARCH_DELAYS)) - 1)]


@given(searches=st.integers(0, 100), seconds_left=st.floats(0, 1000))
def test_the_last_search_falls_at_the_end_of_the_window(searches: int, seconds_left: float) -> None:
    decided = after_search(doubtful(searches=searches, seconds_left=seconds_left), [])
    assert 0 < decided.delay <= seconds_left + 0.1


def test_a_marketplace_that_cannot_be_asked_never_counts_as_nothing_there() -> None:
    assert after_search(doubtful(**SETTLED), None).step is Search.AGAIN
    assert after_search(doubtful(**SETTLED, attempt=2), None).step is Search.AGAIN
    assert after_search(doubtful(**SETTLED, job_status=JobStatus.CANCELLED), None).step is Search.AGAIN
    assert after_search(doubtful(**SETTLED, hopeless=True), None).step is Search.GIVE_UP


def test_nothing_there_leads_to_one_repost() -> None:
    assert after_search(doubtful(**SETTLED), []).step is Search.REPOST
    # A service that was away for hours still makes its one new attempt.
    assert after_search(doubtful(**SETTLED, hopeless=True), []).step is Search.REPOST
    assert after_search(doubtful(**SETTLED, attempt=2), []).step is Search.GIVE_UP


def test_nothing_is_reposted_into_a_job_that_has_ended() -> None:
    assert after_search(doubtful(**SETTLED, job_status=JobStatus.CANCELLED), []).step is Search.SKIP
    assert after_search(doubtful(**SETTLED, job_status=JobStatus.CANCELLED, attempt=2), []).step is Search.SKIP
    assert after_search(doubtful(**SETTLED, job_stopped=True), []).step is Search.GIVE_UP


def test_a_repost_that_comes_to_nothing_for_certain_is_made_a_few_times_only() -> None:
    steps = [after_search(doubtful(**SETTLED, unsent=unsent), []).step for unsent in range(MAX_UNSENT + 2)]
    assert steps == [Search.REPOST] * MAX_UNSENT + [Search.GIVE_UP] * 2


# The breaker.


def test_the_breaker_opens_after_a_row_of_failures() -> None:
    breaker = Breaker()
    pauses = [breaker.failed(float(second)) for second in range(Breaker.THRESHOLD)]
    assert pauses == [None] * (Breaker.THRESHOLD - 1) + [Breaker.FIRST_PAUSE]


def test_an_answer_in_between_starts_the_row_anew() -> None:
    breaker = Breaker()
    for _ in range(10):
        for _ in range(Breaker.THRESHOLD - 1):
            assert breaker.failed(0.0) is None
        breaker.succeeded()


def test_one_burst_opens_it_once() -> None:
    breaker = Breaker()
    pauses = [breaker.failed(1.0) for _ in range(64)]
    assert [pause for pause in pauses if pause is not None] == [Breaker.FIRST_PAUSE]


def test_each_time_it_stays_open_longer_up_to_a_limit() -> None:
    breaker, now, pauses = Breaker(), 0.0, []
    for _ in range(40):
        for _ in range(Breaker.THRESHOLD):
            pause = breaker.failed(now)
        assert pause is not None
        pauses.append(pause)
        now += pause
    assert pauses[:4] == [5.0, 10.0, 20.0, 40.0]
    assert pauses == sorted(pauses)
    assert pauses[-1] == Breaker.LONGEST_PAUSE
    breaker.succeeded()
    for _ in range(Breaker.THRESHOLD):
        pause = breaker.failed(now)
    assert pause == Breaker.FIRST_PAUSE


@given(steps=st.lists(st.tuples(st.booleans(), st.floats(0, 30)), max_size=200))
def test_the_breaker_never_opens_while_open_and_never_for_longer_than_its_limit(
    steps: list[tuple[bool, float]],
) -> None:
    breaker, now, open_until = Breaker(), 0.0, 0.0
    for succeeded, passed in steps:
        now += passed
        if succeeded:
            breaker.succeeded()
            continue
        pause = breaker.failed(now)
        if pause is not None:
            assert now >= open_until
            assert Breaker.FIRST_PAUSE <= pause <= Breaker.LONGEST_PAUSE
            open_until = now + pause
