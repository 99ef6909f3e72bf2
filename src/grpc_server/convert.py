"""Proto ↔ domain, the only place. Absent and empty differ: an optional field is read through HasField."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from core.domain import jobs, seller
from core.domain.api_key import Principal
from core.domain.failures import KINDS
from core.domain.publication import (
    MAX_ITEMS,
    Answer,
    Item,
    PlannedItem,
    PromotionRequest,
    PromotionResult,
    PublicationRequest,
    PublicationResult,
    Rejection,
)
from core.domain.states import Environment
from core.errors import Violation, Who, invalid
from core.use_cases.account import Account
from core.use_cases.administration import invalid_value
from core.use_cases.feeds import ItemResult, Progress
from core.use_cases.steer_jobs import ActedOn
from core.use_cases.watch_job import ItemSeen, JobSeen, Quiet, WatchEvent
from grpc_server.page_token import Place, page_token, read_page_token
from listing_publication.v1 import (
    account_pb2,
    admin_pb2,
    common_pb2,
    jobs_pb2,
    promotion_pb2,
    publishing_pb2,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENVIRONMENTS = {
    Environment.LIVE: common_pb2.ENVIRONMENT_LIVE,
    Environment.TEST: common_pb2.ENVIRONMENT_TEST,
}
_ENVIRONMENTS_BACK = {number: environment for environment, number in _ENVIRONMENTS.items()}
_WHO = {who.value: common_pb2.Who.Value(f"WHO_{who.name}") for who in Who}


def given(message: Any, name: str) -> Any:
    """The value of an optional field; None when it was not given."""
    return getattr(message, name) if message.HasField(name) else None


def timestamp(moment: datetime | None) -> Timestamp | None:
    """An aware time as a Timestamp; None stays None."""
    if moment is None:
        return None
    since = moment - _EPOCH
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1_000)


def from_timestamp(message: Any, name: str) -> datetime | None:
    """The time in an optional field, UTC.

    Raises:
        ApiError: E_ADMIN_INVALID when the field holds no time that can be.
    """
    if not message.HasField(name):
        return None
    try:
        moment: datetime = getattr(message, name).ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise invalid_value(name, "must be a time from year 1 to year 9999") from None
    return moment


def from_environment(message: Any) -> Environment:
    """The environment of an administration request.

    Raises:
        ApiError: E_ADMIN_INVALID when it is not given.
    """
    environment = _ENVIRONMENTS_BACK.get(message.environment)
    if environment is None:
        raise invalid_value("environment", "must be ENVIRONMENT_LIVE or ENVIRONMENT_TEST")
    return environment


def from_page(request: Any, seller_id: int, *kinds: type) -> tuple[int, Place | None]:
    """Rows to pass over, and the row after which to begin: that of the page token, which overrides ``skip``.

    Raises:
        ApiError: E_PRODUCT_INVALID_BODY for a page token that is not of this list.
    """
    if request.page_token:
        return 0, read_page_token(request, seller_id, *kinds)
    return request.skip, None


def from_products_page(
    request: promotion_pb2.ListTestProductsRequest, seller_id: int
) -> tuple[int, tuple[datetime, str] | None]:
    """As ``from_page``, for test products: the row is (time of publication, SKU)."""
    skip, place = from_page(request, seller_id, int, str)
    return skip, None if place is None else (_EPOCH + timedelta(microseconds=place[0]), place[1])


# Publishing and promoting.


def from_create_job(request: publishing_pb2.CreateJobRequest) -> PublicationRequest:
    """The request of CreateJob.

    Raises:
        ApiError: E_PRODUCT_INVALID_BODY when it has no or too many items.
    """
    _check_count("items", len(request.items))
    return PublicationRequest(
        # False counts as absent (decisions, section 2), so both have one fingerprint. Inline: a large job has 10,000.
        items=[
            Item(item.sku, item.category_id or _empty_or_absent(item), item.auto_categorize or None)
            for item in request.items
        ],
        listing_type_id=given(request, "listing_type_id"),
        tax_category_id=given(request, "tax_category_id"),
        scheduled_for=given(request, "scheduled_for"),
        idempotency_key=given(request, "idempotency_key"),
        validate_only=request.validate_only,
    )


def _empty_or_absent(item: publishing_pb2.PublicationItem) -> str | None:
    return "" if item.HasField("category_id") else None


def _check_count(field: str, count: int) -> None:
    if not 1 <= count <= MAX_ITEMS:
        rule = f"must have 1 to {MAX_ITEMS} entries"
        raise invalid([Violation("E_PRODUCT_INVALID_BODY", rule, f"/{field}")])


def to_create_job(answer: Answer[PublicationResult]) -> publishing_pb2.CreateJobResponse:
    """The answer of CreateJob."""
    result = answer.result
    return publishing_pb2.CreateJobResponse(
        job_id=result.job_id,
        status="queued",
        accepted=result.accepted,
        rejected=result.rejected,
        total_items=result.total_items,
        rejections=_rejections(result.rejections),
        replayed=answer.replayed,
        credits_held=result.credits_held,
        plan=_plan(answer.plan),
    )


def from_promote(request: promotion_pb2.PromoteTestProductsRequest) -> PromotionRequest:
    """The request of PromoteTestProducts.

    Raises:
        ApiError: E_PRODUCT_INVALID_BODY for a list of SKUs that is there but empty or too long.
    """
    skus = None
    if request.HasField("sku_list"):
        skus = list(request.sku_list.skus)
        _check_count("sku_list/skus", len(skus))
    return PromotionRequest(
        skus=skus,
        listing_type_id=given(request, "listing_type_id"),
        tax_category_id=given(request, "tax_category_id"),
        idempotency_key=given(request, "idempotency_key"),
        validate_only=request.validate_only,
    )


def to_promote(answer: Answer[PromotionResult]) -> promotion_pb2.PromoteTestProductsResponse:
    """The answer of PromoteTestProducts."""
    result = answer.result
    return promotion_pb2.PromoteTestProductsResponse(
        job_id=result.job_id,
        status="queued",
        promoted=result.promoted,
        rejected=result.rejected,
        total_candidates=result.total_candidates,
        skus=result.skus,
        rejections=_rejections(result.rejections),
        remaining=result.remaining,
        replayed=answer.replayed,
        credits_held=result.credits_held,
        plan=_plan(answer.plan),
    )


def _rejections(rejections: Iterable[Rejection]) -> list[publishing_pb2.Rejection]:
    return [
        publishing_pb2.Rejection(index=each.position, sku=each.sku, code=each.code, detail=each.detail)
        for each in rejections
    ]


def _plan(plan: Sequence[PlannedItem]) -> list[publishing_pb2.PlannedItem]:
    return [
        publishing_pb2.PlannedItem(
            sku=each.sku,
            category_id=each.category_id,
            price=each.price,
            problem=_planned_problem(each.problem) if each.problem else None,
        )
        for each in plan
    ]


def _planned_problem(code: str) -> common_pb2.ItemError:
    kind = KINDS[code]
    return common_pb2.ItemError(code=kind.code, message=kind.message, who=_WHO[kind.who.value])


def to_list_test_products(
    found: jobs.TestProductList, request: promotion_pb2.ListTestProductsRequest, seller_id: int
) -> promotion_pb2.ListTestProductsResponse:
    """The answer of ListTestProducts."""
    token = ""
    if found.more:
        last = found.products[-1]
        token = page_token(request, seller_id, ((last.published_at - _EPOCH) // timedelta(microseconds=1), last.sku))
    return promotion_pb2.ListTestProductsResponse(
        products=[_test_product(product) for product in found.products],
        total=found.total,
        next_page_token=token,
    )


def _test_product(product: jobs.TestProduct) -> promotion_pb2.TestProduct:
    return promotion_pb2.TestProduct(
        sku=product.sku,
        listing_id_test=product.listing_id,
        title=product.title,
        image=product.image,
        permalink_test=product.permalink,
        listing_type_id=product.listing_type_id,
        price=product.price,
        currency=product.currency,
        category_id=product.category_id,
        category_name=product.category_name,
        tax_category_id=product.tax_category_id,
        status_meli=product.status_meli,
        app_status=product.app_status,
        published_to_live=product.published_to_live,
        test_published_at=timestamp(product.published_at),
    )


# Jobs.


def to_job(job: jobs.Job) -> jobs_pb2.Job:
    """A job."""
    return jobs_pb2.Job(
        job_id=job.job_id,
        status=job.status.value,
        environment=_ENVIRONMENTS[job.environment],
        kind=job.kind.value,
        total_items=job.total_items,
        successful=job.successful,
        failed=job.failed,
        skipped=job.skipped,
        pending=job.pending,
        created_at=timestamp(job.created_at),
        scheduled_for=timestamp(job.scheduled_for),
        started_at=timestamp(job.started_at),
        completed_at=timestamp(job.completed_at),
        error_message=job.error_message,
        waiting_reason=job.waiting_reason,
        last_sequence=job.last_sequence,
        retries=job.retries,
        reconciling=job.reconciling,
    )


def to_item(item: jobs.JobItem, job: jobs.Job) -> jobs_pb2.JobItem:
    """An item of this job."""
    message = jobs_pb2.JobItem()
    _fill_item(message, item, job.currency, _ENVIRONMENTS[job.environment])
    return message


def _fill_item(message: jobs_pb2.JobItem, item: jobs.JobItem, currency: str, environment: Any) -> None:
    """Field by field, because a page has up to 1,000 items: a constructor with names takes twice as long."""
    message.ordinal = item.ordinal
    message.sku = item.sku
    message.status = item.status
    message.currency = currency
    message.environment = environment
    message.attempts = item.attempts
    if item.listing_id is not None:
        message.listing_id = item.listing_id
    if item.permalink is not None:
        message.permalink = item.permalink
    if item.price is not None:
        message.price = item.price
    if item.category_id is not None:
        message.category_id = item.category_id
    if item.retryable is not None:
        message.retryable = item.retryable
    if item.error:
        message.error.CopyFrom(_item_error(item.error))
    if item.sequence is not None:
        message.sequence = item.sequence
    if item.status_meli is not None:
        message.status_meli = item.status_meli


def _item_error(error: dict[str, Any]) -> common_pb2.ItemError:
    code = error["code"]
    kind = KINDS.get(code)
    return common_pb2.ItemError(
        code=code,
        # The code of a newer release, read by an older one, speaks for itself.
        message=kind.message if kind else code,
        who=_WHO[kind.who.value] if kind else common_pb2.WHO_UNSPECIFIED,
        causes=[
            common_pb2.Cause(code=cause["code"], message=cause["message"], field=cause["field"])
            for cause in error.get("causes", ())
        ],
    )


def to_get_job(page: jobs.JobPage, request: jobs_pb2.GetJobRequest, seller_id: int) -> jobs_pb2.GetJobResponse:
    """The answer of GetJob."""
    message = jobs_pb2.GetJobResponse(
        job=to_job(page.job),
        total=page.total,
        next_page_token=page_token(request, seller_id, (page.items[-1].ordinal,)) if page.more else "",
    )
    add, currency, environment = message.items.add, page.job.currency, _ENVIRONMENTS[page.job.environment]
    for item in page.items:
        _fill_item(add(), item, currency, environment)
    return message


def to_list_jobs(found: jobs.JobList, request: jobs_pb2.ListJobsRequest, seller_id: int) -> jobs_pb2.ListJobsResponse:
    """The answer of ListJobs."""
    return jobs_pb2.ListJobsResponse(
        jobs=[to_job(job) for job in found.jobs],
        total=found.total,
        next_page_token=page_token(request, seller_id, (found.jobs[-1].job_number,)) if found.more else "",
    )


def to_watch_job(event: WatchEvent) -> jobs_pb2.WatchJobResponse:
    """One message of WatchJob."""
    if isinstance(event, ItemSeen):
        return _item_message(event.result, event.job)
    if isinstance(event, JobSeen):
        return jobs_pb2.WatchJobResponse(job=to_job(event.job))
    if isinstance(event, Progress):
        return _progress_message(event)
    return jobs_pb2.WatchJobResponse(heartbeat=_heartbeat(event))


def _item_message(result: ItemResult, job: jobs.Job) -> jobs_pb2.WatchJobResponse:
    message = result.rendered
    if message is None:
        # Made for the first watcher, sent to all.
        message = result.rendered = jobs_pb2.WatchJobResponse(item=to_item(result.item, job))
    return message  # type: ignore[no-any-return]


def _progress_message(event: Progress) -> jobs_pb2.WatchJobResponse:
    message = event.rendered
    if message is None:
        message = event.rendered = jobs_pb2.WatchJobResponse()
        _fill_progress(message.progress, event)
    return message  # type: ignore[no-any-return]


def _fill_progress(message: jobs_pb2.Progress, event: Progress) -> None:
    """Field by field, because every watcher has one a second: a constructor with names takes twice as long."""
    job = event.job
    message.pending = job.pending
    message.successful = job.successful
    message.failed = job.failed
    message.skipped = job.skipped
    message.status = job.status
    message.items_per_second = event.items_per_second
    if event.eta_seconds is not None:
        message.eta_seconds = event.eta_seconds
    if job.waiting_reason is not None:
        message.waiting_reason = job.waiting_reason


def _heartbeat(event: Quiet) -> jobs_pb2.Heartbeat:
    return jobs_pb2.Heartbeat(time=timestamp(event.time))


def to_watch_jobs(event: JobSeen | Quiet) -> jobs_pb2.WatchJobsResponse:
    """One message of WatchJobs."""
    if isinstance(event, JobSeen):
        return jobs_pb2.WatchJobsResponse(job=to_job(event.job))
    return jobs_pb2.WatchJobsResponse(heartbeat=_heartbeat(event))


# The account.


def to_get_account(account: Account) -> account_pb2.GetAccountResponse:
    """The answer of GetAccount."""
    settings = account.settings
    return account_pb2.GetAccountResponse(
        seller_id=account.seller_id,
        site_id=account.site_id,
        currency=account.currency,
        credits=account_pb2.Credits(
            total=account.total,
            available=account.available,
            used_live=account.used_live,
            used_test=account.used_test,
        ),
        publishing_config=account_pb2.PublishingConfig(
            trm=settings.trm,
            warranty_time=settings.warranty_time,
            manufacturing_time_days=settings.manufacturing_time_days,
            stock_quantity=settings.stock_quantity,
            margin_percent=plain(settings.margin_percent),
            price_step=settings.price_step,
            listing_type_id=settings.listing_type_id,
        ),
        ml_connected=account.ml_connected,
    )


def to_tax_categories(found: Iterable[seller.TaxCategory]) -> account_pb2.ListTaxCategoriesResponse:
    """The answer of ListTaxCategories."""
    return account_pb2.ListTaxCategoriesResponse(
        tax_categories=[
            account_pb2.TaxCategory(index=each.index, name=each.name, rate_percent=plain(each.rate_percent))
            for each in found
        ]
    )


def plain(number: Any) -> str:
    """A decimal without trailing zeros and without an exponent: 12.500 as 12.5, 10.000 as 10."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def to_ping(principal: Principal) -> account_pb2.PingResponse:
    """The answer of Ping."""
    return account_pb2.PingResponse(
        seller_id=principal.seller_id,
        environment=_ENVIRONMENTS[principal.environment],
        scopes=sorted(scope.value for scope in principal.scopes),
        key_id=principal.key_id,
        expires_at=timestamp(principal.expires_at),
    )


