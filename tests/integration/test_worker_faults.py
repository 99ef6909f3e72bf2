"""A marketplace that fails: exactly one listing whatever the answer to its creation was, and accounts that rest."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from core.domain.failures import Failure
from core.domain.states import JobStatus
from core.marketplace.client import Answer, NoAnswer
from core.marketplace.errors import throttled_by_us
from core.ports.marketplace import Account, ListingDraft, ListingResult, SearchResult
from core.use_cases import administration
from core.worker import decide
from tests.support.publishing import LIVE, TEST, Ended, Shop, publishing, until
from tests.support.sandbox import RunningSandbox, run_sandbox
from tests.support.service import Tenant


@pytest.fixture(scope="module")
def market() -> Iterator[RunningSandbox]:
    with run_sandbox("--index-lag-seconds", "0.1", "--picture-delay-seconds", "0.1") as sandbox:
        yield sandbox


@pytest_asyncio.fixture(scope="module")
async def shop(database_url: str, market: RunningSandbox) -> AsyncIterator[Shop]:
    async with publishing(database_url, market) as opened:
        yield opened


@pytest_asyncio.fixture
async def seller(shop: Shop) -> Tenant:
    return await shop.tenant(balance=1000)


def one_listing_each(shop: Shop, seller: Tenant, ended: Ended, environment: str = "live") -> None:
    """Every item succeeded, and its listing is the only one of its SKU that the account has."""
    for item in ended.items:
        found = shop.on_market(seller, item.sku, LIVE if environment == "live" else TEST)
        assert (item.status, [each["id"] for each in found]) == ("success", [item.listing_id]), item


# Creations whose outcome is not told.

CREATED: dict[str, dict[str, Any]] = {
    "reset_after": {},
    "silence_after": {},
    "error_after": {"status": 500},
    "html_after": {},
    "truncated_body": {},
    "broken_json": {},
    "empty_body": {},
    "huge_body": {},
    "deep_body": {},
    "mismatched_sku": {},
    "missing_id": {},
    "odd_types": {},
    "created_late": {"seconds": 0.6, "then": "reset"},
    "slow_drip": {"seconds": 0.4},
}
"""The listing is made, but nobody is told so in a way to rely on."""

NOT_CREATED: dict[str, dict[str, Any]] = {
    "reset_before": {},
    "silence_before": {},
    "error_500": {},
    "error_503": {},
    "html_502": {},
    "http_200_not_json": {},
}

TOLD: dict[str, dict[str, Any]] = {"partial_206": {}, "wrong_content_type": {}, "custom_field_lost": {}}
"""Odd, but told."""


async def test_a_listing_whose_creation_is_not_told_is_found_and_adopted(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("MADE", len(CREATED))
    rules = [
        shop.fault(seller, fault, LIVE, operation="item_create", sku=sku, **more)
        for sku, (fault, more) in zip(skus, CREATED.items(), strict=True)
    ]
    ended = await shop.ended(seller, await shop.publish(seller, skus, environment=LIVE))

    one_listing_each(shop, seller, ended)
    assert [shop.fired(rule) for rule in rules] == [1] * len(rules)
    assert shop.created(seller, LIVE) == len(skus)
    assert [item.attempts for item in ended.items] == [1] * len(skus)
    assert await seller.credits() == (1000, 1000 - len(skus), 0, len(skus), 0)
    assert {(await shop.listing(seller, sku, LIVE))["status_meli"] for sku in skus} <= {"active", "paused"}


async def test_a_creation_that_did_not_happen_is_made_by_the_one_repost(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("LOST", len(NOT_CREATED))
    rules = [
        shop.fault(seller, fault, LIVE, operation="item_create", sku=sku, times=1, **more)
        for sku, (fault, more) in zip(skus, NOT_CREATED.items(), strict=True)
    ]
    ended = await shop.ended(seller, await shop.publish(seller, skus, environment=LIVE))

    one_listing_each(shop, seller, ended)
    assert [shop.fired(rule) for rule in rules] == [1] * len(rules)
    assert shop.created(seller, LIVE) == len(skus)
    assert await seller.credits() == (1000, 1000 - len(skus), 0, len(skus), 0)


async def test_a_second_unknown_outcome_is_told_as_such_and_can_be_retried(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("TWICE")
    rule = shop.fault(seller, "reset_before", LIVE, operation="item_create", sku=sku)
    job_id = await shop.publish(seller, [sku], environment=LIVE)

    async def searching() -> bool:
        reason = (await shop.job(seller, job_id)).waiting_reason
        return reason == "looking at the marketplace for the outcome of 1 items"

    await until(searching)
    ended = await shop.ended(seller, job_id)
    sent = shop.fired(rule)
    shop.forget(rule)
    await shop.retry(seller, job_id)
    again = await shop.ended(seller, job_id)

    assert sent == 2
    assert (ended.job.status, ended.codes(), ended.items[0].retryable) == (JobStatus.FAILED, ["outcome_unknown"], True)
    one_listing_each(shop, seller, again)
    assert await seller.credits() == (1000, 999, 0, 1, 0)


async def test_a_repost_that_is_found_after_all_is_adopted(shop: Shop, seller: Tenant) -> None:
    (sku,) = await shop.stock("AFTER")
    shop.fault(seller, "reset_before", operation="item_create", sku=sku, times=1)
    shop.fault(seller, "reset_after", operation="item_create", sku=sku, times=1)
    ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    one_listing_each(shop, seller, ended, "test")
    assert shop.created(seller) == 1


async def test_a_repost_that_is_refused_for_a_while_is_made_again_and_then_given_up(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "MAX_UNSENT", 2)
    monkeypatch.setattr("core.worker.reconcile.UNSENT_SECONDS", 0.1)
    healed, hopeless = await shop.stock("WHILE", 2)
    for sku in (healed, hopeless):
        shop.fault(seller, "reset_before", operation="item_create", sku=sku, times=1)
    shop.fault(seller, "conflict_409", operation="item_create", sku=healed, times=1)
    rule = shop.fault(seller, "conflict_409", operation="item_create", sku=hopeless)
    ended = await shop.ended(seller, await shop.publish(seller, [healed, hopeless]))

    assert ended.codes() == [None, "outcome_unknown"]
    assert shop.fired(rule) == 2
    assert len(shop.on_market(seller, healed)) == 1


async def test_a_repost_that_our_own_rate_holds_back_is_not_given_up(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many workers share the application's rate, and each is told to wait again and again."""
    monkeypatch.setattr(decide, "MAX_UNSENT", 2)
    monkeypatch.setattr("core.worker.reconcile.UNSENT_SECONDS", 0.01)
    (sku,) = await shop.stock("RATE")
    shop.fault(seller, "reset_before", operation="item_create", sku=sku, times=1)
    create = shop.worker.context.marketplace.create_listing
    calls = 0

    async def held_back(account: Account, draft: ListingDraft, may_send: Callable[[], bool]) -> ListingResult:
        nonlocal calls
        calls += 1
        if calls in {2, 3, 4}:
            told = throttled_by_us(40.0)
            return ListingResult(outcome=told.outcome, failure=told.failure, retry_after=0.01)
        return await create(account, draft, may_send)

    monkeypatch.setattr(shop.worker.context.marketplace, "create_listing", held_back)
    ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    one_listing_each(shop, seller, ended, "test")
    assert calls == 5


