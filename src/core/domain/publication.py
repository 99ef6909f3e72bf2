"""Requests to publish and to promote, and the judgement of their meaning.

Shape and type are the business of whoever decoded the request; here strings are strings and numbers are
numbers. Order and codes of the findings: decisions, section 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from core.domain import schedule
from core.domain.failures import KINDS
from core.domain.seller import LISTING_TYPES
from core.domain.sku import CATEGORY_RULE, SKU_RULE, is_category_id, is_sku
from core.errors import MAX_VIOLATIONS, Violation

MAX_ITEMS = 10_000
"""Items of one job (contract, "Limits")."""
MAX_ACTIVE_JOBS = 6
"""Queued, processing and scheduled jobs of one seller (contract, "Limits")."""
MAX_PROMOTED = 1_000
"""Candidates taken by a promote call that names none (contract, "Limits")."""
RUN_SIZE = 200
"""Items a worker leases at once. Smaller runs cost more statements and commits per item (10: five times, 100: a
quarter), larger ones are lost in one piece when a worker dies."""

LISTING_TYPE_RULE = "must be one of " + ", ".join(LISTING_TYPES)
TAX_RULE = "must be an index of the seller's tariff categories"


class Item(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One product asked for. ``auto_categorize`` None or False counts as absent. A struct because a large request has
    10,000 of them: a named tuple takes three times as long to make."""

    sku: str
    category_id: str | None
    auto_categorize: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRequest:
    """What CreateJob takes. None means "not given"."""

    OPERATION: ClassVar[str] = "create"

    items: Sequence[Item]
    listing_type_id: str | None = None
    tax_category_id: int | None = None
    scheduled_for: str | None = None
    idempotency_key: str | None = None
    validate_only: bool = False

    def fingerprint(self) -> bytes:
        """Equal for requests that mean the same: white space, member order and unknown members are gone
        by now; an option given with its default value differs from an absent one."""
        return _fingerprint(
            self.OPERATION, (self.items, self.listing_type_id, self.tax_category_id, self.scheduled_for)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRequest:
    """What PromoteTestProducts takes. ``skus`` None: the oldest candidates."""

    OPERATION: ClassVar[str] = "promote"

    skus: Sequence[str] | None = None
    listing_type_id: str | None = None
    tax_category_id: int | None = None
    idempotency_key: str | None = None
    validate_only: bool = False

    def fingerprint(self) -> bytes:
        """As for a publication."""
        return _fingerprint(self.OPERATION, (self.skus, self.listing_type_id, self.tax_category_id))


def _fingerprint(operation: str, parts: Any) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode((operation, parts))).digest()


class Rejection(NamedTuple):
    """A well-formed entry that is not taken."""

    position: int
    sku: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedItem:
    """What one item would become; ``problem`` is the code of a failure known in advance."""

    sku: str
    category_id: str | None
    price: int | None
    problem: str | None = None


class PublicationResult(msgspec.Struct, frozen=True, kw_only=True):
    """What CreateJob answers; remembered under the idempotency key as it stands."""

    job_id: str
    accepted: int
    rejected: int
    total_items: int
    credits_held: int
    rejections: tuple[Rejection, ...] = ()


class PromotionResult(msgspec.Struct, frozen=True, kw_only=True):
    """What PromoteTestProducts answers. promoted + rejected = total_candidates."""

    job_id: str
    promoted: int
    rejected: int
    total_candidates: int
    credits_held: int
    skus: tuple[str, ...]
    rejections: tuple[Rejection, ...] = ()
    remaining: int | None = None


R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[R]):
    """A result, whether it is a remembered one, and the plan when only validation was asked for."""

    result: R
    replayed: bool = False
    plan: Sequence[PlannedItem] = field(default=())


def judge_items(items: Sequence[Item]) -> list[Violation]:
    """Every offending place of the items, by index and within one by sku, category_id, auto_categorize;
    at most one more than a problem lists, which is how it knows that there are more."""
    found: list[Violation] = []
    for index, item in enumerate(items):
        # The common case first and in one breath: this loop runs 10,000 times a request.
        sku, category_id, auto = item.sku, item.category_id, item.auto_categorize
        if len(sku) == 10 and sku.isalnum() and sku.isascii():
            if category_id is None:
                if auto:
                    continue
            elif not auto and is_category_id(category_id):
                continue
        _judge_item(found, index, sku, category_id, auto)
        if len(found) > MAX_VIOLATIONS:
            break
    return found[: MAX_VIOLATIONS + 1]


def _judge_item(found: list[Violation], index: int, sku: str, category_id: str | None, auto: bool | None) -> None:
    place = f"/items/{index}"
    if not is_sku(sku):
        found.append(Violation("E_PRODUCT_INVALID_SKU", SKU_RULE, f"{place}/sku"))
    if category_id is not None:
        if not is_category_id(category_id):
            found.append(Violation("E_CATEGORY_INVALID", CATEGORY_RULE, f"{place}/category_id"))
        if auto:
            found.append(
                Violation(
                    "E_CATEGORY_AND_AUTO_CONFLICT",
                    "must not be true beside a category_id",
                    f"{place}/auto_categorize",
                )
            )
    elif not auto:
        found.append(
            Violation(
                "E_PRODUCT_INVALID_BODY",
                "each item needs either a category_id or auto_categorize: true",
                place,
            )
        )


def judge_skus(skus: Iterable[str]) -> list[Violation]:
    """Every malformed SKU of a promote call; at most one more than a problem lists."""
    return [
        Violation("E_PRODUCT_INVALID_SKU", SKU_RULE, f"/sku_list/skus/{index}")
        for index, sku in enumerate(skus)
        if not is_sku(sku)
    ][: MAX_VIOLATIONS + 1]


def judge_options(
    *, listing_type_id: str | None, tax_category_id: int | None, tax_indices: Iterable[int]
) -> list[Violation]:
    """The options shared by both operations, in the documented order."""
    found: list[Violation] = []
    if listing_type_id is not None and listing_type_id not in LISTING_TYPES:
        found.append(Violation("E_PRODUCT_INVALID_BODY", LISTING_TYPE_RULE, "/listing_type_id"))
    if tax_category_id is not None and tax_category_id not in set(tax_indices):
        found.append(Violation("E_PRODUCT_INVALID_BODY", TAX_RULE, "/tax_category_id"))
    return found


def judge_schedule(text: str | None, now: datetime) -> tuple[datetime | None, list[Violation]]:
    """The moment named, and what is wrong with it. ``now`` is the database's."""
    if text is None:
        return None, []
    try:
        moment = schedule.parse_publication_time(text, now)
        schedule.check_window(moment, now)
    except schedule.ScheduleError as error:
        return None, [Violation("E_PRODUCT_INVALID_BODY", str(error), "/scheduled_for")]
    return moment, []


def split_repeated(items: Sequence[Item]) -> tuple[Rejection, ...]:
    """The items whose SKU stands earlier in the request: the first wins."""
    if len({item.sku for item in items}) == len(items):
        return ()
    seen: set[str] = set()
    rejections = []
    for index, item in enumerate(items):
        if item.sku in seen:
            rejections.append(Rejection(index, item.sku, "duplicate_sku", KINDS["duplicate_sku"].message))
        seen.add(item.sku)
    return tuple(rejections)
