"""From what the marketplace answered to an outcome and a failure code of ours.

``CAUSES`` is the one table from the marketplace's causes (reference, section 6.1) to the codes of
``core.domain.failures.KINDS``; ``ending`` is the one place where statuses become outcomes (section 6.2).
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import msgspec

from core.domain.failures import Cause, Failure
from core.marketplace.answers import ErrorBody, ErrorCause, read_error
from core.marketplace.client import Answer, NoAnswer
from core.ports.marketplace import Outcome, Result

MIN_RETRY_AFTER = 1.0
MAX_RETRY_AFTER = 300.0
"""Seconds; a Retry-After outside is brought to the nearer end."""


@dataclass(frozen=True, slots=True)
class CauseRow:
    """Causes with one meaning: their ids, their codes, and the failure code they become."""

    ids: tuple[int, ...]
    codes: tuple[str, ...]
    failure: str


CAUSES: tuple[CauseRow, ...] = (
    CauseRow((100,), ("field.constraint.violated",), "attributes_refused"),
    CauseRow((101,), ("body.invalid_field_types",), "content_refused"),
    CauseRow((109, 129), ("item.price.invalid",), "price_refused"),
    CauseRow((126,), ("item.category_id.invalid",), "category_refused"),
    CauseRow((134,), ("item.title.length.invalid",), "title_refused"),
    CauseRow((147,), ("item.attributes.missing_required",), "attributes_refused"),
    CauseRow(
        (154, 394),
        ("item.attributes.invalid_length", "item.attribute.values.name.invalid"),
        "attributes_refused",
    ),
    CauseRow((173,), ("item.listing_type_id.requiresPictures",), "pictures_refused"),
    CauseRow((201,), ("item.pictures.max",), "pictures_refused"),
    CauseRow((204, 508, 509), ("item.pictures.picture_not_found",), "pictures_refused"),
    CauseRow(
        (301, 303, 306),
        ("item.attributes.dropped", "item.attributes.ignored", "item.attributes.omitted"),
        "attributes_refused",
    ),
    CauseRow((310,), ("item.description.text.not_allowed",), "description_refused"),
    CauseRow(
        (344, 3708),
        ("item.attributes.normalizable.invalid", "item.attribute.number_invalid_format"),
        "attributes_refused",
    ),
    CauseRow((350,), ("item.shipping.mandatory_free_shipping",), "content_refused"),
    CauseRow((369,), ("body.required_fields",), "content_refused"),
    CauseRow((374,), ("body.invalid_fields",), "content_refused"),
    CauseRow((382,), ("item.category_id.migrated",), "category_refused"),
    CauseRow(
        (398,),
        ("item.description.type.invalid", "DESCRIPTION_PLAIN_TEXT_NOT_ALLOWED"),
        "description_refused",
    ),
    CauseRow((462,), ("item.family_name.length_invalid",), "title_refused"),
    CauseRow((1001,), ("item.currency_id.invalid",), "content_refused"),
    CauseRow(
        (1212, 2511),
        ("normalize.item.attribute.values", "create.item.attribute.business_conditional"),
        "attributes_refused",
    ),
    CauseRow((2516,), ("error.item.attribute.business_conditional.value_name",), "attributes_refused"),
    CauseRow((2610, 2611, 2612, 2613, 2614, 2615, 2616, 2617), (), "size_chart_required"),
    CauseRow((3250,), ("moderations.seller.not_authorized",), "brand_restricted"),
    CauseRow((3510,), ("invalid.item.attribute.values",), "attributes_refused"),
    CauseRow(
        (3701, 3711, 3712),
        (
            "item.attribute.invalid_product_identifier",
            "item.attribute.gtin_invalid_domain",
            "item.attribute.gtin_invalid_brand",
            "gtin_invalid_domain",
            "gtin_invalid_brand",
        ),
        "identifier_refused",
    ),
    CauseRow((3703,), ("item.pictures.invalid_size",), "pictures_refused"),
    CauseRow((3704,), ("item.attribute.missing_catalog_required",), "attributes_refused"),
    CauseRow((3705,), ("item.title.minimum_length",), "title_refused"),
    CauseRow((3706,), ("item.pictures.unavailable", "item.pictures.error"), "pictures_processing"),
    CauseRow((3707,), ("item.descriptions.length_exceeded",), "description_refused"),
    CauseRow((3709,), ("item.attribute.invalid_sale_units",), "attributes_refused"),
    CauseRow(
        (4029, 4053, 4056),
        (
            "shipping.me2_adoption_mandatory",
            "shipping.lost_me1_by_user",
            "shipping.lost_me2_by_catalog",
        ),
        "content_refused",
    ),
    CauseRow((5400, 5401, 5402), (), "package_refused"),
    CauseRow((7710, 7711, 7712, 7714), (), "identifier_refused"),
    CauseRow((7810,), ("item.attribute.missing_conditional_required",), "identifier_refused"),
    CauseRow((), ("item.attributes.condition.invalid",), "attributes_refused"),
    CauseRow((), ("item.official_store_id.invalid", "body.invalid_official_store_id"), "content_refused"),
    CauseRow((), ("seller.unable_to_list",), "account_not_allowed"),
    CauseRow((), ("item.price.not_modifiable", "field_not_updatable"), "listing_not_modifiable"),
)
"""Whether a cause refuses is decided by the ``type`` received, never by this table."""

FAMILIES: tuple[tuple[str, str], ...] = (
    ("seller.package", "package_refused"),
    ("fashion_grid", "size_chart_required"),
    ("product_identifier", "identifier_refused"),
    ("gtin", "identifier_refused"),
    ("item.attribute", "attributes_refused"),
    ("item.picture", "pictures_refused"),
    ("item.title", "title_refused"),
    ("item.family_name", "title_refused"),
    ("item.price", "price_refused"),
    ("item.category", "category_refused"),
    ("item.listing_type", "listing_type_refused"),
    ("item.description", "description_refused"),
)
"""For codes that the catalogue does not list: the first part found in the code decides."""

_BY_ID = {cause_id: row.failure for row in CAUSES for cause_id in row.ids}
_BY_CODE = {code.lower(): row.failure for row in CAUSES for code in row.codes}

PRECEDENCE: tuple[str, ...] = (
    "account_not_allowed",
    "listing_not_modifiable",
    "category_refused",
    "size_chart_required",
    "brand_restricted",
    "listing_type_refused",
    "identifier_refused",
    "package_refused",
    "attributes_refused",
    "title_refused",
    "price_refused",
    "pictures_refused",
    "description_refused",
    "content_refused",
    "pictures_processing",
)
"""Which failure names a refusal with several causes; their order in an answer is not stable."""
_RANK = {code: rank for rank, code in enumerate(PRECEDENCE)}


def failure_code(cause_id: int | None, code: str) -> str:
    """The failure code of one cause: by its id, else its code, else its code's family."""
    if cause_id is not None and cause_id in _BY_ID:
        return _BY_ID[cause_id]
    lowered = code.lower()
    known = _BY_CODE.get(lowered)
    if known is not None:
        return known
    for part, failure in FAMILIES:
        if part in lowered:
            return failure
    return "content_refused"


