"""Reading answers: what they say when they are good, and that nothing breaks when they are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.marketplace import answers
from core.marketplace.client import Answer, NoAnswer
from core.marketplace.connector import repaired
from core.marketplace.errors import ending, is_throttling, retry_after_seconds, throttled
from core.marketplace.payloads import Form
from core.ports.marketplace import Listing, ListingDraft, Outcome, SellerModel

ITEM: dict[str, Any] = {
    "id": "MCO123456789",
    "site_id": "MCO",
    "title": "Taladro percutor",
    "seller_id": 1234567,
    "category_id": "MCO1055",
    "price": 189900,
    "currency_id": "COP",
    "listing_type_id": "gold_special",
    "permalink": "https://articulo.mercadolibre.com.co/MCO-123456789",
    "pictures": [{"id": "1-MCO", "url": "http://host/1.jpg", "secure_url": "https://host/1.jpg"}],
    "thumbnail": "http://host/t.jpg",
    "attributes": [
        {"id": "BRAND", "name": "Marca", "value_id": None, "value_name": "Acme"},
        {"id": "SELLER_SKU", "name": "SKU", "value_id": None, "value_name": "B07N4M94X4"},
    ],
    "seller_custom_field": "B07N4M94X4",
    "status": "paused",
    "sub_status": ["picture_download_pending"],
    "date_created": "2026-11-27T10:20:30.000-05:00",
    "warnings": [{"code": "item.shipping.mandatory_free_shipping", "message": "Free shipping was added"}],
}


def read(**changes: object) -> Listing | None:
    return answers.read_listing(json.dumps({**ITEM, **changes}).encode())


def test_a_good_item() -> None:
    assert read() == Listing(
        listing_id="MCO123456789",
        sku="B07N4M94X4",
        status="paused",
        sub_status=["picture_download_pending"],
        permalink="https://articulo.mercadolibre.com.co/MCO-123456789",
        title="Taladro percutor",
        price=189900,
        category_id="MCO1055",
        listing_type_id="gold_special",
        image="https://host/1.jpg",
        created_at=datetime(2026, 11, 27, 15, 20, 30, tzinfo=UTC),
        warnings=["item.shipping.mandatory_free_shipping: Free shipping was added"],
    )


@pytest.mark.parametrize(
    "listing_id",
    [None, 17, "", "MCO", "MCO12\n", "mco12", "MCO１２", "MCO" + "1" * 40, "../users", ["MCO1"], {"a": 1}, True],
)
def test_without_a_well_formed_id_there_is_no_listing(listing_id: object) -> None:
    assert read(id=listing_id) is None


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"17", b'"MCO1"', b"{", b"<html>", b"\xff\xfe", b"[" * 100_000, b'{"id":' * 100_000]
)
def test_what_is_no_item_is_none(body: bytes) -> None:
    assert answers.read_listing(body) is None


def test_members_of_the_wrong_type_read_as_unknown() -> None:
    listing = read(
        price="cheap",
        status=["active"],
        permalink={"href": 1},
        sub_status="none",
        title=17,
        category_id=-1,
        pictures="x",
        thumbnail=0,
        secure_thumbnail=[],
        attributes={"id": "SELLER_SKU"},
        seller_custom_field=17,
        date_created=5,
        warnings=True,
        family_name=None,
        listing_type_id=3.5,
    )
    assert listing == Listing(listing_id="MCO123456789", sku="", status="", sub_status=[], warnings=[])


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        (0, 0),
        (1, 1),
        (5.0, 5),
        (5.5, None),
        (-1, None),
        (True, None),
        ("5", None),
        (10**30, None),
        (1e300, None),
        (None, None),
    ],
)
def test_prices(price: object, expected: int | None) -> None:
    listing = read(price=price)
    assert listing is not None
    assert listing.price == expected


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://a b", "https://" + "a" * 3000, "//host/x", "https://x\n", "ftp://x"]
)
def test_addresses_that_are_none(url: str) -> None:
    listing = read(permalink=url, pictures=[], thumbnail=url)
    assert listing is not None
    assert listing.permalink == ""
    assert listing.image == ""


def test_texts_are_cut_and_lose_control_characters() -> None:
    listing = read(title="a\x00b\x1b[31m" + "x" * 1000)
    assert listing is not None
    assert len(listing.title) <= answers.MAX_TITLE
    assert listing.title.startswith("a b [31m")


@pytest.mark.parametrize(
    "moment", ["yesterday", "2026-11-27T10:20:30", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "x" * 100]
)
def test_times_that_are_none(moment: str) -> None:
    listing = read(date_created=moment)
    assert listing is not None
    assert listing.created_at is None


def test_the_sku_is_the_attribute_and_only_without_one_the_legacy_field() -> None:
    other = [{"id": "SELLER_SKU", "value_name": "OTHERSKU00"}]
    assert (read(attributes=other) or pytest.fail("unread")).sku == "OTHERSKU00"
    assert (read(attributes=[]) or pytest.fail("unread")).sku == "B07N4M94X4"
    assert (read(attributes=[{"id": "SELLER_SKU", "value_name": None}]) or pytest.fail("unread")).sku == ""


def test_a_multiget_is_read_entry_by_entry() -> None:
    body = json.dumps(
        [
            {"code": 200, "body": ITEM},
            {"code": 404, "body": {"message": "no"}},
            {"code": "x"},
            {"code": 200, "body": []},
        ]
    )
    entries = answers.read_listings(body.encode())
    assert entries is not None
    assert [code for code, _ in entries] == [200, 404, 0, 200]
    assert [listing.listing_id if listing else None for _, listing in entries] == ["MCO123456789", None, None, None]


def test_a_search_leaves_malformed_ids_out() -> None:
    body = b'{"paging":{"total":4},"results":["MCO1",2,"MCO3","x"]}'
    assert answers.read_search(body) == (["MCO1", "MCO3"], 4)
    assert answers.read_search(b'{"results":["MCO1"],"paging":{"total":"many"}}') == (["MCO1"], 1)
    assert answers.read_search(b'{"results":null}') is None


def test_predictions() -> None:
    found = answers.read_prediction(b'[{"category_id":7},{"category_id":"MCO1055","category_name":"Celulares"}]')
    assert found is not None
    assert found[0] is not None
    assert (found[0].category_id, found[0].category_name) == ("MCO1055", "Celulares")
    assert answers.read_prediction(b"[]") == (None,)
    assert answers.read_prediction(b'[{"category_id":7}]') is None
    assert answers.read_prediction(b"{}") is None


def test_categories() -> None:
    body = b'{"id":"MCO1","name":"Otros","settings":{"max_title_length":120,"max_pictures_per_item":6}}'
    assert answers.read_category(body, "MCO1") == answers.Category("Otros", 120, 6)
    assert answers.read_category(body, "MCO2") is None
    odd = b'{"id":"MCO1","settings":{"max_title_length":"60","max_pictures_per_item":0}}'
    assert answers.read_category(odd, "MCO1") == answers.Category("", None, None)


def test_profiles() -> None:
    told = answers.read_profile(
        b'{"id":5,"nickname":"N","site_id":"MCO","tags":["user_product_seller"],"status":{"list":{"allow":false}}}'
    )
    assert told is not None
    user_id, profile = told
    assert (user_id, profile.site_id, profile.may_list, profile.model) == (5, "MCO", False, SellerModel.USER_PRODUCT)
    told = answers.read_profile(b'{"id":5,"tags":"user_product_seller","status":7}')
    assert told is not None
    assert (told[1].may_list, told[1].model) == (True, SellerModel.CLASSIC)
    assert answers.read_profile(b'{"id":"5"}') is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"access_token":"a\\nb","expires_in":5}',
        b'{"access_token":"","expires_in":5}',
        b'{"access_token":"a","expires_in":0}',
        b'{"access_token":"a","expires_in":"5"}',
        b'{"access_token":7,"expires_in":5}',
        b'{"access_token":"a"}',
        b"[]",
    ],
)
def test_token_answers_that_cannot_be_used(body: bytes) -> None:
    assert answers.read_tokens(body) is None


def test_tokens_have_no_repr() -> None:
    pair = answers.read_tokens(b'{"access_token":"APP_USR-1","refresh_token":"TG-1","expires_in":5,"user_id":7}')
    assert pair is not None
    assert (pair.access_token, pair.refresh_token, pair.expires_in, pair.user_id) == ("APP_USR-1", "TG-1", 5, 7)
    assert "APP_USR" not in repr(pair)


def test_every_variant_of_an_error_body() -> None:
    full = answers.read_error(
        b'{"message":"Validation error","error":"validation_error","status":400,"cause":[{"department":"items",'
        b'"cause_id":147,"type":"error","code":"item.attributes.missing_required","references":["item.attributes"],'
        b'"message":"The attributes [BRAND] are required"}]}'
    )
    assert full.causes[0].cause_id == 147
    strings = answers.read_error(b'{"message":"seller.unable_to_list","cause":["address_pending","phone_pending"]}')
    assert [cause.code for cause in strings.causes] == ["address_pending", "phone_pending"]
    assert (
        answers.read_error(b'{"cause":"item.description.type.invalid"}').causes[0].code
        == "item.description.type.invalid"
    )
    assert answers.read_error(b'{"message":"local_rate_limited","status":429}').message == "local_rate_limited"
    assert answers.read_error(b'{"code":"unauthorized","message":"invalid access token"}').code == "unauthorized"
    assert answers.read_error(b'{"error":"invalid_grant","error_description":"used"}').message == "used"
    assert answers.read_error(b"").causes == ()
    assert answers.read_error(b"<html>bad gateway</html>").message == ""


def test_an_error_is_kept_among_many_warnings() -> None:
    causes = [{"type": "warning", "code": "noise", "message": "n"}] * 60 + [{"type": "error", "cause_id": 126}]
    read = answers.read_error(json.dumps({"cause": causes}).encode())
    assert len(read.causes) == answers.MAX_CAUSES
    assert read.causes[0].cause_id == 126


def test_tokens_in_messages_are_not_passed_on() -> None:
    read = answers.read_error(b'{"message":"invalid token APP_USR-123-abc-9 of TG-55-x","cause":"about APP_USR-1-2"}')
    assert read.message == "invalid token [redacted] of [redacted]"
    assert "APP_USR" not in read.causes[0].message + read.causes[0].code


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
OTHER_NAMES = (
    "results paging total code body cause cause_id type references message error settings name tags access_token "
    "refresh_token expires_in user_id nickname error_description max_title_length category_name family_name value_name"
)
NAMES = st.sampled_from([*ITEM, *OTHER_NAMES.split()])
ODD_OBJECT = st.dictionaries(NAMES, JUNK | st.lists(st.dictionaries(NAMES, JUNK, max_size=6), max_size=4), max_size=12)
BODIES = (
    st.binary(max_size=200)
    | JUNK.map(lambda junk: json.dumps(junk).encode())
    | ODD_OBJECT.map(lambda junk: json.dumps(junk).encode())
    | ODD_OBJECT.map(lambda junk: json.dumps({**ITEM, **junk}).encode())
    | st.lists(ODD_OBJECT, max_size=4).map(lambda junk: json.dumps(junk).encode())
    | ODD_OBJECT.map(lambda junk: json.dumps({**ITEM, **junk}).encode()[: len(json.dumps(junk))])
)
READERS: list[Callable[[bytes], object]] = [
    answers.read_listing,
    answers.read_listings,
    answers.read_search,
    answers.read_prediction,
    lambda body: answers.read_category(body, "MCO1055"),
    answers.read_profile,
    answers.read_tokens,
    answers.read_error,
]
DRAFT = ListingDraft(
    sku="B07N4M94X4", title="Taladro", category_id="MCO1", price=1, listing_type_id="free", quantity=1, image_urls=[]
)


@given(BODIES)
def test_no_reader_raises_whatever_the_body(body: bytes) -> None:
    readings = [reader(body) for reader in READERS]
    assert len(readings) == len(READERS)


@given(BODIES)
def test_a_listing_read_from_junk_is_within_bounds(body: bytes) -> None:
    listing = answers.read_listing(body)
    if listing is None:
        return
    assert answers.LISTING_ID.fullmatch(listing.listing_id)
    for text in (listing.sku, listing.status, listing.permalink, listing.title, listing.image, *listing.warnings):
        assert text.isprintable()
        assert len(text) <= 2100
    assert listing.price is None or 0 <= listing.price <= answers.MAX_PRICE
    assert listing.created_at is None or listing.created_at.utcoffset() is not None


@given(BODIES, st.integers(min_value=0, max_value=999), st.text(max_size=80), st.booleans(), BODIES)
def test_every_answer_has_an_ending(body: bytes, status: int, retry_after: str, safe: bool, sent: bytes) -> None:
    ended = ending(Answer(status, body, retry_after), safe=safe, sent=sent)
    assert ended.failure is not None
    assert ended.failure.kind.message
    assert ended.retry_after is None or 1 <= ended.retry_after <= 300
    if not safe and (status < 400 or status >= 500):
        assert ended.outcome is Outcome.UNKNOWN
    pause = retry_after_seconds(retry_after)
    assert pause is None or 1 <= pause <= 300


@given(BODIES, st.sampled_from([400, 403, 429]))
def test_throttling_answers_have_no_pause_beyond_the_bounds(body: bytes, status: int) -> None:
    answer = Answer(status, body, "999999")
    assert is_throttling(answer) or status != 429
    assert throttled(answer).retry_after == 300


@given(BODIES)
def test_no_refusal_breaks_the_search_for_a_better_form(body: bytes) -> None:
    for model in SellerModel:
        form = Form(model=model)
        better = repaired(form, DRAFT, answers.read_error(body))
        assert better is None or better != form


def test_no_answer_before_and_after_the_first_byte() -> None:
    assert ending(NoAnswer(False, "connect"), safe=False).outcome is Outcome.NOT_SENT
    assert ending(NoAnswer(False, "timeout"), safe=True).outcome is Outcome.NOT_SENT
    assert ending(NoAnswer(True, "timeout"), safe=False).outcome is Outcome.UNKNOWN
    assert ending(NoAnswer(True, "timeout"), safe=True).outcome is Outcome.RETRY