async def test_a_search_that_our_own_rate_holds_back_does_not_make_a_doubt_hopeless(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sku,) = await shop.stock("HELD")
    shop.fault(seller, "reset_after", operation="item_create", sku=sku, times=1)
    find = shop.worker.context.marketplace.find_by_sku
    held, searches = True, 0

    async def held_back(account: Account, sku: str) -> SearchResult:
        nonlocal searches
        searches += 1
        if held:
            told = throttled_by_us(40.0)
            return SearchResult(outcome=told.outcome, failure=told.failure, retry_after=0.05)
        return await find(account, sku)

    monkeypatch.setattr(shop.worker.context.marketplace, "find_by_sku", held_back)
    job_id = await shop.publish(seller, [sku])
    await until(lambda: outlive_the_window(shop, sku, hours=1), what="a doubt")
    before = searches

    async def searched_or_given_up() -> bool:
        # The first of them may have begun before the window was over.
        return searches >= before + 3 or (await shop.job(seller, job_id)).pending == 0

    await until(searched_or_given_up)
    held = False
    ended = await shop.ended(seller, job_id)

    one_listing_each(shop, seller, ended, "test")
    assert shop.created(seller) == 1


async def outlive_the_window(shop: Shop, sku: str, hours: float = 0) -> int:
    """The outcome that is unknown has been so for its whole window, and for hours more."""
    return await shop.change(
        "UPDATE intents SET settle_until = now() - make_interval(secs => %s), due_at = now() WHERE sku = %s"
        " AND state = 'unknown' AND leased_until IS NULL", hours * 3600, sku,
    )  # fmt: skip


