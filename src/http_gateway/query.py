"""Strict query strings and header values (decisions, sections 2 and 5).

Nothing here knows what a value means: names of statuses, dates and SKUs pass through as text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

from core.errors import Violation
from http_gateway.decode import INT64_MAX, INT64_MIN, violation

MAX_PAGE: Final = 1_000
"""A larger ``limit`` is refused, never lowered in silence (decisions, section 2)."""
MAX_OFFSET: Final = 2**53
"""The bound that core has: every JSON reader can count to it."""

Headers = Iterable[tuple[bytes, bytes]]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_JSON_TYPE = re.compile(r"application/(?:[a-z0-9!#$&^_.+-]+\+)?json", re.ASCII)
_PARAMETER = re.compile(r'\s*([a-z0-9!#$&^_.+-]+)\s*=\s*"?([^"\s;]*)"?\s*', re.ASCII)


def is_uuid(text: str) -> bool:
    """Whether the text is a UUID in the usual 8-4-4-4-12 form, nothing around it."""
    return _UUID.fullmatch(text) is not None


class Query:
    """The known parameters of one query string; problems gather in ``violations``.

    Args:
        query_string: as sent, without the question mark.
        names: the parameters the endpoint knows; others are ignored, whatever they hold, except that
            no part may hold U+0000 or bytes that are not UTF-8.
    """

    def __init__(self, query_string: bytes, names: Collection[str]) -> None:
        self.violations: list[Violation] = []
        self._values: dict[str, str] = {}
        if not query_string:
            return
        repeated: set[str] = set()
        unreadable = False
        for part in query_string.split(b"&"):
            raw_name, _, raw_value = part.partition(b"=")
            try:
                name = unquote_to_bytes(raw_name.replace(b"+", b" ")).decode("utf-8")
                value = unquote_to_bytes(raw_value.replace(b"+", b" ")).decode("utf-8")
            except UnicodeDecodeError:
                unreadable = True
                continue
            if "\x00" in name or "\x00" in value:
                unreadable = True
                continue
            if name not in names:
                continue
            if name in self._values:
                repeated.add(name)
            self._values[name] = value
        if unreadable:
            self.violations.append(violation("must be UTF-8 without U+0000", parameter="query"))
        self.violations.extend(
            violation("must be given at most once", parameter=name) for name in names if name in repeated
        )

    def text(self, name: str) -> str | None:
        """The value as sent, or ``None`` when absent. Its meaning is checked by core."""
        return self._values.get(name)

    def boolean(self, name: str) -> bool | None:
        """``true`` or ``false``; anything else is a violation."""
        value = self._values.get(name)
        if value is None:
            return None
        if value not in ("true", "false"):
            self.violations.append(violation("must be true or false", parameter=name))
            return None
        return value == "true"

    def integer(self, name: str, bounds: tuple[int, int] | None = None) -> int | None:
        """A decimal integer within the bounds, both included; anything else is a violation.

        Without bounds core judges the value, which has to fit into 64 bits to get there.
        """
        value = self._values.get(name)
        if value is None:
            return None
        written_as_one = _INTEGER.fullmatch(value) is not None
        lowest, highest = bounds or (INT64_MIN, INT64_MAX)
        # 20 characters hold any 64-bit integer with its sign; longer ones are never converted.
        if written_as_one and len(value) <= 20 and lowest <= int(value) <= highest:
            return int(value)
        rule = "must be an integer"
        if bounds is not None:
            rule += f" from {lowest} to {highest}"
        elif written_as_one:
            rule += " that fits in 64 bits"
        self.violations.append(violation(rule, parameter=name))
        return None

    def page(self, default_limit: int) -> tuple[int, int]:
        """``(limit, offset)``: 1 to 1,000 with the endpoint's default, and 0 to 2**53."""
        limit = self.integer("limit", (1, MAX_PAGE))
        offset = self.integer("offset", (0, MAX_OFFSET))
        return (default_limit if limit is None else limit, offset or 0)


def header_values(headers: Headers, name: bytes) -> list[bytes]:
    """All values of one header, in order; ``name`` in lower case."""
    return [value for key, value in headers if key == name]


def content_type_violations(headers: Headers) -> list[Violation]:
    """Why the body is not to be read as JSON in UTF-8; empty when it is (a missing type counts as JSON)."""
    if header_values(headers, b"content-encoding") not in ([], [b"identity"]):
        return [violation("compressed bodies are not accepted", parameter="Content-Encoding")]
    values = header_values(headers, b"content-type")
    if not values:
        return []
    rule = violation("must be application/json in UTF-8", parameter="Content-Type")
    if len(values) > 1:
        return [rule]
    media_type, *parameters = values[0].decode("latin-1").lower().split(";")
    if _JSON_TYPE.fullmatch(media_type.strip()) is None:
        return [rule]
    for text in parameters:
        parameter = _PARAMETER.fullmatch(text)
        if parameter is not None and parameter[1] == "charset" and parameter[2] not in ("utf-8", "utf8"):
            return [rule]
    return []


def idempotency_key(headers: Headers) -> tuple[str | None, list[Violation]]:
    """The request's Idempotency-Key in lower case, or why it is none.

    A UUID, bare or in the quoted form of the draft standard (decisions, section 5). A repeated header is
    refused with the call itself, on every endpoint.
    """
    values = header_values(headers, b"idempotency-key")
    if not values:
        return None, []
    text = values[0].decode("latin-1")
    if len(text) == 38 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if not is_uuid(text):
        return None, [violation("must be a UUID in the form 8-4-4-4-12", parameter="Idempotency-Key")]
    return text.lower(), []
