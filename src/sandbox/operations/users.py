"""Users and what they may list (reference sections 2 and 5)."""

from __future__ import annotations

import secrets

from sandbox.categories import category
from sandbox.market import Market
from sandbox.messages import Answer, Request, bad_request, forbidden, not_found, ok
from sandbox.validation import LISTING_TYPES


def me(market: Market, request: Request) -> Answer:
    """``GET /users/me``."""
    return ok(request.caller.profile())


def user(market: Market, request: Request) -> Answer:
    """``GET /users/{id}``: the profile; tags only with the user's own token."""
    if request.params[0] == str(request.caller.id):
        return me(market, request)
    if not request.params[0].isdecimal() or int(request.params[0]) not in market.users:
        return not_found(f"The User with id {request.params[0][:20]} not found.")
    other = market.users[int(request.params[0])]
    return ok(
        {
            "id": other.id,
            "nickname": f"SANDBOX{other.id}",
            "country_id": "CO",
            "site_id": other.site_id,
            "user_type": "normal",
        }
    )


def test_user(market: Market, request: Request) -> Answer:
    """``POST /users/test_user``: makes a user of the configured model."""
    if request.json_object().get("site_id") != "MCO":
        return bad_request("Invalid site_id")
    user_id = max(market.users, default=120_000_000) + 1
    market.change_user(market.user(user_id), {}, market.clock())
    return ok(
        {
            "id": user_id,
            "nickname": f"TEST{user_id % 100_000:05d}",
            "password": f"qatest{secrets.randbelow(10_000)}",
            "site_status": "active",
        },
        201,
    )


def available_listing_types(market: Market, request: Request) -> Answer:
    """``GET /users/{id}/available_listing_types?category_id=``."""
    if request.params[0] != str(request.caller.id):
        return forbidden("Invalid caller.id")
    category_id = request.parameter("category_id")
    if category_id and category(category_id) is None:
        return not_found(f"Category not found: {category_id[:40]}")
    return ok(
        {
            "category_id": category_id or None,
            "available": [
                {
                    "site_id": "MCO",
                    "id": key,
                    "name": name,
                    "remaining_listings": 10 if key == "free" else None,
                }
                for key, name in LISTING_TYPES.items()
            ]
            if request.caller.list_allow
            else [],
        }
    )


def available_listing_type(market: Market, request: Request) -> Answer:
    """``GET /users/{id}/available_listing_type/{type}``: one of them, with the reason when it is not."""
    if request.params[0] != str(request.caller.id):
        return forbidden("Invalid caller.id")
    available = request.params[1] in LISTING_TYPES and request.caller.list_allow
    return ok(
        {
            "available": available,
            "cause": "" if available else "The listing type is not available for the user",
            "code": "" if available else "list.transactions.exceeded",
        }
    )
