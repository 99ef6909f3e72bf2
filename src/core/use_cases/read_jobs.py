"""Read jobs and test products."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from core.domain.api_key import Principal
from core.domain.jobs import Job, JobList, JobPage, TestProductList
from core.domain.schedule import parse_day
from core.domain.sku import SKU_RULE, is_sku, is_uuid
from core.domain.states import ItemStatus, JobStatus
from core.errors import ApiError, Violation, invalid
from core.storage import jobs, listings
from core.storage.database import Connection, Database

MAX_PAGE = 1_000
"""Rows of one page; a larger limit is refused, never lowered in silence (decisions, section 2)."""
MAX_OFFSET = 2**53
DEFAULT_ITEMS = 100
DEFAULT_JOBS = 50
DEFAULT_TEST_PRODUCTS = 50

STATUSES_MELI = ("active", "paused", "closed", "under_review", "inactive", "not_yet_active", "payment_required")
"""Contract, "Test product"."""


async def get_job(
    database: Database,
    principal: Principal,
    job_id: str,
    *,
    status: str | None,
    limit: int | None,
    offset: int,
    after: int | None = None,
) -> JobPage:
    """One job with a page of its items in request order, after an ordinal if one is given.

    Raises:
        ApiError: 422 for the page or the filter, told before 404 for the job.
    """
    found = _page_violations(limit, offset)
    if status is not None and status not in list(ItemStatus):
        found.append(_query("status", "must be one of " + ", ".join(ItemStatus)))
    if found:
        raise invalid(found)
    check_job_id(job_id)
    size = limit or DEFAULT_ITEMS

    async def work(connection: Connection) -> JobPage | None:
        return await jobs.page(
            connection,
            principal.seller_id,
            job_id,
            status=ItemStatus(status) if status is not None else None,
            limit=size + 1,
            offset=offset,
            after=after,
        )

    page = await database.read(work)
    if page is None:
        raise job_not_found()
    return replace(page, items=page.items[:size], more=len(page.items) > size)


async def list_jobs(
    database: Database,
    principal: Principal,
    *,
    status: str | None,
    from_date: str | None,
    to_date: str | None,
    limit: int | None,
    offset: int,
    before: int | None = None,
) -> JobList:
    """The seller's jobs, newest first, before a job number if one is given; dates are UTC days, both inclusive.

    Raises:
        ApiError: 422.
    """
    filters, found = job_filter(status=status, from_date=from_date, to_date=to_date)
    found = _page_violations(limit, offset) + found
    if found:
        raise invalid(found)
    from_time, to_time = filters
    size = limit or DEFAULT_JOBS

    async def work(connection: Connection) -> JobList:
        return await jobs.newest(
            connection,
            principal.seller_id,
            status=JobStatus(status) if status is not None else None,
            from_time=from_time,
            to_time=to_time,
            limit=size + 1,
            offset=offset,
            before=before,
        )

    page = await database.read(work)
    return replace(page, jobs=page.jobs[:size], more=len(page.jobs) > size)


def job_filter(
    *, status: str | None, from_date: str | None, to_date: str | None
) -> tuple[tuple[datetime | None, datetime | None], list[Violation]]:
    """(from, exclusive to) as moments, and what is wrong with the filter."""
    found: list[Violation] = []
    if status is not None and status not in list(JobStatus):
        found.append(_query("status", "must be one of " + ", ".join(JobStatus)))
    first, last = _day("from_date", from_date, found), _day("to_date", to_date, found)
    if first is not None and last is not None and first > last:
        found.append(_query("from_date", "must not be after the last day"))
    return (_start(first), _start(last, days=1)), found


async def list_test_products(
    database: Database,
    principal: Principal,
    *,
    already_published: bool | None,
    status_meli: str | None,
    app_status: int | None,
    sku: str | None,
    limit: int | None,
    offset: int,
    after: tuple[datetime, str] | None = None,
) -> TestProductList:
    """The seller's test products, newest first, after (time of publication, SKU) if it is given.

    Raises:
        ApiError: 422.
    """
    found: list[Violation] = []
    if status_meli is not None and status_meli not in STATUSES_MELI:
        found.append(_query("status_meli", "must be one of " + ", ".join(STATUSES_MELI)))
    if app_status is not None and app_status not in (0, 1):
        found.append(_query("app_status", "must be 0 or 1"))
    if sku is not None and not is_sku(sku):
        found.append(Violation("E_PRODUCT_INVALID_SKU", SKU_RULE, parameter="sku"))
    found += _page_violations(limit, offset)
    if found:
        raise invalid(found)
    size = limit or DEFAULT_TEST_PRODUCTS

    async def work(connection: Connection) -> TestProductList:
        return await listings.test_products(
            connection,
            principal.seller_id,
            published_to_live=already_published,
            status_meli=status_meli,
            app_status=app_status,
            sku=sku,
            limit=size + 1,
            offset=offset,
            after=after,
        )

    page = await database.read(work)
    return replace(page, products=page.products[:size], more=len(page.products) > size)


async def active_jobs(database: Database, principal: Principal) -> list[Job]:
    """The seller's jobs that are not done, oldest first."""

    async def work(connection: Connection) -> list[Job]:
        return await jobs.active(connection, principal.seller_id)

    return await database.read(work)


def check_job_id(job_id: str) -> None:
    """An id of another form is an unknown job."""
    if not is_uuid(job_id):
        raise job_not_found()


def job_not_found() -> ApiError:
    """One answer for unknown and foreign jobs (rule 62)."""
    return ApiError("E_JOB_NOT_FOUND", "There is no such job.")


def _query(parameter: str, rule: str) -> Violation:
    return Violation("E_PRODUCT_INVALID_BODY", rule, parameter=parameter)


def _page_violations(limit: int | None, offset: int) -> list[Violation]:
    found = []
    if limit is not None and not 1 <= limit <= MAX_PAGE:
        found.append(_query("page_size", f"must be an integer from 1 to {MAX_PAGE}"))
    if not 0 <= offset <= MAX_OFFSET:
        found.append(_query("skip", f"must be an integer from 0 to {MAX_OFFSET}"))
    return found


def _day(parameter: str, text: str | None, found: list[Violation]) -> date | None:
    if text is None:
        return None
    try:
        return parse_day(text)
    except ValueError:
        found.append(_query(parameter, "must be a real date as YYYY-MM-DD"))
        return None


def _start(day: date | None, days: int = 0) -> datetime | None:
    if day is None:
        return None
    if day == date.max:
        return None if days else datetime.combine(day, time(), UTC)
    return datetime.combine(day + timedelta(days=days), time(), UTC)
