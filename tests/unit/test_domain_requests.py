"""What a request means: every offending place, in order, with the codes of the contract."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.publication import (
    Item,
    PromotionRequest,
    PublicationRequest,
    judge_items,
    judge_options,
    judge_schedule,
    judge_skus,
    split_repeated,
)
from core.domain.seller import LISTING_TYPES
from core.domain.sku import is_category_id, is_sku, is_uuid
from core.errors import MAX_VIOLATIONS

GOOD = Item("B07N4M94X4", "MCO1055", None)
SKU, CATEGORY, CONFLICT, BODY = (
    "E_PRODUCT_INVALID_SKU",
    "E_CATEGORY_INVALID",
    "E_CATEGORY_AND_AUTO_CONFLICT",
    "E_PRODUCT_INVALID_BODY",
)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (GOOD, []),
        (Item("b07n4m94x4", None, True), []),
        (Item("B07N4M94X4", "MCO1055", False), []),
        (Item("B07N4M94X", "MCO1055", None), [("/items/0/sku", SKU)]),
        (Item("B07N4M94X4\n", "MCO1055", None), [("/items/0/sku", SKU)]),
        (Item("B07N4M94X\u0664", "MCO1055", None), [("/items/0/sku", SKU)]),
        (Item("\uff2207N4M94X4", "MCO1055", None), [("/items/0/sku", SKU)]),
        (Item("B07N4M94X4", "MCO", None), [("/items/0/category_id", CATEGORY)]),
        (Item("B07N4M94X4", "mco1055", None), [("/items/0/category_id", CATEGORY)]),
        (Item("B07N4M94X4", "MCO10\u0665", None), [("/items/0/category_id", CATEGORY)]),
        (Item("B07N4M94X4", "", None), [("/items/0/category_id", CATEGORY)]),
        (Item("B07N4M94X4", "MCO1055", True), [("/items/0/auto_categorize", CONFLICT)]),
        (Item("B07N4M94X4", None, None), [("/items/0", BODY)]),
        (Item("B07N4M94X4", None, False), [("/items/0", BODY)]),
        (
            Item("", "x", True),
            [("/items/0/sku", SKU), ("/items/0/category_id", CATEGORY), ("/items/0/auto_categorize", CONFLICT)],
        ),
    ],
)
def test_an_item_is_judged_place_by_place(item: Item, expected: list[tuple[str, str]]) -> None:
    assert [(each.pointer, each.code) for each in judge_items([item])] == expected


def test_one_place_more_than_a_problem_lists_comes_back_from_the_first_on() -> None:
    found = judge_items([GOOD, *[Item("x", "x", True)] * 50])

    assert len(found) == MAX_VIOLATIONS + 1
    assert found[0].pointer == "/items/1/sku"
    assert len(judge_skus(["x"] * 500)) == MAX_VIOLATIONS + 1


@given(st.text(max_size=12))
def test_the_fast_way_through_the_items_agrees_with_the_form(text: str) -> None:
    assert (judge_items([Item(text, None, True)]) == []) == bool(is_sku(text))
    assert (judge_items([Item("B07N4M94X4", text, None)]) == []) == bool(is_category_id(text))


def test_the_first_of_a_repeated_sku_wins_and_case_matters() -> None:
    items = [Item(sku, None, True) for sku in ("AAAAAAAAA1", "aaaaaaaaa1", "AAAAAAAAA1", "AAAAAAAAA2", "AAAAAAAAA1")]

    assert [(each.position, each.sku) for each in split_repeated(items)] == [(2, "AAAAAAAAA1"), (4, "AAAAAAAAA1")]
    assert split_repeated(items[:2]) == ()


def test_options_are_judged_in_the_documented_order() -> None:
    found = judge_options(listing_type_id="platinum", tax_category_id=3, tax_indices=[0, 1])

    assert [each.pointer for each in found] == ["/listing_type_id", "/tax_category_id"]
    for listing_type in LISTING_TYPES:
        assert judge_options(listing_type_id=listing_type, tax_category_id=1, tax_indices=[0, 1]) == []
    assert judge_options(listing_type_id=None, tax_category_id=None, tax_indices=[]) == []
    assert judge_options(listing_type_id="", tax_category_id=-1, tax_indices=[0])[0].code == BODY


def test_a_schedule_is_judged_against_the_time_given() -> None:
    now = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)

    assert judge_schedule(None, now) == (None, [])
    assert judge_schedule("2026-12-01T10:05", now)[0] == datetime(2026, 12, 1, 10, 5, tzinfo=UTC)
    assert [each.pointer for each in judge_schedule("2026-12-01T10:04", now)[1]] == ["/scheduled_for"]


def test_every_malformed_sku_of_a_promotion_is_named() -> None:
    found = judge_skus(["B07N4M94X4", "x", "B07N4M94X4\n"])
    assert [each.pointer for each in found] == ["/sku_list/skus/1", "/sku_list/skus/2"]


def test_a_fingerprint_tells_requests_apart_by_what_they_mean() -> None:
    base = PublicationRequest(items=[GOOD])
    variants = [
        PublicationRequest(items=[GOOD], tax_category_id=0),
        PublicationRequest(items=[GOOD], listing_type_id="gold_special"),
        PublicationRequest(items=[GOOD], scheduled_for="2026-12-01T10:05"),
        PublicationRequest(items=[GOOD, GOOD]),
        PublicationRequest(items=[Item("B07N4M94X5", "MCO1055", None)]),
    ]
    prints = {each.fingerprint() for each in [base, *variants]}

    assert len(prints) == len(variants) + 1
    assert base.fingerprint() == PublicationRequest(items=(GOOD,), idempotency_key="x").fingerprint()
    assert PromotionRequest(skus=None).fingerprint() != PromotionRequest(skus=[]).fingerprint()


@pytest.mark.parametrize(
    "text", ["", "0" * 32, "{01890a5d-ac96-774b-bcce-b302099a8057}", "01890a5d-ac96-774b-bcce-b302099a8057\n"]
)
def test_a_uuid_has_one_form(text: str) -> None:
    assert is_uuid(text) is None
    assert is_uuid("01890A5D-ac96-774b-bcce-b302099a8057") is not None
