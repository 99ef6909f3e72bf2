"""Accept a publication: everything is judged, then all is written in one transaction on one seller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

import msgspec
import uuid_utils

from core import metrics, tracing
from core.domain.api_key import Principal
from core.domain.failures import Failure
from core.domain.publication import (
    MAX_ACTIVE_JOBS,
    Answer,
    PromotionRequest,
    PromotionResult,
    PublicationRequest,
    PublicationResult,
    judge_items,
    judge_options,
    judge_schedule,
    split_repeated,
)
from core.domain.sku import is_uuid
from core.domain.states import Environment, JobKind, JobStatus
from core.errors import ApiError, Violation, invalid
from core.storage import acceptance, jobs, sellers
from core.storage import credits as credit_store
from core.storage.acceptance import NewJob, Standing
from core.storage.database import Connection, Database
from core.use_cases.plan import plan_publication

IDEMPOTENCY_KEY_RULE = "must be a UUID"

R = TypeVar("R", bound=msgspec.Struct)


async def create_job(
    database: Database, principal: Principal, request: PublicationRequest
) -> Answer[PublicationResult]:
    """Create a publication job, or only judge it when ``validate_only``.

    Guaranteed: the job, its items, the held credits and the remembered answer commit together or not at
    all; equal requests with one idempotency key make one job.

    Raises:
        ApiError: in the documented order: 422 for the idempotency key's form, 409, 422 for the meaning,
            404, 429, 400.
    """
    check_idempotency_key(request.idempotency_key)
    violations = judge_items(request.items)
    rejections = split_repeated(request.items) if not violations else ()
    job_id = str(uuid_utils.uuid7())
    accepted = len(request.items) - len(rejections)
    live = principal.environment is Environment.LIVE
    result = PublicationResult(
        job_id="" if request.validate_only else job_id,
        accepted=accepted,
        rejected=len(rejections),
        total_items=len(request.items),
        credits_held=accepted if live else 0,
        rejections=rejections,
    )

    async def work(connection: Connection) -> Answer[PublicationResult]:
        standing = await begin(connection, principal, request.idempotency_key)
        remembered = replay(standing, request, PublicationResult)
        if remembered is not None:
            return Answer(result=remembered, replayed=True)
        moment = _judge(request, standing, violations)
        if live and not standing.account_connected:
            raise account_missing()
        check_limits(standing, credits_needed=result.credits_held)
        listing_type_id = request.listing_type_id or standing.settings.listing_type_id
        tax_category_id = request.tax_category_id or 0
        if request.validate_only:
            skipped = {rejection.position for rejection in rejections}
            taken = [item for position, item in enumerate(request.items) if position not in skipped]
            plan = await plan_publication(connection, principal, standing, taken, tax_category_id)
            return Answer(result=result, plan=plan)
        await store(
            connection,
            NewJob(
                seller_id=principal.seller_id,
                job_id=job_id,
                environment=principal.environment,
                kind=JobKind.PUBLICATION,
                status=JobStatus.QUEUED if moment is None else JobStatus.SCHEDULED,
                skus=[item.sku for item in request.items],
                category_ids=[item.category_id for item in request.items],
                prices=None,
                skipped=[rejection.position for rejection in rejections],
                listing_type_id=listing_type_id,
                tax_category_id=tax_category_id,
                terms=terms(standing, tax_category_id),
                scheduled_for=moment,
                trace_context=tracing.current(),
            ),
            standing,
            hold=result.credits_held,
        )
        await remember(connection, principal, request, standing, result)
        return Answer(result=result)

    with tracing.span("create_job", items=len(request.items), accepted=accepted, seller_id=principal.seller_id) as span:
        answer = await database.transact(work, committed(principal, job_id, result))
        span.note(job_id=answer.result.job_id or None, replayed=answer.replayed)
    announce(database, principal, JobKind.PUBLICATION, answer, validate_only=request.validate_only)
    return answer


def _judge(request: PublicationRequest, standing: Standing, violations: Sequence[Violation]) -> datetime | None:
    moment, about_schedule = judge_schedule(request.scheduled_for, standing.now)
    found = [
        *violations,
        *judge_options(
            listing_type_id=request.listing_type_id,
            tax_category_id=request.tax_category_id,
            tax_indices=standing.tariffs,
        ),
        *about_schedule,
    ]
    if found:
        raise invalid(found)
    return moment


# What creating and promoting have in common.


def check_idempotency_key(key: str | None) -> None:
    """Refuse a key that is no UUID."""
    if key is not None and not is_uuid(key):
        raise invalid([Violation("E_PRODUCT_INVALID_BODY", IDEMPOTENCY_KEY_RULE, parameter="idempotency_key")])


async def begin(connection: Connection, principal: Principal, idempotency_key: str | None) -> Standing:
    """Lock the seller, then read all that decides."""
    await sellers.lock(connection, principal.seller_id)
    return await acceptance.standing(connection, principal.seller_id, principal.environment, idempotency_key)


def replay(standing: Standing, request: PublicationRequest | PromotionRequest, kind: type[R]) -> R | None:
    """The remembered answer; None when the key is new, and for a plan, which is made anew.

    Raises:
        ApiError: E_IDEMPOTENCY_CONFLICT when the key was used for another request.
    """
    remembered = standing.remembered
    if remembered is None:
        return None
    if (remembered.operation, remembered.fingerprint) != (request.OPERATION, request.fingerprint()):
        raise ApiError(
            "E_IDEMPOTENCY_CONFLICT", "This Idempotency-Key was used for a different request in the last 24 hours."
        )
    if request.validate_only:
        return None
    metrics.replays.inc()
    return msgspec.msgpack.decode(remembered.result, type=kind)


def account_missing() -> ApiError:
    """The refusal of a live request without a live account."""
    return ApiError(
        "E_ACCOUNT_NOT_FOUND", "No marketplace account is connected for the live environment. Connect it first."
    )


def check_limits(standing: Standing, *, credits_needed: int) -> None:
    """Active jobs, then credits. The seller's lock keeps the answer true until the transaction ends."""
    if standing.active_jobs >= MAX_ACTIVE_JOBS:
        raise ApiError(
            "E_PRODUCT_MAX_CONCURRENT_JOBS",
            f"{standing.active_jobs} jobs are queued, processing or scheduled; at most {MAX_ACTIVE_JOBS} may be.",
            retry_after=10,
        )
    if credits_needed > standing.available:
        raise credits_exhausted(needed=credits_needed, available=standing.available)


