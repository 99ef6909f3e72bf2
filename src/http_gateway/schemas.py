"""The answers of REST v1 as types (contract, "Resources and their fields"; decisions, section 3).

The contract's fields are always present and ``null`` while unknown. Additional ones default to UNSET and
are left out. Times are RFC 3339 text in UTC with milliseconds and ``Z``; money is a whole number in the
account's currency.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec
from msgspec import UNSET, UnsetType


class Rejection(msgspec.Struct, gc=False):
    """A well-formed entry of a request that was not taken."""

    index: int
    sku: str
    code: str
    detail: str


class JobCreated(msgspec.Struct, gc=False):
    """Answer of ``POST /products``."""

    job_id: str
    status: str
    accepted: int
    rejected: int
    total_items: int
    rejections: list[Rejection] | UnsetType = UNSET


class Promoted(msgspec.Struct, gc=False):
    """Answer of ``POST /products/test/promote``."""

    job_id: str
    status: str
    promoted: int
    rejected: int
    total_candidates: int
    skus: list[str]
    rejections: list[Rejection] | UnsetType = UNSET
    remaining: int | UnsetType = UNSET


class Pagination(msgspec.Struct, gc=False):
    """Where a page stands; ``limit`` and ``offset`` are those in effect, ``total`` counts all matches."""

    limit: int
    offset: int
    returned: int
    total: int


class TestProduct(msgspec.Struct, gc=False):
    """A listing on the test account."""

    __test__ = False  # not a test case, whatever its name says to a test collector

    sku: str
    listing_id_test: str | None
    title: str | None
    image: str | None
    permalink_test: str | None
    listing_type_id: str | None
    price: int | None
    currency: str | None
    category_id: str | None
    category_name: str | None
    tax_category_id: int
    status_meli: str | None
    app_status: int
    published_to_live: bool
    test_published_at: str | None


class TestProductPage(msgspec.Struct, gc=False):
    """Answer of ``GET /products/test``."""

    __test__ = False

    products: list[TestProduct]
    pagination: Pagination


class Job(msgspec.Struct, gc=False):
    """A job in short: in the list, in the detail, and as the answer of cancel and retry."""

    job_id: str
    status: str
    environment: str | None
    kind: str
    total_items: int
    successful: int
    failed: int
    skipped: int
    pending: int
    created_at: str | None
    completed_at: str | None
    scheduled_for: str | UnsetType = UNSET
    started_at: str | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    waiting_reason: str | UnsetType = UNSET
    reconciling: int | UnsetType = UNSET
    retries: int | UnsetType = UNSET
    retried: int | UnsetType = UNSET
    cancelled_items: int | UnsetType = UNSET
    in_flight: int | UnsetType = UNSET


class JobPage(msgspec.Struct, gc=False):
    """Answer of ``GET /products/jobs``."""

    jobs: list[Job]
    pagination: Pagination


class Cause(msgspec.Struct, gc=False):
    """One thing the marketplace said."""

    code: str
    message: str
    field: str | None


class ItemError(msgspec.Struct, gc=False):
    """Why an item failed or was skipped, and who must act."""

    code: str
    message: str
    who: str | None
    causes: list[Cause]


class JobItem(msgspec.Struct, gc=False):
    """One SKU of a job. ``sequence`` and ``ordinal`` appear in events only."""

    sku: str
    status: str
    listing_id: str | None
    permalink: str | None
    price: int | None
    currency: str | None
    category_id: str | None
    environment: str | None
    retryable: bool | UnsetType = UNSET
    error: ItemError | UnsetType = UNSET
    status_meli: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    ordinal: int | UnsetType = UNSET
    sequence: int | UnsetType = UNSET


class JobDetail(msgspec.Struct, gc=False):
    """Answer of ``GET /products/jobs/{jobId}``."""

    job: Job
    items: list[JobItem]
    pagination: Pagination


class Progress(msgspec.Struct, gc=False):
    """How a watched job is getting on; ``eta_seconds`` is ``null`` while unknown."""

    status: str
    pending: int
    successful: int
    failed: int
    skipped: int
    items_per_second: float
    eta_seconds: float | None
    waiting_reason: str | UnsetType = UNSET


class Credits(msgspec.Struct, gc=False):
    """Credits as the calling key's environment sees them."""

    total: int
    available: int
    used_live: int
    used_test: int


class PublishingConfig(msgspec.Struct, gc=False):
    """The seller's effective settings; the last three are additional to the contract."""

    trm: int
    warranty_time: str
    manufacturing_time_days: int
    stock_quantity: int
    margin_percent: Decimal
    price_step: int
    listing_type_id: str


class Account(msgspec.Struct, gc=False):
    """Answer of ``GET /account``."""

    seller_id: int
    site_id: str
    currency: str
    credits: Credits
    publishing_config: PublishingConfig
    ml_connected: bool


class TaxCategory(msgspec.Struct, gc=False):
    """One tariff category; ``index`` is what ``tax_category_id`` takes."""

    index: int
    name: str
    rate_percent: Decimal


class TaxCategories(msgspec.Struct, gc=False):
    """Answer of ``GET /account/tax-categories``."""

    tax_categories: list[TaxCategory]


class Ping(msgspec.Struct, gc=False):
    """Answer of ``GET /ping``."""

    status: str
    seller_id: int
    environment: str | None
    scopes: list[str]
    key_id: str
    expires_at: str | UnsetType = UNSET


class Place(msgspec.Struct, gc=False):
    """One offending place of a request: a JSON Pointer into the body or a parameter's name."""

    code: str
    detail: str
    pointer: str | UnsetType = UNSET
    parameter: str | UnsetType = UNSET


class ProblemObject(msgspec.Struct, gc=False):
    """An RFC 9457 problem. ``code`` is absent for paths and methods that do not exist."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    request_id: str
    code: str | UnsetType = UNSET
    errors: list[Place] | UnsetType = UNSET
    retry_after: int | UnsetType = UNSET


_encoder = msgspec.json.Encoder(decimal_format="number")


def to_json(value: msgspec.Struct) -> bytes:
    """The JSON text, UTF-8, without line breaks. Equal values give equal bytes."""
    return _encoder.encode(value)
