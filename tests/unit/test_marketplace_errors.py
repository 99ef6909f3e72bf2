"""The table of causes, row by row as the reference has it, and the statuses (sections 6.1 and 6.2)."""
# ruff: noqa: E501  (a table of answers reads best a row a line)

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest

from core.domain.failures import KINDS
from core.marketplace.client import Answer
from core.marketplace.errors import (
    CAUSES,
    FAMILIES,
    OAUTH_ERRORS,
    PRECEDENCE,
    ending,
    failure_code,
    is_throttling,
    retry_after_seconds,
    throttled,
)
from core.ports.marketplace import Outcome, Result

REFERENCE_ROWS = [
    ("100", "field.constraint.violated", "attributes_refused"),
    ("101", "body.invalid_field_types", "content_refused"),
    ("109 129", "item.price.invalid", "price_refused"),
    ("126", "item.category_id.invalid", "category_refused"),
    ("134", "item.title.length.invalid", "title_refused"),
    ("147", "item.attributes.missing_required", "attributes_refused"),
    ("154", "item.attributes.invalid_length", "attributes_refused"),
    ("394", "item.attribute.values.name.invalid", "attributes_refused"),
    ("173", "item.listing_type_id.requiresPictures", "pictures_refused"),
    ("201", "item.pictures.max", "pictures_refused"),
    ("204", "item.pictures.picture_not_found", "pictures_refused"),
    ("508 509", "", "pictures_refused"),
    ("301", "item.attributes.dropped", "attributes_refused"),
    ("303", "item.attributes.ignored", "attributes_refused"),
    ("306", "item.attributes.omitted", "attributes_refused"),
    ("310", "item.description.text.not_allowed", "description_refused"),
    ("344", "item.attributes.normalizable.invalid", "attributes_refused"),
    ("3708", "item.attribute.number_invalid_format", "attributes_refused"),
    ("350", "item.shipping.mandatory_free_shipping", "content_refused"),
    ("369", "body.required_fields", "content_refused"),
    ("374", "body.invalid_fields", "content_refused"),
    ("382", "item.category_id.migrated", "category_refused"),
    ("398", "item.description.type.invalid", "description_refused"),
    ("462", "item.family_name.length_invalid", "title_refused"),
    ("1001", "item.currency_id.invalid", "content_refused"),
    ("1212", "normalize.item.attribute.values", "attributes_refused"),
    ("2511", "create.item.attribute.business_conditional", "attributes_refused"),
    ("2516", "error.item.attribute.business_conditional.value_name", "attributes_refused"),
    ("2610 2611 2612 2613 2614 2615 2616 2617", "missing.fashion_grid.grid_id.values", "size_chart_required"),
    ("2610", "invalid.fashion_grid.grid_id.values", "size_chart_required"),
    ("3250", "moderations.seller.not_authorized", "brand_restricted"),
    ("3510", "invalid.item.attribute.values", "attributes_refused"),
    ("3701", "item.attribute.invalid_product_identifier", "identifier_refused"),
    ("3711", "gtin_invalid_domain", "identifier_refused"),
    ("3712", "gtin_invalid_brand", "identifier_refused"),
    ("3703", "item.pictures.invalid_size", "pictures_refused"),
    ("3704", "item.attribute.missing_catalog_required", "attributes_refused"),
    ("3705", "item.title.minimum_length", "title_refused"),
    ("3706", "item.pictures.unavailable", "pictures_processing"),
    ("3706", "item.pictures.error", "pictures_processing"),
    ("3707", "item.descriptions.length_exceeded", "description_refused"),
    ("3709", "item.attribute.invalid_sale_units", "attributes_refused"),
    ("4029", "shipping.me2_adoption_mandatory", "content_refused"),
    ("4053", "shipping.lost_me1_by_user", "content_refused"),
    ("4056", "shipping.lost_me2_by_catalog", "content_refused"),
    ("5400", "item.attribute.missing.seller.package.dimensions", "package_refused"),
    ("5401", "item.attribute.invalid.seller.package.dimensions", "package_refused"),
    ("5402", "item.attribute.invalid.format.seller.package.dimensions", "package_refused"),
    ("7710 7711 7712 7714", "item.attribute.product_identifier.invalid_format", "identifier_refused"),
    ("7810", "item.attribute.missing_conditional_required", "identifier_refused"),
    ("", "item.attributes.condition.invalid", "attributes_refused"),
    ("", "item.official_store_id.invalid", "content_refused"),
    ("", "body.invalid_official_store_id", "content_refused"),
]


def refused(*causes: dict[str, object], status: int = 400, safe: bool = False, sent: bytes | None = None) -> Result:
    body = {"message": "Validation error", "error": "validation_error", "status": status, "cause": list(causes)}
    return ending(Answer(status, json.dumps(body).encode()), safe=safe, sent=sent)


def code_of(result: Result) -> str:
    assert result.failure is not None
    return result.failure.code


