"""JSON values to proto messages and back: the only place where the two vocabularies meet."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from google.protobuf.timestamp_pb2 import Timestamp
from msgspec import UNSET, UnsetType

from http_gateway import schemas
from http_gateway.decode import CreateJobBody, PromoteBody
from listing_publication.v1 import account_pb2, common_pb2, jobs_pb2, promotion_pb2, publishing_pb2

# Without a zone, which would be written out as well.
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_ENVIRONMENTS: dict[int, str | None] = {
    common_pb2.ENVIRONMENT_LIVE: "live",
    common_pb2.ENVIRONMENT_TEST: "test",
}
_WHO: dict[int, str | None] = {
    common_pb2.WHO_SELLER: "seller",
    common_pb2.WHO_INTEGRATOR: "integrator",
    common_pb2.WHO_MARKETPLACE: "marketplace",
    common_pb2.WHO_OPERATOR: "operator",
    common_pb2.WHO_NOBODY: "nobody",
}


def timestamp(value: Timestamp) -> str:
    """RFC 3339, UTC, milliseconds cut off (never rounded up into the future), ``Z``."""
    moment = _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
    return moment.isoformat(timespec="milliseconds") + "Z"


def _text(value: str | UnsetType | None) -> str | None:
    """A request's text, with both ways of saying "absent" made one."""
    return None if value is UNSET else value


def _number(value: int | UnsetType | None) -> int | None:
    """A request's integer, with both ways of saying "absent" made one."""
    return None if value is UNSET else value


# --- requests ------------------------------------------------------------------------------------------


def create_job_request(body: CreateJobBody, idempotency_key: str | None) -> publishing_pb2.CreateJobRequest:
    """``POST /products``. Item texts go on as sent; whether they are SKUs and categories is core's."""
    request = publishing_pb2.CreateJobRequest(
        listing_type_id=_text(body.listing_type_id),
        tax_category_id=_number(body.tax_category_id),
        scheduled_for=_text(body.scheduled_for),
        idempotency_key=idempotency_key,
    )
    add = request.items.add
    for item in body.items:
        category_id = item.category_id
        auto_categorize = item.auto_categorize
        if auto_categorize is UNSET or auto_categorize is None:
            add(sku=item.sku, category_id=None if category_id is UNSET else category_id)
        else:
            add(
                sku=item.sku,
                category_id=None if category_id is UNSET else category_id,
                auto_categorize=auto_categorize,
            )
    return request


def promote_request(body: PromoteBody, idempotency_key: str | None) -> promotion_pb2.PromoteTestProductsRequest:
    """``POST /products/test/promote``. No ``skus`` leaves the list absent, which is not an empty list."""
    skus = body.skus
    return promotion_pb2.PromoteTestProductsRequest(
        sku_list=promotion_pb2.SkuList(skus=skus) if isinstance(skus, list) else None,
        listing_type_id=_text(body.listing_type_id),
        tax_category_id=_number(body.tax_category_id),
        idempotency_key=idempotency_key,
    )


# --- answers -------------------------------------------------------------------------------------------


def _rejection(message: publishing_pb2.Rejection) -> schemas.Rejection:
    return schemas.Rejection(message.index, message.sku, message.code, message.detail)


def job_created(message: publishing_pb2.CreateJobResponse) -> schemas.JobCreated:
    """Answer of CreateJob. A pure function of what core stored, so a replay has the same bytes."""
    return schemas.JobCreated(
        job_id=message.job_id,
        status=message.status,
        accepted=message.accepted,
        rejected=message.rejected,
        total_items=message.total_items,
        rejections=[_rejection(entry) for entry in message.rejections] or UNSET,
    )


def promoted(message: promotion_pb2.PromoteTestProductsResponse) -> schemas.Promoted:
    """Answer of PromoteTestProducts. A pure function of what core stored."""
    return schemas.Promoted(
        job_id=message.job_id,
        status=message.status,
        promoted=message.promoted,
        rejected=message.rejected,
        total_candidates=message.total_candidates,
        skus=list(message.skus),
        rejections=[_rejection(entry) for entry in message.rejections] or UNSET,
        remaining=message.remaining if message.HasField("remaining") else UNSET,
    )


def _test_product(message: promotion_pb2.TestProduct) -> schemas.TestProduct:
    # An empty text is never a value of these fields, so "absent" and "empty" are both null.
    return schemas.TestProduct(
        sku=message.sku,
        listing_id_test=message.listing_id_test or None,
        title=message.title or None,
        image=message.image or None,
        permalink_test=message.permalink_test or None,
        listing_type_id=message.listing_type_id or None,
        price=message.price if message.HasField("price") else None,
        currency=message.currency or None,
        category_id=message.category_id or None,
        category_name=message.category_name or None,
        tax_category_id=message.tax_category_id,
        status_meli=message.status_meli or None,
        app_status=message.app_status,
        published_to_live=message.published_to_live,
        test_published_at=(timestamp(message.test_published_at) if message.HasField("test_published_at") else None),
    )


def test_product_page(
    message: promotion_pb2.ListTestProductsResponse, limit: int, offset: int
) -> schemas.TestProductPage:
    """A page of test products with the limit and offset that made it."""
    products = [_test_product(entry) for entry in message.products]
    return schemas.TestProductPage(products, schemas.Pagination(limit, offset, len(products), message.total))


