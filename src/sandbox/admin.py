"""The operator's side of the sandbox, under ``/sandbox``: faults, counters, effects, users, tokens, items.

There is no authentication here: a sandbox listens on a loopback address and holds nothing real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from sandbox.accounts import USER_PRODUCT_TAG, User, digest_of
from sandbox.config import LiveSettings
from sandbox.faults import KINDS, RuleBody
from sandbox.items import OPEN_LIFE, Item
from sandbox.market import Market
from sandbox.messages import Answer, Refusal, Request, bad_request, not_found, ok
from sandbox.operations.items import close

if TYPE_CHECKING:
    from sandbox.app import Sandbox

EFFECTS_PAGE = 10_000

_T = TypeVar("_T")
_LIVES = frozenset({"active", "closed", "under_review", "payment_required", "inactive", "not_yet_active"})


class UserChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of ``POST /sandbox/users/{id}``; absent fields stay as they are."""

    model: str | None = None
    tags: list[str] | None = None
    site_id: str | None = None
    list_allow: bool | None = None
    list_codes: list[str] | None = None
    adopts_tokens: bool | None = None
    grant_revoked: bool | None = None
    lost_me1: bool | None = None
    returns_custom_field: bool | None = None


class TokenRevocation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of ``POST /sandbox/tokens/revoke``: one token, or everything of one user.

    reason: ``revoked`` or ``expired``. grant: with user_id, the whole permission, refresh tokens included.
    """

    token: str | None = None
    user_id: int | None = None
    grant: bool = False
    reason: str = "revoked"


class ItemChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of ``POST /sandbox/items/{id}``; absent fields stay as they are."""

    status: str | None = None
    sub_status: list[str] | None = None
    price: int | None = None
    available_quantity: int | None = None
    sold_quantity: int | None = None
    price_automation: bool | None = None
    paused_by_seller: bool | None = None
    index_lag_seconds: float | None = None


class SettingsChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Body of ``POST /sandbox/settings``; meanings as in SandboxConfig, requests_per_second 0 for none."""

    access_token_seconds: int | None = None
    rotation_invalidates: bool | None = None
    picture_delay_seconds: float | None = None
    index_lag_seconds: float | None = None
    delete_conflict_seconds: float | None = None
    latency_seconds: float | None = None
    requests_per_second: float | None = None
    usd_to_cop: float | None = None
    free_shipping_from: int | None = None
    search_returns_closed: bool | None = None


def add_routes(sandbox: Sandbox) -> None:
    """Adds every ``/sandbox`` operation."""

    def route(method: str, path: str, name: str, operation: Callable[[Sandbox, Request], Answer]) -> None:
        def run(bound: Callable[[Sandbox, Request], Answer], _market: Market, request: Request) -> Answer:
            return bound(sandbox, request)

        sandbox.route(method, path, f"sandbox_{name}", partial(run, operation))

    route("GET", "/sandbox/health", "health", lambda _sandbox, _request: ok({"status": "ok"}))
    route("GET", "/sandbox/fault-kinds", "fault_kinds", fault_kinds)
    route("GET", "/sandbox/faults", "faults", list_faults)
    route("POST", "/sandbox/faults", "add_fault", add_fault)
    route("DELETE", "/sandbox/faults", "delete_faults", delete_faults)
    route("DELETE", "/sandbox/faults/{}", "delete_fault", delete_fault)
    route("GET", "/sandbox/counters", "counters", counters)
    route("GET", "/sandbox/effects", "effects", effects)
    route("GET", "/sandbox/items", "items", list_items)
    route("POST", "/sandbox/items/{}", "change_item", change_item)
    route("GET", "/sandbox/users/{}", "user", read_user)
    route("POST", "/sandbox/users/{}", "change_user", change_user)
    route("POST", "/sandbox/tokens/revoke", "revoke_tokens", revoke_tokens)
    route("GET", "/sandbox/settings", "settings", lambda sandbox, _request: ok(asdict(sandbox.settings)))
    route("POST", "/sandbox/settings", "change_settings", change_settings)


def _body(request: Request, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise Refusal(bad_request(f"{kind.__name__}: {problem}")) from None


# Faults


def fault_kinds(sandbox: Sandbox, request: Request) -> Answer:
    """Every kind of fault: what it does and what it strikes by default."""
    return ok(
        [{"fault": kind.name, "operation": kind.operation, "description": kind.description} for kind in KINDS.values()]
    )


def list_faults(sandbox: Sandbox, request: Request) -> Answer:
    """The active rules with their counts, and how often each kind struck since the start."""
    return ok(
        {
            "rules": [rule.shown() for rule in sandbox.faults.rules],
            "fired_by_kind": dict(sandbox.faults.fired_by_kind),
        }
    )


def add_fault(sandbox: Sandbox, request: Request) -> Answer:
    """Adds one rule, or several given as a list; answers what was added."""
    is_list = request.body.lstrip().startswith(b"[")
    bodies = _body(request, list[RuleBody]) if is_list else [_body(request, RuleBody)]
    try:
        rules = [sandbox.faults.add(body) for body in bodies]
    except ValueError as problem:
        return bad_request(str(problem))
    return ok([rule.shown() for rule in rules] if is_list else rules[0].shown(), 201)


def delete_faults(sandbox: Sandbox, request: Request) -> Answer:
    """Removes every rule; the counts by kind stay, unless ``?reset=true``."""
    removed = sandbox.faults.remove(None)
    if request.parameter("reset") == "true":
        sandbox.faults.fired_by_kind.clear()
    return ok({"removed": removed})


def delete_fault(sandbox: Sandbox, request: Request) -> Answer:
    """Removes one rule."""
    text = request.params[0]
    if not text.isdecimal() or not sandbox.faults.remove(int(text)):
        return not_found("No such rule")
    return ok({"removed": 1})


# What happened


def counters(sandbox: Sandbox, request: Request) -> Answer:
    """Requests per operation, answers per status, items made, SKUs with more than one open item."""
    market = sandbox.market
    duplicates = [
        {"user_id": user.id, "seller_sku": sku, "open": [item.id for item in found if item.is_open]}
        for user in market.users.values()
        for sku, found in user.by_sku.items()
        if sum(1 for item in found if item.is_open) > 1
    ]
    return ok(
        {
            "requests": dict(sandbox.requests),
            "requests_total": sandbox.requests.total(),
            "statuses": dict(sandbox.statuses),
            "throttled": sandbox.throttled,
            "created": market.created,
            "open": sum(1 for item in market.items.values() if item.is_open),
            "duplicates": len(duplicates),
            "duplicate_skus": duplicates[:100],
            "duplicates_ever": len(market.duplicates_ever),
            "effects": len(market.effects),
            "users": len(market.users),
        }
    )


def effects(sandbox: Sandbox, request: Request) -> Answer:
    """The effects log after a sequence number: ``?after=N&limit=M``."""
    after = request.integer("after", 0)
    limit = request.integer("limit", EFFECTS_PAGE)
    page = sandbox.market.effects.after(after, limit)
    return ok({"effects": page, "last": page[-1].sequence if page else after, "total": len(sandbox.market.effects)})


def list_items(sandbox: Sandbox, request: Request) -> Answer:
    """Every item as it stands, regardless of the index lag: ``?user=&sku=&status=&limit=&offset=``."""
    found = list(sandbox.market.items.values())
    if request.parameter("user"):
        user_id = request.integer("user", 0)
        found = [item for item in found if item.user_id == user_id]
    if request.parameter("sku"):
        found = [item for item in found if item.sku == request.parameter("sku")]
    if request.parameter("status"):
        found = [item for item in found if item.status == request.parameter("status")]
    offset, limit = request.integer("offset", 0), request.integer("limit", 1000)
    return ok({"total": len(found), "items": [_summary(item) for item in found[offset : offset + limit]]})


def _summary(item: Item) -> dict[str, Any]:
    record = item.record
    names = ("id", "title", "category_id", "price", "available_quantity", "listing_type_id", "permalink")
    return {
        **{name: record[name] for name in names},
        "user_id": item.user_id,
        "seller_sku": item.sku,
        "seller_custom_field": item.custom_field,
        "status": record["status"],
        "sub_status": record["sub_status"],
        "date_created": record["date_created"],
        "visible_at": item.visible_at,
        "deleted": item.deleted,
        "price_automation": item.price_automation,
        "description": None if item.description is None else item.description["plain_text"],
    }


# What the operator changes


def change_item(sandbox: Sandbox, request: Request) -> Answer:
    """Sets the state of an item as the platform, or its owner on the web site, would."""
    market = sandbox.market
    item = market.items.get(request.params[0])
    if item is None:
        return not_found("No such item")
    change = _body(request, ItemChange)
    now = market.clock()
    if change.status is not None:
        _set_status(item, change.status, change.sub_status or [], now)
    for name in ("price", "available_quantity", "sold_quantity"):
        value = getattr(change, name)
        if value is not None:
            item.record[name] = value
    if change.price_automation is not None:
        item.price_automation = change.price_automation
    if change.paused_by_seller is not None:
        item.paused_by_seller = change.paused_by_seller
    if change.index_lag_seconds is not None:
        item.visible_at = now + change.index_lag_seconds
    market.record_item("operator_changed", item, now)
    return ok(_summary(item))


def _set_status(item: Item, status: str, sub_status: list[str], now: float) -> None:
    if status == "paused":
        item.life, item.life_sub_status = OPEN_LIFE, []
        item.paused_by_seller = True
    elif status == "closed":
        close(item, now)
        item.life_sub_status = sub_status
    elif status not in _LIVES:
        raise Refusal(bad_request("status: unknown"))
    elif status == "active":
        item.life, item.life_sub_status, item.closed_at = OPEN_LIFE, [], None
        item.paused_by_seller = item.pictures_pending = item.deleted = False
        item.changes = [kept for kept in item.changes if kept.kind != "pictures"]
        item.show_pictures()
    else:
        item.life, item.life_sub_status = status, sub_status


def _user(sandbox: Sandbox, request: Request) -> User:
    text = request.params[0]
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise Refusal(bad_request("user id: not a number"))
    return sandbox.market.user(int(text))


def _user_body(user: User) -> Answer:
    model = "user_product" if user.user_product_model else "classic"
    return ok({"id": user.id, "model": model, **user.settings(), "items": len(user.items)})


def read_user(sandbox: Sandbox, request: Request) -> Answer:
    """One user's settings; makes the user on first sight."""
    return _user_body(_user(sandbox, request))


