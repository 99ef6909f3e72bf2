"""The connector against a server written by hand: outcomes, tokens, rebuilds, caches."""
# ruff: noqa: E501  (answers read best a row a line)

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
import structlog

from core.domain.states import Environment
from core.marketplace import MercadoLibre
from core.ports.marketplace import Account, ListingDraft, Outcome, Result, SellerModel
from tests.support.marketplace_stores import MemorySlotStore, MemoryTokenStore
from tests.support.raw_server import Exchange, RawRequest, RawServer, raw_server, unused_url

USER = 1234567
TOKEN = "APP_USR-secret-access-1234567"
REFRESH = "TG-secret-refresh-1234567"
ACCOUNT = Account(seller_id=1, environment=Environment.LIVE, marketplace_user_id=USER, site_id="MCO", currency="COP")
DRAFT = ListingDraft(
    sku="B07N4M94X4",
    title="Taladro percutor de impacto con maletín y veinte accesorios para concreto",
    category_id="MCO1055",
    price=189900,
    listing_type_id="gold_special",
    quantity=5,
    image_urls=["https://host/a.jpg"],
    gtin="7702004003508",
)

Answering = Callable[[Exchange], Awaitable[None]]
Route = tuple[str, str]


def yes() -> bool:
    return True


def item(sku: str = DRAFT.sku, listing_id: str = "MCO1", **changes: object) -> dict[str, object]:
    attributes = [{"id": "SELLER_SKU", "value_name": sku}]
    return {"id": listing_id, "status": "active", "price": DRAFT.price, "attributes": attributes, **changes}


def refusal(*causes: dict[str, object], **members: object) -> dict[str, object]:
    return {"message": "Validation error", "error": "validation_error", "status": 400, "cause": list(causes), **members}


def answering(status: int, body: bytes | dict[str, object] | list[object] = b"", **headers: str) -> Answering:
    async def answer(exchange: Exchange) -> None:
        await exchange.answer(status, body, **headers)

    return answer


def in_turn(*answers: Answering) -> Answering:
    """The answers one after another, the last for good."""
    left = list(answers)

    async def answer(exchange: Exchange) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(exchange)

    return answer


async def reset(exchange: Exchange) -> None:
    exchange.reset()


async def silence(exchange: Exchange) -> None:
    await asyncio.Event().wait()


class Stage:
    """A connector before a server whose answers a test sets by method and path."""

    def __init__(self, server: RawServer, routes: dict[Route, Answering]) -> None:
        self.server = server
        self.routes = routes
        self.tokens = MemoryTokenStore()
        self.slots = MemorySlotStore()
        self.observed: list[tuple[str, str]] = []
        self.marketplace: MercadoLibre
        self.open()

    def open(self, **changes: Any) -> MercadoLibre:
        arguments: dict[str, Any] = {
            "base_url": self.server.url,
            "client_id": "9999",
            "client_secret": "client-secret",
            "timeout_seconds": 2.0,
            "rate": "off",
            "token_store": self.tokens,
            "slot_store": self.slots,
            "observe": lambda operation, outcome, seconds: self.observed.append((operation, outcome)),
        }
        self.marketplace = MercadoLibre(**{**arguments, **changes})
        return self.marketplace

    def sent(self, method: str, path: str) -> list[RawRequest]:
        return [r for r in self.server.requests if (r.method, urlsplit(r.target).path) == (method, path)]

    def bodies(self, method: str, path: str) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.sent(method, path)]


@contextlib.asynccontextmanager
async def stage(routes: dict[Route, Answering], **changes: Any) -> AsyncIterator[Stage]:
    defaults: dict[Route, Answering] = {
        ("GET", "/categories/MCO1055"): answering(
            200, {"id": "MCO1055", "name": "Celulares", "settings": {"max_title_length": 60}}
        ),
    }
    routes = {**defaults, **routes}

    async def script(exchange: Exchange) -> None:
        route = (exchange.request.method, urlsplit(exchange.request.target).path)
        await routes.get(route, answering(404, {"error": "not_found", "message": "no such route"}))(exchange)

    async with raw_server(script) as server:
        made = Stage(server, routes)
        made.tokens.connect(1, Environment.LIVE, TOKEN, REFRESH)
        if changes:
            made.open(**changes)
        try:
            yield made
        finally:
            await made.marketplace.aclose()


def code_of(result: Result) -> str:
    assert result.failure is not None
    return result.failure.code


# Creation.


