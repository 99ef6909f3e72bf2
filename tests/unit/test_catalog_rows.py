"""One row of a product file: what is taken, what is refused, and that no value is quoted."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from core.catalog.rows import COLUMNS, MAX_DESCRIPTION, MAX_NAME, MAX_TITLE, RowError, judge

GOOD: dict[str, Any] = {
    "sku": "B014TMV5YE",
    "title": "Maleta",
    "category": "Equipaje",
    "cost_usd": "139.99",
    "image_url": "https://images.example.com/a.jpg",
}


def refused(**changes: Any) -> list[tuple[str, str]]:
    with pytest.raises(RowError) as caught:
        judge(GOOD | changes)
    return list(caught.value.places)


def test_a_good_row_becomes_a_product() -> None:
    product, notes = judge(
        GOOD
        | {
            "image_url": "https://images.example.com/a.jpg | https://images.example.com/b.png|",
            "brand": " Acme ",
            "model": "X1",
            "gtin": "7702004-003508",
            "weight_grams": "1200",
            "description": "Line one\nLine two",
        }
    )
    assert product.sku == "B014TMV5YE"
    assert product.cost_usd == Decimal("139.99")
    assert product.image_urls == ("https://images.example.com/a.jpg", "https://images.example.com/b.png")
    assert (product.brand, product.model, product.gtin, product.weight_grams) == ("Acme", "X1", "7702004003508", 1200)
    assert product.description == "Line one\nLine two"
    assert notes == []


def test_what_a_real_catalogue_lacks_is_taken() -> None:
    product, notes = judge(GOOD | {"cost_usd": "", "image_url": "", "category": "", "title": "x" * 300})
    assert product.cost_usd is None
    assert product.image_urls == ()
    assert product.weight_grams is None
    assert product.description is None
    assert len(product.title) == 300
    assert notes == []


@pytest.mark.parametrize(
    "sku", ["", "B014TMV5Y", "B014TMV5YEE", "B014TMV5Y ", " B014TMV5YE", "B014TMV5YE\n", "B014TMV5Y٣", "Ｂ014TMV5YE"]
)
def test_a_sku_of_another_form_is_refused(sku: str) -> None:
    assert refused(sku=sku) == [("sku", "must be exactly 10 ASCII letters or digits")]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("0", "0"),
        ("0.00", "0"),
        ("42.0", "42"),
        ("19.990000", "19.99"),
        ("99999999.9999", "99999999.9999"),
        (" 7 ", "7"),
    ],
)
def test_costs_that_are_taken(text: str, cost: str) -> None:
    assert judge(GOOD | {"cost_usd": text})[0].cost_usd == Decimal(cost)


@pytest.mark.parametrize(
    "text",
    ["-1", "1e3", "NaN", "Infinity", "1,50", "$5", "1.00001", "100000000", "٣", "5.", ".5", "0x10", "1 000", "+1"],
)
def test_costs_that_are_refused(text: str) -> None:
    places = refused(cost_usd=text)
    assert [column for column, _ in places] == ["cost_usd"]
    assert "decimal number" in places[0][1]


@pytest.mark.parametrize(
    ("value", "cost"),
    [
        (5, "5"),
        (Decimal("19.99"), "19.99"),
        (Decimal("1E+2"), "100"),
        (Decimal("1.5E+1"), "15"),
        (None, None),
        ("", None),
    ],
)
def test_costs_from_json(value: object, cost: str | None) -> None:
    found = judge(GOOD | {"cost_usd": value})[0].cost_usd
    assert found == (None if cost is None else Decimal(cost))


@pytest.mark.parametrize(
    "value",
    [
        True,
        [],
        {},
        -3,
        10**400,
        Decimal("NaN"),
        Decimal("1E+999999"),
        Decimal("0E+999999999999"),
        Decimal("1E-999999999999"),
    ],
)
def test_costs_from_json_that_are_refused(value: object) -> None:
    assert [column for column, _ in refused(cost_usd=value)] == ["cost_usd"]


@pytest.mark.parametrize("weight", ["-1", "1.5", "12g", "99999999999", "٣", True, 2.5])
def test_weights_that_are_refused(weight: object) -> None:
    assert [column for column, _ in refused(weight_grams=weight)] == ["weight_grams"]


@pytest.mark.parametrize(
    "url", ["ftp://x/a.jpg", "images.example.com/a.jpg", "https://x/ä.jpg", "https://x/a b.jpg", "javascript:alert(1)"]
)
def test_image_addresses_that_are_refused(url: str) -> None:
    assert [column for column, _ in refused(image_url=f"https://images.example.com/a.jpg|{url}")] == ["image_url"]


def test_too_many_or_too_long_image_addresses_are_refused() -> None:
    assert refused(image_url="|".join(["https://x/a.jpg"] * 101))[0][0] == "image_url"
    assert refused(image_url="https://x/" + "a" * 2000)[0][0] == "image_url"


@pytest.mark.parametrize("gtin", ["123", "8.85E+12", "ABCDEFGH", "123456789", "１２３４５６７８"])
def test_an_identifier_that_is_none_is_left_out_and_told(gtin: str) -> None:
    product, notes = judge(GOOD | {"gtin": gtin})
    assert product.gtin is None
    assert notes == [("gtin", "left out: a GTIN has 8 or 12 to 14 digits")]


def test_lengths_are_bounded() -> None:
    assert refused(title="x" * (MAX_TITLE + 1)) == [("title", f"must have 1 to {MAX_TITLE} characters")]
    assert refused(title=" ") == [("title", f"must have 1 to {MAX_TITLE} characters")]
    assert refused(brand="x" * (MAX_NAME + 1))[0][0] == "brand"
    assert refused(description="x" * (MAX_DESCRIPTION + 1))[0][0] == "description"
    assert judge(GOOD | {"title": "x" * MAX_TITLE})[0].title == "x" * MAX_TITLE


@pytest.mark.parametrize("column", ["title", "category", "brand", "model", "description", "gtin"])
def test_text_the_database_cannot_hold_is_refused(column: str) -> None:
    assert refused(**{column: "a\0b"}) == [(column, "must not contain NUL")]
    assert refused(**{column: "a\ud800"}) == [(column, "must be valid UTF-8")]
    rule = "must be a number or text" if column == "gtin" else "must be text"
    assert refused(**{column: 1.5}) == [(column, rule)]


@pytest.mark.parametrize("column", ["cost_usd", "weight_grams", "gtin"])
def test_a_column_of_numbers_says_what_it_takes(column: str) -> None:
    assert refused(**{column: True}) == [(column, "must be a number or text")]


def test_every_wrong_column_is_named_in_order_and_no_value_quoted() -> None:
    wrong = {"sku": "secret value", "cost_usd": "secret value", "weight_grams": "secret value", "title": ""}
    places = refused(**wrong)
    assert [column for column, _ in places] == ["sku", "title", "cost_usd", "weight_grams"]
    assert "secret" not in str(places)


def test_a_missing_column_counts_as_empty() -> None:
    with pytest.raises(RowError) as caught:
        judge({"cost_usd": "1"})
    assert [column for column, _ in caught.value.places] == ["sku", "title"]


def test_any_row_is_taken_or_refused() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    pieces = ["", "0", "B014TMV5YE", "1.5", "\0", "\ud800", "https://x/a", "|", "é", "\n", '"', "9" * 400, "-", " "]
    taken = 0
    for _ in range(3_000):
        row: dict[str, Any] = {
            column: "".join(dice.choices(pieces, k=dice.randrange(3)))
            if dice.random() < 0.8
            else dice.choice([None, 1, True, 1.5, [], ["x"], {}, Decimal("1.5")])
            for column in dice.sample(COLUMNS, dice.randrange(len(COLUMNS) + 1))
        }
        if dice.random() < 0.7:
            row |= {"sku": "B014TMV5YE", "title": "t"}
        try:
            product, _ = judge(row)
        except RowError as error:
            assert error.places
            continue
        taken += 1
        assert product.sku.isascii()
        assert product.title
    assert taken > 0
