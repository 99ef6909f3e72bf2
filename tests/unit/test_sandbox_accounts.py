"""The sandbox's tokens, users, site resources and the rate limit of the application."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sandbox.categories import CATEGORIES, predict
from sandbox.category_table import ROOTS
from tests.support.sandbox_shop import USER, Shop

# Access tokens


def test_a_made_up_token_makes_its_user() -> None:
    reply = Shop().call("GET", "/users/me", token="APP_USR-anything-3000000000")
    assert reply.status == 200
    assert reply.body["id"] == 3_000_000_000
    assert reply.body["site_id"] == "MCO"
    assert reply.body["status"]["list"]["allow"] is True
    assert "user_product_seller" in reply.body["tags"]


def test_the_model_of_new_users_is_configured() -> None:
    assert "user_product_seller" not in Shop(seller_model="classic").call("GET", "/users/me").body["tags"]


@pytest.mark.parametrize("token", ["", "x", "APP_USR-77", "APP_USR-x-", "APP_USR-x-١٢", "TG-x-77", "APP_USR-x-77\n"])
def test_another_token_is_refused(token: str) -> None:
    assert Shop().call("GET", "/users/me", token=token or " ").status == 401


def test_a_missing_token_is_refused() -> None:
    reply = Shop().call("GET", "/sites/MCO/categories", token=None)
    assert (reply.status, reply.body["code"]) == (401, "unauthorized")


def test_an_issued_token_expires_by_the_clock() -> None:
    shop = Shop(access_token_seconds=100)
    pair = shop.refresh("TG-first-77").body
    assert pair["expires_in"] == 100
    shop.clock.pass_seconds(99)
    assert shop.call("GET", "/users/me", token=pair["access_token"]).body["id"] == 77
    shop.clock.pass_seconds(1)
    expired = shop.call("GET", "/users/me", token=pair["access_token"])
    assert (expired.status, expired.body["message"]) == (401, "expired_token")


# Refresh tokens


def test_a_refresh_token_works_once_and_gives_the_next_one() -> None:
    shop = Shop()
    first = shop.refresh("TG-first-77")
    assert first.status == 200
    assert first.body["token_type"] == "bearer"
    assert first.body["user_id"] == 77
    assert re.fullmatch(r"APP_USR-1-\d{6}-[0-9a-f]{32}-77", first.body["access_token"])
    assert re.fullmatch(r"TG-[0-9a-f]{24}-77", first.body["refresh_token"])
    again = shop.refresh("TG-first-77")
    assert again.status == 400
    assert again.body["error"] == "invalid_grant"
    second = shop.refresh(first.body["refresh_token"])
    assert second.status == 200
    assert shop.refresh(first.body["refresh_token"]).body["error"] == "invalid_grant"


def test_older_access_tokens_stay_good_unless_rotation_invalidates() -> None:
    shop = Shop()
    old = "APP_USR-old-77"
    assert shop.call("GET", "/users/me", token=old).status == 200
    first = shop.refresh("TG-first-77").body
    assert shop.call("GET", "/users/me", token=old).status == 200
    shop.call("POST", "/sandbox/settings", {"rotation_invalidates": True})
    second = shop.refresh(first["refresh_token"]).body
    assert shop.call("GET", "/users/me", token=old).status == 401
    assert shop.call("GET", "/users/me", token=first["access_token"]).status == 401
    assert shop.call("GET", "/users/me", token=second["access_token"]).status == 200


def test_a_refresh_token_is_bound_to_its_client() -> None:
    shop = Shop()
    pair = shop.refresh("TG-first-77").body
    assert shop.refresh(pair["refresh_token"], client_id="2").body["error"] == "invalid_grant"
    assert shop.refresh(pair["refresh_token"]).status == 200


def test_a_configured_client_is_checked() -> None:
    shop = Shop(client_id="7", client_secret="right")
    assert shop.refresh("TG-first-77").body["error"] == "invalid_client"
    assert shop.refresh("TG-first-77", client_id="7", client_secret="right").status == 200


def test_a_code_is_exchanged_like_a_refresh_token() -> None:
    shop = Shop()
    reply = shop.refresh("", grant_type="authorization_code", code="TG-code-88", redirect_uri="https://x")
    assert reply.body["user_id"] == 88


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
        ({"client_secret": ""}, "invalid_request"),
        ({"refresh_token": "x"}, "invalid_grant"),
        ({"refresh_token": ""}, "invalid_request"),
        ({"grant_type": "authorization_code", "code": "TG-x-7"}, "invalid_request"),
    ],
)
def test_a_bad_exchange_names_its_error(changes: dict[str, str], error: str) -> None:
    reply = Shop().refresh("TG-first-77", **changes)
    assert (reply.status, reply.body["error"]) == (400, error)


def test_an_exchange_is_a_form_in_the_body() -> None:
    shop = Shop()
    body = b"grant_type=refresh_token&client_id=1&client_secret=s&refresh_token=TG-a-7"
    form = "application/x-www-form-urlencoded"
    assert shop.call("POST", "/oauth/token", body, token=None, content_type="application/json").status == 400
    assert shop.call("POST", f"/oauth/token?{body.decode()}", b"", token=None, content_type=form).status == 400
    assert shop.call("GET", f"/oauth/token?{body.decode()}", token=None).status == 405
    assert shop.call("POST", "/oauth/token", body, token=None, content_type=form).status == 200


# Revocation


def test_a_revoked_user_is_refused_until_it_refreshes() -> None:
    shop = Shop()
    assert shop.call("GET", "/users/me").status == 200
    assert shop.call("POST", "/sandbox/tokens/revoke", {"user_id": USER}).body["refused"] == 1
    refused = shop.call("GET", "/users/me")
    assert (refused.status, refused.body["message"]) == (401, "invalid access token")
    assert shop.call("GET", "/users/me", token=f"APP_USR-never-seen-{USER}").status == 401
    pair = shop.refresh(f"TG-mine-{USER}").body
    assert shop.call("GET", "/users/me", token=pair["access_token"]).status == 200


def test_a_revoked_grant_refuses_refreshing_too_until_it_is_given_back() -> None:
    shop = Shop()
    shop.call("POST", "/sandbox/tokens/revoke", {"user_id": USER, "grant": True})
    assert shop.refresh(f"TG-mine-{USER}").body["error"] == "invalid_grant"
    shop.call("POST", f"/sandbox/users/{USER}", {"grant_revoked": False, "adopts_tokens": True})
    assert shop.refresh(f"TG-mine-{USER}").status == 200
    assert shop.call("GET", "/users/me", token=f"APP_USR-fresh-{USER}").status == 200


def test_one_token_can_be_revoked_or_expired() -> None:
    shop = Shop()
    shop.call("POST", "/sandbox/tokens/revoke", {"token": "APP_USR-a-7", "reason": "expired"})
    assert shop.call("GET", "/users/me", token="APP_USR-a-7").body["message"] == "expired_token"
    assert shop.call("GET", "/users/me", token="APP_USR-b-7").status == 200
    assert shop.call("POST", "/sandbox/tokens/revoke", {}).status == 400


# Users and listing types


def test_a_test_user_can_be_made() -> None:
    shop = Shop()
    made = shop.call("POST", "/users/test_user", {"site_id": "MCO"})
    assert made.status == 201
    assert shop.call("GET", "/users/me", token=f"APP_USR-x-{made.body['id']}").status == 200
    assert shop.call("POST", "/users/test_user", {"site_id": "MLB"}).status == 400


def test_tags_are_shown_with_the_own_token_only() -> None:
    shop = Shop()
    shop.call("GET", "/users/me", token="APP_USR-x-7")
    assert "tags" not in shop.call("GET", "/users/7").body
    assert "tags" in shop.call("GET", f"/users/{USER}").body
    assert shop.call("GET", "/users/8").status == 404


def test_a_user_of_another_site_cannot_list() -> None:
    shop = Shop()
    shop.call("POST", f"/sandbox/users/{USER}", {"site_id": "CBT"})
    assert shop.call("GET", "/users/me").body["site_id"] == "CBT"
    assert shop.create().status == 403


def test_available_listing_types() -> None:
    shop = Shop()
    reply = shop.call("GET", f"/users/{USER}/available_listing_types?category_id=MCO158426").body
    remaining = {entry["id"]: entry["remaining_listings"] for entry in reply["available"]}
    assert {"gold_pro", "gold_special", "free"} <= set(remaining)
    assert (remaining["gold_pro"], remaining["free"]) == (None, 10)
    assert shop.call("GET", f"/users/{USER}/available_listing_type/gold_pro").body["available"] is True
    denied = shop.call("GET", f"/users/{USER}/available_listing_type/none").body
    assert denied["code"] == "list.transactions.exceeded"


# Site


def test_the_tree_is_realistic_and_whole() -> None:
    leaves = [leaf for _, _, found in ROOTS for leaf in found]
    assert len(leaves) >= 60
    assert len({leaf.id for leaf in leaves}) == len(leaves)
    assert all(re.fullmatch(r"MCO\d+", category_id) for category_id in CATEGORIES)
    shop = Shop()
    roots = shop.call("GET", "/sites/MCO/categories").body
    for root in roots:
        node = shop.call("GET", f"/categories/{root['id']}").body
        assert node["children_categories"]
        assert node["settings"]["listing_allowed"] is False


def test_a_leaf_tells_its_settings_attributes_and_sale_terms() -> None:
    shop = Shop()
    node = shop.call("GET", "/categories/MCO158426").body
    assert node["settings"]["max_title_length"] == 60
    assert node["settings"]["max_pictures_per_item"] == 12
    assert node["settings"]["currencies"] == ["COP"]
    assert node["settings"]["minimum_price"] == 1000
    assert [step["name"] for step in node["path_from_root"]] == ["Equipaje y Viajes", "Maletas"]
    attributes = {entry["id"]: entry for entry in shop.call("GET", "/categories/MCO158426/attributes").body}
    assert attributes["BRAND"]["tags"] == {"catalog_required": True}
    assert attributes["CAPACITY"]["allowed_units"][0]["id"] == "L"
    assert {entry["id"] for entry in attributes["EMPTY_GTIN_REASON"]["values"]} >= {"17055160"}
    terms = shop.call("GET", "/categories/MCO158426/sale_terms").body
    assert [term["id"] for term in terms] == ["WARRANTY_TYPE", "WARRANTY_TIME", "MANUFACTURING_TIME"]
    assert shop.call("GET", "/categories/MCO1").status == 404
    needed = shop.call("POST", "/categories/MCO990002/attributes/conditional", {})
    assert [entry["id"] for entry in needed.body["required_attributes"]] == ["GTIN"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Winfield 2 Hardside Expandable Luggage with Spinner Wheels", "Maletas"),
        ("Maleta de viaje rígida", "Maletas"),
        ("Wireless Bluetooth Headphones, Over-Ear", "Audífonos"),
        ("Stainless Steel Frying Pan with Lid", "Cocina y Menaje"),
        ("Dog Leash with Padded Handle", "Accesorios para Perros"),
        ("Juego de mesa para la familia", "Juegos de Mesa y Rompecabezas"),
        ("Cordless Drill 20V", "Herramientas Eléctricas"),
        ("Women's Ankle Boot", "Zapatos de Mujer"),
        ("Zyxqwv", "Otros"),
    ],
)
def test_the_predictor_goes_by_words(title: str, name: str) -> None:
    assert CATEGORIES[predict(title)[0]].name == name
    assert predict(title) == predict(title)


def test_every_keyword_leads_back_to_its_category_among_the_first() -> None:
    lost = []
    for _, _, leaves in ROOTS:
        for leaf in leaves:
            title = leaf.keywords.split()[0].rstrip("!").replace("_", " ")
            if leaf.id not in predict(title):
                lost.append((leaf.id, title))
    assert lost == []


def test_discovery_answers_the_best_first_within_its_limit() -> None:
    shop = Shop()
    reply = shop.call("GET", "/sites/MCO/domain_discovery/search?q=red+travel+suitcase+with+wheels&limit=3").body
    assert reply[0]["category_id"] == "MCO158426"
    assert reply[0]["domain_id"] == "MCO-SUITCASES"
    assert reply[0]["attributes"][0]["value_name"] == "Rojo"
    assert len(reply) <= 3
    assert shop.call("GET", "/sites/MCO/domain_discovery/search?q=12345").body == []
    assert shop.call("GET", "/sites/MCO/domain_discovery/search?q=Zyxqwv").body[0]["category_name"] == "Otros"
    assert shop.call("GET", "/sites/MCO/domain_discovery/search").status == 400
    assert shop.call("GET", "/sites/MCO/domain_discovery/search?q=x&limit=9").status == 400
    assert shop.call("GET", "/sites/MLB/domain_discovery/search?q=x").status == 404


def test_listing_types_fees_and_currency() -> None:
    shop = Shop(usd_to_cop=4000.0)
    types = {entry["id"] for entry in shop.call("GET", "/sites/MCO/listing_types").body}
    assert {"gold_pro", "gold_special", "free"} <= types
    assert shop.call("GET", "/listing_types/gold_pro").body["configuration"]["requires_picture"] is True
    assert shop.call("GET", "/sites/MCO/listing_types/none").status == 404
    rows = shop.call("GET", "/sites/MCO/listing_prices?price=50000").body
    assert isinstance(rows, list)
    plain = shop.call("GET", "/sites/MCO/listing_prices?price=50000&listing_type_id=gold_special").body
    full = shop.call(
        "GET",
        "/sites/MCO/listing_prices?price=50000&listing_type_id=gold_special&logistic_type=drop_off&shipping_mode=me2",
    ).body
    assert (plain["sale_fee_details"]["fixed_fee"], full["sale_fee_details"]["fixed_fee"]) == (0, 2400)
    assert shop.call("GET", "/sites/MCO/listing_prices").status == 400
    assert shop.call("GET", "/currencies/COP").body["decimal_places"] == 0
    conversion = "/currency_conversions/search?from=USD&to=COP"
    assert shop.call("GET", conversion).body["ratio"] == 4000.0
    new = shop.call("GET", conversion, new_format=True).body
    assert (new["rate"], new["inv_rate"]) == (4000.0, 0.00025)
    assert shop.call("GET", "/currency_conversions/search?from=EUR&to=COP").status == 404
    assert shop.call("GET", "/sites/MCO/search?q=x").status == 403


# Feeds, unknown places, rate limit


def test_missed_feeds_tell_of_item_changes() -> None:
    shop = Shop()
    item_id = shop.publish()
    shop.call("GET", "/users/me")
    messages = shop.call("GET", "/missed_feeds?app_id=9&topic=items").body["messages"]
    assert [message["resource"] for message in messages] == [f"/items/{item_id}"] * 2
    assert messages[0]["application_id"] == 9
    assert messages[0]["user_id"] == USER
    assert len({message["_id"] for message in messages}) == 2
    assert len(shop.call("GET", "/missed_feeds?app_id=9&limit=1").body["messages"]) == 1
    assert shop.call("GET", "/missed_feeds").status == 400
    shop.clock.pass_seconds(2 * 24 * 3600 + 1)
    assert shop.call("GET", "/missed_feeds?app_id=9").body["messages"] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("GET", "/", 404), ("DELETE", "/items", 405), ("GET", "/items/a/b/c/d", 404)],
)
def test_unknown_places_and_methods(method: str, path: str, status: int) -> None:
    assert Shop().call(method, path).status == status


def test_above_the_rate_of_the_application_it_is_429_for_everybody() -> None:
    shop = Shop(requests_per_second=3)
    statuses = [shop.call("GET", "/users/me", token=f"APP_USR-x-{n}").status for n in range(1, 6)]
    assert statuses == [200, 200, 200, 429, 429]
    shop.clock.pass_seconds(1)
    assert shop.call("GET", "/users/me").status == 200
    shop.call("POST", "/sandbox/settings", {"requests_per_second": 0})
    assert {shop.call("GET", "/users/me").status for _ in range(20)} == {200}
    assert shop.call("GET", "/sandbox/counters").body["throttled"] == 2


# The operator's calls


def test_the_operator_sees_and_sets_items() -> None:
    shop = Shop()
    item_id = shop.publish()
    found = shop.call("GET", f"/sandbox/items?user={USER}&sku=B07N4M94X4").body
    assert found["total"] == 1
    assert found["items"][0]["status"] == "active"
    for status, sub_status in (("under_review", ["held"]), ("closed", ["suspended"]), ("paused", []), ("active", [])):
        shop.call("POST", f"/sandbox/items/{item_id}", {"status": status, "sub_status": sub_status})
        assert shop.item(item_id)["status"] == status
    shop.call("POST", f"/sandbox/items/{item_id}", {"price_automation": True, "price": 7000})
    assert shop.call("PUT", f"/items/{item_id}", {"price": 8000}).status == 400
    assert shop.call("POST", f"/sandbox/items/{item_id}", {"status": "x"}).status == 400
    assert shop.call("POST", "/sandbox/items/MCO1", {}).status == 404


def test_counters_tell_requests_and_duplicates() -> None:
    shop = Shop()
    first = shop.publish()
    shop.publish()
    counters = shop.call("GET", "/sandbox/counters").body
    assert (counters["created"], counters["duplicates"], counters["duplicates_ever"]) == (2, 1, 1)
    assert counters["duplicate_skus"][0]["seller_sku"] == "B07N4M94X4"
    assert counters["requests"]["item_create"] == 2
    shop.call("PUT", f"/items/{first}", {"status": "closed"})
    counters = shop.call("GET", "/sandbox/counters").body
    assert (counters["duplicates"], counters["duplicates_ever"], counters["open"]) == (0, 1, 1)


def test_effects_are_numbered_and_paged() -> None:
    shop = Shop()
    item_id = shop.publish()
    shop.call("PUT", f"/items/{item_id}", {"status": "closed"})
    page = shop.call("GET", "/sandbox/effects").body
    assert [(effect["sequence"], effect["effect"]) for effect in page["effects"]] == [
        (1, "item_created"),
        (2, "item_closed"),
    ]
    assert page["effects"][0]["seller_sku"] == "B07N4M94X4"
    assert page["effects"][0]["listing_id"] == item_id
    assert page["effects"][0]["price"] == 189_900
    assert shop.call("GET", "/sandbox/effects?after=1").body["effects"][0]["sequence"] == 2
    assert shop.call("GET", "/sandbox/effects?after=2").body == {"effects": [], "last": 2, "total": 2}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sandbox/settings", {"nothing": 1}),
        ("/sandbox/settings", {"latency_seconds": -1}),
        ("/sandbox/users/7", {"model": "other"}),
        ("/sandbox/users/x", {}),
        ("/sandbox/tokens/revoke", {"user_id": 7, "reason": "x"}),
        ("/sandbox/faults", {"fault": "none"}),
        ("/sandbox/faults", {"fault": "error_500", "nth": 1, "every": 2}),
        ("/sandbox/faults", {"fault": "error_500", "probability": 2}),
        ("/sandbox/faults", {"fault": "error_500", "path": "("}),
        ("/sandbox/faults", {"fault": "error_500", "typo": 1}),
    ],
)
def test_a_wrong_operator_call_is_told(path: str, body: dict[str, Any]) -> None:
    reply = Shop().call("POST", path, body)
    assert reply.status == 400
    assert reply.body["message"]