OAUTH_ERRORS: dict[str, str] = {
    "invalid_grant": "account_reauthorization_required",
    "unauthorized_client": "account_reauthorization_required",
    "forbidden": "account_not_allowed",
    "invalid_client": "application_blocked",
    "invalid_scope": "application_blocked",
    "invalid_request": "application_blocked",
    "unsupported_grant_type": "application_blocked",
    "unauthorized_application": "application_blocked",
}
"""Refusals of a token refresh (reference, section 1.2)."""

_INDEX = re.compile(r"item\.attributes\[([0-9]{1,4})\]", re.ASCII)
_NAMES = re.compile(r"\[([A-Z0-9_, ]{1,200})\]", re.ASCII)


def named_attributes(cause: ErrorCause) -> set[str]:
    """Attribute ids that a cause names between brackets."""
    return {name.strip() for group in _NAMES.findall(cause.message) for name in group.split(",") if name.strip()}


def _field(references: Sequence[str], sent: bytes | None) -> str:
    """The place a cause points at; an index into the attributes sent becomes the attribute's id."""
    if not references:
        return ""
    place = references[0]
    match = _INDEX.match(place)
    if match is None or sent is None:
        return place
    try:
        attribute = msgspec.json.decode(sent)["attributes"][int(match.group(1))]["id"]
    except (msgspec.MsgspecError, LookupError, TypeError):
        return place
    return f"item.attributes.{attribute}"