async def test_a_creation() -> None:
    async with stage({("POST", "/items"): answering(201, item())}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        (request,) = on.sent("POST", "/items")
    assert result.outcome is Outcome.DONE
    assert result.failure is None
    assert result.listing is not None
    assert (result.listing.listing_id, result.listing.sku, result.listing.price) == ("MCO1", DRAFT.sku, DRAFT.price)
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/json"
    body = request.json()
    assert body["family_name"] == "Taladro percutor de impacto con maletín y veinte accesorios"
    assert on.observed == [("create_listing", "done")]


@pytest.mark.parametrize("status", [200, 201, 206])
async def test_each_success_status(status: int) -> None:
    async with stage({("POST", "/items"): answering(status, item())}) as on:
        assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE


async def test_warnings_of_a_success_are_kept() -> None:
    warnings = [{"code": "shipping.lost_me1_by_user", "message": "User has not mode me1"}]
    async with stage({("POST", "/items"): answering(201, item(warnings=warnings))}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
    assert result.listing is not None
    assert result.listing.warnings == ["shipping.lost_me1_by_user: User has not mode me1"]


@pytest.mark.parametrize(
    "answer",
    [
        reset,
        answering(500, {"error": "internal_server_error"}),
        answering(502, b"<html>"),
        answering(503, Retry_After="5"),
        answering(504),
        answering(302, Location="/elsewhere"),
        answering(307, Location="http://127.0.0.1:1/"),
        answering(204),
        answering(201),
        answering(200, b"OK - maintenance"),
        answering(201, b'{"id":"MCO1","attr'),
        answering(201, item(listing_id="")),
        answering(201, {**item(), "id": 17}),
        answering(201, {**item(), "id": None}),
        answering(201, item("OTHERSKU00")),
        answering(201, item("")),
        answering(201, item(listing_id="MLB1")),
        answering(201, []),
        answering(408),
    ],
)
async def test_endings_of_a_creation_that_nobody_knows(answer: Answering) -> None:
    async with stage({("POST", "/items"): answer}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 1
    assert (result.outcome, code_of(result)) == (Outcome.UNKNOWN, "outcome_unknown")
    assert result.listing is None


async def test_silence_is_unknown() -> None:
    async with stage({("POST", "/items"): silence}, timeout_seconds=0.3) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 1
    assert result.outcome is Outcome.UNKNOWN


async def test_an_unreachable_marketplace_was_not_asked() -> None:
    async with stage({}) as on:
        on.open(base_url=unused_url())
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
    assert (result.outcome, code_of(result)) == (Outcome.NOT_SENT, "marketplace_unavailable")


async def test_a_send_that_comes_too_late_is_held_back() -> None:
    async with stage({("POST", "/items"): answering(201, item())}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, lambda: False)
        assert on.sent("POST", "/items") == []
    assert result.outcome is Outcome.NOT_SENT


async def test_may_send_is_asked_after_the_wait_for_the_throttle_and_before_each_request() -> None:
    asked: list[float] = []

    def may_send() -> bool:
        asked.append(time.monotonic())
        return True

    refused = refusal({"cause_id": 7711, "type": "error", "code": "item.attribute.product_identifier.invalid"})
    routes = {("POST", "/items"): in_turn(answering(400, refused), answering(201, item()))}
    async with stage(routes, rate="5/second") as on:
        await on.marketplace.category_name(ACCOUNT, "MCO1055")
        on.slots.next_slot = time.monotonic() + 0.5
        began = time.monotonic()
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, may_send)
    assert result.outcome is Outcome.DONE
    assert len(asked) == 2
    assert asked[0] - began >= 0.45


async def test_a_lease_that_ends_before_the_rebuilt_body_stops_it() -> None:
    refused = refusal({"cause_id": 7711, "type": "error", "code": "item.attribute.product_identifier.invalid"})
    answers = [True, False]
    async with stage({("POST", "/items"): answering(400, refused)}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, lambda: answers.pop(0))
        assert len(on.sent("POST", "/items")) == 1
    assert result.outcome is Outcome.NOT_SENT


async def test_a_refusal_has_its_code_and_all_causes() -> None:
    causes: list[dict[str, object]] = [
        {"cause_id": 4053, "type": "warning", "code": "shipping.lost_me1_by_user", "message": "noise"},
        {"cause_id": 3510, "type": "error", "code": "invalid.item.attribute.values", "references": ["item.attributes[0].values"], "message": "not in list"},
        {"cause_id": 109, "type": "error", "code": "item.price.invalid", "references": ["item.price"], "message": "too low"},
    ]  # fmt: skip
    async with stage({("POST", "/items"): answering(400, refusal(*causes))}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 1
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "attributes_refused")
    assert result.failure is not None
    assert {(cause.code, cause.field) for cause in result.failure.causes} == {
        ("shipping.lost_me1_by_user", ""),
        ("invalid.item.attribute.values", "item.attributes.GTIN"),
        ("item.price.invalid", "item.price"),
    }


@pytest.mark.parametrize(
    ("answer", "outcome", "code"),
    [
        (answering(402), Outcome.REFUSED, "account_payment_required"),
        (answering(403, {"message": "seller.unable_to_list", "cause": ["address_pending"]}), Outcome.REFUSED, "account_not_allowed"),
        (answering(409, {"message": "item optimistic locking error: conflict"}), Outcome.RETRY, "marketplace_conflict"),
        (answering(400, refusal({"cause_id": 3706, "type": "error"})), Outcome.RETRY, "pictures_processing"),
    ],
)  # fmt: skip
async def test_other_endings_of_a_creation(answer: Answering, outcome: Outcome, code: str) -> None:
    async with stage({("POST", "/items"): answer}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 1
    assert (result.outcome, code_of(result)) == (outcome, code)
    assert (result.retry_after is not None) == (outcome is Outcome.RETRY)


async def test_cancellation_of_a_creation_is_passed_on() -> None:
    async with stage({("POST", "/items"): silence}) as on:
        task = asyncio.create_task(on.marketplace.create_listing(ACCOUNT, DRAFT, yes))
        await on.server.wait_for(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_account_of_another_site_is_refused_before_any_call() -> None:
    brazil = Account(seller_id=1, environment=Environment.LIVE, marketplace_user_id=USER, site_id="MLB", currency="BRL")
    async with stage({}) as on:
        result = await on.marketplace.create_listing(brazil, DRAFT, yes)
        assert on.server.requests == []
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "account_wrong_site")


# Rebuilding.


def missing(name: str) -> dict[str, object]:
    return {
        "cause_id": 369,
        "type": "error",
        "code": "body.required_fields",
        "message": f"The body does not contains some or none of the following properties [{name}]",
        "references": [f"item.{name}"],
    }


CLASSIC = Account(
    seller_id=1,
    environment=Environment.LIVE,
    marketplace_user_id=USER,
    site_id="MCO",
    currency="COP",
    model=SellerModel.CLASSIC,
)


@pytest.mark.parametrize(
    ("account", "refused", "first", "second"),
    [
        (CLASSIC, refusal(missing("family_name")), "title", "family_name"),
        (ACCOUNT, refusal(missing("title")), "family_name", "title"),
        (CLASSIC, {"message": "body.invalid_fields", "error": "The fields [title] are invalid for requested call.", "status": 400, "cause": []}, "title", "family_name"),
        (ACCOUNT, {"message": "body.invalid_fields", "error": "The fields [family_name] are invalid for requested call.", "status": 400, "cause": []}, "family_name", "title"),
        (CLASSIC, refusal(missing("family_name"), {"cause_id": 374, "type": "error", "code": "body.invalid_fields", "message": "title is invalid"}), "title", "family_name"),
    ],
)  # fmt: skip
async def test_the_other_seller_model_is_tried_once_and_remembered(
    account: Account, refused: dict[str, object], first: str, second: str
) -> None:
    routes = {("POST", "/items"): in_turn(answering(400, refused), answering(201, item()))}
    async with stage(routes) as on:
        assert (await on.marketplace.create_listing(account, DRAFT, yes)).outcome is Outcome.DONE
        assert (await on.marketplace.create_listing(account, DRAFT, yes)).outcome is Outcome.DONE
        bodies = on.bodies("POST", "/items")
    assert [(first in body, second in body) for body in bodies] == [(True, False), (False, True), (False, True)]


async def test_a_refused_rebuild_is_the_end() -> None:
    async with stage({("POST", "/items"): answering(400, refusal(missing("family_name")))}) as on:
        result = await on.marketplace.create_listing(CLASSIC, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 2
    assert result.outcome is Outcome.REFUSED


async def test_no_rebuild_when_another_cause_stands_in_the_way() -> None:
    refused = refusal(missing("family_name"), {"cause_id": 109, "type": "error", "code": "item.price.invalid"})
    async with stage({("POST", "/items"): answering(400, refused)}) as on:
        assert (await on.marketplace.create_listing(CLASSIC, DRAFT, yes)).outcome is Outcome.REFUSED
        assert len(on.sent("POST", "/items")) == 1


async def test_a_title_that_is_too_long_is_cut_to_the_limit_named() -> None:
    cause: dict[str, object] = {
        "cause_id": 462,
        "type": "error",
        "code": "item.family_name.length_invalid",
        "message": "The family_name of category MCO1055 must have at most 40 characters",
    }
    routes = {("POST", "/items"): in_turn(answering(400, refusal(cause)), answering(201, item()))}
    async with stage(routes) as on:
        assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE
        names = [body["family_name"] for body in on.bodies("POST", "/items")]
    assert names[1] == "Taladro percutor de impacto con maletín"


async def test_a_gtin_the_marketplace_finds_bad_is_left_out() -> None:
    cause: dict[str, object] = {
        "cause_id": 7711,
        "type": "error",
        "code": "item.attribute.product_identifier.invalid_check",
    }
    routes = {("POST", "/items"): in_turn(answering(400, refusal(cause)), answering(201, item()))}
    async with stage(routes) as on:
        assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE
        ids = [{attribute["id"] for attribute in body["attributes"]} for body in on.bodies("POST", "/items")]
    assert "GTIN" in ids[0]
    assert "GTIN" not in ids[1]
    assert "EMPTY_GTIN_REASON" in ids[1]


@pytest.mark.parametrize(
    "cause",
    [
        {"cause_id": 7810, "type": "error", "code": "item.attribute.missing_conditional_required", "message": "[GTIN]"},
        {"cause_id": 147, "type": "error", "code": "item.attributes.missing_required", "message": "The attributes [GTIN] are required for category MCO1055"},
    ],
)  # fmt: skip
async def test_a_missing_gtin_is_explained_when_asked_for(cause: dict[str, object]) -> None:
    bare = msgspec.structs.replace(DRAFT, gtin=None)
    routes = {("POST", "/items"): in_turn(answering(400, refusal(cause)), answering(201, item()))}
    async with stage(routes) as on:
        assert (await on.marketplace.create_listing(ACCOUNT, bare, yes)).outcome is Outcome.DONE
        ids = [{attribute["id"] for attribute in body["attributes"]} for body in on.bodies("POST", "/items")]
    assert not ids[0] & {"GTIN", "EMPTY_GTIN_REASON"}
    assert "EMPTY_GTIN_REASON" in ids[1]


async def test_a_good_gtin_is_never_given_up_for_another_products_trouble() -> None:
    cause: dict[str, object] = {"cause_id": 3701, "type": "error", "code": "item.attribute.invalid_product_identifier"}
    async with stage({("POST", "/items"): answering(400, refusal(cause))}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 1
    assert code_of(result) == "identifier_refused"


# Tokens.


def token_answer(access: str = "APP_USR-new-1234567", **changes: object) -> dict[str, object]:
    pair: dict[str, object] = {
        "access_token": access,
        "refresh_token": "TG-new-1234567",
        "expires_in": 21600,
        "user_id": USER,
    }
    return {**pair, **changes}


def only_for(token: str, answer: Answering) -> Answering:
    async def guarded(exchange: Exchange) -> None:
        if exchange.request.headers["authorization"] == f"Bearer {token}":
            await answer(exchange)
        else:
            await exchange.answer(401, {"message": "invalid access token", "status": 401})

    return guarded


async def test_a_401_refreshes_once_for_all_and_repeats_each_call_once() -> None:
    async def created(exchange: Exchange) -> None:
        await exchange.answer(201, item(exchange.request.json()["seller_custom_field"]))  # type: ignore[arg-type]

    routes = {
        ("POST", "/items"): only_for("APP_USR-new-1234567", created),
        ("POST", "/oauth/token"): answering(200, token_answer()),
    }
    async with stage(routes) as on:
        await on.marketplace.category_name(ACCOUNT, "MCO1055")
        results = await asyncio.gather(*(on.marketplace.create_listing(ACCOUNT, DRAFT, yes) for _ in range(20)))
        (refresh,) = on.sent("POST", "/oauth/token")
        assert len(on.sent("POST", "/items")) == 40
        row = on.tokens.rows[1, Environment.LIVE]
    assert {result.outcome for result in results} == {Outcome.DONE}
    assert refresh.headers["content-type"] == "application/x-www-form-urlencoded"
    assert "authorization" not in refresh.headers
    assert parse_qs(refresh.body.decode()) == {
        "grant_type": ["refresh_token"],
        "client_id": ["9999"],
        "client_secret": ["client-secret"],
        "refresh_token": [REFRESH],
    }
    assert urlsplit(refresh.target).query == ""
    assert (row.access_token, row.refresh_token, row.version) == ("APP_USR-new-1234567", "TG-new-1234567", 2)


async def test_two_processes_refresh_once() -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.2)
        await exchange.answer(200, token_answer())

    routes = {("GET", "/users/me"): only_for("APP_USR-new-1234567", answering(200, {"id": USER, "site_id": "MCO"})), ("POST", "/oauth/token"): slow}  # fmt: skip
    async with stage(routes) as on:
        first = on.marketplace
        second = on.open()
        results = await asyncio.gather(first.profile(ACCOUNT), second.profile(ACCOUNT))
        await first.aclose()
        assert len(on.sent("POST", "/oauth/token")) == 1
    assert {result.outcome for result in results} == {Outcome.DONE}


async def test_a_second_401_stops_the_account() -> None:
    routes = {("POST", "/items"): answering(401, {"message": "invalid_token"}), ("POST", "/oauth/token"): answering(200, token_answer())}  # fmt: skip
    async with stage(routes) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 2
        assert on.tokens.rows[1, Environment.LIVE].status == "reauthorization_required"
        again = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 2
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "account_reauthorization_required")
    assert code_of(again) == "account_reauthorization_required"


async def test_a_token_about_to_end_is_renewed_before_it_is_used() -> None:
    routes = {("POST", "/items"): answering(201, item()), ("POST", "/oauth/token"): answering(200, token_answer())}
    async with stage(routes) as on:
        on.tokens.connect(1, Environment.LIVE, TOKEN, REFRESH, seconds_left=20)
        assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE
        (request,) = on.sent("POST", "/items")
    assert request.headers["authorization"] == "Bearer APP_USR-new-1234567"


async def test_short_lived_tokens_do_not_refresh_at_every_call() -> None:
    routes = {("POST", "/items"): answering(201, item()), ("POST", "/oauth/token"): answering(200, token_answer(expires_in=10))}  # fmt: skip
    async with stage(routes) as on:
        on.tokens.connect(1, Environment.LIVE, TOKEN, REFRESH, seconds_left=0)
        for _ in range(5):
            assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE
        assert len(on.sent("POST", "/oauth/token")) == 1


async def test_the_store_is_not_asked_at_every_call() -> None:
    async with stage({("POST", "/items"): answering(201, item())}) as on:
        for _ in range(5):
            await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert on.tokens.reads == 1


@pytest.mark.parametrize("answer", [silence, reset, answering(500), answering(502, b"<html>"), answering(200, b"{")])
async def test_a_refresh_that_ends_unknown_is_repeated_once(answer: Answering) -> None:
    routes = {
        ("POST", "/items"): only_for("APP_USR-new-1234567", answering(201, item())),
        ("POST", "/oauth/token"): in_turn(answer, answering(200, token_answer())),
    }
    async with stage(routes, timeout_seconds=0.5) as on:
        assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE
        first, second = on.sent("POST", "/oauth/token")
    assert first.body == second.body


async def test_a_refresh_that_stays_unknown_sends_nothing_and_keeps_the_pair() -> None:
    routes = {("POST", "/items"): answering(401), ("POST", "/oauth/token"): answering(503)}
    async with stage(routes) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/oauth/token")) == 2
        assert len(on.sent("POST", "/items")) == 1
        row = on.tokens.rows[1, Environment.LIVE]
        assert (row.status, row.refresh_token, row.guarded_until) == ("connected", REFRESH, 0.0)
    assert (result.outcome, code_of(result)) == (Outcome.NOT_SENT, "marketplace_unavailable")


async def test_invalid_grant_after_an_unknown_refresh_asks_for_authorization() -> None:
    routes = {
        ("POST", "/items"): answering(401),
        ("POST", "/oauth/token"): in_turn(reset, answering(400, {"error": "invalid_grant", "message": "used"})),
    }
    async with stage(routes) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert on.tokens.rows[1, Environment.LIVE].status == "reauthorization_required"
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "account_reauthorization_required")


@pytest.mark.parametrize(
    ("status", "error", "code", "marked"),
    [
        (400, "invalid_grant", "account_reauthorization_required", True),
        (400, "unauthorized_client", "account_reauthorization_required", True),
        (400, "invalid_client", "application_blocked", False),
        (401, "invalid_client", "application_blocked", False),
        (400, "invalid_scope", "application_blocked", False),
        (400, "invalid_request", "application_blocked", False),
        (400, "unsupported_grant_type", "application_blocked", False),
        (400, "unauthorized_application", "application_blocked", False),
        (403, "forbidden", "account_not_allowed", False),
    ],
)
async def test_refused_refreshes(status: int, error: str, code: str, marked: bool) -> None:
    routes = {("POST", "/items"): answering(401), ("POST", "/oauth/token"): answering(status, {"error": error, "status": status})}  # fmt: skip
    async with stage(routes) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/oauth/token")) == 1
        row = on.tokens.rows[1, Environment.LIVE]
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, code)
    assert result.failure is not None
    assert result.failure.account_wide
    assert row.status == ("reauthorization_required" if marked else "connected")
    assert row.refresh_token == REFRESH


async def test_a_throttled_refresh_keeps_the_refresh_token() -> None:
    routes = {("POST", "/items"): answering(401), ("POST", "/oauth/token"): answering(429, {"error": "local_rate_limited"}, Retry_After="9")}  # fmt: skip
    async with stage(routes) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        row = on.tokens.rows[1, Environment.LIVE]
    assert (result.outcome, result.retry_after) == (Outcome.THROTTLED, 9)
    assert (row.status, row.refresh_token) == ("connected", REFRESH)


async def test_tokens_of_another_user_are_not_used() -> None:
    routes = {("POST", "/items"): answering(401), ("POST", "/oauth/token"): answering(200, token_answer(user_id=5))}
    async with stage(routes) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert len(on.sent("POST", "/items")) == 1
    assert code_of(result) == "account_reauthorization_required"


async def test_an_account_connected_to_another_user_meanwhile_is_not_published_to() -> None:
    async with stage({("POST", "/items"): answering(201, item())}) as on:
        assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE
        on.tokens.connect(1, Environment.LIVE, "APP_USR-other-5", REFRESH, marketplace_user_id=5)
        fresh = dataclasses.replace(ACCOUNT, marketplace_user_id=5)
        assert (await on.marketplace.create_listing(fresh, DRAFT, yes)).outcome is Outcome.DONE
        stale = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        sent = [request.headers["authorization"] for request in on.sent("POST", "/items")]
    assert (stale.outcome, code_of(stale)) == (Outcome.NOT_SENT, "internal_error")
    assert sent == [f"Bearer {TOKEN}", "Bearer APP_USR-other-5"]


async def test_without_a_refresh_token_a_401_asks_for_authorization() -> None:
    async with stage({("POST", "/items"): answering(401)}) as on:
        on.tokens.connect(1, Environment.LIVE, TOKEN, None)
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert on.sent("POST", "/oauth/token") == []
        assert on.tokens.rows[1, Environment.LIVE].status == "reauthorization_required"
    assert code_of(result) == "account_reauthorization_required"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (None, "account_not_connected"),
        ("disconnected", "account_not_connected"),
        ("reauthorization_required", "account_reauthorization_required"),
    ],
)
async def test_an_account_that_is_not_connected(status: str | None, code: str) -> None:
    async with stage({}) as on:
        if status is None:
            on.tokens.rows.clear()
        else:
            on.tokens.rows[1, Environment.LIVE].status = status
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert on.server.requests == []
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, code)


