"""One row of a product file: from text to a product, or to what is wrong with it.

Columns: ``sku,title,category,cost_usd,image_url`` and optionally ``brand,model,gtin,weight_grams,description``
(decisions, section 8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from core.domain.product import Product
from core.domain.sku import SKU_RULE, is_sku

REQUIRED: Final = ("sku", "title", "category", "cost_usd", "image_url")
OPTIONAL: Final = ("brand", "model", "gtin", "weight_grams", "description")
COLUMNS: Final = REQUIRED + OPTIONAL

MAX_TITLE = 2_000
"""Titles of real catalogues run to several hundred characters; the connector shortens them for the marketplace."""
MAX_CATEGORY = 500
MAX_NAME = 255
"""Of brand and model: the marketplace takes no longer attribute values (reference, section 3.2)."""
MAX_DESCRIPTION = 50_000
MAX_IMAGES = 100
MAX_IMAGE_URL = 2_000
MAX_WEIGHT_GRAMS = 1_000_000_000

_COST = re.compile(r"([0-9]{1,8})(?:\.([0-9]{1,40}))?", re.ASCII)
_COST_PLACES = 4
_LARGEST_EXPONENT = 1_000
"""Written out, a number with one of a billion fills the memory."""
_WHOLE = re.compile(r"[0-9]{1,10}", re.ASCII)
_GTIN = re.compile(r"[0-9]{8}|[0-9]{12,14}", re.ASCII)
_IMAGE_URL = re.compile(r"https?://[!-~]+", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")

_COST_RULE = f"must be a decimal number from 0 to 99999999.9999 with at most {_COST_PLACES} places, or empty"
_WEIGHT_RULE = f"must be a whole number of grams from 0 to {MAX_WEIGHT_GRAMS}, or empty"
_IMAGE_RULE = (
    f"must hold http or https addresses of at most {MAX_IMAGE_URL} ASCII characters, separated by |, "
    f"at most {MAX_IMAGES} of them"
)
_TEXT_RULE = "must be text"
_NUMBER_RULE = "must be a number or text"
GTIN_NOTE = "left out: a GTIN has 8 or 12 to 14 digits"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong at one place of a file. ``line`` counts from 1 and is where the row begins; ``column`` is empty
    when the whole row is meant; ``rule`` never quotes the value."""

    line: int
    column: str
    rule: str


class RowError(Exception):
    """A row that cannot become a product. ``places``: (column, rule) of each offending value."""

    def __init__(self, *places: tuple[str, str]) -> None:
        super().__init__(f"{len(places)} values not valid")
        self.places = places


def judge(row: Mapping[str, Any]) -> tuple[Product, list[tuple[str, str]]]:
    """The product of a row, and notes about values left out of it.

    Args:
        row: values by column; text as in CSV, and for JSON also numbers, null, and a list of addresses. A column
            that is absent counts as empty.

    Raises:
        RowError: names every offending column, in the order of ``COLUMNS``.
    """
    wrong: list[tuple[str, str]] = []
    notes: list[tuple[str, str]] = []

    def take(column: str, read: Callable[[Any], Any], *, empty: Any = None) -> Any:
        value = row.get(column)
        try:
            return empty if value is None else read(value)
        except ValueError as error:
            wrong.append((column, str(error)))
            return empty

    def gtin(value: Any) -> str | None:
        digits = _numeric(str(value) if _is_whole(value) else value).replace(" ", "").replace("-", "")
        if digits and _GTIN.fullmatch(digits) is None:
            notes.append(("gtin", GTIN_NOTE))
            return None
        return digits or None

    product = Product(
        sku=take("sku", _sku, empty=""),
        title=take("title", lambda value: _bounded(value, 1, MAX_TITLE), empty=""),
        category=take("category", lambda value: _bounded(value, 0, MAX_CATEGORY), empty=""),
        cost_usd=take("cost_usd", _cost),
        image_urls=take("image_url", _images, empty=()),
        brand=take("brand", lambda value: _bounded(value, 0, MAX_NAME) or None),
        model=take("model", lambda value: _bounded(value, 0, MAX_NAME) or None),
        gtin=take("gtin", gtin),
        weight_grams=take("weight_grams", _weight),
        description=take("description", lambda value: _bounded(value, 0, MAX_DESCRIPTION) or None),
    )
    present = {column for column, _ in wrong}
    wrong += [
        (column, rule)
        for column, value, rule in (
            ("sku", product.sku, SKU_RULE),
            ("title", product.title, f"must have 1 to {MAX_TITLE} characters"),
        )
        if not value and column not in present
    ]
    if wrong:
        raise RowError(*sorted(wrong, key=lambda place: COLUMNS.index(place[0])))
    return product, notes


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: Any) -> str:
    """The value, stripped, if it is text that the database can hold."""
    if not isinstance(value, str):
        raise ValueError(_TEXT_RULE)  # noqa: TRY004 - a rule the file breaks, told as every other
    if "\0" in value:
        raise ValueError("must not contain NUL")
    # Bytes that are no UTF-8 arrive as lone surrogates, and so do lone surrogate escapes of JSON.
    if _SURROGATE.search(value):
        raise ValueError("must be valid UTF-8")
    return value.strip()


def _numeric(value: Any) -> str:
    """As ``_text``, for a column that takes numbers too."""
    if not isinstance(value, str):
        raise ValueError(_NUMBER_RULE)  # noqa: TRY004 - as above
    return _text(value)


def _bounded(value: Any, shortest: int, longest: int) -> str:
    text = _text(value)
    if not shortest <= len(text) <= longest:
        rule = (
            f"must have {shortest} to {longest} characters" if shortest else f"must have at most {longest} characters"
        )
        raise ValueError(rule)
    return text


def _sku(value: Any) -> str:
    # Not stripped: requests name SKUs exactly, so a blank around one here is an error to be told.
    if not isinstance(value, str) or is_sku(value) is None:
        raise ValueError(SKU_RULE)
    return value


def _cost(value: Any) -> Decimal | None:
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    if not isinstance(exponent, int) or abs(exponent) > _LARGEST_EXPONENT:
        raise ValueError(_COST_RULE)
    if isinstance(value, Decimal) or _is_whole(value):
        text = format(value, "f") if isinstance(value, Decimal) else str(value)
    else:
        text = _numeric(value)
    if not text:
        return None
    match = _COST.fullmatch(text)
    # More places than the table keeps would be rounded in silence.
    if match is None or (match.group(2) or "")[_COST_PLACES:].strip("0"):
        raise ValueError(_COST_RULE)
    return Decimal(f"{match.group(1)}.{(match.group(2) or '0')[:_COST_PLACES]}")


def _weight(value: Any) -> int | None:
    text = str(value) if _is_whole(value) else _numeric(value)
    if not text:
        return None
    if _WHOLE.fullmatch(text) is None or int(text) > MAX_WEIGHT_GRAMS:
        raise ValueError(_WEIGHT_RULE)
    return int(text)


def _images(value: Any) -> tuple[str, ...]:
    parts = value if isinstance(value, list) else _text(value).split("|")
    urls = tuple(filter(None, (_text(part) for part in parts)))
    if len(urls) > MAX_IMAGES or any(len(url) > MAX_IMAGE_URL or _IMAGE_URL.fullmatch(url) is None for url in urls):
        raise ValueError(_IMAGE_RULE)
    return urls
