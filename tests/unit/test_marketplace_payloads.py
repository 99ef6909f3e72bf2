"""Bodies as the reference wants them (sections 3.1 to 3.5 and 3.8)."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.marketplace.payloads import (
    MAX_DESCRIPTION,
    Form,
    create_body,
    cut_title,
    description_body,
    gtin_is_valid,
    plain_description,
    update_body,
)
from core.ports.marketplace import ListingDraft, SellerModel

USER_PRODUCT = Form(model=SellerModel.USER_PRODUCT)
CLASSIC = Form(model=SellerModel.CLASSIC)
DRAFT = ListingDraft(
    sku="B07N4M94X4",
    title="Taladro percutor 13 mm",
    category_id="MCO1055",
    price=189900,
    listing_type_id="gold_special",
    quantity=5,
    image_urls=["https://host/a.jpg", "https://host/b.jpg"],
    warranty_time="90 días",
    manufacturing_time_days=20,
    brand="Acme",
    model="X1",
    gtin="7702004003508",
    weight_grams=214,
)


def body_of(draft: ListingDraft, form: Form = USER_PRODUCT) -> dict[str, Any]:
    decoded = json.loads(create_body(draft, "COP", form))
    assert isinstance(decoded, dict)
    return decoded


def attributes_of(draft: ListingDraft, form: Form = USER_PRODUCT) -> dict[str, str]:
    return {
        attribute["id"]: attribute.get("value_name") or attribute["value_id"]
        for attribute in body_of(draft, form)["attributes"]
    }


def test_the_whole_body() -> None:
    assert body_of(DRAFT) == {
        "family_name": "Taladro percutor 13 mm",
        "category_id": "MCO1055",
        "price": 189900,
        "currency_id": "COP",
        "available_quantity": 5,
        "buying_mode": "buy_it_now",
        "condition": "new",
        "listing_type_id": "gold_special",
        "pictures": [{"source": "https://host/a.jpg"}, {"source": "https://host/b.jpg"}],
        "attributes": [
            {"id": "BRAND", "value_name": "Acme"},
            {"id": "MODEL", "value_name": "X1"},
            {"id": "GTIN", "value_name": "7702004003508"},
            {"id": "SELLER_SKU", "value_name": "B07N4M94X4"},
            {"id": "ITEM_CONDITION", "value_id": "2230284"},
            {"id": "SELLER_PACKAGE_WEIGHT", "value_name": "214 g"},
        ],
        "sale_terms": [
            {"id": "WARRANTY_TYPE", "value_id": "2230280"},
            {"id": "WARRANTY_TIME", "value_name": "90 días"},
            {"id": "MANUFACTURING_TIME", "value_name": "20 días"},
        ],
        "channels": ["marketplace"],
        "seller_custom_field": "B07N4M94X4",
    }


def test_the_classic_model_differs_in_the_name_of_the_name_alone() -> None:
    classic, user_product = body_of(DRAFT, CLASSIC), body_of(DRAFT)
    assert classic.pop("title") == user_product.pop("family_name")
    assert classic == user_product
    assert "title" not in user_product
    assert "family_name" not in classic


def test_nothing_is_invented_for_a_bare_product() -> None:
    bare = ListingDraft(
        sku="B07N4M94X4",
        title="Taladro",
        category_id="MCO1055",
        price=1,
        listing_type_id="free",
        quantity=1,
        image_urls=[],
    )
    body = body_of(bare)
    assert body["pictures"] == []
    assert "sale_terms" not in body
    assert attributes_of(bare) == {"SELLER_SKU": "B07N4M94X4", "ITEM_CONDITION": "2230284"}


@pytest.mark.parametrize(
    "gtin", ["7702004003509", "0000000000000", "12345", "770200400350X", "７702004003508", " 7702004003508"]
)
def test_a_bad_gtin_is_dropped_and_a_reason_given(gtin: str) -> None:
    attributes = attributes_of(msgspec.structs.replace(DRAFT, gtin=gtin))
    assert "GTIN" not in attributes
    assert attributes["EMPTY_GTIN_REASON"] == "17055161"


def test_the_rebuilt_form_gives_a_reason_in_place_of_the_gtin() -> None:
    attributes = attributes_of(DRAFT, dataclasses.replace(USER_PRODUCT, without_gtin=True))
    assert "GTIN" not in attributes
    assert attributes["EMPTY_GTIN_REASON"] == "17055161"


@pytest.mark.parametrize("gtin", ["7702004003508", "96385074", "036000291452", "00012345600012", "4006381333931"])
def test_good_gtins(gtin: str) -> None:
    assert gtin_is_valid(gtin)
    assert attributes_of(msgspec.structs.replace(DRAFT, gtin=gtin))["GTIN"] == gtin


@given(st.text(alphabet="0123456789", min_size=7, max_size=15))
def test_exactly_one_check_digit_fits(digits: str) -> None:
    fitting = [last for last in "0123456789" if gtin_is_valid(digits + last)]
    right_length = len(digits) + 1 in (8, 12, 13, 14)
    assert len(fitting) == (1 if right_length and digits.strip("0") else 0)


def test_at_most_twelve_pictures_or_the_categorys_number() -> None:
    many = msgspec.structs.replace(DRAFT, image_urls=[f"https://host/{n}.jpg" for n in range(20)])
    assert len(body_of(many)["pictures"]) == 12
    assert len(body_of(many, dataclasses.replace(USER_PRODUCT, max_pictures=6))["pictures"]) == 6
    assert len(body_of(many, dataclasses.replace(USER_PRODUCT, max_pictures=40))["pictures"]) == 12


def test_weight_is_whole_grams_and_left_out_when_unknown() -> None:
    assert attributes_of(DRAFT)["SELLER_PACKAGE_WEIGHT"] == "214 g"
    assert "SELLER_PACKAGE_WEIGHT" not in attributes_of(msgspec.structs.replace(DRAFT, weight_grams=None))
    assert "SELLER_PACKAGE_WEIGHT" not in attributes_of(msgspec.structs.replace(DRAFT, weight_grams=0))


def test_long_attribute_values_are_cut() -> None:
    assert len(attributes_of(msgspec.structs.replace(DRAFT, brand="a" * 300))["BRAND"]) == 255


@pytest.mark.parametrize(
    ("title", "limit", "expected"),
    [
        ("Taladro percutor", 60, "Taladro percutor"),
        ("Taladro percutor", 16, "Taladro percutor"),
        ("Taladro percutor", 15, "Taladro"),
        ("Taladro percutor", 7, "Taladro"),
        ("Taladro", 3, "Tal"),
        ("  Taladro \n percutor\t13  mm ", 60, "Taladro percutor 13 mm"),
        ("Taladro - percutor", 10, "Taladro"),
        ("Taladro (percutor industrial)", 20, "Taladro (percutor"),
        ("LEGO® City™ tren", 60, "LEGO City tren"),
        ("Cafe\u0301 molido", 60, "Café molido"),
        ("\u202eTaladro\x00", 60, "Taladro"),
        ("", 60, ""),
        ("日本語" * 30, 60, ("日本語" * 30)[:60]),
    ],
)
def test_titles_are_cut_at_a_word_boundary(title: str, limit: int, expected: str) -> None:
    assert cut_title(title, limit) == expected


@given(st.text(max_size=400), st.integers(min_value=1, max_value=200))
def test_any_title_fits_and_cutting_twice_changes_nothing(title: str, limit: int) -> None:
    cut = cut_title(title, limit)
    assert len(cut) <= limit
    assert cut.isprintable()
    assert cut_title(cut, limit) == cut


def test_the_title_of_300_characters_fits_the_category() -> None:
    long = msgspec.structs.replace(DRAFT, title="palabra " * 40)
    assert len(body_of(long)["family_name"]) <= 60
    assert 100 < len(body_of(long, dataclasses.replace(USER_PRODUCT, title_limit=120))["family_name"]) <= 120


def test_update_sends_price_stock_and_pictures() -> None:
    assert json.loads(update_body(DRAFT)) == {
        "price": 189900,
        "available_quantity": 5,
        "pictures": [{"source": "https://host/a.jpg"}, {"source": "https://host/b.jpg"}],
    }
    assert "pictures" not in json.loads(update_body(msgspec.structs.replace(DRAFT, image_urls=[])))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Uno\nDos", "Uno\nDos"),
        ("Uno\r\nDos\rTres", "Uno\nDos\nTres"),
        ("<p>Uno</p><p>Dos<br/>Tres</p>", "Uno\nDos\nTres"),
        ("<ul><li>Uno</li><li>Dos &amp; tres</li></ul>", "Uno\nDos & tres"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;hola", "alert(1) hola"),
        ("3 < 5 > 2", "3 5 2"),
        ("Listo 🎉👍🏽 ya ✅", "Listo ya"),
        ("25 °C, 5 €, ½ — ñandú", "25 °C, 5 €, ½ — ñandú"),
        ("a\x00b\x07c\u200bd", "a b cd"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        ("  ", ""),
        ("🎉", ""),
    ],
)
def test_descriptions_are_made_plain(text: str, expected: str) -> None:
    assert plain_description(text) == expected


@given(st.text(max_size=300))
def test_any_description_becomes_plain(text: str) -> None:
    plain = plain_description(text)
    assert "<" not in plain
    assert ">" not in plain
    assert all(c == "\n" or c.isprintable() for c in plain)
    assert json.loads(description_body(plain)) == {"plain_text": plain}


def test_a_long_description_is_cut() -> None:
    assert len(plain_description("palabra " * 20_000)) <= MAX_DESCRIPTION


@pytest.mark.parametrize("text", ["<" * 200_000, "<br" * 60_000, "<a " * 60_000, "&lt;" * 50_000])
def test_descriptions_made_to_be_slow_are_not(text: str) -> None:
    assert len(plain_description(text)) <= MAX_DESCRIPTION