async def test_a_new_pair_that_cannot_be_stored_at_first_is_not_lost() -> None:
    class Flaky(MemoryTokenStore):
        fails = 2

        async def finish_refresh(self, *args: Any, **kwargs: Any) -> bool:
            if self.fails:
                self.fails -= 1
                raise OSError("database away")
            return await super().finish_refresh(*args, **kwargs)

    store = Flaky()
    store.connect(1, Environment.LIVE, TOKEN, REFRESH)
    routes = {
        ("POST", "/items"): only_for("APP_USR-new-1234567", answering(201, item())),
        ("POST", "/oauth/token"): answering(200, token_answer()),
    }
    async with stage(routes, token_store=store) as on:
        assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE
    assert store.fails == 0
    assert store.rows[1, Environment.LIVE].refresh_token == "TG-new-1234567"


async def test_a_caller_that_gives_up_does_not_stop_the_refresh() -> None:
    began = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        began.set()
        await asyncio.sleep(0.2)
        await exchange.answer(200, token_answer())

    routes = {("POST", "/items"): answering(401), ("POST", "/oauth/token"): slow}
    async with stage(routes) as on:
        task = asyncio.create_task(on.marketplace.create_listing(ACCOUNT, DRAFT, yes))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await on.marketplace.aclose()
        assert on.tokens.rows[1, Environment.LIVE].access_token == "APP_USR-new-1234567"


