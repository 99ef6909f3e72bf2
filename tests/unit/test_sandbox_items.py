"""The sandbox's items: creation, validation, reading, changing, searching, descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.sandbox_shop import LUGGAGE, USER, Shop, item_body


def attributes(*more: dict[str, Any], sku: str = "B07N4M94X4") -> list[dict[str, Any]]:
    return [{"id": "SELLER_SKU", "value_name": sku}, *more]


# Creation


def test_a_new_item_is_answered_whole_and_starts_paused_with_placeholder_pictures() -> None:
    shop = Shop(first_item_number=500)
    reply = shop.create()
    assert reply.status == 201
    item = reply.body
    assert item["id"] == "MCO500"
    assert item["status"] == "paused"
    assert item["sub_status"] == ["picture_download_pending"]
    assert "processing-image" in item["pictures"][0]["url"]
    assert item["pictures"][0]["size"] == "500x500"
    assert item["price"] == 189_900
    assert item["seller_id"] == USER
    assert item["user_product_id"].startswith("MCOU")
    assert item["seller_custom_field"] == "B07N4M94X4"
    assert item["permalink"].startswith("https://articulo.mercadolibre.com.co/")
    assert shop.create("B000000002").body["id"] == "MCO501"


def test_pictures_arrive_after_the_delay_and_the_item_becomes_active() -> None:
    shop = Shop(picture_delay_seconds=3.0)
    item_id = shop.create().body["id"]
    shop.clock.pass_seconds(2.9)
    assert shop.item(item_id)["status"] == "paused"
    shop.clock.pass_seconds(0.2)
    item = shop.item(item_id)
    assert (item["status"], item["sub_status"]) == ("active", [])
    assert "processing-image" not in item["pictures"][0]["url"]


def test_a_status_in_the_body_is_ignored_on_create() -> None:
    shop = Shop(picture_delay_seconds=0.0)
    reply = shop.create(status="paused")
    assert reply.status == 201
    assert reply.body["status"] == "active"


def test_quantity_zero_on_create_gives_paused_out_of_stock() -> None:
    shop = Shop()
    item_id = shop.publish(available_quantity=0)
    assert shop.item(item_id)["sub_status"] == ["out_of_stock"]


def test_harmless_warnings_are_always_there() -> None:
    warnings = Shop().create().body["warnings"]
    assert 4053 in {warning["cause_id"] for warning in warnings}
    assert {warning["type"] for warning in warnings} == {"warning"}


def test_free_shipping_becomes_mandatory_above_the_threshold() -> None:
    shop = Shop(free_shipping_from=60_000)
    dear, cheap = shop.create(price=60_000).body, shop.create("B000000002", price=59_900).body
    assert dear["shipping"]["free_shipping"] is True
    assert 350 in {warning["cause_id"] for warning in dear["warnings"]}
    assert cheap["shipping"]["free_shipping"] is False


@pytest.mark.parametrize(
    ("mark", "status", "sub_status"),
    [
        ("sandbox-closed", "closed", ["waiting_for_patch"]),
        ("sandbox-review", "under_review", ["waiting_for_patch"]),
        ("sandbox-payment", "payment_required", []),
        ("sandbox-inactive", "inactive", []),
    ],
)
def test_marked_pictures_end_as_marked(mark: str, status: str, sub_status: list[str]) -> None:
    shop = Shop()
    item_id = shop.publish(pictures=[{"source": f"https://images.example/{mark}/a.jpg"}])
    item = shop.item(item_id)
    assert (item["status"], item["sub_status"]) == (status, sub_status)


def test_marks_slow_and_moderated_take_their_seconds() -> None:
    shop = Shop()
    slow = shop.create(pictures=[{"source": "https://images.example/sandbox-slow-30.jpg"}]).body["id"]
    moderated = shop.create("B000000002", pictures=[{"source": "https://images.example/sandbox-moderated-20.jpg"}])
    shop.clock.pass_seconds(10)
    assert shop.item(slow)["status"] == "paused"
    assert shop.item(moderated.body["id"])["status"] == "active"
    shop.clock.pass_seconds(25)
    assert shop.item(slow)["status"] == "active"
    assert shop.item(moderated.body["id"])["status"] == "closed"


def test_a_picture_marked_unavailable_fails_once_and_then_works() -> None:
    shop = Shop()
    pictures = [{"source": "https://images.example/sandbox-unavailable.jpg"}]
    first = shop.create(pictures=pictures)
    assert (first.status, first.cause_ids()) == (400, [3706])
    assert shop.create(pictures=pictures).status == 201


# Both seller models


def test_the_user_product_model_takes_family_name_and_refuses_title() -> None:
    shop = Shop()
    refused = shop.create(title="Maleta")
    assert refused.status == 400
    assert refused.body == {
        "message": "body.invalid_fields",
        "error": "The fields [title] are invalid for requested call.",
        "status": 400,
        "cause": [],
    }
    missing = shop.call("POST", "/items", item_body(drop=("family_name",)))
    assert missing.cause_ids() == [369]
    assert "[family_name]" in missing.body["cause"][0]["message"] or "[family_name]" in str(missing.body)


def test_variations_with_family_name_are_cause_374() -> None:
    assert 374 in Shop().create(variations=[{"price": 1}]).cause_ids()


def test_a_classic_seller_takes_title_and_refuses_family_name() -> None:
    shop = Shop()
    assert shop.call("POST", f"/sandbox/users/{USER}", {"model": "classic"}).body["model"] == "classic"
    assert shop.create().status == 400
    body = item_body(drop=("family_name",), title="Maleta azul")
    reply = shop.call("POST", "/items", body)
    assert reply.status == 201
    assert reply.body["title"] == "Maleta azul"
    assert "family_name" not in reply.body
    assert shop.call("POST", "/items", item_body(drop=("family_name",))).cause_ids() == [369]


def test_the_platform_composes_the_title_of_a_user_product() -> None:
    body = Shop().create(attributes=attributes({"id": "COLOR", "value_name": "Negro"})).body
    assert body["family_name"] == "Maleta rígida expandible"
    assert body["title"] == "Maleta rígida expandible Negro"


# Validation


@pytest.mark.parametrize(
    ("changes", "cause_id"),
    [
        ({"category_id": "MCO99999999"}, 126),
        ({"category_id": "MCO158425"}, 126),
        ({"category_id": "MCO990009"}, 126),
        ({"price": 999}, 109),
        ({"price": 1000.5}, 109),
        ({"price": 9_999_999_999}, 129),
        ({"price": 10**400}, 129),
        ({"price": -5}, 109),
        ({"currency_id": "USD"}, 1001),
        ({"family_name": "Maleta " * 10}, 462),
        ({"family_name": "12345 67"}, 3705),
        ({"family_name": "producto"}, 3705),
        ({"pictures": []}, 173),
        ({"pictures": [{"source": f"https://images.example/{n}.jpg"} for n in range(13)]}, 201),
        ({"pictures": [{"id": "1-MCO2_3"}]}, 204),
        ({"pictures": [{"source": "ftp://images.example/a.jpg"}]}, 508),
        ({"pictures": [{"source": "https://images.example/sandbox-small.jpg"}]}, 3703),
        ({"category_id": "MCO990001"}, 147),
        ({"category_id": "MCO990002"}, 7810),
        ({"category_id": "MCO990003"}, 2610),
        ({"category_id": "MCO990004"}, 5400),
        ({"category_id": "MCO990006"}, 109),
        ({"attributes": attributes({"id": "GTIN", "value_name": "77020040035"})}, 7710),
        ({"attributes": attributes({"id": "GTIN", "value_name": "7702004003509"})}, 7711),
        ({"attributes": attributes({"id": "GTIN", "value_name": "0000000000000"})}, 3701),
        ({"attributes": attributes({"id": "ITEM_CONDITION", "value_name": "Nuevo"})}, 3510),
        ({"attributes": attributes({"id": "WITH_WHEELS", "value_name": "Yes"})}, 3510),
        ({"attributes": attributes({"id": "CAPACITY", "value_name": "40"})}, 344),
        ({"attributes": attributes({"id": "UNITS_PER_PACK", "value_name": "two"})}, 3708),
        ({"attributes": attributes({"id": "BRAND", "value_name": "x" * 256})}, 154),
        ({"attributes": attributes({"id": "SELLER_PACKAGE_WIDTH", "value_name": "2.5 cm"})}, 5402),
        ({"attributes": attributes({"id": "SELLER_PACKAGE_WIDTH", "value_name": "25 in"})}, 5401),
        ({"sale_terms": [{"id": "WARRANTY_TIME", "value_name": "90"}]}, 344),
        ({"sale_terms": [{"id": "WARRANTY_TYPE", "value_id": "1"}]}, 3510),
        ({"sale_terms": [{"id": "MANUFACTURING_TIME", "value_name": "61 días"}]}, 0),
        ({"listing_type_id": "platinum"}, 0),
        ({"listing_type_id": "free"}, 0),
        ({"available_quantity": 100_000}, 0),
    ],
)
def test_what_is_wrong_is_told_by_its_cause(changes: dict[str, Any], cause_id: int) -> None:
    shop = Shop()
    reply = shop.create(**changes)
    assert reply.status == 400
    assert reply.body["error"] == "validation_error"
    assert reply.cause_ids() == [cause_id]
    assert shop.call("GET", "/sandbox/counters").body["created"] == 0


def test_every_cause_is_collected_and_warnings_come_along() -> None:
    reply = Shop().create(price=1, family_name="x", currency_id="EUR", category_id="MCO990001")
    assert reply.cause_ids() == [109, 147, 1001, 3705]
    assert 4053 in reply.cause_ids("warning")


def test_required_attributes_are_named_between_brackets() -> None:
    reply = Shop().create(category_id="MCO990001")
    message = next(cause["message"] for cause in reply.body["cause"] if cause["cause_id"] == 147)
    assert "[BRAND, MODEL]" in message


def test_not_applicable_is_taken_except_where_required() -> None:
    brand = {"id": "BRAND", "value_id": "-1", "value_name": None}
    model = {"id": "MODEL", "value_name": "X1"}
    assert Shop().create(attributes=attributes(brand)).status == 201
    refused = Shop().create(category_id="MCO990001", attributes=attributes(brand, model))
    assert refused.cause_ids() == [100]


def test_values_that_are_not_used_are_dropped_with_a_warning() -> None:
    reply = Shop().create(
        attributes=attributes(
            {"id": "NO_SUCH", "value_name": "x"},
            {"id": "PRODUCT_DATA_SOURCE", "value_name": "x"},
            {"id": "SELLER_PACKAGE_WEIGHT", "value_name": "200"},
        )
    )
    assert reply.status == 201
    assert {301, 303, 306} <= {warning["cause_id"] for warning in reply.body["warnings"]}
    assert [value["id"] for value in reply.body["attributes"]] == ["SELLER_SKU"]


def test_missing_sheet_attributes_and_restricted_brands_are_warnings() -> None:
    reply = Shop().create(attributes=attributes({"id": "BRAND", "value_name": "Nike"}))
    found = {warning["cause_id"]: warning["message"] for warning in reply.body["warnings"]}
    assert "[MODEL]" in found[3704]
    assert 3250 in found
    strict = Shop().create(category_id="MCO990008", attributes=attributes({"id": "BRAND", "value_name": "Nike"}))
    assert strict.cause_ids() == [3250]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("price", "189900"),
        ("price", True),
        ("price", None),
        ("available_quantity", 1.5),
        ("available_quantity", "5"),
        ("pictures", {}),
        ("pictures", [7]),
        ("attributes", "x"),
        ("attributes", [7]),
        ("attributes", [{"id": "BRAND", "value_name": 7}]),
        ("channels", [10**40]),
        ("shipping", []),
        ("family_name", 5),
    ],
)
def test_a_wrong_type_is_told_alone(field: str, value: Any) -> None:
    reply = Shop().create(**{field: value})
    assert reply.status == 400
    assert reply.body["message"] == "body.invalid_field_types"
    assert field in reply.body["error"]
    assert reply.body["cause"] == []


@pytest.mark.parametrize("field", ["exclusive_channel", "unknown"])
def test_an_unknown_field_is_refused(field: str) -> None:
    changes: dict[str, Any] = {field: 1}
    reply = Shop().create(**changes)
    assert (reply.status, reply.body["message"]) == (400, "body.invalid_fields")
    assert f"[{field}]" in reply.body["error"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b"{" * 5000, b"[" * 200_000])
def test_a_body_that_is_no_object_is_a_400(raw: bytes) -> None:
    reply = Shop().call("POST", "/items", raw)
    assert (reply.status, reply.body["error"]) == (400, "json_parse_error")


def test_a_migrated_category_is_replaced_with_a_warning() -> None:
    reply = Shop().create(category_id="MCO195399")
    assert reply.body["category_id"] == "MCO195301"
    assert 382 in {warning["cause_id"] for warning in reply.body["warnings"]}


def test_the_free_type_needs_no_picture_and_takes_one_unit() -> None:
    reply = Shop().create(listing_type_id="free", available_quantity=1, pictures=[])
    assert reply.status == 201
    assert reply.body["status"] == "active"


def test_long_titles_are_taken_where_the_category_allows_them() -> None:
    assert Shop().create(category_id="MCO990005", family_name="Repuesto " * 20).status == 201


def test_a_user_that_may_not_list_gets_403_with_plain_causes() -> None:
    shop = Shop()
    shop.call("POST", f"/sandbox/users/{USER}", {"list_allow": False, "list_codes": ["address_pending"]})
    reply = shop.create()
    assert reply.status == 403
    assert reply.body == {
        "message": "seller.unable_to_list",
        "error": "User is unable to list.",
        "status": 403,
        "cause": ["address_pending"],
    }
    assert shop.call("GET", "/users/me").body["status"]["list"]["allow"] is False


def test_validate_publishes_nothing_and_may_answer_400_with_warnings_only() -> None:
    shop = Shop()
    sheet = attributes({"id": "BRAND", "value_name": "Acme"}, {"id": "MODEL", "value_name": "X1"})
    fine = item_body(attributes=sheet, price=50_000)
    clean = shop.call("POST", "/items/validate", fine)
    assert (clean.status, clean.answer.body) == (204, b"")
    warned = shop.call("POST", "/items/validate", item_body(price=50_000))
    assert (warned.status, warned.cause_ids(), warned.cause_ids("warning")) == (400, [], [3704])
    shop.call("POST", f"/sandbox/users/{USER}", {"lost_me1": True})
    assert shop.call("POST", "/items/validate", fine).cause_ids("warning") == [4053]
    assert shop.call("POST", "/items/validate", item_body(price=1)).cause_ids() == [109]
    assert shop.call("GET", "/sandbox/counters").body["created"] == 0


# Reading


def test_multiget_answers_a_code_for_each_id() -> None:
    shop = Shop()
    item_id = shop.publish()
    reply = shop.call("GET", f"/items?ids={item_id},MCO9")
    assert [part["code"] for part in reply.body] == [200, 404]
    assert reply.body[0]["body"]["id"] == item_id
    assert reply.body[1]["body"]["error"] == "not_found"
    selected = shop.call("GET", f"/items?ids={item_id}&attributes=id,status").body[0]["body"]
    assert selected == {"id": item_id, "status": "active"}


def test_multiget_takes_twenty_ids_and_only_the_first_parameter() -> None:
    shop = Shop()
    assert shop.call("GET", "/items?ids=" + ",".join(f"MCO{n}" for n in range(20))).status == 200
    assert shop.call("GET", "/items?ids=" + ",".join(f"MCO{n}" for n in range(21))).status == 400
    assert len(shop.call("GET", "/items?ids=MCO1&ids=MCO2").body) == 1


def test_stock_is_shown_to_the_owner_only() -> None:
    shop = Shop()
    item_id = shop.publish()
    other = shop.call("GET", f"/items/{item_id}", token="APP_USR-x-7").body
    assert "available_quantity" not in other
    assert "available_quantity" in shop.item(item_id)


def test_an_unknown_item_is_404_in_the_marketplaces_words() -> None:
    reply = Shop().call("GET", "/items/MCO9")
    assert reply.body == {"message": "Item with id MCO9 not found", "error": "not_found", "status": 404, "cause": []}


# Changing


def test_price_and_stock_change_and_the_answer_is_the_item() -> None:
    shop = Shop()
    item_id = shop.publish()
    reply = shop.call("PUT", f"/items/{item_id}", {"price": 200_000, "available_quantity": 0})
    assert (reply.status, reply.body["price"]) == (200, 200_000)
    assert (reply.body["status"], reply.body["sub_status"]) == ("paused", ["out_of_stock"])
    assert shop.call("PUT", f"/items/{item_id}", {"available_quantity": 3}).body["status"] == "active"


def test_a_pause_by_the_seller_outlives_stock_and_ends_with_active() -> None:
    shop = Shop()
    item_id = shop.publish()
    assert shop.call("PUT", f"/items/{item_id}", {"status": "paused"}).body["sub_status"] == ["paused_by_seller"]
    assert shop.call("PUT", f"/items/{item_id}", {"available_quantity": 9}).body["status"] == "paused"
    assert shop.call("PUT", f"/items/{item_id}", {"status": "active"}).body["status"] == "active"


def test_closed_is_final_and_comes_before_deleted() -> None:
    shop = Shop(delete_conflict_seconds=5.0)
    item_id = shop.publish()
    early = shop.call("PUT", f"/items/{item_id}", {"deleted": "true"})
    assert early.status == 400
    assert shop.call("PUT", f"/items/{item_id}", {"status": "closed"}).body["status"] == "closed"
    again = shop.call("PUT", f"/items/{item_id}", {"status": "active"})
    assert (again.status, again.body["message"]) == (
        400,
        f"Cannot update item {item_id} [status:closed, has_bids:false]",
    )
    assert again.body["cause"][0]["message"] == "status is not modifiable"
    assert shop.call("PUT", f"/items/{item_id}", {"deleted": "true"}).status == 409
    shop.clock.pass_seconds(5)
    assert shop.call("PUT", f"/items/{item_id}", {"deleted": "true"}).body["sub_status"] == ["deleted"]


def test_automatic_prices_are_not_modifiable() -> None:
    shop = Shop()
    item_id = shop.publish(pictures=[{"source": "https://images.example/sandbox-autoprice.jpg"}])
    alone = shop.call("PUT", f"/items/{item_id}", {"price": 300_000})
    assert (alone.status, alone.body["message"]) == (400, "item.price.not_modifiable")
    mixed = shop.call("PUT", f"/items/{item_id}", {"price": 300_000, "available_quantity": 2})
    assert (mixed.status, mixed.body["price"], mixed.body["available_quantity"]) == (200, 189_900, 2)
    assert mixed.body["warnings"][0]["code"] == "item.price.not_modifiable"


def test_a_moderated_item_takes_new_pictures_or_closing_only() -> None:
    shop = Shop()
    item_id = shop.publish(pictures=[{"source": "https://images.example/sandbox-review.jpg"}])
    refused = shop.call("PUT", f"/items/{item_id}", {"price": 200_000})
    assert (refused.status, "status:under_review" in refused.body["message"]) == (400, True)
    patched = shop.call("PUT", f"/items/{item_id}", {"pictures": [{"source": "https://images.example/good.jpg"}]})
    assert patched.body["sub_status"] == ["picture_download_pending"]
    shop.clock.pass_seconds(2)
    assert shop.item(item_id)["status"] == "active"


def test_a_forbidden_item_is_deleted_at_once() -> None:
    shop = Shop()
    item_id = shop.publish()
    shop.call("POST", f"/sandbox/items/{item_id}", {"status": "under_review", "sub_status": ["forbidden"]})
    assert shop.call("PUT", f"/items/{item_id}", {"deleted": "true"}).body["sub_status"] == ["deleted"]


def test_nothing_changes_when_a_part_is_refused() -> None:
    shop = Shop()
    item_id = shop.publish()
    reply = shop.call("PUT", f"/items/{item_id}", {"available_quantity": 9, "price": 1})
    assert reply.cause_ids() == [109]
    assert shop.item(item_id)["available_quantity"] == 5


@pytest.mark.parametrize("field", ["category_id", "currency_id", "listing_type_id", "buying_mode"])
def test_some_fields_never_change(field: str) -> None:
    shop = Shop()
    item_id = shop.publish()
    reply = shop.call("PUT", f"/items/{item_id}", {field: "x"})
    assert (reply.status, reply.body["cause"][0]["code"]) == (400, "field_not_updatable")


def test_pictures_attributes_and_terms_change() -> None:
    shop = Shop()
    item_id = shop.publish(sale_terms=[{"id": "WARRANTY_TYPE", "value_id": "2230280"}])
    assert shop.call("PUT", f"/items/{item_id}", {"pictures": []}).cause_ids() == [173]
    reply = shop.call(
        "PUT",
        f"/items/{item_id}",
        {
            "pictures": [{"source": "https://images.example/b.jpg"}, {"source": "https://images.example/c.jpg"}],
            "attributes": [{"id": "BRAND", "value_name": "Acme"}],
            "sale_terms": [{"id": "WARRANTY_TIME", "value_name": "90 días"}],
        },
    )
    assert len(reply.body["pictures"]) == 2
    assert {value["id"] for value in reply.body["attributes"]} == {"SELLER_SKU", "BRAND"}
    assert [term["id"] for term in reply.body["sale_terms"]] == ["WARRANTY_TYPE", "WARRANTY_TIME"]


def test_the_sku_can_change_and_the_search_follows() -> None:
    shop = Shop()
    item_id = shop.publish()
    shop.call("PUT", f"/items/{item_id}", {"attributes": attributes(sku="B0NEW00000"), "seller_custom_field": "f2"})
    assert shop.search("seller_sku=B07N4M94X4")["results"] == []
    assert shop.search("seller_sku=B0NEW00000")["results"] == [item_id]
    assert shop.search("sku=f2")["results"] == [item_id]


def test_title_and_family_name_change_in_their_model_only() -> None:
    shop = Shop()
    item_id = shop.publish()
    assert shop.call("PUT", f"/items/{item_id}", {"title": "Otra maleta"}).body["message"] == "body.invalid_fields"
    changed = shop.call("PUT", f"/items/{item_id}", {"family_name": "Otra maleta"}).body
    assert (changed["family_name"], changed["title"]) == ("Otra maleta", "Otra maleta")


def test_somebody_elses_item_cannot_be_changed() -> None:
    shop = Shop()
    item_id = shop.publish()
    assert shop.call("PUT", f"/items/{item_id}", {"price": 5000}, token="APP_USR-x-7").status == 403


def test_the_listing_type_changes_by_its_own_call() -> None:
    shop = Shop()
    item_id = shop.publish()
    reply = shop.call("POST", f"/items/{item_id}/listing_type", {"id": "gold_pro"})
    assert reply.body["listing_type_id"] == "gold_pro"
    assert shop.call("POST", f"/items/{item_id}/listing_type", {"id": "x"}).status == 400


def test_price_resources_tell_the_price() -> None:
    shop = Shop()
    item_id = shop.publish()
    assert shop.call("GET", f"/items/{item_id}/prices").body["prices"][0]["amount"] == 189_900
    assert shop.call("GET", f"/items/{item_id}/sale_price?context=channel_marketplace").body["amount"] == 189_900


# Search


def test_a_new_item_is_invisible_until_the_index_caught_up() -> None:
    shop = Shop(index_lag_seconds=2.0)
    item_id = shop.create().body["id"]
    shop.clock.pass_seconds(1.9)
    assert shop.search("seller_sku=B07N4M94X4")["results"] == []
    shop.clock.pass_seconds(0.2)
    found = shop.search("seller_sku=B07N4M94X4")
    assert found["results"] == [item_id]
    assert found["seller_id"] == str(USER)
    assert found["paging"] == {"limit": 50, "offset": 0, "total": 1}


def test_search_by_custom_field_status_and_order() -> None:
    shop = Shop()
    first, second = shop.publish("B000000001"), shop.publish("B000000002")
    shop.call("PUT", f"/items/{first}", {"status": "closed"})
    assert shop.search("sku=B000000001")["results"] == [first]
    assert shop.search("status=active")["results"] == [second]
    assert shop.search("status=active,closed&orders=start_time_desc")["results"] == [second, first]
    assert shop.search("")["results"] == [first, second]
    assert shop.search("listing_type_id=gold_pro")["results"] == []
    assert shop.search("missing_product_identifiers=true")["results"] == [first, second]
    assert shop.search("tags=user_product_listing")["results"] == [first, second]


def test_closed_items_can_be_kept_out_of_searches() -> None:
    shop = Shop(search_returns_closed=False)
    item_id = shop.publish()
    shop.call("PUT", f"/items/{item_id}", {"status": "closed"})
    assert shop.search("seller_sku=B07N4M94X4")["results"] == []


def test_offset_paging_ends_at_a_thousand_and_scan_goes_on() -> None:
    shop = Shop()
    ids = [shop.create(f"B{n:09d}").body["id"] for n in range(1050)]
    shop.clock.pass_seconds(5)
    assert shop.search("limit=100&offset=900")["results"] == ids[900:1000]
    assert shop.call("GET", f"/users/{USER}/items/search?limit=100&offset=950").status == 400
    assert shop.call("GET", f"/users/{USER}/items/search?limit=101").status == 400
    assert shop.call("GET", f"/users/{USER}/items/search?limit=x").status == 400
    seen: list[str] = []
    page = shop.search("search_type=scan&limit=100")
    while page["scroll_id"] is not None:
        seen += page["results"]
        page = shop.search(f"search_type=scan&limit=100&scroll_id={page['scroll_id']}")
    assert seen == ids
    assert page["results"] == []


def test_scrolls_expire_never_mix_with_offset_and_are_limited() -> None:
    shop = Shop()
    shop.publish()
    target = f"/users/{USER}/items/search?search_type=scan"
    scroll = shop.search("search_type=scan")["scroll_id"]
    assert shop.call("GET", f"{target}&offset=0").status == 400
    shop.clock.pass_seconds(301)
    assert shop.call("GET", f"{target}&scroll_id={scroll}").status == 400
    statuses = [shop.call("GET", target).status for _ in range(11)]
    assert statuses == [200] * 10 + [429]


def test_somebody_elses_items_cannot_be_searched() -> None:
    assert Shop().call("GET", "/users/7/items/search").status == 403


# Descriptions


def test_a_description_is_created_once_and_then_replaced() -> None:
    shop = Shop()
    item_id = shop.publish()
    place = f"/items/{item_id}/description"
    assert shop.call("GET", place).status == 404
    assert shop.call("PUT", f"{place}?api_version=2", {"plain_text": "x"}).status == 404
    assert shop.call("POST", place, {"plain_text": "Primera\nlínea"}).status == 201
    assert shop.call("POST", place, {"plain_text": "otra"}).status == 400
    assert shop.call("PUT", place, {"plain_text": "otra"}).status == 400
    assert shop.call("PUT", f"{place}?api_version=2", {"plain_text": "otra"}).status == 200
    assert shop.call("GET", place).body["plain_text"] == "otra"


@pytest.mark.parametrize(
    ("text", "position"), [("a <b>", 2), ("x>", 1), ("hola \U0001f600", 5), ("estrella ★", 9), ("a\x07", 1)]
)
def test_a_description_is_plain_text(text: str, position: int) -> None:
    shop = Shop()
    item_id = shop.publish()
    reply = shop.call("POST", f"/items/{item_id}/description", {"plain_text": text})
    assert reply.cause_ids() == [398]
    assert reply.body["cause"][0]["references"] == [f"plain_text[{position}]"]


def test_a_description_has_a_length_and_a_name() -> None:
    shop = Shop()
    item_id = shop.publish()
    place = f"/items/{item_id}/description"
    assert shop.call("POST", place, {"plain_text": "a" * 50_001}).cause_ids() == [3707]
    assert shop.call("POST", place, {"text": "a"}).cause_ids("warning") == [310]
    assert shop.call("POST", place, {}).body["message"] == "body.invalid_field_types"
    assert shop.call("POST", place, {"plain_text": "a" * 50_000}).status == 201


# Pictures


def multipart(content: bytes, name: str = "file") -> tuple[bytes, str]:
    head = f'--cut\r\nContent-Disposition: form-data; name="{name}"; filename="a.jpg"\r\n\r\n'
    return head.encode() + content + b"\r\n--cut--\r\n", "multipart/form-data; boundary=cut"


def test_an_uploaded_picture_can_be_used_by_its_id() -> None:
    shop = Shop()
    body, content_type = multipart(b"\xff\xd8\xff\xe0rest")
    uploaded = shop.call("POST", "/pictures/items/upload", body, content_type=content_type)
    assert uploaded.status == 201
    picture = {"id": uploaded.body["id"]}
    created = shop.create(pictures=[picture])
    assert created.body["pictures"][0]["id"] == picture["id"]
    added = shop.call("POST", f"/items/{created.body['id']}/pictures", picture)
    assert (added.status, len(shop.item(created.body["id"])["pictures"])) == (200, 2)


@pytest.mark.parametrize(("content", "name"), [(b"GIF89a", "file"), (b"\xff\xd8\xff", "photo")])
def test_an_upload_is_a_picture_in_the_right_field(content: bytes, name: str) -> None:
    body, content_type = multipart(content, name)
    assert Shop().call("POST", "/pictures/items/upload", body, content_type=content_type).status == 400


def test_a_failed_picture_tells_why() -> None:
    shop = Shop()
    item_id = shop.publish(pictures=[{"source": "https://images.example/sandbox-closed.jpg"}])
    picture_id = shop.item(item_id)["pictures"][0]["id"]
    assert "response_code" in shop.call("GET", f"/pictures/{picture_id}/errors").body["error"]["message"]
    assert shop.call("GET", "/pictures/none/errors").status == 404


def test_category_of_the_helper_is_a_leaf_of_the_tree() -> None:
    assert Shop().call("GET", f"/categories/{LUGGAGE}").body["children_categories"] == []
