"""The strict decoder: every malformed body by place and rule, and both ways giving one answer."""

# ruff: noqa: E501 - tables with one case a line

from __future__ import annotations

import json
import os
import random
import string
import time
from typing import Any

import pytest
from msgspec import UNSET

from http_gateway import decode
from http_gateway.decode import (
    MAX_DEPTH,
    CreateJobBody,
    MalformedRequest,
    PromoteBody,
    Shape,
    decode_create_job,
    decode_promote,
    parse_strict,
)

SKU = b'"B000000001"'
ITEM = b'{"sku":"B000000001","category_id":"MCO1055"}'


def items(*entries: bytes, more: bytes = b"") -> bytes:
    """A body with these items and more members."""
    return b'{"items":[' + b",".join(entries) + b"]" + more + b"}"


def nested(levels: int) -> bytes:
    """A member value nested so deep that the whole body has ``levels`` levels."""
    return b"[" * (levels - 1) + b"]" * (levels - 1)


UNREADABLE: list[tuple[str, bytes, list[str], str]] = [
    ("empty", b"", [""], "a JSON body is required"),
    ("white space", b" \n\t", [""], "not valid JSON at line 2, column 2"),
    ("byte-order mark", b"\xef\xbb\xbf" + items(ITEM), [""], "byte-order mark"),
    ("utf-16", items(ITEM).decode().encode("utf-16-le"), [""], "not valid JSON"),
    ("utf-16 with mark", items(ITEM).decode().encode("utf-16"), [""], "must be UTF-8"),
    ("bad utf-8 in a text", b'{"items":[{"sku":"B00000000\xff"}]}', [""], "must be UTF-8 (byte 27"),
    ("bad utf-8 in unknown", items(ITEM, more=b',"x":"\xc3"'), [""], "must be UTF-8"),
    ("overlong utf-8", items(ITEM, more=b',"x":"\xc0\x80"'), [""], "must be UTF-8"),
    ("utf-8 surrogate", items(ITEM, more=b',"x":"\xed\xa0\x80"'), [""], "must be UTF-8"),
    ("bad utf-8 outside texts", items(ITEM) + b"\xa0", [""], "must be UTF-8"),
    ("not JSON", b"items=1", [""], "not valid JSON at line 1, column 1"),
    ("cut off", items(ITEM)[:-1], [""], "not valid JSON"),
    ("cut off in a text", b'{"items":[{"sku":"B0', [""], "not valid JSON"),
    ("trailing comma", b'{"items":[' + ITEM + b",]}", [""], "not valid JSON"),
    ("trailing text", items(ITEM) + b"x", [""], "not valid JSON"),
    ("two values", items(ITEM) + items(ITEM), [""], "not valid JSON"),
    ("trailing NUL", items(ITEM) + b"\x00", [""], "not valid JSON"),
    ("single quotes", b"{'items':[]}", [""], "not valid JSON"),
    ("comment", b'{"items":[]/**/}', [""], "not valid JSON"),
    ("form feed as space", b'{"items":\x0c[]}', [""], "not valid JSON"),
    ("no-break space", '{"items":\xa0[]}'.encode(), [""], "not valid JSON"),
    ("raw line feed in a text", items(b'{"sku":"B00000000\n"}'), [""], "not valid JSON"),
    ("raw NUL in a text", items(b'{"sku":"B00000000\x00"}'), [""], "not valid JSON"),
    ("bad escape", items(b'{"sku":"\\x41"}'), [""], "not valid JSON"),
    ("short escape", items(b'{"sku":"\\u12"}'), [""], "not valid JSON"),
    ("leading zero", items(ITEM, more=b',"tax_category_id":01'), [""], "not valid JSON"),
    ("plus sign", items(ITEM, more=b',"tax_category_id":+1'), [""], "not valid JSON"),
    ("bare point", items(ITEM, more=b',"x":.5'), [""], "not valid JSON"),
    ("True", items(ITEM, more=b',"x":True'), [""], "not valid JSON"),
    ("array", b"[" + ITEM + b"]", [""], "must be a JSON object"),
    ("null", b"null", [""], "must be a JSON object"),
    ("text", b'"items"', [""], "must be a JSON object"),
    ("number", b"1", [""], "must be a JSON object"),
    ("NaN", items(ITEM, more=b',"tax_category_id":NaN'), ["/tax_category_id"], "NaN"),
    ("NaN in an item", items(b'{"sku":' + SKU + b',"category_id":NaN}'), ["/items/0/category_id"], "NaN"),
    ("NaN in an item's unknown", items(ITEM, b'{"sku":' + SKU + b',"x":[NaN]}'), ["/items/1"], "somewhere inside: NaN"),
    ("NaN in an unknown with a name of ours", items(b'{"sku":' + SKU + b',"items":NaN}'), ["/items/0"], "somewhere inside: NaN"),
    ("NaN below a known text", items(b'{"sku":{"sku":[NaN]}}'), ["/items/0/sku"], "somewhere inside: NaN"),
    ("Infinity", items(ITEM, more=b',"x":Infinity'), [""], "NaN and Infinity"),
    ("-Infinity", items(ITEM, more=b',"x":[-Infinity]'), [""], "NaN and Infinity"),
    ("float overflow", items(ITEM, more=b',"tax_category_id":1e999'), ["/tax_category_id"], "out of range"),
    ("float overflow for an item", items(b"1e999"), ["/items/0"], "out of range"),
    ("float overflow for all items", b'{"items":-1e999}', ["/items"], "out of range"),
    ("integer overflow", items(ITEM, more=b',"tax_category_id":9223372036854775808'), ["/tax_category_id"], "64"),
    ("integer underflow", items(ITEM, more=b',"tax_category_id":-9223372036854775809'), ["/tax_category_id"], "64"),
    ("repeated items", b'{"items":[' + ITEM + b'],"items":[' + ITEM + b"]}", ["/items"], "more than once"),
    ("repeated sku", items(b'{"sku":' + SKU + b',"category_id":"MCO1","sku":' + SKU + b"}"), ["/items/0/sku"], "once"),
    ("repeated by escape", items(b'{"sku":' + SKU + b',"category_id":"MCO1","s\\u006bu":' + SKU + b"}"), ["/items/0/sku"], "once"),
    ("repeated, first null", items(b'{"sku":null,"sku":' + SKU + b',"category_id":"MCO1"}'), ["/items/0/sku"], "once"),
    ("repeated option", items(ITEM, more=b',"tax_category_id":1,"tax_category_id":1'), ["/tax_category_id"], "once"),
    ("repeated unknown", items(ITEM, more=b',"x":1,"x":2'), [""], "unknown member name given more than once"),
    ("repeated deep inside unknown", items(ITEM, more=b',"x":{"y":[{"z":1,"z":1}]}'), [""], "somewhere inside: member name given more than once"),
    ("repeated in an item's unknown", items(ITEM, b'{"sku":' + SKU + b',"x":{"sku":1,"sku":1}}'), ["/items/1"], "somewhere inside: member name given more than once"),
    ("repeated below a known text", items(b'{"sku":{"y":1,"y":1}}'), ["/items/0/sku"], "somewhere inside: member name given more than once"),
    ("repeated, unknown here", items(ITEM, more=b',"skus":1,"skus":2'), [""], "unknown member name given more than once"),
    ("lone surrogate", items(b'{"sku":"\\ud800","category_id":"MCO1"}'), ["/items/0/sku"], "surrogate"),
    ("low surrogate", items(b'{"sku":"\\udfff","category_id":"MCO1"}'), ["/items/0/sku"], "surrogate"),
    ("reversed pair", items(b'{"sku":"\\udc00\\ud800"}'), ["/items/0/sku"], "surrogate"),
    ("surrogate in a name", items(ITEM, more=b',"\\ud800":1'), [""], "name must not contain an unpaired"),
    ("surrogate in unknown", items(ITEM, more=b',"x":["\\ud800"]'), [""], "surrogate"),
    ("U+0000 in a sku", items(b'{"sku":"B00000000\\u0000","category_id":"MCO1"}'), ["/items/0/sku"], "U+0000"),
    ("U+0000 in a name", items(ITEM, more=b',"a\\u0000":1'), [""], "name must not contain U+0000"),
    ("U+0000 in unknown", items(ITEM, more=b',"x":{"y":"\\u0000"}'), [""], "U+0000"),
    ("U+0000 in an item's unknown", items(b'{"sku":' + SKU + b',"category_id":"MCO1","x":"\\u0000"}'), ["/items/0"], "U+0000"),
    ("too deep, arrays", items(ITEM, more=b',"x":' + nested(MAX_DEPTH + 1)), [""], "32 levels"),
    ("too deep, objects", items(ITEM, more=b',"x":' + b'{"a":' * 40 + b"1" + b"}" * 40), [""], "32 levels"),
    ("nesting bomb", b"[" * 1_000_000, [""], "32 levels"),
    ("nesting bomb, objects", b'{"a":' * 500_000, [""], "32 levels"),
    ("unterminated with escapes", b'{"items":"' + b'\\"' * 1_000_000, [""], "not valid JSON"),
]  # fmt: skip

