"""Jobs and items as readers see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from core.domain.states import Environment, ItemStatus, JobKind, JobStatus


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job with its counters. total_items = pending + successful + failed + skipped, always.

    Times are aware, UTC. ``waiting_reason`` is set while a job that is not done does not move.
    """

    seller_id: int
    job_id: str
    job_number: int
    status: JobStatus
    environment: Environment
    kind: JobKind
    total_items: int
    successful: int
    failed: int
    skipped: int
    pending: int
    reconciling: int
    last_sequence: int
    retries: int
    currency: str
    created_at: datetime
    scheduled_for: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    error_message: str | None
    waiting_reason: str | None


class JobItem(msgspec.Struct, frozen=True, gc=False):
    """One SKU of a job. ``price`` in whole units of the job's currency; ``error`` as stored:
    ``{code, causes: [{code, message, field}]}``, without ``causes`` if there are none. ``sequence`` is None while
    pending."""

    ordinal: int
    sku: str
    status: ItemStatus
    listing_id: str | None
    permalink: str | None
    price: int | None
    category_id: str | None
    retryable: bool | None
    error: dict[str, Any] | None
    sequence: int | None
    attempts: int
    status_meli: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A job with some of its items, in request order. ``total`` counts what the filter matches; ``more`` says
    whether items follow."""

    job: Job
    items: Sequence[JobItem]
    total: int
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """Some of a seller's jobs, newest first. ``more`` says whether others follow."""

    jobs: Sequence[Job]
    total: int
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TestProduct:
    """A listing on the seller's test account."""

    sku: str
    listing_id: str
    title: str
    image: str | None
    permalink: str
    listing_type_id: str
    price: int | None
    currency: str
    category_id: str
    category_name: str | None
    tax_category_id: int
    status_meli: str
    app_status: int
    published_to_live: bool
    published_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TestProductList:
    """Some test products, newest first. ``more`` says whether others follow."""

    products: Sequence[TestProduct]
    total: int
    more: bool = False
