"""What must hold for whatever stands behind the marketplace port.

``MarketplaceSuite`` is run by a subclass that says what the world is: a server with faults on demand, and
the implementation before it. Each promise is compared with what the server says really happened.
"""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import itertools
import random
import string
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from core.ports.marketplace import (
    MULTIGET_LIMIT,
    Account,
    Listing,
    ListingDraft,
    Marketplace,
    Outcome,
    Result,
    SellerModel,
)

REQUEST_SECONDS = 1.0
"""Timeout of one request in this suite: faults of silence last so long."""

NOTHING_MADE = {Outcome.NOT_SENT, Outcome.THROTTLED, Outcome.REFUSED, Outcome.RETRY}


class World(abc.ABC):
    """One marketplace account before a server that can be told to fail. Made anew for each test."""

    marketplace: Marketplace
    account: Account

    @abc.abstractmethod
    def fault(self, kind: str, **rule: object) -> None:
        """Strike requests of this account with this kind of fault (docs/sandbox.md)."""

    @abc.abstractmethod
    def heal(self) -> None:
        """End all faults."""

    @abc.abstractmethod
    def made(self, sku: str | None = None) -> list[dict[str, Any]]:
        """What the server holds of this account (of this SKU), open or closed."""

    @abc.abstractmethod
    def requests(self, operation: str) -> int:
        """How many requests of this operation reached the server in all."""

    @abc.abstractmethod
    def change_user(self, **changes: object) -> None:
        """Change the marketplace's user of this account."""

    @abc.abstractmethod
    def change_item(self, listing_id: str, **changes: object) -> None:
        """Change a listing as the platform, or its owner on the web site, would."""


def may_send() -> bool:
    """A lease that lasts."""
    return True


_NUMBERS = itertools.count()
_LETTERS = string.ascii_uppercase + string.digits