WRONG_SHAPE: list[tuple[str, bytes, list[str], str]] = [
    ("no items", b"{}", ["/items"], "is required"),
    ("items null", b'{"items":null}', ["/items"], "is required"),
    ("items an object", b'{"items":{}}', ["/items"], "array"),
    ("items a text", b'{"items":"x"}', ["/items"], "array"),
    ("odd numbers below a known text", items(b'{"sku":[1e999,99999999999999999999]}'), ["/items/0/sku"], "string"),
    ("odd numbers instead of an item", items(b"[1e999]"), ["/items/0"], "object"),
    ("items empty", b'{"items":[]}', ["/items"], "1 to 10,000"),
    ("10,001 items", items(*[ITEM] * 10_001), ["/items"], "1 to 10,000"),
    ("item null", items(ITEM, b"null"), ["/items/1"], "object"),
    ("item a text", items(SKU), ["/items/0"], "object"),
    ("item an array", items(b"[]"), ["/items/0"], "object"),
    ("no sku", items(b'{"category_id":"MCO1"}'), ["/items/0/sku"], "is required"),
    ("sku null", items(b'{"sku":null}'), ["/items/0/sku"], "is required"),
    ("sku a number", items(b'{"sku":1234567890}'), ["/items/0/sku"], "string"),
    ("sku a boolean", items(b'{"sku":true}'), ["/items/0/sku"], "string"),
    ("sku an array", items(b'{"sku":["B000000001"]}'), ["/items/0/sku"], "string"),
    ("category a number", items(b'{"sku":"x","category_id":1}'), ["/items/0/category_id"], "string"),
    ("category false", items(b'{"sku":"x","category_id":false}'), ["/items/0/category_id"], "string"),
    ("auto a number", items(b'{"sku":"x","auto_categorize":1}'), ["/items/0/auto_categorize"], "true or false"),
    ("auto a text", items(b'{"sku":"x","auto_categorize":"true"}'), ["/items/0/auto_categorize"], "true or false"),
    ("listing type a number", items(ITEM, more=b',"listing_type_id":1'), ["/listing_type_id"], "string"),
    ("tax a text", items(ITEM, more=b',"tax_category_id":"1"'), ["/tax_category_id"], "integer"),
    ("tax 1.0", items(ITEM, more=b',"tax_category_id":1.0'), ["/tax_category_id"], "integer"),
    ("tax 1e0", items(ITEM, more=b',"tax_category_id":1e0'), ["/tax_category_id"], "integer"),
    ("tax true", items(ITEM, more=b',"tax_category_id":true'), ["/tax_category_id"], "integer"),
    ("tax an array", items(ITEM, more=b',"tax_category_id":[1]'), ["/tax_category_id"], "integer"),
    ("schedule a number", items(ITEM, more=b',"scheduled_for":1'), ["/scheduled_for"], "string"),
    ("schedule an object", items(ITEM, more=b',"scheduled_for":{}'), ["/scheduled_for"], "string"),
    (
        "all at once, in order",
        b'{"scheduled_for":1,"tax_category_id":"1","listing_type_id":2,"items":[{"auto_categorize":1,'
        b'"category_id":2,"sku":3},7,{}]}',
        [
            "/items/0/sku",
            "/items/0/category_id",
            "/items/0/auto_categorize",
            "/items/1",
            "/items/2/sku",
            "/listing_type_id",
            "/tax_category_id",
            "/scheduled_for",
        ],
        "string",
    ),
    ("one more than a hundred", items(*[b"1"] * 500), [f"/items/{index}" for index in range(101)], "object"),
    ("too many, and each wrong", items(*[b"1"] * 10_001), ["/items", *(f"/items/{n}" for n in range(100))], "1 to"),
    ("a hundred", items(*[b"1"] * 100), [f"/items/{index}" for index in range(100)], "object"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "pointers", "words"),
    [pytest.param(*case[1:], id=case[0]) for case in [*UNREADABLE, *WRONG_SHAPE]],
)
def test_a_malformed_body_is_refused_by_place_and_rule(body: bytes, pointers: list[str], words: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        decode_create_job(body)
    found = caught.value.violations
    assert [entry.pointer for entry in found] == pointers
    assert {entry.code for entry in found} == {"E_PRODUCT_INVALID_BODY"}
    assert words in found[0].detail
    # The problem is sent as UTF-8 JSON, so no detail may hold what broke the rule.
    assert all((entry.pointer + entry.detail).encode("ascii") for entry in found)


@pytest.mark.parametrize("size", [1 << 16, 1 << 21], ids=["64 KiB", "2 MiB"])
@pytest.mark.parametrize("filling", [b'\\"', b'"', b"\\", b'{"a":', b"[", b"1", b'"a",'])
def test_no_filling_takes_more_than_linear_time(filling: bytes, size: int) -> None:
    body = b'{"items":[' + filling * (size // len(filling))
    began = time.process_time()
    with pytest.raises(MalformedRequest):
        decode_create_job(body)
    assert time.process_time() - began < 2.0


ACCEPTED: list[tuple[str, bytes, Any]] = [
    ("category", items(ITEM), [("B000000001", "MCO1055", None)]),
    ("auto", items(b'{"sku":"x","auto_categorize":true}'), [("x", None, True)]),
    ("auto false", items(b'{"sku":"x","auto_categorize":false}'), [("x", None, False)]),
    ("both", items(b'{"sku":"x","auto_categorize":true,"category_id":"y"}'), [("x", "y", True)]),
    ("neither", items(b'{"sku":""}'), [("", None, None)]),
    ("nulls", items(b'{"sku":"x","auto_categorize":null,"category_id":null}'), [("x", None, None)]),
    ("white space", b' \t\r\n{ "items" :\n[ { "sku" : "x" } ] } \n', [("x", None, None)]),
    ("unknown members", items(b'{"sku":"x","title":"t"}', more=b',"note":{"a":[1.5,-2e3]}'), [("x", None, None)]),
    ("unknown with a name of ours", items(b'{"sku":"x"}', more=b',"note":{"items":1}'), [("x", None, None)]),
    ("escapes", items(b'{"s\\u006bu":"\\u0042"}'), [("B", None, None)]),
    ("surrogate pair", items(b'{"sku":"\\ud83d\\ude00"}'), [("\U0001f600", None, None)]),
    ("escaped backslash before u0000", items(b'{"sku":"\\\\u0000"}'), [("\\u0000", None, None)]),
    ("not ASCII", items('{"sku":"\u0662\uff21"}'.encode()), [("\u0662\uff21", None, None)]),
    ("trailing line feed in a text", items(b'{"sku":"x\\n"}'), [("x\n", None, None)]),
    ("same SKU twice", items(ITEM, ITEM), [("B000000001", "MCO1055", None)] * 2),
    ("equal names in different objects", items(ITEM, more=b',"x":{"a":1},"y":{"a":1}'), [("B000000001", "MCO1055", None)]),
    ("depth 32", items(b'{"sku":"x"}', more=b',"x":' + nested(MAX_DEPTH)), [("x", None, None)]),
    ("brackets in a text", items(b'{"sku":"' + b"[{" * 100 + b'"}'), [("[{" * 100, None, None)]),
    ("long integer in an unknown", items(b'{"sku":"x"}', more=b',"x":' + b"9" * 5000), [("x", None, None)]),
    ("65 bits in an unknown", items(b'{"sku":"x","x":-9223372036854775809}'), [("x", None, None)]),
    ("1e999 in an unknown", items(b'{"sku":"x","x":[-1e999,{"y":1e999}]}', more=b',"x":1e999'), [("x", None, None)]),
    ("odd numbers beside an escape", items(b'{"sku":"x","y":"\\u0041"}', more=b',"x":1e999'), [("x", None, None)]),
    ("odd number in a member of the other call", items(b'{"sku":"x"}', more=b',"skus":[1e999]'), [("x", None, None)]),
    ("odd number with a name of ours elsewhere", items(b'{"sku":"x","tax_category_id":1e999}'), [("x", None, None)]),
    ("quotes in a text", items(b'{"sku":"\\"[[\\""}'), [('"[["', None, None)]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), [pytest.param(*case[1:], id=case[0]) for case in ACCEPTED])
def test_a_body_of_the_agreed_shape_is_taken(body: bytes, expected: list[tuple[Any, ...]]) -> None:
    decoded = decode_create_job(body)
    assert [
        (
            item.sku,
            None if item.category_id is UNSET else item.category_id,
            None if item.auto_categorize is UNSET else item.auto_categorize,
        )
        for item in decoded.items
    ] == expected


def test_options_are_kept_as_sent_and_null_is_absent() -> None:
    decoded = decode_create_job(
        items(ITEM, more=b',"listing_type_id":"any","tax_category_id":-9223372036854775808,"scheduled_for":""')
    )
    assert (decoded.listing_type_id, decoded.tax_category_id, decoded.scheduled_for) == ("any", -(2**63), "")
    decoded = decode_create_job(
        items(ITEM, more=b',"listing_type_id":null,"tax_category_id":null,"scheduled_for":null,"x":1')
    )
    assert (decoded.listing_type_id, decoded.tax_category_id, decoded.scheduled_for) == (None, None, None)


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        (b"null", [""]),
        (b"[]", [""]),
        (b" ", [""]),
        (b'{"skus":[]}', ["/skus"]),
        (b'{"skus":"B000000001"}', ["/skus"]),
        (b'{"skus":{}}', ["/skus"]),
        (b'{"skus":[1,"x",null,["y"]]}', ["/skus/0", "/skus/2", "/skus/3"]),
        (b'{"skus":[' + b",".join([SKU] * 10_001) + b"]}", ["/skus"]),
        (b'{"skus":["x"],"skus":["x"]}', ["/skus"]),
        (b'{"skus":["\\u0000","\\ud800"]}', ["/skus/0", "/skus/1"]),
        (b'{"listing_type_id":true,"tax_category_id":false}', ["/listing_type_id", "/tax_category_id"]),
        (b'{"tax_category_id":99999999999999999999}', ["/tax_category_id"]),
        (b'{"skus":["x",1e999]}', ["/skus/1"]),
        (b'{"items":[{"sku":NaN}]}', [""]),
    ],
)
def test_a_malformed_promote_body_is_refused(body: bytes, pointers: list[str]) -> None:
    with pytest.raises(MalformedRequest) as caught:
        decode_promote(body)
    assert [entry.pointer for entry in caught.value.violations] == pointers


