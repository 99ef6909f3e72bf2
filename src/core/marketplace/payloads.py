"""What is sent: bodies of both seller models, encoded once. Facts: reference, sections 3.1 to 3.5 and 3.8.

Nothing is invented to please the marketplace: what the product does not have is left out, and the
marketplace says whether it can do without.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

import msgspec

from core.ports.marketplace import ListingDraft, SellerModel

DEFAULT_TITLE_LENGTH = 60
"""Of most categories; used while the category's own limit is not known."""
MAX_PICTURES = 12
MAX_DESCRIPTION = 50_000
MAX_ATTRIBUTE_VALUE = 255

CONDITION_NEW = "2230284"
WARRANTY_BY_SELLER = "2230280"
NO_GTIN_OTHER_REASON = "17055161"
"""EMPTY_GTIN_REASON "other": the one reason that claims nothing about the product."""

_ENCODE = msgspec.json.Encoder().encode
_CONDITION_ATTRIBUTE = {"id": "ITEM_CONDITION", "value_id": CONDITION_NEW}
_NO_GTIN_ATTRIBUTE = {"id": "EMPTY_GTIN_REASON", "value_id": NO_GTIN_OTHER_REASON}
_WARRANTY_TERM = {"id": "WARRANTY_TYPE", "value_id": WARRANTY_BY_SELLER}
_CHANNELS = ["marketplace"]
_GTIN = re.compile(r"[0-9]{8}|[0-9]{12,14}", re.ASCII)
_TRADE_MARKS = {ord(sign): None for sign in "®™©℠"}


def gtin_is_valid(gtin: str) -> bool:
    """Whether it is a GTIN-8, -12, -13 or -14 whose check digit is right; all zeros is a placeholder."""
    if _GTIN.fullmatch(gtin) is None or not gtin.strip("0"):
        return False
    # From the right, every second digit weighs 3. The bytes of ASCII digits are 48 too large each.
    digits = gtin.encode("ascii")
    every_second = digits[-2::-2]
    weighted = sum(digits[::-2]) + 3 * sum(every_second) - 48 * (len(digits) + 2 * len(every_second))
    return weighted % 10 == 0