def new_draft(**changes: object) -> ListingDraft:
    """A product that publishes cleanly, with a SKU of its own."""
    number = next(_NUMBERS)
    sku = "C" + "".join(_LETTERS[(number // 36**place) % 36] for place in range(9))
    draft = ListingDraft(
        sku=sku,
        title="Taladro percutor inalámbrico 13 mm",
        category_id="MCO195301",
        price=189_900,
        listing_type_id="gold_special",
        quantity=5,
        image_urls=["https://images.example.com/drill.jpg"],
        warranty_time="90 días",
        manufacturing_time_days=20,
        brand="Acme",
        model="X1",
        gtin="7702004003508",
        weight_grams=1800,
    )
    return msgspec.structs.replace(draft, **changes)


def code_of(result: Result) -> str:
    assert result.failure is not None
    return result.failure.code


def consistent(result: Result) -> None:
    """What holds for every result."""
    assert (result.failure is None) == (result.outcome is Outcome.DONE)
    if result.outcome is Outcome.THROTTLED:
        assert result.retry_after is not None
    if result.retry_after is not None:
        assert result.outcome in {Outcome.THROTTLED, Outcome.RETRY}
        assert 1 <= result.retry_after <= 300
    if result.failure is not None:
        assert result.failure.kind.message


async def created(world: World, **changes: object) -> tuple[ListingDraft, Listing]:
    """A listing that was made."""
    draft = new_draft(**changes)
    result = await world.marketplace.create_listing(world.account, draft, may_send)
    assert result.outcome is Outcome.DONE, result
    assert result.listing is not None
    return draft, result.listing


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    """Until the check holds."""
    until = time.monotonic() + seconds
    while not await check():
        assert time.monotonic() < until, "did not come true in time"
        await asyncio.sleep(0.05)


class MarketplaceSuite:
    """The promises. A subclass provides the fixture ``world``."""

    # What goes well.

    async def test_a_listing_is_made_as_drafted(self, world: World) -> None:
        draft, listing = await created(world)
        (item,) = world.made(draft.sku)
        assert (item["id"], item["price"], item["available_quantity"]) == (listing.listing_id, 189_900, 5)
        assert item["category_id"] == draft.category_id
        assert (listing.sku, listing.price, listing.listing_type_id) == (draft.sku, draft.price, draft.listing_type_id)
        assert listing.permalink
        assert listing.status in {"active", "paused"}
        assert listing.is_open
        assert listing.created_at is not None

    async def test_many_at_once_make_one_each(self, world: World) -> None:
        drafts = [new_draft() for _ in range(100)]
        results = await asyncio.gather(
            *(world.marketplace.create_listing(world.account, draft, may_send) for draft in drafts)
        )
        assert {result.outcome for result in results} == {Outcome.DONE}
        made = {item["seller_sku"]: item["id"] for item in world.made()}
        assert made == {result.listing.sku: result.listing.listing_id for result in results if result.listing}
        assert len(world.made()) == 100

    async def test_a_long_title_is_cut_to_the_category(self, world: World) -> None:
        words = "Taladro percutor " * 15
        for category_id, limit in (("MCO195301", 60), ("MCO990005", 200)):
            draft, _ = await created(world, title=words, category_id=category_id)
            (item,) = world.made(draft.sku)
            assert limit - 20 < len(item["title"]) <= limit

    async def test_only_as_many_pictures_as_the_category_takes(self, world: World) -> None:
        urls = [f"https://images.example.com/{number}.jpg" for number in range(20)]
        await created(world, image_urls=urls)
        await created(world, image_urls=urls, category_id="MCO990007")

    async def test_both_seller_models(self, world: World) -> None:
        for model in ("classic", "user_product"):
            world.change_user(model=model)
            for believed in SellerModel:
                account = dataclasses.replace(world.account, model=believed)
                draft = new_draft()
                result = await world.marketplace.create_listing(account, draft, may_send)
                assert result.outcome is Outcome.DONE, (model, believed, result)
                assert len(world.made(draft.sku)) == 1

    async def test_the_profile_tells_site_permission_and_model(self, world: World) -> None:
        for model in SellerModel:
            world.change_user(model=model.value, list_allow=model is SellerModel.CLASSIC)
            result = await world.marketplace.profile(world.account)
            assert result.outcome is Outcome.DONE
            assert result.profile is not None
            assert result.profile.site_id == world.account.site_id
            assert result.profile.model is model
            assert result.profile.may_list is (model is SellerModel.CLASSIC)

    async def test_a_category_is_predicted_and_named(self, world: World) -> None:
        predicted = await world.marketplace.predict_category(
            world.account, "Audífonos inalámbricos bluetooth headphones"
        )
        assert predicted.outcome is Outcome.DONE
        assert predicted.prediction is not None
        named = await world.marketplace.category_name(world.account, predicted.prediction.category_id)
        assert (named.outcome, named.name) == (Outcome.DONE, predicted.prediction.category_name)

    async def test_a_category_that_does_not_exist(self, world: World) -> None:
        result = await world.marketplace.category_name(world.account, "MCO424242424242")
        assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "category_refused")

    async def test_update_changes_price_stock_and_pictures(self, world: World) -> None:
        draft, listing = await created(world)
        changed = msgspec.structs.replace(
            draft, price=250_000, quantity=7, image_urls=["https://images.example.com/2.jpg"]
        )
        for _ in range(2):  # safe to repeat
            result = await world.marketplace.update_listing(world.account, listing.listing_id, changed)
            assert result.outcome is Outcome.DONE
            assert result.listing is not None
            assert (result.listing.listing_id, result.listing.price) == (listing.listing_id, 250_000)
        (item,) = world.made(draft.sku)
        assert (item["price"], item["available_quantity"]) == (250_000, 7)

    async def test_an_ignored_price_shows(self, world: World) -> None:
        draft, listing = await created(world)
        world.change_item(listing.listing_id, price_automation=True)
        changed = msgspec.structs.replace(draft, price=250_000)
        result = await world.marketplace.update_listing(world.account, listing.listing_id, changed)
        assert result.outcome is Outcome.DONE
        assert result.listing is not None
        assert result.listing.price == draft.price

    async def test_a_listing_that_cannot_be_changed(self, world: World) -> None:
        draft, listing = await created(world)
        world.change_item(listing.listing_id, status="under_review", sub_status=["held"])
        result = await world.marketplace.update_listing(world.account, listing.listing_id, draft)
        assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "listing_not_modifiable")

    async def test_closing_is_safe_to_repeat(self, world: World) -> None:
        draft, listing = await created(world)
        for _ in range(2):
            result = await world.marketplace.close_listing(world.account, listing.listing_id)
            assert result.outcome is Outcome.DONE
            assert result.listing is not None
            assert not result.listing.is_open
        assert [item["status"] for item in world.made(draft.sku)] == ["closed"]

    async def test_a_description_is_written_and_replaced(self, world: World) -> None:
        draft, listing = await created(world)
        texts = ["<p>Uno</p><p>dos</p>", "3 < 5 🎉 listo", "línea\notra"]
        for text, expected in zip(texts, ["Uno\ndos", "3 5 listo", "línea\notra"], strict=True):
            result = await world.marketplace.set_description(world.account, listing.listing_id, text)
            assert result.outcome is Outcome.DONE, result
            assert [item["description"] for item in world.made(draft.sku)] == [expected]

    async def test_listings_are_found_by_sku_once_the_index_knows_them(self, world: World) -> None:
        draft, listing = await created(world)

        async def found() -> bool:
            result = await world.marketplace.find_by_sku(world.account, draft.sku)
            assert result.outcome is Outcome.DONE
            return [hit.listing_id for hit in result.listings] == [listing.listing_id]

        await eventually(found)
        other = await world.marketplace.find_by_sku(world.account, draft.sku[:-1] + "_")
        assert (other.outcome, list(other.listings)) == (Outcome.DONE, [])
        await world.marketplace.close_listing(world.account, listing.listing_id)
        closed = await world.marketplace.find_by_sku(world.account, draft.sku)
        assert (closed.outcome, list(closed.listings)) == (Outcome.DONE, [])

    async def test_doubles_are_found_oldest_first(self, world: World) -> None:
        draft, first = await created(world)
        again = await world.marketplace.create_listing(world.account, draft, may_send)
        assert again.listing is not None
        expected = [first.listing_id, again.listing.listing_id]

        async def found() -> bool:
            result = await world.marketplace.find_by_sku(world.account, draft.sku)
            return [hit.listing_id for hit in result.listings] == expected

        await eventually(found)

    async def test_the_newest_come_first(self, world: World) -> None:
        listings = [(await created(world))[1] for _ in range(3)]

        async def found() -> bool:
            result = await world.marketplace.newest_listings(world.account, 0)
            assert result.outcome is Outcome.DONE
            assert result.total == len(result.listing_ids)
            return len(result.listing_ids) == 3

        await eventually(found)
        result = await world.marketplace.newest_listings(world.account, 0)
        assert set(result.listing_ids) == {listing.listing_id for listing in listings}
        rest = await world.marketplace.newest_listings(world.account, 1)
        assert list(rest.listing_ids) == list(result.listing_ids)[1:]
        assert rest.total == 3

    async def test_states_of_listings(self, world: World) -> None:
        listings = [(await created(world))[1] for _ in range(MULTIGET_LIMIT - 1)]
        ids = [listing.listing_id for listing in listings]
        world.change_item(ids[0], status="closed")
        result = await world.marketplace.get_listings(world.account, [*ids, "MCO99999999999"])
        assert result.outcome is Outcome.DONE
        assert list(result.listings) == ids
        assert list(result.missing) == ["MCO99999999999"]
        assert result.listings[ids[0]].status == "closed"
        assert {found.sku for found in result.listings.values()} == {listing.sku for listing in listings}

    # What the marketplace refuses: nothing is made, and the code says why.

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"category_id": "MCO1747"}, "category_refused"),
            ({"category_id": "MCO990009"}, "category_refused"),
            ({"category_id": "MCO99"}, "category_refused"),
            ({"category_id": "MCO990001", "brand": None}, "attributes_refused"),
            ({"category_id": "MCO990003"}, "size_chart_required"),
            ({"category_id": "MCO990004", "weight_grams": None}, "package_refused"),
            ({"category_id": "MCO990006"}, "price_refused"),
            ({"category_id": "MCO990008", "brand": "Adidas"}, "brand_restricted"),
            ({"price": 1}, "price_refused"),
            ({"price": 99_999_999_999}, "price_refused"),
            ({"title": "x1"}, "title_refused"),
            ({"image_urls": []}, "pictures_refused"),
            ({"image_urls": ["https://images.example.com/sandbox-small.jpg"]}, "pictures_refused"),
            ({"listing_type_id": "platinum"}, "listing_type_refused"),
        ],
    )
    async def test_refusals(self, world: World, changes: dict[str, object], code: str) -> None:
        draft = new_draft(**changes)
        result = await world.marketplace.create_listing(world.account, draft, may_send)
        consistent(result)
        assert (result.outcome, code_of(result)) == (Outcome.REFUSED, code)
        assert result.failure is not None
        assert result.failure.causes
        assert not result.failure.kind.retryable
        assert world.made(draft.sku) == []

    @pytest.mark.parametrize("gtin", [None, "7702004003509", "12"])
    async def test_a_missing_or_bad_gtin_is_explained_where_one_is_demanded(
        self, world: World, gtin: str | None
    ) -> None:
        await created(world, category_id="MCO990002", gtin=gtin)

    # What goes wrong on the way: the outcome never claims more than what is known.

    @pytest.mark.parametrize(
        ("kind", "rule", "outcome", "made"),
        [
            ("reset_before", {}, Outcome.UNKNOWN, 0),
            ("silence_before", {}, Outcome.UNKNOWN, 0),
            ("delay_before", {"seconds": 3}, Outcome.UNKNOWN, None),
            ("error_500", {}, Outcome.UNKNOWN, 0),
            ("error_502", {}, Outcome.UNKNOWN, 0),
            ("error_503", {}, Outcome.UNKNOWN, 0),
            ("error_504", {}, Outcome.UNKNOWN, 0),
            ("html_502", {}, Outcome.UNKNOWN, 0),
            ("rate_limit", {}, Outcome.THROTTLED, 0),
            ("rate_limit_seconds", {"seconds": 7}, Outcome.THROTTLED, 0),
            ("rate_limit_date", {"seconds": 20}, Outcome.THROTTLED, 0),
            ("rate_limit_absurd", {}, Outcome.THROTTLED, 0),
            ("conflict_409", {}, Outcome.RETRY, 0),
            ("locked_423", {}, Outcome.RETRY, 0),
            ("payment_402", {}, Outcome.REFUSED, 0),
            ("unable_to_list_403", {}, Outcome.REFUSED, 0),
            ("forbidden_403", {}, Outcome.REFUSED, 0),
            ("not_found_404", {}, Outcome.REFUSED, 0),
            ("redirect_302", {}, Outcome.UNKNOWN, 0),
            ("refuse_400", {}, Outcome.RETRY, 0),
            ("picture_quota_400", {}, Outcome.RETRY, 0),
            ("http_200_not_json", {}, Outcome.UNKNOWN, 0),
            ("reset_after", {}, Outcome.UNKNOWN, 1),
            ("silence_after", {}, Outcome.UNKNOWN, 1),
            ("delay_after", {"seconds": 3}, Outcome.UNKNOWN, 1),
            ("created_late", {"seconds": 0.2, "then": "reset"}, Outcome.UNKNOWN, None),
            ("created_late", {"seconds": 0.2, "then": "error"}, Outcome.UNKNOWN, None),
            ("error_after", {}, Outcome.UNKNOWN, 1),
            ("html_after", {}, Outcome.UNKNOWN, 1),
            ("truncated_body", {}, Outcome.UNKNOWN, 1),
            ("broken_json", {}, Outcome.UNKNOWN, 1),
            ("empty_body", {}, Outcome.UNKNOWN, 1),
            ("huge_body", {}, Outcome.UNKNOWN, 1),
            ("deep_body", {}, Outcome.UNKNOWN, 1),
            ("slow_drip", {"seconds": 0.2}, Outcome.UNKNOWN, 1),
            ("wrong_content_type", {}, Outcome.DONE, 1),
            ("partial_206", {}, Outcome.DONE, 1),
            ("mismatched_sku", {}, Outcome.UNKNOWN, 1),
            ("missing_id", {}, Outcome.UNKNOWN, 1),
            ("odd_types", {}, Outcome.UNKNOWN, 1),
            ("custom_field_lost", {}, Outcome.DONE, 1),
        ],
    )
    async def test_a_creation_struck_by_each_fault(
        self, world: World, kind: str, rule: dict[str, object], outcome: Outcome, made: int | None
    ) -> None:
        world.fault(kind, operation="item_create", times=1, **rule)
        draft = new_draft()
        before = world.requests("item_create")
        result = await world.marketplace.create_listing(world.account, draft, may_send)
        consistent(result)
        assert result.outcome is outcome, result
        assert world.requests("item_create") == before + 1
        if made is not None:
            assert len(world.made(draft.sku)) == made
        if outcome is Outcome.DONE:
            assert [item["id"] for item in world.made(draft.sku)] == [result.listing and result.listing.listing_id]

    @pytest.mark.parametrize(
        ("kind", "code"),
        [
            ("payment_402", "account_payment_required"),
            ("unable_to_list_403", "account_not_allowed"),
            ("forbidden_403", "account_not_allowed"),
        ],
    )
    async def test_what_stops_the_whole_account(self, world: World, kind: str, code: str) -> None:
        world.fault(kind, operation="item_create")
        result = await world.marketplace.create_listing(world.account, new_draft(), may_send)
        assert code_of(result) == code
        assert result.failure is not None
        assert result.failure.account_wide

    @pytest.mark.parametrize(("kind", "seconds"), [("rate_limit_seconds", 7), ("rate_limit_absurd", 300)])
    async def test_the_pause_asked_for_is_told_within_bounds(self, world: World, kind: str, seconds: float) -> None:
        world.fault(kind, operation="item_create", seconds=7)
        result = await world.marketplace.create_listing(world.account, new_draft(), may_send)
        assert (result.outcome, result.retry_after) == (Outcome.THROTTLED, seconds)

    @pytest.mark.parametrize("kind", ["token_expired", "unauthorized_401"])
    async def test_a_401_renews_the_token_and_repeats_once(self, world: World, kind: str) -> None:
        world.fault(kind, operation="item_create", times=1)
        before = world.requests("oauth_token")
        draft, _ = await created(world)
        assert world.requests("oauth_token") == before + 1
        assert len(world.made(draft.sku)) == 1

    async def test_one_renewal_serves_all_who_wait(self, world: World) -> None:
        # Each of the first ten is refused once, whatever its token.
        world.fault("unauthorized_401", operation="item_create", per="sku", nth=1)
        before = world.requests("oauth_token")
        drafts = [new_draft() for _ in range(10)]
        results = await asyncio.gather(
            *(world.marketplace.create_listing(world.account, draft, may_send) for draft in drafts)
        )
        assert {result.outcome for result in results} == {Outcome.DONE}
        assert world.requests("oauth_token") == before + 1
        assert len(world.made()) == 10

    async def test_a_token_refused_twice_stops_the_account(self, world: World) -> None:
        world.fault("unauthorized_401", operation="item_create")
        draft = new_draft()
        before = world.requests("item_create")
        for _ in range(2):
            result = await world.marketplace.create_listing(world.account, draft, may_send)
            assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "account_reauthorization_required")
        assert world.requests("item_create") == before + 2
        assert world.made(draft.sku) == []

    async def test_a_lost_grant_stops_the_account(self, world: World) -> None:
        world.change_user(grant_revoked=True)
        for result in (
            await world.marketplace.create_listing(world.account, new_draft(), may_send),
            await world.marketplace.profile(world.account),
        ):
            assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "account_reauthorization_required")
        assert world.made() == []

    async def test_a_lease_that_ended_sends_nothing(self, world: World) -> None:
        before = world.requests("item_create")
        result = await world.marketplace.create_listing(world.account, new_draft(), lambda: False)
        assert result.outcome is Outcome.NOT_SENT
        assert world.requests("item_create") == before

    @pytest.mark.parametrize(
        ("kind", "rule", "outcome"),
        [
            ("reset_before", {}, Outcome.RETRY),
            ("reset_after", {}, Outcome.RETRY),
            ("silence_before", {}, Outcome.RETRY),
            ("error_503", {}, Outcome.RETRY),
            ("html_502", {}, Outcome.RETRY),
            ("redirect_302", {}, Outcome.RETRY),
            ("http_200_not_json", {}, Outcome.RETRY),
            ("truncated_body", {}, Outcome.RETRY),
            ("broken_json", {}, Outcome.RETRY),
            ("huge_body", {}, Outcome.RETRY),
            ("deep_body", {}, Outcome.RETRY),
            ("empty_body", {}, Outcome.RETRY),
            ("conflict_409", {}, Outcome.RETRY),
            ("locked_423", {}, Outcome.RETRY),
            ("rate_limit_seconds", {"seconds": 7}, Outcome.THROTTLED),
            ("forbidden_403", {}, Outcome.REFUSED),
        ],
    )
    async def test_every_other_operation_struck_by_each_fault(
        self, world: World, kind: str, rule: dict[str, object], outcome: Outcome
    ) -> None:
        draft, listing = await created(world)
        marketplace, account = world.marketplace, world.account
        calls: dict[str, Callable[[], Awaitable[Result]]] = {
            "users_me": lambda: marketplace.profile(account),
            "domain_discovery": lambda: marketplace.predict_category(account, draft.title),
            "item_update": lambda: marketplace.update_listing(account, listing.listing_id, draft),
            "item_search": lambda: marketplace.find_by_sku(account, draft.sku),
            "item_multiget": lambda: marketplace.get_listings(account, [listing.listing_id]),
        }
        for operation, call in calls.items():
            world.fault(kind, operation=operation, **rule)
            before = world.requests(operation)
            result = await call()
            consistent(result)
            assert result.outcome is outcome, (operation, result)
            assert world.requests(operation) == before + 1, "nothing is repeated inside"
            world.heal()
            if outcome is not Outcome.THROTTLED:
                assert (await call()).outcome is Outcome.DONE, operation

    # All of it at once.

    async def test_under_random_faults_no_result_claims_what_is_not_so(self, world: World) -> None:
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        kinds = [
            "reset_before",
            "reset_after",
            "error_500",
            "error_after",
            "html_502",
            "html_after",
            "truncated_body",
            "broken_json",
            "empty_body",
            "missing_id",
            "mismatched_sku",
            "odd_types",
            "redirect_302",
            "http_200_not_json",
            "partial_206",
            "conflict_409",
            "refuse_400",
            "rate_limit_seconds",
            "deep_body",
        ]
        for number, kind in enumerate(kinds):
            world.fault(kind, operation="item_create", probability=0.06, seed=seed + number)
        drafts = [new_draft() for _ in range(400)]
        gate = asyncio.Semaphore(32)

        async def publish(draft: ListingDraft) -> tuple[ListingDraft, Any]:
            async with gate:
                return draft, await world.marketplace.create_listing(world.account, draft, may_send)

        endings = await asyncio.gather(*(publish(draft) for draft in drafts))
        world.heal()
        seen = {result.outcome for _, result in endings}
        assert {Outcome.DONE, Outcome.UNKNOWN, Outcome.THROTTLED, Outcome.RETRY} <= seen
        made: dict[str, list[str]] = {}
        for item in world.made():
            made.setdefault(item["seller_sku"], []).append(item["id"])
        for draft, result in endings:
            consistent(result)
            ids = made.get(draft.sku, [])
            if result.outcome is Outcome.DONE:
                assert ids == [result.listing.listing_id]
            elif result.outcome in NOTHING_MADE:
                assert ids == [], (seed, draft.sku, result)
            else:
                assert len(ids) <= 1