def test_promote_bodies_that_are_taken() -> None:
    assert decode_promote(b"") == PromoteBody()
    assert decode_promote(b"{}") == PromoteBody()
    assert decode_promote(b'{"skus":null}').skus is None
    assert decode_promote(b'{"skus":["a","a"],"tax_category_id":2}').skus == ["a", "a"]
    assert decode_promote(b'{"skus":["a"],"x":[]}').skus == ["a"]
    assert decode_promote(b'{"skus":["a"],"items":[1e999,99999999999999999999]}').skus == ["a"]
    assert len(decode_promote(b'{"skus":[' + b",".join([SKU] * 10_000) + b"]}").skus or ()) == 10_000


def ordinary_body(count: int, *, spaced: bool) -> bytes:
    """What a client sends: half the items with a category, half without."""
    entries: list[dict[str, Any]] = [
        {"sku": f"B{index:09d}", **({"category_id": f"MCO{index}"} if index % 2 else {"auto_categorize": True})}
        for index in range(count)
    ]
    body = {"items": entries, "listing_type_id": "gold_pro", "tax_category_id": 0}
    return json.dumps(body, separators=None if spaced else (",", ":")).encode()


@pytest.mark.parametrize("spaced", [True, False])
def test_ordinary_bodies_take_the_quick_way(spaced: bool) -> None:
    body = ordinary_body(10_000, spaced=spaced)
    assert decode._quick_create_job(body) is not None
    assert decode._quick_promote(b'{"skus": ["B000000001"], "tax_category_id": 1}') is not None