def plain_title(title: str) -> str:
    """A title on one line without trade mark signs and control characters."""
    if title.isascii() and title.isprintable() and "  " not in title:
        return title.strip()
    text = unicodedata.normalize("NFC", title.translate(_TRADE_MARKS))
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def cut_title(title: str, limit: int) -> str:
    """The title, cut at the last word boundary that fits; a first word that is too long is cut itself."""
    title = plain_title(title)
    if len(title) <= limit:
        return title
    space = title.rfind(" ", 0, limit + 1)
    cut = title[:space] if space > 0 else title[:limit]
    # A dash or an opening bracket before the cut leads nowhere.
    return cut.rstrip(" ,;:.-–—/|+&([{") or cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a draft is put into a body; a rebuild changes the form, never the draft."""

    model: SellerModel
    title_limit: int = DEFAULT_TITLE_LENGTH
    max_pictures: int = MAX_PICTURES
    without_gtin: bool = False
    """Send the reason for having no GTIN instead of one."""


def create_body(draft: ListingDraft, currency: str, form: Form) -> bytes:
    """The body of POST /items.

    A GTIN whose check digit is wrong is not sent; a reason for its absence is. A product that has none
    says nothing about it, until the marketplace asks (``Form.without_gtin``).
    """
    attributes: list[dict[str, str]] = []
    if draft.brand:
        attributes.append({"id": "BRAND", "value_name": draft.brand[:MAX_ATTRIBUTE_VALUE]})
    if draft.model:
        attributes.append({"id": "MODEL", "value_name": draft.model[:MAX_ATTRIBUTE_VALUE]})
    gtin = draft.gtin
    if form.without_gtin or (gtin and not gtin_is_valid(gtin)):
        attributes.append(_NO_GTIN_ATTRIBUTE)
    elif gtin:
        attributes.append({"id": "GTIN", "value_name": gtin})
    attributes.append({"id": "SELLER_SKU", "value_name": draft.sku})
    attributes.append(_CONDITION_ATTRIBUTE)
    if draft.weight_grams is not None and draft.weight_grams > 0:
        attributes.append({"id": "SELLER_PACKAGE_WEIGHT", "value_name": f"{draft.weight_grams} g"})

    body: dict[str, Any] = {
        "family_name" if form.model is SellerModel.USER_PRODUCT else "title": cut_title(draft.title, form.title_limit),
        "category_id": draft.category_id,
        "price": draft.price,
        "currency_id": currency,
        "available_quantity": draft.quantity,
        "buying_mode": "buy_it_now",
        "condition": "new",
        "listing_type_id": draft.listing_type_id,
        "pictures": _pictures(draft, form.max_pictures),
        "attributes": attributes,
        "channels": _CHANNELS,
        "seller_custom_field": draft.sku,
    }
    terms: list[dict[str, str]] = []
    if draft.warranty_time:
        terms.append(_WARRANTY_TERM)
        terms.append({"id": "WARRANTY_TIME", "value_name": draft.warranty_time})
    if draft.manufacturing_time_days > 0:
        terms.append({"id": "MANUFACTURING_TIME", "value_name": f"{draft.manufacturing_time_days} días"})
    if terms:
        body["sale_terms"] = terms
    return _ENCODE(body)


def update_body(draft: ListingDraft, max_pictures: int = MAX_PICTURES) -> bytes:
    """The body of PUT /items/{id}: price, stock and, when the product has any, pictures (an update that
    takes the last picture away is refused)."""
    body: dict[str, Any] = {"price": draft.price, "available_quantity": draft.quantity}
    pictures = _pictures(draft, max_pictures)
    if pictures:
        body["pictures"] = pictures
    return _ENCODE(body)


CLOSE_BODY = b'{"status":"closed"}'


def _pictures(draft: ListingDraft, limit: int) -> list[dict[str, str]]:
    return [{"source": url} for url in draft.image_urls[: min(limit, MAX_PICTURES)]]


_BREAKS = re.compile(r"<\s*(?:br|/p|/div|/li|/ul|/ol|/tr|/h[1-6])\b[^<>]{0,200}>", re.IGNORECASE)
_TAGS = re.compile(r"</?[a-zA-Z!][^<>]{0,2000}>")
_BLANK_LINES = re.compile(r"\n{3,}")


def plain_description(text: str) -> str:
    """A description as the marketplace takes it: plain text with line feeds, no tags, no angle brackets,
    no pictographs, at most MAX_DESCRIPTION characters. May be empty."""
    # Longer input is cut first: what follows takes time by length.
    text = text[: 4 * MAX_DESCRIPTION].replace("\r\n", "\n").replace("\r", "\n")
    text = html.unescape(_TAGS.sub(" ", _BREAKS.sub("\n", text)))
    # Entities may have hidden more tags.
    text = _TAGS.sub(" ", _BREAKS.sub("\n", text))
    text = "".join(c if c.isascii() else _plain_character(c) for c in text)
    text = text.replace("<", " ").replace(">", " ")
    lines = (" ".join(_printable(line).split()) for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()[:MAX_DESCRIPTION].rstrip()


def _printable(line: str) -> str:
    return line if line.isprintable() else "".join(c if c.isprintable() else " " for c in line)


def _plain_character(character: str) -> str:
    """The character, or nothing for pictographs, what only modifies them, and unassigned ones."""
    category = unicodedata.category(character)
    if category in {"Cs", "Co", "Cn", "Cf"} or "\ufe00" <= character <= "\ufe0f":
        return ""
    if category in {"So", "Sk"} and ord(character) > 0x24F:
        return ""
    return character


def description_body(text: str) -> bytes:
    """The body of POST and PUT /items/{id}/description for a text already plain."""
    return _ENCODE({"plain_text": text})
