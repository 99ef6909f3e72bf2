"""Query strings and headers read strictly."""

# ruff: noqa: E501 - tables with one case a line

from __future__ import annotations

import pytest

from core.use_cases import read_jobs
from http_gateway.query import MAX_OFFSET, MAX_PAGE, Query, content_type_violations, idempotency_key, is_uuid

UUID = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_values_are_decoded_and_unknown_ones_ignored() -> None:
    query = Query(
        b"status=a%20b&x=1&x=2&sku=caf%C3%A9+1&limit=7&offset=0&flag=true", ("status", "sku", "limit", "offset", "flag")
    )
    assert query.text("status") == "a b"
    assert query.text("sku") == "caf\u00e9 1"
    assert query.text("from") is None
    assert query.page(50) == (7, 0)
    assert query.boolean("flag") is True
    assert query.violations == []


def test_defaults_without_a_query() -> None:
    query = Query(b"", ("limit", "offset", "flag"))
    assert query.page(100) == (100, 0)
    assert query.boolean("flag") is None
    assert query.integer("app_status") is None
    assert query.violations == []


@pytest.mark.parametrize(
    "text",
    ["", " 5", "5 ", "+5", "%2B5", "5.0", "1e2", "0x10", "five", "\u0665", "%D9%A5", "%EF%BC%95", "1_000", "05", "-", "--1", "9" * 30, "999999999999999999999", "9223372036854775808", "5%0A", "true", "null"],
)  # fmt: skip
def test_a_limit_that_is_no_integer(text: str) -> None:
    query = Query(b"limit=" + text.encode(), ("limit", "offset"))
    query.page(50)
    assert [(entry.parameter, entry.detail) for entry in query.violations] == [
        ("limit", "must be an integer from 1 to 1000")
    ]


@pytest.mark.parametrize("text", ["-1", "9007199254740993", "9223372036854775807", "9" * 5000, "1.0", "x", ""])
def test_an_offset_is_refused_with_its_bounds(text: str) -> None:
    query = Query(b"offset=" + text.encode(), ("limit", "offset"))
    query.page(50)
    rule = "must be an integer from 0 to 9007199254740992"
    assert [(entry.parameter, entry.detail) for entry in query.violations] == [("offset", rule)]


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "-" + "9" * 5000])
def test_an_integer_that_cannot_travel_is_refused_with_the_bound(text: str) -> None:
    query = Query(b"app_status=" + text.encode(), ("app_status",))
    assert query.integer("app_status") is None
    assert [entry.detail for entry in query.violations] == ["must be an integer that fits in 64 bits"]


def test_pages_have_one_bound_at_both_ends() -> None:
    assert (MAX_PAGE, MAX_OFFSET) == (read_jobs.MAX_PAGE, read_jobs.MAX_OFFSET)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (b"limit=0", ["limit"]),
        (b"limit=-1", ["limit"]),
        (b"limit=1001", ["limit"]),
        (b"offset=-1", ["offset"]),
        (b"limit=0&offset=-5", ["limit", "offset"]),
        (b"limit=1&limit=1", ["limit"]),
        (b"li%6Dit=1&limit=2", ["limit"]),
        (b"offset=1&offset=2&limit=1&limit=1", ["limit", "offset"]),
        (b"limit=%00", ["query"]),
        (b"x=%00", ["query"]),
        (b"x=%FF", ["query"]),
        (b"x=%ED%A0%80", ["query"]),
        (b"\xff=1", ["query"]),
        (b"limit=1", []),
        (b"limit=1000&offset=9007199254740992", []),
        (b"&&=&limit=3", []),
    ],
)
def test_pages_are_bounded(text: bytes, places: list[str]) -> None:
    query = Query(text, ("limit", "offset"))
    query.page(50)
    assert [entry.parameter for entry in query.violations] == places
    assert {entry.code for entry in query.violations} <= {"E_PRODUCT_INVALID_BODY"}


@pytest.mark.parametrize("text", [b"", b"1", b"0", b"TRUE", b"True", b"yes", b"true%20", b"t"])
def test_booleans_are_true_or_false(text: bytes) -> None:
    query = Query(b"flag=" + text, ("flag",))
    assert query.boolean("flag") is None
    assert [entry.parameter for entry in query.violations] == ["flag"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"application/json",
        b"Application/JSON",
        b"application/json; charset=utf-8",
        b'application/json;charset="UTF-8"',
        b"application/json; boundary=x",
        b"application/vnd.api+json",
    ],
)
def test_content_types_that_are_json(value: bytes | None) -> None:
    headers = [] if value is None else [(b"content-type", value)]
    assert content_type_violations(headers) == []


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-type", b"")],
        [(b"content-type", b"text/plain")],
        [(b"content-type", b"application/x-www-form-urlencoded")],
        [(b"content-type", b"application/jsonp")],
        [(b"content-type", b"application/xml+jsonx")],
        [(b"content-type", b"json")],
        [(b"content-type", b"application/json, text/plain")],
        [(b"content-type", b"application/json; charset=latin1")],
        [(b"content-type", b"application/json; charset=utf-16")],
        [(b"content-type", b"application/json"), (b"content-type", b"application/json")],
        [(b"content-encoding", b"gzip")],
    ],
)
def test_content_types_that_are_not(headers: list[tuple[bytes, bytes]]) -> None:
    (found,) = content_type_violations(headers)
    assert found.parameter in ("Content-Type", "Content-Encoding")
    assert found.code == "E_PRODUCT_INVALID_BODY"


@pytest.mark.parametrize("value", [UUID, UUID.upper(), f'"{UUID}"'])
def test_idempotency_keys_in_each_form_are_one(value: str) -> None:
    assert idempotency_key([(b"idempotency-key", value.encode())]) == (UUID, [])
    assert idempotency_key([]) == (None, [])


@pytest.mark.parametrize(
    "value",
    [b"", b"1", UUID.encode()[:-1], UUID.encode() + b"0", UUID.replace("-", "").encode(), b"{" + UUID.encode() + b"}",
     b'"' + UUID.encode(), b'""', b"urn:uuid:" + UUID.encode(), b"\xd9\xa5" * 18, UUID.encode() + b"\n"],
)  # fmt: skip
def test_idempotency_keys_of_another_form(value: bytes) -> None:
    key, violations = idempotency_key([(b"idempotency-key", value)])
    assert key is None
    assert [entry.parameter for entry in violations] == ["Idempotency-Key"]


def test_uuid_form() -> None:
    assert is_uuid(UUID)
    assert is_uuid(UUID.upper())
    for text in ("", UUID + "\n", UUID[:-1], UUID.replace("-", ""), f"{{{UUID}}}", UUID.replace("a", "\u0430")):
        assert not is_uuid(text)