def told_causes(error: ErrorBody, status: int, sent: bytes | None = None) -> tuple[Cause, ...]:
    """What the marketplace said, for people: its causes, or else its message."""
    if error.causes:
        return tuple(
            Cause(
                cause.code or (str(cause.cause_id) if cause.cause_id is not None else f"http_{status}"),
                cause.message or ("" if cause.references else error.message),
                _field(cause.references, sent),
            )
            for cause in error.causes
        )
    # Some answers carry the code in "message" and the sentence in "error".
    words = [text for text in (error.message, error.error, error.code) if text]
    code = next((text for text in words if _looks_like_code(text)), f"http_{status}")
    return (Cause(code, next((text for text in words if not _looks_like_code(text)), "")),)


def _looks_like_code(text: str) -> bool:
    return bool(text) and " " not in text


def retry_after_seconds(header: str) -> float | None:
    """The Retry-After header in seconds within the bounds; None when absent or unreadable."""
    header = header.strip()
    if not header:
        return None
    if header.isascii() and header.isdigit():
        seconds = float(header[:9])
    else:
        try:
            moment = parsedate_to_datetime(header)
            # The zone "-0000" reads as no zone; an HTTP date is UTC whatever it says.
            seconds = moment.timestamp() - time.time() if moment.tzinfo else 0.0
        except (ValueError, OverflowError, TypeError, IndexError):
            return None
    return min(max(seconds, MIN_RETRY_AFTER), MAX_RETRY_AFTER)


def stopped(code: str, *causes: Cause) -> Result:
    """A refusal by this failure code, told by ourselves or for the whole account."""
    return Result(outcome=Outcome.REFUSED, failure=Failure(code, causes))


def not_sent(code: str = "marketplace_unavailable", *causes: Cause) -> Result:
    """Nothing left this process."""
    return Result(outcome=Outcome.NOT_SENT, failure=Failure(code, causes))


def uncertain(*, safe: bool, causes: Sequence[Cause] = (), retry_after: float | None = None) -> Result:
    """An ending that tells nothing: RETRY for calls that are safe to repeat, else UNKNOWN."""
    if safe:
        failure = Failure("marketplace_unavailable", tuple(causes))
        return Result(outcome=Outcome.RETRY, failure=failure, retry_after=retry_after)
    return Result(outcome=Outcome.UNKNOWN, failure=Failure("outcome_unknown", tuple(causes)))


_LATER = ("try again", "intente nuevamente", "intenta nuevamente", "send again")
_APPLICATION = ("scope", "unauthorized_application", "application", "policyagent", "pa_unauthorized")
_THROTTLING = (b"rate_limited", b"too_many_requests", b"Too Many Requests")

_REFUSALS = {401: "account_reauthorization_required", 402: "account_payment_required"}
"""Statuses that mean one thing whatever the body says."""


def is_throttling(answer: Answer) -> bool:
    """Whether the answer is a 429, or a refusal that says the same."""
    if answer.status == 429:
        return True
    return answer.status in (400, 403) and any(word in answer.body for word in _THROTTLING)


def throttled(answer: Answer) -> Result:
    """The result of a throttling answer; its pause is None where the answer names none."""
    failure = Failure("marketplace_busy", told_causes(read_error(answer.body), answer.status))
    return Result(outcome=Outcome.THROTTLED, failure=failure, retry_after=retry_after_seconds(answer.retry_after))


