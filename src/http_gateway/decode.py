"""Strict JSON bodies to typed values (contract, request tables; decisions, section 2 "Types are strict").

Two ways with one answer. The *quick* way is a typed decode at C speed plus a proof that nothing was
overlooked; it takes every body that ordinary clients send. Whatever the quick way cannot prove goes the
*exact* way, which is slower, knows every rule, and lists every offending place.

The proof: without a backslash in the body each ``"`` opens or closes a string, so half their number is
the number of strings in the body. The decoded value accounts for a known number of them: one name per
member present and one value per text. A repeated or unknown member adds at least its own name, so equal
counts mean that every byte of the body is accounted for: no repeated names, no unknown members, hence no
deep nesting, no odd numbers, no hidden text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from core.errors import MAX_VIOLATIONS, Violation

MAX_ITEMS: Final = 10_000
"""Items per job and SKUs per promote call (contract, "Limits"; decisions, section 2)."""
MAX_DEPTH: Final = 32
"""Nested arrays and objects, the outermost one counted (failure rules, 55)."""
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

_CODE = "E_PRODUCT_INVALID_BODY"


class MalformedRequest(Exception):  # noqa: N818 - names what is refused
    """A request that is not of the agreed shape.

    ``violations`` holds every offending place in the documented order, at least one, and at most one more
    than a problem lists, which is how the problem knows that there are more.
    """

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__(f"{len(violations)} offending place(s)")
        self.violations = violations[: MAX_VIOLATIONS + 1]


class PublicationItem(msgspec.Struct, gc=False):
    """One product to publish, as sent. UNSET and ``None`` both mean "absent"."""

    sku: str
    category_id: str | UnsetType | None = UNSET
    auto_categorize: bool | UnsetType | None = UNSET


class CreateJobBody(msgspec.Struct, gc=False):
    """Body of ``POST /products``: 1 to 10,000 items and the shared options, types checked."""

    items: list[PublicationItem]
    listing_type_id: str | UnsetType | None = UNSET
    tax_category_id: int | UnsetType | None = UNSET
    scheduled_for: str | UnsetType | None = UNSET


class PromoteBody(msgspec.Struct, gc=False):
    """Body of ``POST /products/test/promote``, types checked. ``skus`` is absent or holds 1 to 10,000."""

    skus: list[str] | UnsetType | None = UNSET
    listing_type_id: str | UnsetType | None = UNSET
    tax_category_id: int | UnsetType | None = UNSET


def violation(detail: str, pointer: str = "", *, parameter: str = "") -> Violation:
    """An offending place under the code that every error of shape has (decisions, section 2)."""
    return Violation(code=_CODE, detail=detail, pointer=pointer, parameter=parameter)


def decode_create_job(body: bytes) -> CreateJobBody:
    """The body of ``POST /products``.

    Raises:
        MalformedRequest: it is not JSON of the agreed shape; all places are listed.
    """
    quick = _quick_create_job(body)
    if quick is not None:
        return quick
    places = _Places()
    members = _parse_object(body, _CREATE_JOB)
    items = _items(members.get("items"), places)
    result = CreateJobBody(
        items=items,
        listing_type_id=_text(members, "listing_type_id", "", places),
        tax_category_id=_integer(members, "tax_category_id", places),
        scheduled_for=_text(members, "scheduled_for", "", places),
    )
    places.raise_if_any()
    return result


def decode_promote(body: bytes) -> PromoteBody:
    """The body of ``POST /products/test/promote``; no body at all is the same as ``{}``.

    Raises:
        MalformedRequest: it is not JSON of the agreed shape; all places are listed.
    """
    if not body:
        return PromoteBody()
    quick = _quick_promote(body)
    if quick is not None:
        return quick
    places = _Places()
    members = _parse_object(body, _PROMOTE)
    result = PromoteBody(
        skus=_skus(members.get("skus"), places),
        listing_type_id=_text(members, "listing_type_id", "", places),
        tax_category_id=_integer(members, "tax_category_id", places),
    )
    places.raise_if_any()
    return result


# --- the quick way -------------------------------------------------------------------------------------

_create_job_decoder = msgspec.json.Decoder(CreateJobBody, strict=True)
_promote_decoder = msgspec.json.Decoder(PromoteBody, strict=True)


def _plain(body: bytes) -> bool:
    """Whether the body is UTF-8 without any escape, so that quotes can be counted."""
    if b"\\" in body:
        return False
    if body.isascii():
        return True
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _option_strings(*options: str | int | UnsetType | None) -> int:
    """Strings that shared options account for: a name when present, and a value when it is text."""
    present = sum(option is not UNSET for option in options)
    return present + sum(isinstance(option, str) for option in options)


def _in_int64(value: int | UnsetType | None) -> bool:
    return not isinstance(value, int) or INT64_MIN <= value <= INT64_MAX


def _quick_create_job(body: bytes) -> CreateJobBody | None:
    """The decoded body, or ``None`` when it has to be looked at exactly."""
    if not _plain(body):
        return None
    try:
        value = _create_job_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    items = value.items
    count = len(items)
    if not 1 <= count <= MAX_ITEMS or not _in_int64(value.tax_category_id):
        return None
    categories = [item.category_id for item in items]
    autos = [item.auto_categorize for item in items]
    # Per item: "sku" and its text; "category_id" and its text unless null; "auto_categorize".
    absent, nulls = categories.count(UNSET), categories.count(None)
    strings = 2 * count + 2 * (count - absent) - nulls + (count - autos.count(UNSET))
    options = _option_strings(value.listing_type_id, value.tax_category_id, value.scheduled_for)
    if body.count(b'"') != 2 * (1 + strings + options):
        return None
    return value


def _quick_promote(body: bytes) -> PromoteBody | None:
    """The decoded body, or ``None`` when it has to be looked at exactly."""
    if not _plain(body):
        return None
    try:
        value = _promote_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not _in_int64(value.tax_category_id):
        return None
    strings = _option_strings(value.listing_type_id, value.tax_category_id)
    if isinstance(value.skus, list):
        if not 1 <= len(value.skus) <= MAX_ITEMS:
            return None
        strings += 1 + len(value.skus)
    elif value.skus is None:
        strings += 1
    if body.count(b'"') != 2 * strings:
        return None
    return value


# --- the exact way: from bytes to JSON values ----------------------------------------------------------

_BOM = b"\xef\xbb\xbf"
# The closing quote is optional so that an unterminated string is one match, not a search from each of
# its characters: a body of eight million `\"` must not take quadratic time.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_INSIDE = "somewhere inside: "
_FORBIDDEN_CHARACTER = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known at one place of a body: an object's members, or an array's entries, or a plain value."""

    members: Mapping[str, Shape] = field(default_factory=dict)
    entries: Shape | None = None