async def test_a_store_that_fails_sends_nothing() -> None:
    class Broken(MemoryTokenStore):
        async def read(self, *args: Any) -> Any:
            raise OSError("database away")

    async with stage({}, token_store=Broken()) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert on.server.requests == []
    assert (result.outcome, code_of(result)) == (Outcome.NOT_SENT, "internal_error")


async def test_slots_that_cannot_be_reserved_send_nothing() -> None:
    class Broken(MemorySlotStore):
        async def reserve(self, *args: Any) -> Any:
            raise OSError("database away")

    async with stage({}, slot_store=Broken(), rate="4/second") as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert on.server.requests == []
    assert (result.outcome, code_of(result)) == (Outcome.NOT_SENT, "internal_error")


async def test_no_token_reaches_a_log_or_a_result() -> None:
    routes = {
        ("POST", "/items"): answering(401, {"message": f"invalid access token {TOKEN}"}),
        ("POST", "/oauth/token"): answering(400, {"error": "invalid_grant", "message": f"bad {REFRESH}"}),
    }
    with structlog.testing.capture_logs() as logs:
        async with stage(routes) as on:
            result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
    assert result.failure is not None
    assert logs
    shown = repr(logs) + repr(result) + repr(result.failure.stored())
    for secret in (TOKEN, REFRESH, "client-secret"):
        assert secret not in shown