THROTTLED_BY_US = Failure("marketplace_busy", (Cause("application_rate", "The application's own rate is used up."),))


def throttled_by_us(seconds: float) -> Result:
    """The application's rate allows no call for that long; nothing was sent."""
    return Result(
        outcome=Outcome.THROTTLED,
        failure=THROTTLED_BY_US,
        retry_after=min(max(seconds, MIN_RETRY_AFTER), MAX_RETRY_AFTER),
    )


def ending(
    answer: Answer | NoAnswer,
    *,
    safe: bool,
    sent: bytes | None = None,
    picture_retry_seconds: float = 15.0,
) -> Result:
    """How a call ended that did not end well. Never for a usable 2xx; throttling answers go through
    ``throttled``, and a 401 is told here only when renewing the token did not help.

    Args:
        answer: what came.
        safe: whether the call can be repeated without harm.
        sent: the request's body, to name the attributes that causes point at by index.
        picture_retry_seconds: pause before pictures are tried again; up to twice as long.
    """
    if isinstance(answer, NoAnswer):
        return _no_answer(answer, safe=safe)
    status = answer.status
    if status < 400 or status >= 500 or status in (408, 425):
        # Redirects and unusable 2xx too: what stands behind them may have happened.
        after = retry_after_seconds(answer.retry_after)
        return uncertain(safe=safe, causes=(Cause(f"http_{status}", ""),), retry_after=after)
    error = read_error(answer.body)
    causes = told_causes(error, status, sent)
    if status in (409, 423):
        return _retry("marketplace_conflict", causes, random.uniform(1, 3))  # noqa: S311
    if status == 400:
        return _bad_request(error, causes, picture_retry_seconds)
    if status == 403:
        return stopped(_forbidden(error), *causes)
    return stopped(_REFUSALS.get(status, "content_refused"), *causes)


def _no_answer(answer: NoAnswer, *, safe: bool) -> Result:
    if answer.sent:
        return uncertain(safe=safe, causes=(Cause(answer.reason, ""),))
    if answer.reason == "held_back":
        return not_sent("internal_error", Cause("held_back", "The send came too late and was held back."))
    return not_sent("marketplace_unavailable", Cause(answer.reason, ""))


def _retry(code: str, causes: tuple[Cause, ...], seconds: float) -> Result:
    return Result(outcome=Outcome.RETRY, failure=Failure(code, causes), retry_after=seconds)


def _forbidden(error: ErrorBody) -> str:
    if error.mentions(*_APPLICATION) or (error.mentions("blocked") and not error.mentions("user", "seller")):
        return "application_blocked"
    return "account_not_allowed"


def _bad_request(error: ErrorBody, causes: tuple[Cause, ...], picture_retry_seconds: float) -> Result:
    refusing = [cause for cause in error.causes if not cause.is_warning]
    if refusing:
        codes = {failure_code(cause.cause_id, cause.code) for cause in refusing}
    else:
        # The code may stand in "message" or "error" alone.
        codes = {
            failure_code(None, word) for word in (error.message, error.error, error.code) if _looks_like_code(word)
        }
        if error.mentions("quota", "rpm") and error.mentions("picture", "image", "imagen", "imágen"):
            codes = {"pictures_processing"}
        elif error.mentions(*_LATER):
            return _retry("marketplace_unavailable", causes, picture_retry_seconds)
    if error.mentions("unable_to_list", "unable to list"):
        codes.add("account_not_allowed")
    if error.mentions("cannot update item", "is not modifiable"):
        codes.add("listing_not_modifiable")
    code = min(codes, key=_RANK.__getitem__, default="content_refused")
    if code == "pictures_processing":
        pause = random.uniform(picture_retry_seconds, 2 * picture_retry_seconds)  # noqa: S311
        return _retry(code, causes, pause)
    return stopped(code, *causes)