@pytest.mark.parametrize(("ids", "code", "expected"), REFERENCE_ROWS)
def test_each_row_of_the_catalogue(ids: str, code: str, expected: str) -> None:
    for cause_id in map(int, ids.split()):
        assert failure_code(cause_id, "") == expected
        assert code_of(refused({"cause_id": cause_id, "type": "error", "message": "m"})) == expected
    if code:
        assert failure_code(None, code) == expected
        assert code_of(refused({"type": "error", "code": code, "message": "m"})) == expected


def test_the_table_has_no_row_beyond_the_catalogue_and_each_meaning_exists() -> None:
    listed = {int(cause_id) for ids, _, _ in REFERENCE_ROWS for cause_id in ids.split()}
    assert {cause_id for row in CAUSES for cause_id in row.ids} == listed
    for row in CAUSES:
        assert row.failure in KINDS
        assert row.failure in PRECEDENCE
    assert all(failure in KINDS and failure in PRECEDENCE for _, failure in FAMILIES)
    assert all(failure in KINDS for failure in OAUTH_ERRORS.values())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("item.attributes.something_new", "attributes_refused"),
        ("item.pictures.something_new", "pictures_refused"),
        ("item.listing_type_id.invalid", "listing_type_refused"),
        ("item.price.something_new", "price_refused"),
        ("invalid.fashion_grid.something", "size_chart_required"),
        ("", "content_refused"),
        ("something.else", "content_refused"),
    ],
)
def test_codes_outside_the_catalogue_go_by_family(code: str, expected: str) -> None:
    assert failure_code(None, code) == expected
    assert failure_code(0, code) == expected


def test_the_name_of_a_refusal_does_not_depend_on_the_order_of_causes() -> None:
    causes: list[dict[str, object]] = [{"cause_id": n, "type": "error"} for n in (3706, 147, 126, 109)]
    assert code_of(refused(*causes)) == "category_refused"
    assert code_of(refused(*reversed(causes))) == "category_refused"
    assert refused(*causes).outcome is Outcome.REFUSED


def test_warnings_do_not_name_a_refusal_but_are_told() -> None:
    result = refused({"cause_id": 126, "type": "warning"}, {"cause_id": 109, "type": "error", "message": "low"})
    assert code_of(result) == "price_refused"
    assert result.failure is not None
    assert len(result.failure.causes) == 2


def test_only_warnings_still_made_nothing() -> None:
    result = refused({"cause_id": 4053, "type": "warning", "code": "shipping.lost_me1_by_user"})
    assert (result.outcome, code_of(result)) == (Outcome.REFUSED, "content_refused")


def test_pictures_that_could_not_be_processed_are_tried_again() -> None:
    result = refused({"cause_id": 3706, "type": "error", "code": "item.pictures.unavailable"})
    assert (result.outcome, code_of(result)) == (Outcome.RETRY, "pictures_processing")
    assert result.retry_after is not None
    assert 15 <= result.retry_after <= 60


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            {"message": "You have exceeded the quota of pictures per minute", "error": "bad_request"},
            "pictures_processing",
        ),
        ({"message": "images RPM quota reached", "error": "bad_request"}, "pictures_processing"),
        ({"message": "Something went wrong, please try again", "error": "bad_request"}, "marketplace_unavailable"),
    ],
)
def test_a_400_that_time_heals(body: dict[str, object], code: str) -> None:
    result = ending(Answer(400, json.dumps(body).encode()), safe=False)
    assert (result.outcome, code_of(result)) == (Outcome.RETRY, code)
    assert result.retry_after is not None


def test_indexes_into_the_attributes_become_their_names() -> None:
    sent = b'{"attributes":[{"id":"BRAND"},{"id":"GTIN"}]}'
    cause: dict[str, object] = {
        "cause_id": 7711,
        "type": "error",
        "code": "x",
        "references": ["item.attributes[1].values"],
    }
    result = refused(cause, sent=sent)
    assert result.failure is not None
    assert result.failure.causes[0].field == "item.attributes.GTIN"
    result = refused({**cause, "references": ["item.attributes[9]"]}, sent=sent)
    assert result.failure is not None
    assert result.failure.causes[0].field == "item.attributes[9]"