# Administration.


def from_settings(message: admin_pb2.SellerSettings) -> dict[str, Any]:
    """The settings given."""
    return {field.name: value for field, value in message.ListFields()}


def to_seller(found: seller.Seller) -> admin_pb2.Seller:
    """A seller."""
    settings = found.settings
    return admin_pb2.Seller(
        seller_id=found.seller_id,
        name=found.name,
        site_id=found.site_id,
        currency=found.currency,
        trm=settings.trm,
        margin_percent=plain(settings.margin_percent),
        price_step=settings.price_step,
        warranty_time=settings.warranty_time,
        manufacturing_time_days=settings.manufacturing_time_days,
        stock_quantity=settings.stock_quantity,
        listing_type_id=settings.listing_type_id,
        created_at=timestamp(found.created_at),
        accounts=[to_account(account) for account in found.accounts],
    )


def to_account(account: seller.AccountState) -> admin_pb2.MarketplaceAccount:
    """A marketplace account, without its tokens."""
    return admin_pb2.MarketplaceAccount(
        environment=_ENVIRONMENTS[account.environment],
        marketplace_user_id=account.marketplace_user_id,
        status=account.status,
        nickname=account.nickname,
    )


def to_key(record: seller.KeyRecord) -> admin_pb2.ApiKey:
    """A key, without its secret."""
    return admin_pb2.ApiKey(
        key_id=record.key_id,
        seller_id=record.seller_id,
        environment=_ENVIRONMENTS[record.environment],
        scopes=record.scopes,
        last_four=record.last_four,
        created_at=timestamp(record.created_at),
        expires_at=timestamp(record.expires_at),
        revoked_at=timestamp(record.revoked_at),
    )


