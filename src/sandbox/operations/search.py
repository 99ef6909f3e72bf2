"""``GET /users/{id}/items/search`` (reference section 4)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sandbox.accounts import User
from sandbox.faults import rate_limited
from sandbox.items import Item
from sandbox.market import Market
from sandbox.messages import Answer, Request, bad_request, forbidden, ok

LIMIT_DEFAULT = 50
LIMIT_MAX = 100
OFFSET_MAX = 1000
SCROLL_SECONDS = 300.0
SCROLLS_AT_ONCE = 10

_ORDERS = (
    ("start_time_asc", "Order by start time ascending"),
    ("start_time_desc", "Order by start time descending"),
    ("last_updated_desc", "Order by last update descending"),
)


@dataclass(slots=True)
class Scroll:
    """A scan under way: what is left of it and until when it can be continued."""

    user_id: int
    remaining: list[str]
    total: int
    expires_at: float


class Scrolls:
    """The scans under way, by scroll id."""

    def __init__(self) -> None:
        self._open: dict[str, Scroll] = {}

    def start(self, scroll: Scroll, now: float) -> str | None:
        """Keeps a scan; None when the user has too many under way."""
        self._open = {key: kept for key, kept in self._open.items() if kept.expires_at > now}
        if sum(1 for kept in self._open.values() if kept.user_id == scroll.user_id) >= SCROLLS_AT_ONCE:
            return None
        scroll_id = secrets.token_urlsafe(24)
        self._open[scroll_id] = scroll
        return scroll_id

    def take(self, scroll_id: str, user_id: int, now: float) -> Scroll | None:
        """The scan of this id, if it is the user's and not expired."""
        scroll = self._open.get(scroll_id)
        if scroll is None or scroll.user_id != user_id or scroll.expires_at <= now:
            return None
        return scroll

    def finish(self, scroll_id: str) -> None:
        """Forgets a scan that came to its end."""
        self._open.pop(scroll_id, None)


def search(market: Market, request: Request, scrolls: Scrolls) -> Answer:
    """Ids of the caller's items; new ones appear only after the index lag."""
    user = request.caller
    if request.params[0] != str(user.id):
        return forbidden("Invalid caller.id")
    limit = request.integer("limit", LIMIT_DEFAULT)
    if limit > LIMIT_MAX:
        return bad_request(f"Invalid limit: at most {LIMIT_MAX}")
    order = request.parameter("orders", "start_time_asc")
    if order not in dict(_ORDERS):
        return bad_request("Invalid orders")
    now = market.clock()
    if request.parameter("search_type") == "scan":
        return _scan(market, request, scrolls, limit=limit, order=order, now=now)
    offset = request.integer("offset", 0)
    if offset + limit > OFFSET_MAX and offset > 0:
        return bad_request(f"Invalid limit and offset values: at most {OFFSET_MAX} results")
    found = _ordered(_matching(market, user, request, now), order)
    body = _body(user, found[offset : offset + limit], len(found), limit, order)
    body["paging"]["offset"] = offset
    if request.parameter("include_filters") == "true":
        body["filters"], body["available_filters"] = [], []
    return ok(body)


def _scan(market: Market, request: Request, scrolls: Scrolls, *, limit: int, order: str, now: float) -> Answer:
    user = request.caller
    if request.has_parameter("offset"):
        return bad_request("offset cannot be used with search_type=scan")
    scroll_id = request.parameter("scroll_id")
    if scroll_id:
        scroll = scrolls.take(scroll_id, user.id, now)
        if scroll is None:
            return bad_request("Invalid scroll_id")
    else:
        found = _ordered(_matching(market, user, request, now), order)
        scroll = Scroll(user.id, [item.id for item in found], len(found), now + SCROLL_SECONDS)
        started = scrolls.start(scroll, now)
        if started is None:
            return rate_limited()
        scroll_id = started
    page, scroll.remaining = scroll.remaining[:limit], scroll.remaining[limit:]
    scroll.expires_at = now + SCROLL_SECONDS
    body = _body(user, [], scroll.total, limit, order)
    body["results"] = page
    body["scroll_id"] = scroll_id if page else None
    if not page:
        scrolls.finish(scroll_id)
    return ok(body)


def _body(user: User, page: list[Item], total: int, limit: int, order: str) -> dict[str, Any]:
    return {
        "seller_id": str(user.id),
        "query": None,
        "paging": {"limit": limit, "offset": 0, "total": total},
        "results": [item.id for item in page],
        "orders": [{"id": order, "name": dict(_ORDERS)[order]}],
        "available_orders": [{"id": key, "name": name} for key, name in _ORDERS if key != order],
    }


def _matching(market: Market, user: User, request: Request, now: float) -> list[Item]:
    if request.has_parameter("seller_sku"):
        found = user.by_sku.get(request.parameter("seller_sku"), [])
    elif request.has_parameter("sku"):
        found = user.by_custom_field.get(request.parameter("sku"), [])
    else:
        found = user.items
    found = [item for item in found if item.visible_at <= now and not item.deleted]
    status = request.parameter("status")
    if status:
        wanted = set(status.split(","))
        found = [item for item in found if item.record["status"] in wanted]
    elif not market.settings.search_returns_closed:
        found = [item for item in found if item.is_open]
    for name, key in (("listing_type_id", "listing_type_id"), ("user_product_id", "user_product_id")):
        if request.parameter(name):
            values = set(request.parameter(name).split(","))
            found = [item for item in found if item.record[key] in values]
    if request.parameter("tags"):
        tags = set(request.parameter("tags").split(","))
        found = [item for item in found if tags & set(item.record["tags"])]
    if request.parameter("missing_product_identifiers") == "true":
        found = [item for item in found if item.attribute("GTIN") is None]
    return found


def _ordered(found: list[Item], order: str) -> list[Item]:
    if order == "start_time_desc":
        return found[::-1]
    if order == "last_updated_desc":
        return sorted(found, key=lambda item: str(item.record["last_updated"]), reverse=True)
    return found


def restrictions(market: Market, request: Request) -> Answer:
    """``GET /users/{id}/items/search/restrictions``: what very large sellers cannot ask."""
    if request.params[0] != str(request.caller.id):
        return forbidden("Invalid caller.id")
    return ok(
        {"aggregations_allowed": len(request.caller.items) <= 200_000, "sort_allowed": True, "query_allowed": True}
    )