def credits_exhausted(*, needed: int, available: int) -> ApiError:
    """All or nothing: says how many were needed and how many there are."""
    return ApiError(
        "E_PRODUCT_CREDIT_EXHAUSTED",
        f"{needed} {'credit is' if needed == 1 else 'credits are'} needed, "
        f"{available} {'is' if available == 1 else 'are'} available.",
    )


def terms(standing: Standing, tax_category_id: int) -> dict[str, Any]:
    """What is frozen into the job: later changes of the seller's settings do not reach it."""
    frozen = asdict(standing.settings)
    del frozen["listing_type_id"]
    frozen["margin_percent"] = str(frozen["margin_percent"])
    frozen["tariff_percent"] = str(standing.tariffs.get(tax_category_id, 0))
    return {**frozen, "site_id": standing.site_id, "currency": standing.currency}


async def store(connection: Connection, job: NewJob, standing: Standing, *, hold: int) -> None:
    """Write the job; one that can never run, for want of a test account, fails at once."""
    await acceptance.insert_job(connection, job)
    if hold and not await credit_store.hold(
        connection, job.seller_id, job_id=job.job_id, amount=hold, last_sequence=len(job.skipped)
    ):
        raise credits_exhausted(needed=hold, available=standing.available)
    if not standing.account_connected:
        await jobs.close_pending(
            connection, job.seller_id, job.job_id, failure=Failure("account_not_connected"), cancel=False
        )


async def remember(
    connection: Connection,
    principal: Principal,
    request: PublicationRequest | PromotionRequest,
    standing: Standing,
    result: PublicationResult | PromotionResult,
) -> None:
    """Keep the answer when a key was given."""
    if request.idempotency_key is not None:
        await acceptance.remember(
            connection,
            seller_id=principal.seller_id,
            environment=principal.environment,
            idempotency_key=request.idempotency_key,
            key_expired=standing.key_expired,
            operation=request.OPERATION,
            fingerprint=request.fingerprint(),
            job_id=result.job_id,
            result=msgspec.msgpack.encode(result),
        )


def committed(principal: Principal, job_id: str, result: R) -> Callable[[Connection], Awaitable[Answer[R] | None]]:
    """Reads back, by the job's id, whether a lost commit went through (rule 8)."""

    async def read_back(connection: Connection) -> Answer[R] | None:
        known = await acceptance.is_known(connection, principal.seller_id, job_id)
        return Answer(result=result) if known else None

    return read_back


def announce(
    database: Database, principal: Principal, kind: JobKind, answer: Answer[Any], *, validate_only: bool
) -> None:
    """Count a job that was really made, and wake the workers for it."""
    if not answer.replayed and not validate_only:
        database.wake_ups.soon()
        metrics.jobs_accepted.labels(principal.environment.value, kind.value).inc()
