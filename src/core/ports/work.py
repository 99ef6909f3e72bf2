"""What a worker works on, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import msgspec

from core.domain.states import Environment, JobKind, JobStatus
from core.ports.marketplace import ListingDraft, SellerModel


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerms:
    """What was frozen into a job at its acceptance. ``trace_context``: of the request that made it, when traced;
    ``retries``: how often it had been retried when the run began."""

    kind: JobKind
    environment: Environment
    status: JobStatus
    listing_type_id: str
    tax_category_id: int
    trm: int
    margin_percent: Decimal
    tariff_percent: Decimal
    price_step: int
    stock_quantity: int
    warranty_time: str
    manufacturing_time_days: int
    site_id: str
    currency: str
    trace_context: str | None = None
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A leased run of consecutive items of one job. ``fence`` rose at the claim and guards every write;
    ``returns`` counts how often in a row the run came back without a result; ``terms``: as they stood at the
    claim, so a job that is queued in them is started by it."""

    seller_id: int
    job_id: str
    environment: Environment
    first_ordinal: int
    last_ordinal: int
    fence: int
    returns: int
    terms: JobTerms

    @property
    def size(self) -> int:
        """Items in the run, done ones included."""
        return self.last_ordinal - self.first_ordinal + 1


class WorkItem(msgspec.Struct, frozen=True, gc=False):
    """A pending item with all that is known of it. ``category_id`` None: to be inferred. ``price`` is set
    for promotions. The fields stand in the order in which storage reads them."""

    ordinal: int
    sku: str
    category_id: str | None
    price: int | None
    attempts: int
    known: bool
    title: str | None
    cost_usd: Decimal | None
    image_urls: Sequence[str]
    brand: str | None
    model: str | None
    gtin: str | None
    weight_grams: int | None
    described: bool
    listing_id: str | None
    permalink: str | None
    listing_status: str | None
    listing_category_id: str | None
    listing_category_name: str | None
    promotable: bool
    test_category_id: str | None
    test_price: int | None
    test_category_name: str | None
    predicted: bool
    predicted_category_id: str | None
    predicted_category_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountContext:
    """What a worker knows of a marketplace account; no tokens. ``paused_seconds``: until it may be used;
    ``scanned_to``: the number of the newest listing when it was last looked through."""

    site_id: str
    currency: str
    marketplace_user_id: int | None
    status: str | None
    model: SellerModel | None
    profile_fresh: bool
    paused_seconds: float
    scanned_to: int
    all_known: bool


class StoredDraft(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a send, so that the result of an adopted listing can be finished by anybody."""

    draft: ListingDraft
    category_name: str | None = None
    described: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtfulItem:
    """An unknown outcome, leased for a search. ``settled``: the settle window is over; ``hopeless``: it
    has been over for so long that nobody can be waiting for a better answer. ``job_stopped``: the account's
    failure has ended the job. ``unsent``: how often the repost came to nothing for certain."""

    sku: str
    job_id: str
    ordinal: int
    fence: int
    attempt: int
    stored: StoredDraft
    started_at: datetime
    searches: int
    settled: bool
    hopeless: bool
    seconds_left: float
    job_status: JobStatus
    job_stopped: bool = False
    unsent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """Something to be done about listings later; leased. ``leased_until`` tells this lease from later ones."""

    seller_id: int
    follow_up_id: str
    environment: Environment
    kind: str
    skus: tuple[str, ...]
    tries: int
    since: datetime
    leased_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a write of results really did. ``accepted`` results counted; those missing were fenced off. ``ended``: the
    job is cancelled, or stopped by its account's failure."""

    successful: int
    failed: int
    skipped: int
    accepted: int
    doubted: int
    status: JobStatus
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What an operator looks at first. Ages in seconds."""

    runs_due: int
    oldest_due: float
    oldest_pending: float
    queued: int
    processing: int
    scheduled: int
    reconciling: int
