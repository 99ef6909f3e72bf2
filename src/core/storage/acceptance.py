"""What accepting a job reads and writes. The use case owns the transaction and the seller's lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from core.domain.failures import Failure
from core.domain.publication import RUN_SIZE
from core.domain.seller import PublishingSettings
from core.domain.states import Environment, JobKind, JobStatus
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("acceptance")

_COPY_FROM = 200
"""Items from which COPY is faster than one INSERT."""
_COPIED_TYPES = ("int8", "uuid", "int4", "text", "text", "int8")
"""Of the columns of ``copy_items``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """An answer kept under an idempotency key."""

    operation: str
    fingerprint: bytes
    result: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All that decides whether a request is accepted, as of ``now`` (the database's clock, UTC)."""

    now: datetime
    site_id: str
    currency: str
    settings: PublishingSettings
    available: int
    active_jobs: int
    tariffs: dict[int, Decimal]
    account_connected: bool
    remembered: Remembered | None
    key_expired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job about to be stored. ``category_ids`` and ``prices`` run beside ``skus``; None in them means
    "to be inferred" and "to be computed". ``skipped`` are ordinals of repeated SKUs. ``trace_context``: of the request,
    when it is traced."""

    seller_id: int
    job_id: str
    environment: Environment
    kind: JobKind
    status: JobStatus
    skus: Sequence[str]
    category_ids: Sequence[str | None]
    prices: Sequence[int | None] | None
    skipped: Sequence[int]
    listing_type_id: str
    tax_category_id: int
    terms: dict[str, Any]
    scheduled_for: datetime | None
    trace_context: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A SKU considered for promotion; ``objection`` says why it is none."""

    sku: str
    category_id: str | None
    price: int | None
    objection: str | None = None


async def standing(
    connection: Connection, seller_id: int, environment: Environment, idempotency_key: str | None
) -> Standing:
    """Read after the seller's row was locked."""
    cursor = await connection.execute(
        _SQL["select_acceptance"],
        {"seller_id": seller_id, "environment": environment, "idempotency_key": idempotency_key},
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - the seller's row is locked, so it is there
    remembered = None
    if row[14] is not None and not row[17]:
        remembered = Remembered(operation=row[14], fingerprint=bytes(row[15]), result=bytes(row[16]))
    return Standing(
        # Behind a pooler the session may have the server's own time zone.
        now=row[0].astimezone(UTC),
        site_id=row[1],
        currency=row[2],
        settings=PublishingSettings(
            trm=row[3],
            margin_percent=row[4],
            price_step=row[5],
            warranty_time=row[6],
            manufacturing_time_days=row[7],
            stock_quantity=row[8],
            listing_type_id=row[9],
        ),
        available=row[10],
        active_jobs=row[11],
        tariffs={int(index): Decimal(rate) for index, rate in (row[12] or {}).items()},
        account_connected=row[13],
        remembered=remembered,
        key_expired=bool(row[17]),
    )


async def insert_job(connection: Connection, job: NewJob) -> None:
    """Store the job, its runs and its items."""
    large = len(job.skus) >= _COPY_FROM
    skipped = set(job.skipped)
    ordinals = [] if large else [ordinal for ordinal in range(len(job.skus)) if ordinal not in skipped]
    await connection.execute(
        _SQL["insert_job"],
        {
            "seller_id": job.seller_id,
            "job_id": job.job_id,
            "environment": job.environment,
            "kind": job.kind,
            "status": job.status,
            "total_items": len(job.skus),
            "skipped": len(job.skipped),
            "listing_type_id": job.listing_type_id,
            "tax_category_id": job.tax_category_id,
            "terms": Jsonb(job.terms),
            "trace_context": job.trace_context,
            "scheduled_for": job.scheduled_for,
            "run_size": RUN_SIZE,
            "ordinals": ordinals,
            "skus": [job.skus[ordinal] for ordinal in ordinals],
            "category_ids": [job.category_ids[ordinal] for ordinal in ordinals],
            "prices": [job.prices[ordinal] if job.prices else None for ordinal in ordinals],
        },
    )
    if job.skipped:
        await connection.execute(
            _SQL["insert_skipped"],
            {
                "seller_id": job.seller_id,
                "job_id": job.job_id,
                "ordinals": list(job.skipped),
                "skus": [job.skus[ordinal] for ordinal in job.skipped],
                "error": Jsonb(Failure("duplicate_sku").stored()),
            },
        )
    if large:
        await _copy_items(connection, job)


async def _copy_items(connection: Connection, job: NewJob) -> None:
    seller_id, job_id = job.seller_id, UUID(job.job_id)
    skipped = set(job.skipped)
    prices = job.prices or [None] * len(job.skus)
    async with connection.cursor().copy(_SQL["copy_items"]) as copy:
        # Binary: PostgreSQL spends a quarter less on it than on the same rows as text (measured).
        copy.set_types(_COPIED_TYPES)
        for ordinal, (sku, category_id, price) in enumerate(zip(job.skus, job.category_ids, prices, strict=True)):
            if ordinal not in skipped:
                await copy.write_row((seller_id, job_id, ordinal, sku, category_id, price))


async def remember(
    connection: Connection,
    *,
    seller_id: int,
    environment: Environment,
    idempotency_key: str,
    key_expired: bool,
    operation: str,
    fingerprint: bytes,
    job_id: str,
    result: bytes,
) -> None:
    """Keep the answer for a replay. The seller's lock keeps two first uses of one key apart."""
    key = {"seller_id": seller_id, "environment": environment, "idempotency_key": idempotency_key}
    if key_expired:
        await connection.execute(_SQL["delete_expired_key"], key)
    await connection.execute(
        _SQL["remember"],
        {**key, "operation": operation, "fingerprint": fingerprint, "job_id": job_id, "result": result},
    )


async def is_known(connection: Connection, seller_id: int, job_id: str) -> bool:
    """Whether this job was committed."""
    cursor = await connection.execute(_SQL["select_known_job"], {"seller_id": seller_id, "job_id": job_id})
    return await cursor.fetchone() is not None


async def oldest_candidates(connection: Connection, seller_id: int, limit: int) -> tuple[list[Candidate], int]:
    """The oldest promotion candidates, and how many there are in all."""
    rows = await _candidates(connection, seller_id, "select_oldest_candidates", {"limit": limit})
    return [Candidate(*row[:3]) for row in rows], rows[0][3] if rows else 0


async def named_candidates(connection: Connection, seller_id: int, skus: Sequence[str]) -> list[Candidate]:
    """One entry per SKU, in the order given."""
    rows = await _candidates(connection, seller_id, "select_named_candidates", {"skus": list(skus)})
    return [Candidate(*row) for row in rows]


async def _candidates(
    connection: Connection, seller_id: int, statement: str, parameters: dict[str, Any]
) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(_SQL["select_busy_skus"], {"seller_id": seller_id})
    busy = [row[0] for row in await cursor.fetchall()]
    await connection.execute(_SQL["set_nested_loops"], {"state": "off"})
    cursor = await connection.execute(_SQL[statement], {"seller_id": seller_id, "busy": busy, **parameters})
    rows = await cursor.fetchall()
    await connection.execute(_SQL["set_nested_loops"], {"state": "on"})
    return rows


async def forget_old_keys(connection: Connection) -> int:
    """Remove idempotency keys well past their life; returns how many. Changes no answer."""
    return (await connection.execute(_SQL["delete_old_keys"])).rowcount