# Throttling.


async def test_a_429_is_throttled_with_its_pause_and_slows_the_application() -> None:
    routes = {("POST", "/items"): answering(429, {"message": "local_rate_limited", "status": 429}, Retry_After="60")}
    async with stage(routes, rate="100/second") as on:
        await on.marketplace.category_name(ACCOUNT, "MCO1055")
        results = await asyncio.gather(*(on.marketplace.create_listing(ACCOUNT, DRAFT, yes) for _ in range(10)))
        assert on.slots.pauses == [60]
        # What had not left yet stays, and nobody waits here for a minute.
        assert len(on.sent("POST", "/items")) < 10
    assert {result.outcome for result in results} == {Outcome.THROTTLED}
    assert all(result.retry_after is not None and 59 <= result.retry_after <= 61 for result in results)


async def test_a_429_without_a_pause_gets_one() -> None:
    async with stage({("POST", "/items"): answering(429, {"message": "local_rate_limited"})}) as on:
        result = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
    assert result.outcome is Outcome.THROTTLED
    assert result.retry_after is not None
    assert 1 <= result.retry_after <= 1.5


async def test_without_a_rate_no_slot_is_asked_for() -> None:
    async with stage({("POST", "/items"): answering(201, item())}) as on:
        await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert on.slots.reservations == []


