"""Reading what the marketplace answers. All of it is hostile input (rule 31).

Nothing here raises, whatever the bytes: a body that is no JSON, or lacks what makes it usable, reads as
None, and single members of the wrong type or size read as unknown. Texts lose control characters
(PostgreSQL takes no NUL, terminals take too many others) and are cut; identifiers must match in full.

Shapes: reference sections 1.2, 2, 3.4, 3.8, 4, 5 and 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from core.ports.marketplace import Listing, Prediction, Profile, SellerModel

MAX_CAUSES = 20
"""Causes and warnings kept of one answer."""
MAX_TEXT = 300
"""Characters kept of one message."""
MAX_PRICE = 10**12
MAX_TITLE = 300

LISTING_ID = re.compile(r"[A-Z]{3}[0-9]{1,17}", re.ASCII)
CATEGORY_ID = re.compile(r"[A-Z]{3}[0-9]{1,17}", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
_CODE = re.compile(r"[A-Za-z0-9_.\-]{1,100}", re.ASCII)
_URL = re.compile(r"https?://[\x21-\x7e]{1,2000}", re.ASCII)
_SECRET = re.compile(r"[\x21-\x7e]{1,2048}", re.ASCII)
"""Visible ASCII only: a token becomes part of a header."""
_TOKEN = re.compile(r"(?:APP_USR|TG)-[A-Za-z0-9_\-]*", re.ASCII)

T = TypeVar("T")


def clean(value: object, limit: int) -> str:
    """A text without control characters, at most ``limit`` long; empty when it is no text."""
    if type(value) is not str:
        return ""
    if len(value) > limit:
        value = value[:limit]
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else " " for c in value).strip()


def _quoted(value: object, limit: int = MAX_TEXT) -> str:
    """A text that is shown to people: an answer may quote the token it refuses, which must not travel on."""
    text = clean(value, limit)
    return _TOKEN.sub("[redacted]", text) if "-" in text else text


def _matching(pattern: re.Pattern[str], value: object) -> str:
    return value if type(value) is str and pattern.fullmatch(value) else ""


def _integer(value: object, limit: int) -> int | None:
    """A whole number from 0 to ``limit``, also when told as 1.0; None for anything else."""
    if type(value) is int:
        return value if 0 <= value <= limit else None
    if type(value) is float and 0 <= value <= limit and value.is_integer():
        return int(value)
    return None


def _time(value: object) -> datetime | None:
    """An ISO 8601 time with an offset, in UTC."""
    if type(value) is not str or len(value) > 40:
        return None
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _decode(body: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[T]) -> T | None:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class _Item(msgspec.Struct, gc=False):
    """The members used of an item; typed Any so that one odd member does not lose the rest."""

    id: Any = None
    title: Any = None
    family_name: Any = None
    category_id: Any = None
    price: Any = None
    listing_type_id: Any = None
    permalink: Any = None
    pictures: Any = None
    thumbnail: Any = None
    secure_thumbnail: Any = None
    attributes: Any = None
    seller_custom_field: Any = None
    status: Any = None
    sub_status: Any = None
    date_created: Any = None
    warnings: Any = None


class _Attribute(msgspec.Struct, gc=False):
    id: Any = None
    value_name: Any = None


class _Picture(msgspec.Struct, gc=False):
    url: Any = None
    secure_url: Any = None


class _UsualItem(_Item, gc=False):
    """An item whose lists hold objects, as they should: read without the members that are not used."""

    pictures: list[_Picture] | None = None
    attributes: list[_Attribute] | None = None


_USUAL_ITEM = msgspec.json.Decoder(_UsualItem)
_ODD_ITEM = msgspec.json.Decoder(_Item)


class _Entry(msgspec.Struct):
    code: Any = None
    body: msgspec.Raw = msgspec.Raw(b"null")


_ENTRIES = msgspec.json.Decoder(list[_Entry])


def _read_item(body: bytes | msgspec.Raw) -> _Item | None:
    usual = _decode(body, _USUAL_ITEM)
    if usual is not None:
        return usual
    odd = _decode(body, _ODD_ITEM)
    if odd is not None:
        # Only what has the usual shape is used of lists with something odd in them.
        odd.pictures = _convertible(odd.pictures, _Picture)
        odd.attributes = _convertible(odd.attributes, _Attribute)
    return odd


def _convertible(values: object, kind: type[T]) -> list[T]:
    return [msgspec.convert(value, kind) for value in values if type(value) is dict] if type(values) is list else []


def _sku(item: _Item) -> str:
    """Attribute SELLER_SKU; where the answer carries no such attribute, the legacy custom field."""
    for attribute in item.attributes or ():
        if attribute.id == "SELLER_SKU":
            return clean(attribute.value_name, 64)
    return clean(item.seller_custom_field, 64)


def _image(item: _Item) -> str:
    if item.pictures:
        first = item.pictures[0]
        url = _matching(_URL, first.secure_url) or _matching(_URL, first.url)
        if url:
            return url
    return _matching(_URL, item.secure_thumbnail) or _matching(_URL, item.thumbnail)


def _warning(value: object) -> str:
    if type(value) is dict:
        code, message = _matching(_CODE, value.get("code")), _quoted(value.get("message"))
        return f"{code}: {message}" if code and message else code or message
    return _quoted(value)


def _word(value: object) -> str:
    return _matching(_WORD, value)


def _told(values: object, read: Callable[[object], str]) -> list[str]:
    """What can be read of a list, which has most often nothing in it."""
    if not values or type(values) is not list:
        return []
    return [text for text in map(read, values[:MAX_CAUSES]) if text]


def _listing(item: _Item | None) -> Listing | None:
    if item is None:
        return None
    listing_id = _matching(LISTING_ID, item.id)
    if not listing_id:
        return None
    return Listing(
        listing_id=listing_id,
        sku=_sku(item),
        status=_matching(_WORD, item.status),
        sub_status=_told(item.sub_status, _word),
        permalink=_matching(_URL, item.permalink),
        title=clean(item.title, MAX_TITLE) or clean(item.family_name, MAX_TITLE),
        price=_integer(item.price, MAX_PRICE),
        category_id=_matching(CATEGORY_ID, item.category_id),
        listing_type_id=_matching(_WORD, item.listing_type_id),
        image=_image(item),
        created_at=_time(item.date_created),
        warnings=_told(item.warnings, _warning),
    )


def read_listing(body: bytes) -> Listing | None:
    """An item; None when unreadable or without a well-formed id."""
    return _listing(_read_item(body))


def read_listings(body: bytes) -> list[tuple[int, Listing | None]] | None:
    """A multiget's entries in order: code and, where readable, the listing. None when unreadable."""
    entries = _decode(body, _ENTRIES)
    if entries is None:
        return None
    return [(_integer(entry.code, 999) or 0, _listing(_read_item(entry.body))) for entry in entries[:100]]