async def test_hits_that_cannot_be_read_are_not_taken_for_none(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The creation is doubtful, and the search tells numbers for ids: posting it again would make a second listing."""
    (sku,) = await shop.stock("NUMBER")
    monkeypatch.setattr(decide, "SEARCH_DELAYS", (0.1,))
    shop.fault(seller, "reset_after", operation="item_create", sku=sku, times=1)
    http = shop.worker.context.marketplace._http  # type: ignore[attr-defined]
    send = http.send
    unreadable, searches = True, 0

    async def numbers_for_ids(method: str, target: str, *more: Any) -> Answer | NoAnswer:
        nonlocal searches
        answer: Answer | NoAnswer = await send(method, target, *more)
        if "seller_sku=" not in target or not unreadable or not isinstance(answer, Answer):
            return answer
        searches += 1
        found = json.loads(answer.body)
        return Answer(200, json.dumps(found | {"results": [int(each[3:]) for each in found["results"]]}).encode())

    monkeypatch.setattr(http, "send", numbers_for_ids)
    job_id = await shop.publish(seller, [sku])
    await until(lambda: outlive_the_window(shop, sku), what="a doubt")
    before = searches

    async def searched_or_posted() -> bool:
        # The first of them may have begun before the window was over.
        return searches >= before + 3 or shop.created(seller) > 1

    await until(searched_or_posted)
    unreadable = False
    ended = await shop.ended(seller, job_id)

    one_listing_each(shop, seller, ended, "test")
    assert shop.created(seller) == 1


async def test_told_oddly_is_told(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("TOLD", len(TOLD))
    for sku, (fault, more) in zip(skus, TOLD.items(), strict=True):
        shop.fault(seller, fault, LIVE, operation="item_create", sku=sku, **more)
    before = shop.sandbox.requests("item_search")
    ended = await shop.ended(seller, await shop.publish(seller, skus, environment=LIVE))

    one_listing_each(shop, seller, ended)
    # The account's listings are looked through once; none had to be searched for.
    assert shop.sandbox.requests("item_search") == before + 1


async def test_an_update_that_is_not_answered_is_simply_made_again(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("UPDATE", 4)
    first = await shop.ended(seller, await shop.publish(seller, skus))
    faults = ("reset_after", "error_500", "conflict_409", "silence_after")
    rules = [
        shop.fault(seller, fault, operation="item_update", listing_id=item.listing_id, times=1)
        for fault, item in zip(faults, first.items, strict=True)
    ]
    ended = await shop.ended(seller, await shop.publish(seller, skus))

    assert [shop.fired(rule) for rule in rules] == [1] * 4
    assert [item.listing_id for item in ended.items] == [item.listing_id for item in first.items]
    assert [item.attempts for item in ended.items] == [2] * 4
    one_listing_each(shop, seller, ended, "test")


async def test_a_listing_that_is_only_not_told_is_not_taken_for_gone(shop: Shop, seller: Tenant) -> None:
    """An update is refused as unknown and the look that follows does not find the listing either, right after it
    was made: that is propagation (reference, section 6.2), and a second listing would be wrong."""
    (sku,) = await shop.stock("PROPAG")
    first = (await shop.ended(seller, await shop.publish(seller, [sku]))).items[0]
    shop.fault(seller, "not_found_404", operation="item_update", listing_id=first.listing_id, times=1)
    missing = shop.fault(seller, "not_found_404", operation="item_multiget", times=1)
    ended = await shop.ended(seller, await shop.publish(seller, [sku]))

    assert shop.fired(missing) == 1
    assert (ended.items[0].status, ended.items[0].listing_id) == ("success", first.listing_id)
    assert shop.created(seller) == 1


# What time heals, and what never answers.


async def test_categories_that_cannot_be_inferred_for_a_while_are_asked_for_again(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("GUESS", 3)
    rule = shop.fault(seller, "error_503", operation="domain_discovery", times=2)
    ended = await shop.ended(seller, await shop.publish(seller, skus, category=None))

    assert shop.fired(rule) == 2
    assert ended.job.successful == 3
    assert sorted(item.attempts for item in ended.items) == [1, 2, 2]


async def test_a_category_that_is_never_told_fails_its_items_at_last(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "MAX_TRIES", 2)
    skus = await shop.stock("DUMB", 3)
    shop.fault(seller, "error_503", operation="domain_discovery")
    ended = await shop.ended(seller, await shop.publish(seller, skus, category=None))

    assert ended.codes() == ["marketplace_unavailable"] * 3
    assert all(item.retryable for item in ended.items)
    assert shop.created(seller) == 0


async def test_a_marketplace_that_is_away_makes_items_wait_and_fails_them_in_the_end(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.worker.run.MAX_RETURNS", 2)
    skus = await shop.stock("AWAY", 3)
    shop.fault(seller, "account_outage", LIVE, operation="*")
    job_id = await shop.publish(seller, skus, environment=LIVE)

    async def waits() -> bool:
        reason = (await shop.job(seller, job_id)).waiting_reason
        return reason is not None and reason.startswith("trying again at ")

    await until(waits)
    ended = await shop.ended(seller, job_id)

    assert ended.codes() == ["marketplace_unavailable"] * 3
    assert all(item.retryable for item in ended.items)
    assert await seller.credits() == (1000, 1000, 0, 0, 0)


async def test_the_breaker_lets_a_silent_account_rest_and_no_item_fails(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide.Breaker, "FIRST_PAUSE", 1.5)
    skus = await shop.stock("SILENT", 40)
    rule = shop.fault(seller, "reset_before", LIVE, operation="item_create", times=40)
    job_id = await shop.publish(seller, skus, environment=LIVE)

    async def rests() -> bool:
        reason = (await shop.job(seller, job_id)).waiting_reason
        return reason is not None and reason.startswith("the marketplace does not answer, until ")

    await until(rests)
    ended = await shop.ended(seller, job_id)

    assert shop.fired(rule) == 40
    one_listing_each(shop, seller, ended)
    assert shop.created(seller, LIVE) == 40


@pytest.mark.parametrize(
    ("fault", "more"),
    [("rate_limit", {}), ("rate_limit_seconds", {"seconds": 2}), ("rate_limit_date", {"seconds": 2})],
)
async def test_throttling_lets_the_account_rest_and_no_item_fails(
    shop: Shop, seller: Tenant, fault: str, more: dict[str, object]
) -> None:
    skus = await shop.stock("SLOW", 10)
    rule = shop.fault(seller, fault, LIVE, operation="item_create", times=12, **more)
    started = time.monotonic()
    job_id = await shop.publish(seller, skus, environment=LIVE)

    async def rests() -> bool:
        reason = (await shop.job(seller, job_id)).waiting_reason
        return reason is not None and reason.startswith("the marketplace asked to slow down, until ")

    await until(rests)
    ended = await shop.ended(seller, job_id)

    assert shop.fired(rule) == 12
    assert time.monotonic() - started >= 1
    one_listing_each(shop, seller, ended)
    # A 429 is no try of the SKU.
    assert [item.attempts for item in ended.items] == [1] * 10
    assert await seller.credits() == (1000, 990, 0, 10, 0)


# The account stops.


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("payment_402", "account_payment_required"),
        ("unable_to_list_403", "account_not_allowed"),
        ("forbidden_403", "account_not_allowed"),
    ],
)
async def test_a_refusal_of_the_account_fails_the_job_and_what_is_left_can_be_retried(
    shop: Shop, seller: Tenant, fault: str, code: str
) -> None:
    skus = await shop.stock("STOP", 250)
    rule = shop.fault(seller, fault, LIVE, operation="item_create", skip=30)
    job_id = await shop.publish(seller, skus, environment=LIVE)
    ended = await shop.ended(seller, job_id)
    sent = shop.fired(rule)
    published = ended.job.successful
    before = await seller.credits()
    shop.forget(rule)
    retried = await shop.retry(seller, job_id)
    again = await shop.ended(seller, job_id)

    assert (ended.job.status, published) == (JobStatus.FAILED, 30)
    assert ended.job.error_message
    assert set(ended.codes()) == {None, code}
    assert all(item.retryable for item in ended.items if item.status == "failed")
    # Those that were on their way together with the first of them, no more: 64 calls are in flight at once.
    assert sent <= 64
    assert before == (1000, 970, 0, 30, 0)
    assert retried.items == 220
    assert (again.job.status, again.job.successful, again.job.error_message) == (JobStatus.COMPLETED, 250, None)
    one_listing_each(shop, seller, again)
    assert await seller.credits() == (1000, 750, 0, 250, 0)


@pytest.mark.parametrize("published", [0, 1, 2])
async def test_a_job_whose_last_items_tell_that_the_account_stops_fails_as_well(
    shop: Shop, seller: Tenant, published: int
) -> None:
    """Nothing is left to be ended with it: the refusals come with the job's last results, beside its successes."""
    skus = await shop.stock("LAST", 3)
    rule = shop.fault(seller, "unable_to_list_403", LIVE, operation="item_create", skip=published)
    ended = await shop.ended(seller, await shop.publish(seller, skus, environment=LIVE))
    shop.forget(rule)

    assert (ended.job.status, ended.job.successful, ended.job.failed) == (JobStatus.FAILED, published, 3 - published)
    assert ended.job.error_message == Failure("account_not_allowed").kind.message
    assert await seller.credits() == (1000, 1000 - published, 0, published, 0)


async def test_a_revoked_grant_fails_the_job_until_the_account_is_connected_again(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("GRANT", 6)
    await shop.ended(seller, await shop.publish(seller, skus[:1], environment=LIVE))
    user = seller.marketplace_users[LIVE]
    shop.sandbox.call("POST", "/sandbox/tokens/revoke", {"user_id": user, "grant": True})
    job_id = await shop.publish(seller, skus, environment=LIVE)
    ended = await shop.ended(seller, job_id)
    (status,) = (
        await shop.rows(
            "SELECT status FROM marketplace_accounts WHERE seller_id = %s AND environment = 'live'", seller.seller_id
        )
    )[0]
    shop.sandbox.change_user(user, grant_revoked=False, adopts_tokens=True)
    await administration.connect_account(
        shop.application.database, shop.application.cipher, seller.seller_id, LIVE,
        marketplace_user_id=user, access_token=f"APP_USR-fresh-{user}",
    )  # fmt: skip
    await shop.retry(seller, job_id)
    again = await shop.ended(seller, job_id)

    assert (ended.job.status, set(ended.codes())) == (JobStatus.FAILED, {"account_reauthorization_required"})
    assert all(item.retryable for item in ended.items)
    assert status == "reauthorization_required"
    assert again.job.successful == 6
    assert shop.created(seller, LIVE) == 6


async def test_an_expired_token_is_refreshed_once_in_the_middle_of_a_job(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("TOKEN", 60)
    user = seller.marketplace_users[LIVE]
    await administration.connect_account(
        shop.application.database, shop.application.cipher, seller.seller_id, LIVE, marketplace_user_id=user,
        access_token=f"APP_USR-old-{user}", refresh_token=f"TG-once-{user}",
    )  # fmt: skip
    rule = shop.fault(seller, "token_expired", LIVE, operation="item_create", nth=20)
    before = shop.sandbox.requests("oauth_token")
    ended = await shop.ended(seller, await shop.publish(seller, skus, environment=LIVE))

    assert shop.fired(rule) == 1
    assert shop.sandbox.requests("oauth_token") == before + 1
    one_listing_each(shop, seller, ended)
    assert shop.created(seller, LIVE) == 60


async def test_an_account_disconnected_in_mid_job_fails_what_is_not_done(shop: Shop, seller: Tenant) -> None:
    skus = await shop.stock("MIDOFF", 400)
    shop.fault(seller, "delay_before", LIVE, operation="item_create", seconds=0.7)
    job_id = await shop.publish(seller, skus, environment=LIVE)

    async def some() -> bool:
        return (await shop.job(seller, job_id)).successful > 0

    await until(some)
    await administration.disconnect_account(shop.application.database, seller.seller_id, LIVE)
    ended = await shop.ended(seller, job_id, 60)

    assert ended.job.status is JobStatus.FAILED
    assert ended.job.error_message
    assert set(ended.codes()) == {None, "account_not_connected"}
    assert all(item.retryable for item in ended.items if item.status == "failed")
    assert ended.job.successful == shop.created(seller, LIVE) < 400
    published = ended.job.successful
    assert await seller.credits() == (1000, 1000 - published, 0, published, 0)


async def test_what_is_doubtful_when_the_account_goes_is_not_posted_again(
    shop: Shop, seller: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "SEARCH_DELAYS", (0.3,))
    # An account's row is believed for two seconds, longer than these tests search.
    monkeypatch.setattr("core.worker.accounts.CONTEXT_SECONDS", 0.0)
    (sku,) = await shop.stock("DOUBT")
    rule = shop.fault(seller, "reset_before", LIVE, operation="item_create", sku=sku, times=1)
    job_id = await shop.publish(seller, [sku], environment=LIVE)

    async def searching() -> bool:
        return (await shop.job(seller, job_id)).reconciling == 1

    await until(searching)
    await administration.disconnect_account(shop.application.database, seller.seller_id, LIVE)
    ended = await shop.ended(seller, job_id, 40)

    assert shop.fired(rule) == 1
    assert ended.codes() == ["outcome_unknown"]
    assert shop.created(seller, LIVE) == 0
    assert await seller.credits() == (1000, 1000, 0, 0, 0)


async def test_an_account_of_another_site_or_not_allowed_to_list_stops_before_any_send(
    shop: Shop, seller: Tenant
) -> None:
    skus = await shop.stock("SITE", 2)
    shop.sandbox.change_user(seller.marketplace_users[LIVE], site_id="MLA")
    shop.sandbox.change_user(seller.marketplace_users[TEST], list_allow=False, list_codes=["phone_pending"])
    live, test = await asyncio.gather(shop.publish(seller, skus, environment=LIVE), shop.publish(seller, skus))

    assert set((await shop.ended(seller, live)).codes()) == {"account_wrong_site"}
    assert set((await shop.ended(seller, test)).codes()) == {"account_not_allowed"}
    assert shop.created(seller, LIVE) == shop.created(seller) == 0