# Categories.


async def test_a_category_is_looked_up_once_for_all() -> None:
    async with stage({("POST", "/items"): answering(201, item())}) as on:
        await asyncio.gather(*(on.marketplace.create_listing(ACCOUNT, DRAFT, yes) for _ in range(10)))
        name = await on.marketplace.category_name(ACCOUNT, "MCO1055")
        assert len(on.sent("GET", "/categories/MCO1055")) == 1
    assert (name.outcome, name.name) == (Outcome.DONE, "Celulares")


async def test_the_categorys_own_limits_count() -> None:
    category: dict[str, object] = {
        "id": "MCO1055",
        "name": "Repuestos",
        "settings": {"max_title_length": 200, "max_pictures_per_item": 1},
    }
    draft = msgspec.structs.replace(DRAFT, image_urls=["https://host/1.jpg", "https://host/2.jpg"])
    routes = {("GET", "/categories/MCO1055"): answering(200, category), ("POST", "/items"): answering(201, item())}
    async with stage(routes) as on:
        await on.marketplace.create_listing(ACCOUNT, draft, yes)
        (body,) = on.bodies("POST", "/items")
    assert body["family_name"] == DRAFT.title
    assert len(body["pictures"]) == 1


@pytest.mark.parametrize(
    "answer", [answering(500), reset, answering(200, b"{"), answering(404), answering(200, {"id": "MCO7"})]
)
async def test_a_failed_look_up_falls_back_and_is_not_repeated_at_every_creation(answer: Answering) -> None:
    routes = {("GET", "/categories/MCO1055"): answer, ("POST", "/items"): answering(201, item())}
    async with stage(routes) as on:
        for _ in range(3):
            assert (await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)).outcome is Outcome.DONE
        assert len(on.sent("GET", "/categories/MCO1055")) == 1
        assert all(len(body["family_name"]) <= 60 for body in on.bodies("POST", "/items"))


async def test_category_name_endings() -> None:
    async with stage({("GET", "/categories/MCO2"): in_turn(answering(500), answering(200, {"id": "MCO2", "name": "Dos"}))}) as on:  # fmt: skip
        failed = await on.marketplace.category_name(ACCOUNT, "MCO2")
        healed = await on.marketplace.category_name(ACCOUNT, "MCO2")
        unknown = await on.marketplace.category_name(ACCOUNT, "MCO3")
        sent = len(on.server.requests)
        malformed = await on.marketplace.category_name(ACCOUNT, "../users/me")
        assert len(on.server.requests) == sent
    assert failed.outcome is Outcome.RETRY
    assert (healed.outcome, healed.name) == (Outcome.DONE, "Dos")
    assert (unknown.outcome, code_of(unknown)) == (Outcome.REFUSED, "category_refused")
    assert (malformed.outcome, code_of(malformed)) == (Outcome.REFUSED, "category_refused")


# The other operations.


async def test_update_tells_the_price_as_told_back() -> None:
    async with stage({("PUT", "/items/MCO1"): answering(200, item(price=150000))}) as on:
        result = await on.marketplace.update_listing(ACCOUNT, "MCO1", DRAFT)
        (body,) = on.bodies("PUT", "/items/MCO1")
    assert result.listing is not None
    assert result.listing.price == 150000
    assert body == {"price": 189900, "available_quantity": 5, "pictures": [{"source": "https://host/a.jpg"}]}


@pytest.mark.parametrize(
    ("answer", "outcome", "code"),
    [
        (answering(500), Outcome.RETRY, "marketplace_unavailable"),
        (reset, Outcome.RETRY, "marketplace_unavailable"),
        (answering(302, Location="/x"), Outcome.RETRY, "marketplace_unavailable"),
        (answering(200, b"{"), Outcome.RETRY, "marketplace_unavailable"),
        (answering(200, item(listing_id="MCO2")), Outcome.RETRY, "marketplace_unavailable"),
        (answering(409, {"message": "conflict"}), Outcome.RETRY, "marketplace_conflict"),
        (answering(404, {"message": "Item with id MCO1 not found", "error": "not_found"}), Outcome.REFUSED, "listing_not_modifiable"),
        (answering(400, refusal(message="Cannot update item MCO1 [status:under_review, has_bids:false]")), Outcome.REFUSED, "listing_not_modifiable"),
        (answering(403, {"message": "forbidden"}), Outcome.REFUSED, "account_not_allowed"),
    ],
)  # fmt: skip
async def test_endings_of_an_update(answer: Answering, outcome: Outcome, code: str) -> None:
    async with stage({("PUT", "/items/MCO1"): answer}) as on:
        result = await on.marketplace.update_listing(ACCOUNT, "MCO1", DRAFT)
        assert len(on.sent("PUT", "/items/MCO1")) == 1
    assert (result.outcome, code_of(result)) == (outcome, code)


@pytest.mark.parametrize("listing_id", ["", "MCO", "../users/me", "MCO1/description", "MCO1?x=1", "MCO1\r\nX: y"])
async def test_ids_that_are_none_reach_no_path(listing_id: str) -> None:
    async with stage({}) as on:
        assert (await on.marketplace.update_listing(ACCOUNT, listing_id, DRAFT)).outcome is Outcome.REFUSED
        assert (await on.marketplace.close_listing(ACCOUNT, listing_id)).outcome is Outcome.REFUSED
        assert (await on.marketplace.set_description(ACCOUNT, listing_id, "x")).outcome is Outcome.REFUSED
        states = await on.marketplace.get_listings(ACCOUNT, [listing_id])
        assert on.server.requests == []
    assert (states.outcome, states.missing) == (Outcome.DONE, [listing_id])