def job(message: jobs_pb2.Job) -> schemas.Job:
    """A job in short."""
    result = schemas.Job(
        job_id=message.job_id,
        status=message.status,
        environment=_ENVIRONMENTS.get(message.environment),
        kind=message.kind,
        total_items=message.total_items,
        successful=message.successful,
        failed=message.failed,
        skipped=message.skipped,
        pending=message.pending,
        created_at=timestamp(message.created_at) if message.HasField("created_at") else None,
        completed_at=timestamp(message.completed_at) if message.HasField("completed_at") else None,
    )
    if message.HasField("scheduled_for"):
        result.scheduled_for = timestamp(message.scheduled_for)
    if message.HasField("started_at"):
        result.started_at = timestamp(message.started_at)
    if message.error_message:
        result.error_message = message.error_message
    if message.waiting_reason:
        result.waiting_reason = message.waiting_reason
    if message.reconciling:
        result.reconciling = message.reconciling
    if message.retries:
        result.retries = message.retries
    return result


def job_page(message: jobs_pb2.ListJobsResponse, limit: int, offset: int) -> schemas.JobPage:
    """A page of jobs with the limit and offset that made it."""
    jobs = [job(entry) for entry in message.jobs]
    return schemas.JobPage(jobs, schemas.Pagination(limit, offset, len(jobs), message.total))


def _item_error(message: common_pb2.ItemError) -> schemas.ItemError:
    return schemas.ItemError(
        code=message.code,
        message=message.message,
        who=_WHO.get(message.who),
        causes=[schemas.Cause(cause.code, cause.message, cause.field or None) for cause in message.causes],
    )


def job_item(message: jobs_pb2.JobItem) -> schemas.JobItem:
    """One SKU of a job. The hottest conversion there is: a page has up to 1,000 of them."""
    status = message.status
    # No price is 0 and no text here is empty, so what is unset reads as null without asking twice.
    if status == "success":
        return schemas.JobItem(
            message.sku,
            status,
            message.listing_id or None,
            message.permalink or None,
            message.price or None,
            message.currency or None,
            message.category_id or None,
            _ENVIRONMENTS.get(message.environment),
            status_meli=message.status_meli or UNSET,
            attempts=message.attempts or UNSET,
        )
    result = schemas.JobItem(
        message.sku,
        status,
        message.listing_id or None,
        message.permalink or None,
        message.price or None,
        message.currency or None,
        message.category_id or None,
        _ENVIRONMENTS.get(message.environment),
        attempts=message.attempts or UNSET,
    )
    if status != "pending":
        result.retryable = message.retryable
        if message.HasField("error"):
            result.error = _item_error(message.error)
    return result


def job_event_item(message: jobs_pb2.JobItem) -> schemas.JobItem:
    """One item's result as an event: the item with its place in the request and its sequence."""
    result = job_item(message)
    result.ordinal = message.ordinal
    result.sequence = message.sequence
    return result


def job_detail(message: jobs_pb2.GetJobResponse, limit: int, offset: int) -> schemas.JobDetail:
    """A job with a page of its items and the limit and offset that made it."""
    items = [job_item(entry) for entry in message.items]
    return schemas.JobDetail(job(message.job), items, schemas.Pagination(limit, offset, len(items), message.total))


def job_retried(message: jobs_pb2.RetryJobResponse) -> schemas.Job:
    """The job, queued again, with the number of items sent again."""
    result = job(message.job)
    result.retried = message.retried
    return result


def job_cancelled(message: jobs_pb2.CancelJobResponse) -> schemas.Job:
    """The job, cancelled, with the items skipped by the call and those still on the wire."""
    result = job(message.job)
    result.cancelled_items = message.cancelled_items
    result.in_flight = message.in_flight
    return result


def progress(message: jobs_pb2.Progress) -> schemas.Progress:
    """Counters and rate of a watched job; rates to three decimals."""
    result = schemas.Progress(
        status=message.status,
        pending=message.pending,
        successful=message.successful,
        failed=message.failed,
        skipped=message.skipped,
        items_per_second=round(message.items_per_second, 3),
        eta_seconds=round(message.eta_seconds, 3) if message.HasField("eta_seconds") else None,
    )
    if message.waiting_reason:
        result.waiting_reason = message.waiting_reason
    return result


def account(message: account_pb2.GetAccountResponse) -> schemas.Account:
    """Credits and settings of the seller."""
    credit, config = message.credits, message.publishing_config
    return schemas.Account(
        seller_id=message.seller_id,
        site_id=message.site_id,
        currency=message.currency,
        credits=schemas.Credits(credit.total, credit.available, credit.used_live, credit.used_test),
        publishing_config=schemas.PublishingConfig(
            trm=config.trm,
            warranty_time=config.warranty_time,
            manufacturing_time_days=config.manufacturing_time_days,
            stock_quantity=config.stock_quantity,
            margin_percent=Decimal(config.margin_percent or "0"),
            price_step=config.price_step,
            listing_type_id=config.listing_type_id,
        ),
        ml_connected=message.ml_connected,
    )


def tax_categories(message: account_pb2.ListTaxCategoriesResponse) -> schemas.TaxCategories:
    """The seller's tariff categories by index; rates as exact decimal numbers."""
    return schemas.TaxCategories(
        [
            schemas.TaxCategory(entry.index, entry.name, Decimal(entry.rate_percent or "0"))
            for entry in message.tax_categories
        ]
    )


def ping(message: account_pb2.PingResponse) -> schemas.Ping:
    """What the calling key is."""
    result = schemas.Ping(
        status="ok",
        seller_id=message.seller_id,
        environment=_ENVIRONMENTS.get(message.environment),
        scopes=list(message.scopes),
        key_id=message.key_id,
    )
    if message.HasField("expires_at"):
        result.expires_at = timestamp(message.expires_at)
    return result
