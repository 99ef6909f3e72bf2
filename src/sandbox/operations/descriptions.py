"""``/items/{id}/description`` (reference section 3.5)."""

from __future__ import annotations

from typing import Any

from sandbox.categories import MAX_DESCRIPTION_LENGTH
from sandbox.causes import Cause, error, warning
from sandbox.items import Item, timestamp
from sandbox.market import Market
from sandbox.messages import Answer, Refusal, Request, bad_request, not_found, ok
from sandbox.operations.items import owned, visible
from sandbox.validation import check_types, invalid_types, validation_error

_FIELDS: dict[str, tuple[type, ...]] = {"plain_text": (str,), "text": (str,)}


def create(market: Market, request: Request) -> Answer:
    """``POST``: 201 for the first description of an item, 400 when it has one."""
    item = owned(market, request)
    text, warnings = _text(request)
    if item.description is not None:
        return bad_request(f"Item {item.id} already has a description, use PUT")
    return _write(market, item, text, warnings, 201)


def update(market: Market, request: Request) -> Answer:
    """``PUT ?api_version=2``: replaces the description of an item that has one."""
    item = owned(market, request)
    if request.parameter("api_version") != "2":
        return bad_request("The parameter api_version=2 is required")
    text, warnings = _text(request)
    if item.description is None:
        return not_found(f"Description of item {item.id} not found")
    return _write(market, item, text, warnings, 200)


def read(market: Market, request: Request) -> Answer:
    """``GET``: the description, 404 without one."""
    item = visible(market, request.params[0])
    if item.description is None:
        return not_found(f"Description of item {item.id} not found")
    return ok(item.description)


def _write(market: Market, item: Item, text: str, warnings: list[Cause], status: int) -> Answer:
    now = market.clock()
    moment = timestamp(now)
    created = moment if item.description is None else item.description["date_created"]
    item.description = {
        "text": "",
        "plain_text": text,
        "last_updated": moment,
        "date_created": created,
        "snapshot": {},
    }
    market.record_item("description_written", item, now)
    body: dict[str, Any] = dict(item.description)
    if warnings:
        body["warnings"] = warnings
    return ok(body, status)


def _text(request: Request) -> tuple[str, list[Cause]]:
    body = request.json_object()
    check_types(body, _FIELDS)
    if "plain_text" not in body:
        if "text" not in body:
            raise Refusal(invalid_types(["plain_text"]))
        found = warning(310, "item.description.text.not_allowed", "Use plain_text", "description.text")
        raise Refusal(validation_error([error(398, "item.description.type.invalid", "Use plain_text", "text"), found]))
    text: str = body["plain_text"]
    causes: list[Cause] = []
    if len(text) > MAX_DESCRIPTION_LENGTH:
        causes.append(
            error(
                3707,
                "item.descriptions.length_exceeded",
                f"The description has more than {MAX_DESCRIPTION_LENGTH} characters",
                "plain_text",
            )
        )
    position = first_bad_character(text)
    if position is not None:
        causes.append(
            error(
                398,
                "item.description.type.invalid",
                "The description must be in plain text",
                f"plain_text[{position}]",
            )
        )
    if causes:
        raise Refusal(validation_error(causes))
    return text, []


def first_bad_character(text: str) -> int | None:
    """Index of the first character that plain text may not hold: <, >, emoji, control characters."""
    for position, character in enumerate(text):
        code = ord(character)
        if character in "<>" or code >= 0x1F000 or 0x2600 <= code <= 0x27BF or code == 0xFE0F:
            return position
        if code < 0x20 and character not in "\n\r\t":
            return position
    return None