async def test_closing_what_is_closed_is_done() -> None:
    refused = refusal(message="Cannot update item MCO1 [status:closed, has_bids:false]")
    routes = {
        ("PUT", "/items/MCO1"): answering(400, refused),
        ("GET", "/items"): answering(200, [{"code": 200, "body": item(status="closed")}]),
    }
    async with stage(routes) as on:
        result = await on.marketplace.close_listing(ACCOUNT, "MCO1")
        (body,) = on.bodies("PUT", "/items/MCO1")
    assert result.outcome is Outcome.DONE
    assert result.listing is not None
    assert result.listing.status == "closed"
    assert body == {"status": "closed"}


async def test_closing_what_cannot_be_closed_is_refused() -> None:
    refused = refusal(message="Cannot update item MCO1 [status:under_review, has_bids:false]")
    routes = {
        ("PUT", "/items/MCO1"): answering(400, refused),
        ("GET", "/items"): answering(200, [{"code": 200, "body": item(status="under_review")}]),
    }
    async with stage(routes) as on:
        result = await on.marketplace.close_listing(ACCOUNT, "MCO1")
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "listing_not_modifiable")


async def test_a_description_is_created() -> None:
    async with stage({("POST", "/items/MCO1/description"): answering(201, {"plain_text": "x"})}) as on:
        result = await on.marketplace.set_description(ACCOUNT, "MCO1", "<p>Uno</p> <b>dos</b>")
        (body,) = on.bodies("POST", "/items/MCO1/description")
    assert result.outcome is Outcome.DONE
    assert body == {"plain_text": "Uno\ndos"}


async def test_a_description_that_exists_is_replaced() -> None:
    routes = {
        ("POST", "/items/MCO1/description"): answering(400, {"message": "Item MCO1 already has a description", "error": "bad_request"}),
        ("PUT", "/items/MCO1/description"): answering(200, {"plain_text": "x"}),
    }  # fmt: skip
    async with stage(routes) as on:
        assert (await on.marketplace.set_description(ACCOUNT, "MCO1", "x")).outcome is Outcome.DONE
        (request,) = on.sent("PUT", "/items/MCO1/description")
    assert urlsplit(request.target).query == "api_version=2"


@pytest.mark.parametrize(
    ("answer", "outcome", "code"),
    [
        (answering(400, refusal({"cause_id": 398, "type": "error", "code": "item.description.type.invalid"})), Outcome.REFUSED, "description_refused"),
        (answering(400, {"error": "DESCRIPTION_PLAIN_TEXT_NOT_ALLOWED", "cause": "item.description.type.invalid"}), Outcome.REFUSED, "description_refused"),
        (answering(404, {"error": "not_found"}), Outcome.RETRY, "marketplace_unavailable"),
        (answering(500), Outcome.RETRY, "marketplace_unavailable"),
        (reset, Outcome.RETRY, "marketplace_unavailable"),
    ],
)  # fmt: skip
async def test_endings_of_a_description(answer: Answering, outcome: Outcome, code: str) -> None:
    async with stage({("POST", "/items/MCO1/description"): answer}) as on:
        result = await on.marketplace.set_description(ACCOUNT, "MCO1", "texto")
        assert len(on.server.requests) == 1
    assert (result.outcome, code_of(result)) == (outcome, code)


async def test_an_empty_description_needs_no_call() -> None:
    async with stage({}) as on:
        assert (await on.marketplace.set_description(ACCOUNT, "MCO1", " <br> ")).outcome is Outcome.DONE
        assert on.server.requests == []


def search_answer(*ids: str, total: int | None = None) -> Answering:
    return answering(200, {"paging": {"total": len(ids) if total is None else total}, "results": list(ids)})


async def test_find_by_sku_keeps_open_ones_of_that_sku_oldest_first() -> None:
    listings: list[object] = [
        {"code": 200, "body": item(listing_id="MCO3", date_created="2026-11-27T10:00:00.000Z")},
        {"code": 200, "body": item(listing_id="MCO2", date_created="2026-11-26T10:00:00.000Z")},
        {"code": 200, "body": item(listing_id="MCO4", status="closed")},
        {"code": 200, "body": item("OTHERSKU00", listing_id="MCO5")},
        {"code": 404, "body": {"error": "not_found"}},
    ]
    routes = {
        ("GET", f"/users/{USER}/items/search"): search_answer("MCO3", "MCO2", "MCO4", "MCO5", "MCO6"),
        ("GET", "/items"): answering(200, listings),
    }
    async with stage(routes) as on:
        result = await on.marketplace.find_by_sku(ACCOUNT, DRAFT.sku)
        (request,) = on.sent("GET", f"/users/{USER}/items/search")
        (multiget,) = on.sent("GET", "/items")
    assert result.outcome is Outcome.DONE
    assert [listing.listing_id for listing in result.listings] == ["MCO2", "MCO3"]
    assert parse_qs(urlsplit(request.target).query)["seller_sku"] == [DRAFT.sku]
    assert parse_qs(urlsplit(multiget.target).query)["ids"] == ["MCO3,MCO2,MCO4,MCO5,MCO6"]


async def test_find_by_sku_reads_every_page_and_every_hit() -> None:
    ids = [f"MCO{n}" for n in range(1, 131)]

    async def search(exchange: Exchange) -> None:
        offset = int(parse_qs(urlsplit(exchange.request.target).query)["offset"][0])
        await search_answer(*ids[offset : offset + 100], total=130)(exchange)

    async def multiget(exchange: Exchange) -> None:
        asked = parse_qs(urlsplit(exchange.request.target).query)["ids"][0].split(",")
        assert len(asked) <= 20
        await exchange.answer(200, [{"code": 200, "body": item(listing_id=one)} for one in asked])

    async with stage({("GET", f"/users/{USER}/items/search"): search, ("GET", "/items"): multiget}) as on:
        result = await on.marketplace.find_by_sku(ACCOUNT, DRAFT.sku)
    assert [listing.listing_id for listing in result.listings] == ids