def _normal(value: CreateJobBody) -> Any:
    """A decoded body with both ways of saying "absent" made one."""

    def plain(entry: Any) -> Any:
        return None if entry is UNSET else entry

    return (
        [(item.sku, plain(item.category_id), plain(item.auto_categorize)) for item in value.items],
        plain(value.listing_type_id),
        plain(value.tax_category_id),
        plain(value.scheduled_for),
    )


def _exact(body: bytes) -> CreateJobBody:
    """The same body by the exact way alone."""
    quick, decode._quick_create_job = decode._quick_create_job, lambda _: None  # type: ignore[assignment]
    try:
        return decode_create_job(body)
    finally:
        decode._quick_create_job = quick


def test_whatever_the_quick_way_takes_the_exact_way_takes_alike() -> None:
    """Random damage to ordinary bodies: the quick way never accepts what the exact way refuses."""
    seed = int(os.environ.get("TEST_SEED", random.SystemRandom().randrange(2**32)))
    print(f"seed {seed}")
    dice = random.Random(seed)
    fragments = [
        b'"sku":"x",', b'"a":1,', b'"sku"', b'"items":[],', b"null", b"true", b"[]", b"{}", b'{"sku":"y"}', b",",
        b'"', b"\\", b"\\u0000", b"1", b"1.5", b"NaN", b":", b" ", b"\x00", b"\xff", b"\xc3\xa9", b"]", b"}", b"[",
        b"{", b'"category_id":"MCO1",', b'"category_id":null,', b'"auto_categorize":true,', b"-0", b"1e400",
        b'"tax_category_id":5,', b"99999999999999999999",
    ]  # fmt: skip
    taken = differ = 0
    for _ in range(6_000):
        body = bytearray(ordinary_body(dice.randint(1, 3), spaced=dice.random() < 0.5))
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(body) + 1)
            match dice.randrange(4):
                case 0:
                    body[place:place] = dice.choice(fragments)
                case 1:
                    del body[place : place + dice.randint(1, 12)]
                case 2:
                    body[place : place + 1] = dice.choice(string.printable).encode()
                case _:
                    other = dice.randrange(len(body) + 1)
                    body[place:place] = body[min(place, other) : max(place, other)]
        quick = decode._quick_create_job(bytes(body))
        if quick is None:
            continue
        taken += 1
        try:
            exact = _exact(bytes(body))
        except MalformedRequest:
            differ += 1
            print(bytes(body))
        else:
            differ += _normal(exact) != _normal(quick)
    assert taken > 100
    assert differ == 0


def test_parse_strict_keeps_values() -> None:
    body = b'{"a":[1,-0,1.5,null,true,"x"],"b":{}}'
    assert parse_strict(body, Shape()) == {"a": [1, 0, 1.5, None, True, "x"], "b": {}}


def test_the_quick_way_is_quick() -> None:
    """10,000 items in 500 KB are decoded and checked in a few milliseconds."""
    body = ordinary_body(10_000, spaced=True)
    best = min(_seconds(body) for _ in range(15))
    assert best < 0.02, f"{best * 1000:.1f} ms"


def _seconds(body: bytes) -> float:
    began = time.perf_counter()
    decode_create_job(body)
    return time.perf_counter() - began