def _shape(type_: type[msgspec.Struct], **more: Shape) -> Shape:
    """The members of a typed body; those that are no plain values are given."""
    return Shape({name: more.get(name, Shape()) for name in type_.__struct_fields__})


_CREATE_JOB: Final = _shape(CreateJobBody, items=Shape(entries=_shape(PublicationItem)))
_PROMOTE: Final = _shape(PromoteBody, skus=Shape(entries=Shape()))


class _Refused:
    """Stands where a number stood that cannot be taken.

    Args:
        rule: words for the caller.
        anywhere: whether it is refused in unknown members too, because it is no JSON at all. Numbers that
            are only too large for us are ignored there, as everything else is.
    """

    __slots__ = ("anywhere", "rule")

    def __init__(self, rule: str, *, anywhere: bool) -> None:
        self.rule = rule
        self.anywhere = anywhere


class _RepeatedMembers(dict[str, Any]):
    """An object in which a name stood more than once; ``repeated`` lists those names in order."""

    repeated: list[str]


class _Places:
    """Collects offending places and stops after the documented maximum."""

    def __init__(self) -> None:
        self.found: list[Violation] = []

    def add(self, detail: str, pointer: str) -> None:
        """Notes one place."""
        if not self.full:
            self.found.append(violation(detail, pointer))

    @property
    def full(self) -> bool:
        """Whether there are more places than a problem lists."""
        return len(self.found) > MAX_VIOLATIONS

    def raise_if_any(self) -> None:
        """Refuses the request when a place was noted."""
        if self.found:
            raise MalformedRequest(self.found)