@pytest.mark.parametrize(
    ("status", "body", "outcome", "code"),
    [
        (402, b"", Outcome.REFUSED, "account_payment_required"),
        (402, b"Payment required", Outcome.REFUSED, "account_payment_required"),
        (403, b'{"message":"seller.unable_to_list","error":"User is unable to list.","status":403,"cause":["address_pending"]}', Outcome.REFUSED, "account_not_allowed"),
        (403, b'{"status":403,"error":"access_denied","message":"access to the requested resource is forbidden","code":"FORBIDDEN"}', Outcome.REFUSED, "account_not_allowed"),
        (403, b'{"message":"Invalid scopes","error":"forbidden"}', Outcome.REFUSED, "application_blocked"),
        (403, b'{"message":"The application is blocked"}', Outcome.REFUSED, "application_blocked"),
        (403, b'{"message":"IP blocked"}', Outcome.REFUSED, "application_blocked"),
        (403, b'{"code":"PA_UNAUTHORIZED_RESULT_FROM_POLICIES","blocked_by":"PolicyAgent"}', Outcome.REFUSED, "application_blocked"),
        (403, b'{"message":"The user is blocked"}', Outcome.REFUSED, "account_not_allowed"),
        (403, b"", Outcome.REFUSED, "account_not_allowed"),
        (400, b'{"message":"seller.unable_to_list","error":"User is unable to list.","cause":[]}', Outcome.REFUSED, "account_not_allowed"),
        (401, b'{"message":"expired_token"}', Outcome.REFUSED, "account_reauthorization_required"),
        (404, b'{"message":"resource not found","error":"not_found","status":404}', Outcome.REFUSED, "content_refused"),
        (409, b'{"message":"item optimistic locking error: conflict","status":409,"cause":[]}', Outcome.RETRY, "marketplace_conflict"),
        (422, b"{}", Outcome.REFUSED, "content_refused"),
        (423, b"", Outcome.RETRY, "marketplace_conflict"),
        (400, b"", Outcome.REFUSED, "content_refused"),
        (400, b"<html>Bad Request</html>", Outcome.REFUSED, "content_refused"),
        (400, b'{"message":"body.invalid_field_types","error":"The field types [price] are invalid"}', Outcome.REFUSED, "content_refused"),
        (400, b'{"message":"Cannot update item MCO1 [status:under_review, has_bids:false]","cause":[{"code":"field_not_updatable","message":"available_quantity is not modifiable"}]}', Outcome.REFUSED, "listing_not_modifiable"),
        (400, b'{"message":"x","cause":[{"code":"item.price.not_modifiable","type":"error"}]}', Outcome.REFUSED, "listing_not_modifiable"),
        (400, b'{"error":"DESCRIPTION_PLAIN_TEXT_NOT_ALLOWED","cause":"item.description.type.invalid"}', Outcome.REFUSED, "description_refused"),
        (500, b'{"message":"x","error":"internal_server_error","status":500}', Outcome.UNKNOWN, "outcome_unknown"),
        (502, b"<html>502 Bad Gateway</html>", Outcome.UNKNOWN, "outcome_unknown"),
        (503, b"", Outcome.UNKNOWN, "outcome_unknown"),
        (504, b"", Outcome.UNKNOWN, "outcome_unknown"),
        (599, b"", Outcome.UNKNOWN, "outcome_unknown"),
        (408, b"", Outcome.UNKNOWN, "outcome_unknown"),
        (301, b"", Outcome.UNKNOWN, "outcome_unknown"),
        (302, b"", Outcome.UNKNOWN, "outcome_unknown"),
        (204, b"", Outcome.UNKNOWN, "outcome_unknown"),
        (0, b"", Outcome.UNKNOWN, "outcome_unknown"),
    ],
)  # fmt: skip
def test_statuses_of_a_creation(status: int, body: bytes, outcome: Outcome, code: str) -> None:
    result = ending(Answer(status, body), safe=False)
    assert (result.outcome, code_of(result)) == (outcome, code)
    # The same answer to a call that can be repeated differs only where a creation would be in doubt.
    repeatable = ending(Answer(status, body), safe=True)
    if outcome is Outcome.UNKNOWN:
        assert (repeatable.outcome, code_of(repeatable)) == (Outcome.RETRY, "marketplace_unavailable")
    else:
        assert (repeatable.outcome, code_of(repeatable)) == (outcome, code)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(429, b""), True),
        (Answer(429, b'{"message":"local_rate_limited","status":429}'), True),
        (Answer(400, b'{"message":"local_rate_limited"}'), True),
        (Answer(403, b'{"error":"too_many_requests"}'), True),
        (Answer(403, b'{"error":"forbidden"}'), False),
        (Answer(500, b"too_many_requests"), False),
    ],
)
def test_what_is_throttling(answer: Answer, expected: bool) -> None:
    assert is_throttling(answer) is expected


def test_a_throttled_result_tells_the_pause_asked_for() -> None:
    result = throttled(Answer(429, b'{"message":"local_rate_limited"}', "17"))
    assert (result.outcome, code_of(result), result.retry_after) == (Outcome.THROTTLED, "marketplace_busy", 17)
    assert throttled(Answer(429, b"")).retry_after is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("7", 7),
        (" 7 ", 7),
        ("0", 1),
        ("999999", 300),
        ("99999999999999999999999999", 300),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("Fri, 99 Foo 2026", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 1),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 300),
    ],
)
def test_retry_after(header: str, expected: float | None) -> None:
    assert retry_after_seconds(header) == expected


def test_retry_after_as_a_date_ahead() -> None:
    seconds = retry_after_seconds(formatdate(time.time() + 30, usegmt=True))
    assert seconds is not None
    assert 27 <= seconds <= 31
