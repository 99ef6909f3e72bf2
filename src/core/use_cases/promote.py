"""Accept a promotion: test products become a live job with the category and price of their test run."""

from __future__ import annotations

import uuid_utils

from core import tracing
from core.domain.api_key import Principal
from core.domain.publication import (
    MAX_PROMOTED,
    Answer,
    PlannedItem,
    PromotionRequest,
    PromotionResult,
    Rejection,
    judge_options,
    judge_skus,
)
from core.domain.states import JobKind, JobStatus
from core.errors import ApiError, invalid
from core.storage import acceptance
from core.storage.acceptance import Candidate, NewJob, Standing
from core.storage.database import Connection, Database
from core.use_cases.create_job import (
    account_missing,
    announce,
    begin,
    check_idempotency_key,
    check_limits,
    committed,
    remember,
    replay,
    store,
    terms,
)

OBJECTIONS = {
    "not_a_test_product": "This SKU was not published with a test key.",
    "already_published": "This SKU is already published on the real account.",
    "not_active": "The test listing is paused, closed or inactive.",
    "in_active_job": "Another active live job already has this SKU.",
}
"""Why a named SKU is no candidate."""


async def promote(database: Database, principal: Principal, request: PromotionRequest) -> Answer[PromotionResult]:
    """Promote the named test products, or the 1,000 oldest candidates.

    The caller's key is a live one (checked when it was admitted).

    Raises:
        ApiError: as for create_job, and E_PROMOTE_NO_CANDIDATES.
    """
    check_idempotency_key(request.idempotency_key)
    skus = None if request.skus is None else list(dict.fromkeys(request.skus))
    violations = judge_skus(request.skus or ())
    job_id = "" if request.validate_only else str(uuid_utils.uuid7())
    made: list[PromotionResult] = []

    async def work(connection: Connection) -> Answer[PromotionResult]:
        standing = await begin(connection, principal, request.idempotency_key)
        remembered = replay(standing, request, PromotionResult)
        if remembered is not None:
            return Answer(result=remembered, replayed=True)
        found = [
            *violations,
            *judge_options(
                listing_type_id=request.listing_type_id,
                tax_category_id=request.tax_category_id,
                tax_indices=standing.tariffs,
            ),
        ]
        if found:
            raise invalid(found)
        if not standing.account_connected:
            raise account_missing()
        taken, result = await _choose(connection, principal, skus, job_id)
        check_limits(standing, credits_needed=len(taken))
        if request.validate_only:
            plan = [PlannedItem(sku=each.sku, category_id=each.category_id, price=each.price) for each in taken]
            return Answer(result=result, plan=plan)
        await store(connection, _job(principal, request, standing, job_id, taken), standing, hold=len(taken))
        await remember(connection, principal, request, standing, result)
        made[:] = [result]
        return Answer(result=result)

    async def read_back(connection: Connection) -> Answer[PromotionResult] | None:
        return await committed(principal, job_id, made[0])(connection) if made else None

    with tracing.span("promote", seller_id=principal.seller_id) as span:
        answer = await database.transact(work, read_back)
        span.note(job_id=answer.result.job_id or None, replayed=answer.replayed, items=answer.result.promoted)
    announce(database, principal, JobKind.PROMOTION, answer, validate_only=request.validate_only)
    return answer


async def _choose(
    connection: Connection, principal: Principal, skus: list[str] | None, job_id: str
) -> tuple[list[Candidate], PromotionResult]:
    remaining = None
    rejections: tuple[Rejection, ...] = ()
    if skus is None:
        taken, total = await acceptance.oldest_candidates(connection, principal.seller_id, MAX_PROMOTED)
        remaining = total - len(taken)
    else:
        named = await acceptance.named_candidates(connection, principal.seller_id, skus)
        taken = [each for each in named if each.objection is None]
        rejections = tuple(
            Rejection(position, each.sku, each.objection, OBJECTIONS[each.objection])
            for position, each in enumerate(named)
            if each.objection is not None
        )
    if not taken:
        raise ApiError(
            "E_PROMOTE_NO_CANDIDATES",
            "No active test product is waiting to be promoted."
            if skus is None
            else "None of the SKUs named is an active test product waiting to be promoted.",
        )
    return taken, PromotionResult(
        job_id=job_id,
        promoted=len(taken),
        rejected=len(rejections),
        total_candidates=len(taken) + len(rejections),
        credits_held=len(taken),
        skus=tuple(each.sku for each in taken),
        rejections=rejections,
        remaining=remaining,
    )


def _job(
    principal: Principal, request: PromotionRequest, standing: Standing, job_id: str, taken: list[Candidate]
) -> NewJob:
    tax_category_id = request.tax_category_id or 0
    return NewJob(
        seller_id=principal.seller_id,
        job_id=job_id,
        environment=principal.environment,
        kind=JobKind.PROMOTION,
        status=JobStatus.QUEUED,
        skus=[each.sku for each in taken],
        category_ids=[each.category_id for each in taken],
        prices=[each.price for each in taken],
        skipped=(),
        listing_type_id=request.listing_type_id or standing.settings.listing_type_id,
        tax_category_id=tax_category_id,
        terms=terms(standing, tax_category_id),
        scheduled_for=None,
        trace_context=tracing.current(),
    )