def change_user(sandbox: Sandbox, request: Request) -> Answer:
    """Changes one user: seller model or tags, site, whether it may list, how its tokens are taken."""
    user = _user(sandbox, request)
    change = _body(request, UserChange)
    changes = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not None}
    model = changes.pop("model", None)
    if model is not None:
        if model not in {"user_product", "classic"}:
            return bad_request("model: user_product or classic")
        tags = [tag for tag in changes.get("tags", user.tags) if tag != USER_PRODUCT_TAG]
        changes["tags"] = [*tags, USER_PRODUCT_TAG] if model == "user_product" else tags
    sandbox.market.change_user(user, changes, sandbox.market.clock())
    return _user_body(user)


def revoke_tokens(sandbox: Sandbox, request: Request) -> Answer:
    """Refuses one access token, or every present one of a user, or the user's whole permission."""
    revocation = _body(request, TokenRevocation)
    if revocation.reason not in {"revoked", "expired"}:
        return bad_request("reason: revoked or expired")
    if (revocation.token is None) == (revocation.user_id is None):
        return bad_request("exactly one of token and user_id")
    if revocation.token is not None:
        sandbox.refuse_tokens(0, [digest_of(revocation.token)], revocation.reason)
        return ok({"refused": 1})
    user = sandbox.market.user(revocation.user_id or 0)
    digests = sandbox.market.tokens.access_digests(user.id)
    sandbox.refuse_tokens(user.id, digests, revocation.reason)
    changes: dict[str, Any] = {"adopts_tokens": False}
    if revocation.grant:
        changes["grant_revoked"] = True
    sandbox.market.change_user(user, changes, sandbox.market.clock())
    return ok({"refused": len(digests), **changes})


def change_settings(sandbox: Sandbox, request: Request) -> Answer:
    """Changes settings from the next request on."""
    change = _body(request, SettingsChange)
    for setting in fields(LiveSettings):
        value = getattr(change, setting.name)
        if value is None:
            continue
        if isinstance(value, (int, float)) and value < 0:
            return bad_request(f"{setting.name}: at least 0")
        off = setting.name == "requests_per_second" and value == 0
        setattr(sandbox.settings, setting.name, None if off else value)
    return ok(asdict(sandbox.settings))