def to_balance(balance: seller.Balance) -> admin_pb2.CreditBalance:
    """Credits."""
    return admin_pb2.CreditBalance(
        granted=balance.granted,
        available=balance.available,
        held=balance.held,
        used=balance.used,
        used_test=balance.used_test,
    )


def to_ledger_entry(entry: seller.LedgerEntry) -> admin_pb2.LedgerEntry:
    """One line of the ledger."""
    return admin_pb2.LedgerEntry(
        entry_number=entry.entry_number,
        kind=entry.kind,
        amount=entry.amount,
        job_id=entry.job_id or "",
        created_at=timestamp(entry.created_at),
    )


def from_action(request: admin_pb2.ActOnJobsRequest) -> bool:
    """Whether to retry; else to cancel.

    Raises:
        ApiError: E_ADMIN_INVALID when neither was asked for.
    """
    if request.action not in (admin_pb2.JOB_ACTION_RETRY, admin_pb2.JOB_ACTION_CANCEL):
        raise invalid_value("action", "must be JOB_ACTION_RETRY or JOB_ACTION_CANCEL")
    return request.action == admin_pb2.JOB_ACTION_RETRY


def to_acted_on(result: ActedOn) -> admin_pb2.JobActionResult:
    """What became of one job."""
    refused = result.refused
    return admin_pb2.JobActionResult(
        seller_id=result.job.seller_id,
        job=to_job(result.job),
        items=result.items,
        refused_code=refused.code if refused else "",
        refused_detail=refused.detail if refused else "",
    )