def read_search(body: bytes) -> tuple[list[str], int] | None:
    """Ids of a page and the total; None when unreadable. Malformed ids are left out, but counted where no total is
    told."""
    found = _decode(body, _ANY)
    if type(found) is not dict or type(found.get("results")) is not list:
        return None
    ids = [
        listing_id for listing_id in (_matching(LISTING_ID, value) for value in found["results"][:1000]) if listing_id
    ]
    paging = found.get("paging")
    total = _integer(paging.get("total"), 10**9) if type(paging) is dict else None
    return ids, len(found["results"]) if total is None else total


def read_prediction(body: bytes) -> tuple[Prediction | None] | None:
    """The best suggestion, or ``(None,)`` when there is none; None when unreadable."""
    found = _decode(body, _ANY)
    if type(found) is not list:
        return None
    for suggestion in found[:8]:
        if type(suggestion) is dict:
            category_id = _matching(CATEGORY_ID, suggestion.get("category_id"))
            if category_id:
                return (Prediction(category_id=category_id, category_name=clean(suggestion.get("category_name"), 200)),)
    return (None,) if not found else None


@dataclass(frozen=True, slots=True)
class Category:
    """What is used of a category; limits are None where not told."""

    name: str
    max_title_length: int | None
    max_pictures: int | None