def _refuse(detail: str) -> MalformedRequest:
    return MalformedRequest([violation(detail)])


def _parse_object(body: bytes, shape: Shape) -> dict[str, Any]:
    """The members of the JSON object in ``body``, every rule of failure rules 55 checked."""
    value = parse_strict(body, shape)
    if not isinstance(value, dict):
        raise _refuse("must be a JSON object")
    return value


def parse_strict(body: bytes, shape: Shape) -> Any:
    """The JSON value in ``body``.

    Args:
        body: as sent.
        shape: the places that are known. What stands elsewhere is ignored by whoever reads the value, so
            that a number there may have any size; its value is then not kept.

    Raises:
        MalformedRequest: empty, a byte-order mark, not UTF-8, not JSON, nested deeper than 32, a name
            repeated in one object, NaN or Infinity, U+0000 or an unpaired surrogate in a text or name; at
            a known place an integer outside 64 bits or a number too large. Details name the rule, never
            the value.
    """
    if not body:
        raise _refuse("a JSON body is required")
    if body.startswith(_BOM):
        raise _refuse("must not begin with a byte-order mark")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(f"must be UTF-8 (byte {error.start} is not)") from None
    _check_depth(body)
    suspicious = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal suspicious
        result = dict(pairs)
        if len(result) == len(pairs):
            return result
        suspicious = True
        seen: set[str] = set()
        marked = _RepeatedMembers(result)
        marked.repeated = [name for name, _ in pairs if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        return marked

    def refused(rule: str, *, anywhere: bool = False) -> _Refused:
        nonlocal suspicious
        suspicious = True
        return _Refused(rule, anywhere=anywhere)

    def constant(_: str) -> _Refused:
        return refused("NaN and Infinity are not JSON", anywhere=True)

    def integer(digits: str) -> int | _Refused:
        # 20 characters hold any 64-bit integer with its sign; longer ones are never converted.
        if len(digits) <= 20 and INT64_MIN <= (number := int(digits)) <= INT64_MAX:
            return number
        return refused("integers must fit in 64 bits")

    def fraction(digits: str) -> float | _Refused:
        number = float(digits)
        if number - number == 0.0:
            return number
        return refused("number out of range")

    try:
        value = json.loads(
            text,
            object_pairs_hook=members,
            parse_constant=constant,
            parse_int=integer,
            parse_float=fraction,
        )
    except json.JSONDecodeError as error:
        raise _refuse(f"not valid JSON at line {error.lineno}, column {error.colno}") from None
    if suspicious or b"\\u" in body:
        _check_values(value, shape)
    return value


def _check_depth(body: bytes) -> None:
    """Refuses nesting bombs before a recursive parser sees them."""
    depth = 0
    for bracket in _BRACKET.finditer(_STRING.sub(b"", body)):
        if bracket[0] in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _refuse(f"must not be nested deeper than {MAX_DEPTH} levels")
        else:
            depth -= 1


def _character_rule(text: str) -> str | None:
    """Which rule on characters the text breaks, if any."""
    found = _FORBIDDEN_CHARACTER.search(text)
    if found is None:
        return None
    return "must not contain U+0000" if found[0] == "\x00" else "must not contain an unpaired surrogate"


def _check_values(root: Any, shape: Shape) -> None:
    """Finds repeated names, refused numbers and forbidden characters, in document order.

    A pointer goes as far as places are known: a client's own names are input and are never echoed. What is
    wrong below is told of the nearest known place, with words that say so.
    """
    places = _Places()
    stack: list[tuple[Any, str, Shape | None]] = [(root, "", shape)]
    while stack and not places.full:
        value, pointer, known = stack.pop()
        where = "" if known else _INSIDE
        if isinstance(value, _Refused):
            if known or value.anywhere:
                places.add(where + value.rule, pointer)
        elif isinstance(value, str):
            rule = _character_rule(value)
            if rule is not None:
                places.add(where + rule, pointer)
        elif isinstance(value, list):
            entries = known.entries if known else None
            stack.extend(
                (child, f"{pointer}/{index}" if entries else pointer, entries)
                for index, child in zip(range(len(value) - 1, -1, -1), reversed(value), strict=True)
            )
        elif isinstance(value, dict):
            members: Mapping[str, Shape] = known.members if known else {}
            _check_names(value, pointer, members, places)
            stack.extend(
                (child, f"{pointer}/{name}" if name in members else pointer, members.get(name))
                for name, child in reversed(value.items())
            )
    places.raise_if_any()


def _check_names(value: dict[str, Any], pointer: str, members: Mapping[str, Shape], places: _Places) -> None:
    """Notes repeated names and names with forbidden characters; ``members`` are those known of this object."""
    inside = "" if members else _INSIDE
    for name in value.repeated if isinstance(value, _RepeatedMembers) else ():
        if name in members:
            places.add("member name given more than once", f"{pointer}/{name}")
        else:
            which = "unknown member name" if members else "member name"
            places.add(f"{inside}{which} given more than once", pointer)
    for name in value:
        rule = _character_rule(name)
        if rule is not None:
            places.add(f"{inside}member name {rule}", pointer)


# --- the exact way: from JSON values to the agreed types -----------------------------------------------


def _items(value: Any, places: _Places) -> list[PublicationItem]:
    if value is None:
        places.add("is required: an array of 1 to 10,000 items", "/items")
        return []
    if not isinstance(value, list):
        places.add("must be an array of 1 to 10,000 items", "/items")
        return []
    if not 1 <= len(value) <= MAX_ITEMS:
        places.add("must hold 1 to 10,000 items", "/items")
    items: list[PublicationItem] = []
    for index, entry in enumerate(value):
        if places.full:
            break
        pointer = f"/items/{index}"
        if not isinstance(entry, dict):
            places.add("must be an object", pointer)
            continue
        sku = entry.get("sku")
        if sku is None:
            places.add("is required: exactly 10 ASCII letters or digits", f"{pointer}/sku")
        elif not isinstance(sku, str):
            places.add("must be a string", f"{pointer}/sku")
        category_id = _text(entry, "category_id", pointer, places)
        auto_categorize = entry.get("auto_categorize")
        if auto_categorize is not None and not isinstance(auto_categorize, bool):
            places.add("must be true or false", f"{pointer}/auto_categorize")
        items.append(PublicationItem(sku=sku, category_id=category_id, auto_categorize=auto_categorize))  # type: ignore[arg-type]
    return items


def _skus(value: Any, places: _Places) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        places.add("must be an array of 1 to 10,000 SKUs", "/skus")
        return None
    if not 1 <= len(value) <= MAX_ITEMS:
        places.add("must hold 1 to 10,000 SKUs; leave it out to take all candidates", "/skus")
    for index, entry in enumerate(value):
        if places.full:
            break
        if not isinstance(entry, str):
            places.add("must be a string", f"/skus/{index}")
    return value


def _text(members: dict[str, Any], name: str, parent: str, places: _Places) -> str | None:
    value = members.get(name)
    if value is None or isinstance(value, str):
        return value
    places.add("must be a string", f"{parent}/{name}")
    return None


def _integer(members: dict[str, Any], name: str, places: _Places) -> int | None:
    value = members.get(name)
    # bool is a subclass of int in Python; true is no integer in JSON.
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    places.add("must be an integer", f"/{name}")
    return None