@pytest.mark.parametrize(
    "multiget",
    [
        answering(200, [{"code": 500, "body": {}}]),
        answering(200, [{"code": 200, "body": {"id": 7}}]),
        answering(200, []),
        answering(200, b"{}"),
        answering(500),
        reset,
    ],
)
async def test_find_by_sku_overlooks_nothing(multiget: Answering) -> None:
    routes = {("GET", f"/users/{USER}/items/search"): search_answer("MCO1"), ("GET", "/items"): multiget}
    async with stage(routes) as on:
        result = await on.marketplace.find_by_sku(ACCOUNT, DRAFT.sku)
    assert result.outcome is Outcome.RETRY
    assert list(result.listings) == []


async def test_newest_listings() -> None:
    async with stage({("GET", f"/users/{USER}/items/search"): search_answer("MCO2", "MCO1", total=950)}) as on:
        result = await on.marketplace.newest_listings(ACCOUNT, 950)
        (request,) = on.sent("GET", f"/users/{USER}/items/search")
        with pytest.raises(ValueError, match="offset"):
            await on.marketplace.newest_listings(ACCOUNT, 1000)
    assert (result.outcome, result.listing_ids, result.total) == (Outcome.DONE, ["MCO2", "MCO1"], 950)
    query = parse_qs(urlsplit(request.target).query)
    assert (query["orders"], query["limit"], query["offset"]) == (["start_time_desc"], ["50"], ["950"])


async def test_get_listings_tells_known_unknown_and_untold_ones_apart() -> None:
    entries: list[object] = [
        {"code": 200, "body": item(listing_id="MCO1")},
        {"code": 404, "body": {"message": "Item with id MCO2 not found"}},
        {"code": 500, "body": {}},
    ]
    async with stage({("GET", "/items"): answering(200, entries)}) as on:
        result = await on.marketplace.get_listings(ACCOUNT, ["MCO1", "MCO2", "MCO3", "MCO1"])
        with pytest.raises(ValueError, match="too many"):
            await on.marketplace.get_listings(ACCOUNT, [f"MCO{n}" for n in range(21)])
    assert (list(result.listings), result.missing) == (["MCO1"], ["MCO2"])


async def test_profile() -> None:
    told: dict[str, object] = {
        "id": USER,
        "nickname": "TIENDA",
        "site_id": "MCO",
        "tags": ["normal", "user_product_seller"],
        "status": {"list": {"allow": True, "codes": []}},
    }
    async with stage({("GET", "/users/me"): answering(200, told)}) as on:
        result = await on.marketplace.profile(ACCOUNT)
    assert result.profile is not None
    assert (result.profile.nickname, result.profile.may_list, result.profile.model) == (
        "TIENDA",
        True,
        SellerModel.USER_PRODUCT,
    )


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"id": USER, "site_id": "CBT"}, "account_wrong_site"),
        ({"id": 5, "site_id": "MCO"}, "account_reauthorization_required"),
    ],
)
async def test_profiles_that_stop_the_account(told: dict[str, object], code: str) -> None:
    async with stage({("GET", "/users/me"): answering(200, told)}) as on:
        result = await on.marketplace.profile(ACCOUNT)
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, code)


async def test_predictions() -> None:
    found: list[object] = [{"domain_id": "MCO-DRILLS", "category_id": "MCO4", "category_name": "Taladros"}]
    path = "/sites/MCO/domain_discovery/search"
    async with stage({("GET", path): in_turn(answering(200, found), answering(200, []), answering(200, b"x"))}) as on:
        first = await on.marketplace.predict_category(ACCOUNT, "Taladro ñ & 100% / \ud800")
        second = await on.marketplace.predict_category(ACCOUNT, "?")
        third = await on.marketplace.predict_category(ACCOUNT, "Taladro")
        request = on.sent("GET", path)[0]
    assert first.prediction is not None
    assert (first.prediction.category_id, first.prediction.category_name) == ("MCO4", "Taladros")
    assert parse_qs(urlsplit(request.target).query)["q"][0].startswith("Taladro ñ & 100% /")
    assert (second.outcome, second.prediction) == (Outcome.DONE, None)
    assert third.outcome is Outcome.RETRY


async def test_a_new_pair_outlives_a_database_that_is_away_longer_than_the_guard() -> None:
    class Away(MemoryTokenStore):
        away = False

        async def read(self, *args: Any) -> Any:
            self.check()
            return await super().read(*args)

        async def finish_refresh(self, *args: Any, **kwargs: Any) -> bool:
            self.check()
            return await super().finish_refresh(*args, **kwargs)

        def check(self) -> None:
            if self.away:
                raise OSError("database away")

    store = Away()
    store.connect(1, Environment.LIVE, TOKEN, REFRESH)

    async def once(exchange: Exchange) -> None:
        # The refresh token works once; the database goes away while the answer is on its way.
        if used:
            await exchange.answer(400, b'{"error":"invalid_grant","status":400,"cause":[]}')
            return
        used.append(True)
        store.away = True
        await exchange.answer(200, token_answer())

    used: list[bool] = []
    routes = {
        ("POST", "/items"): only_for("APP_USR-new-1234567", answering(201, item())),
        ("POST", "/oauth/token"): once,
    }
    async with stage(routes, token_store=store) as on:
        on.marketplace._tokens._guard_seconds = 0.5
        first = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert first.outcome is Outcome.NOT_SENT
        store.away = False
        second = await on.marketplace.create_listing(ACCOUNT, DRAFT, yes)
        assert second.outcome is Outcome.DONE, second
    assert store.rows[1, Environment.LIVE].status == "connected"