def read_category(body: bytes, category_id: str) -> Category | None:
    """A category; None when unreadable or another one."""
    found = _decode(body, _ANY)
    if type(found) is not dict or found.get("id") != category_id:
        return None
    settings = found.get("settings")
    if type(settings) is not dict:
        settings = {}
    return Category(
        name=clean(found.get("name"), 200),
        max_title_length=_integer(settings.get("max_title_length"), MAX_TITLE) or None,
        max_pictures=_integer(settings.get("max_pictures_per_item"), 100) or None,
    )


def read_profile(body: bytes) -> tuple[int, Profile] | None:
    """The user's id and profile; None when unreadable. Only an explicit "no" takes ``may_list`` away."""
    found = _decode(body, _ANY)
    if type(found) is not dict or type(found.get("id")) is not int:
        return None
    status = found.get("status")
    listing = status.get("list") if type(status) is dict else None
    tags = found.get("tags")
    return found["id"], Profile(
        nickname=clean(found.get("nickname"), 100),
        site_id=clean(found.get("site_id"), 10),
        may_list=not (type(listing) is dict and listing.get("allow") is False),
        model=SellerModel.USER_PRODUCT if type(tags) is list and "user_product_seller" in tags else SellerModel.CLASSIC,
    )


@dataclass(frozen=True, slots=True, repr=False)
class TokenPair:
    """A token answer. Has no repr so that no log can show it. ``user_id`` None: not told."""

    access_token: str
    refresh_token: str
    expires_in: int
    user_id: int | None


def read_tokens(body: bytes) -> TokenPair | None:
    """A new pair; None when unreadable or incomplete. A missing refresh token reads as empty."""
    found = _decode(body, _ANY)
    if type(found) is not dict:
        return None
    access = _matching(_SECRET, found.get("access_token"))
    lifetime = _integer(found.get("expires_in"), 10**9)
    user_id = found.get("user_id")
    if not access or not lifetime:
        return None
    return TokenPair(
        access_token=access,
        refresh_token=_matching(_SECRET, found.get("refresh_token")),
        expires_in=lifetime,
        user_id=user_id if type(user_id) is int else None,
    )


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """One cause as told. ``cause_id`` None: not told."""

    cause_id: int | None
    code: str
    message: str
    is_warning: bool
    references: Sequence[str]


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An error body of any of the known variants; all empty when unreadable."""

    error: str
    message: str
    code: str
    causes: Sequence[ErrorCause]

    def mentions(self, *words: str) -> bool:
        """Whether one of the words (lower case) stands anywhere in it."""
        texts = [self.error, self.message, self.code]
        for cause in self.causes:
            texts += (cause.code, cause.message)
        text = "\n".join(texts).lower()
        return any(word in text for word in words)


_NO_ERROR = ErrorBody("", "", "", ())


def read_error(body: bytes) -> ErrorBody:
    """Whatever an error body tells. Code and text may stand in ``error``, ``message``,
    ``error_description`` or ``code``; causes may be objects, strings, one string, or absent."""
    found = _decode(body, _ANY)
    if type(found) is not dict:
        return _NO_ERROR
    told = found.get("cause")
    if type(told) is not list:
        told = [] if told is None else [told]
    causes = [cause for cause in map(_cause, told[: 5 * MAX_CAUSES]) if cause is not None]
    # A long list of warnings must not push the error that matters out of what is kept.
    causes.sort(key=lambda cause: cause.is_warning)
    return ErrorBody(
        error=_quoted(found.get("error")),
        message=_quoted(found.get("message")) or _quoted(found.get("error_description")),
        code=_matching(_CODE, found.get("code")),
        causes=causes[:MAX_CAUSES],
    )


def _cause(value: object) -> ErrorCause | None:
    if type(value) is str:
        code = _matching(_CODE, value)
        return ErrorCause(None, code, "" if code else _quoted(value), False, ())
    if type(value) is not dict:
        return None
    cause_id = value.get("cause_id")
    if type(cause_id) is str and cause_id.isascii() and cause_id.isdigit() and len(cause_id) <= 6:
        cause_id = int(cause_id)
    references = value.get("references")
    return ErrorCause(
        _integer(cause_id, 10**6),
        _matching(_CODE, value.get("code")),
        _quoted(value.get("message")),
        value.get("type") == "warning",
        [_quoted(text, 100) for text in references[:5] if type(text) is str] if type(references) is list else (),
    )
