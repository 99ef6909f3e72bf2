"""Promote, retry, cancel: against one set-based statement on the same rows."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import psycopg

from bench.load import request, send_all
from bench.measure import Row, compare, paired
from bench.product import add_done_job, add_listings, end_jobs, tidy
from bench.setting import Bench, Seller, application, environment_for, new_sellers
from core.domain.api_key import Principal, Scope
from core.domain.publication import Item, PublicationRequest
from core.domain.states import Environment
from core.use_cases.create_job import create_job

COUNT = 10_000
PROMOTED = 1_000

_PROMOTE = """INSERT INTO job_items (seller_id, job_id, ordinal, sku, status, category_id, price)
    SELECT seller_id, uuidv7(), (row_number() OVER (ORDER BY published_at, sku))::int - 1, sku, 'pending',
        category_id, price
    FROM (
        SELECT * FROM listings
        WHERE seller_id = %s AND environment = 'test' AND published_at IS NOT NULL AND app_status = 1
            AND status_meli NOT IN ('closed', 'inactive') AND NOT published_to_live
        ORDER BY published_at, sku LIMIT 1000
    ) l"""
_RETRY = """UPDATE job_items SET status = 'pending', sequence = NULL, attempts = 0, retryable = NULL, error = NULL
    WHERE seller_id = %s AND job_id = %s AND status = 'failed' AND retryable"""
_CANCEL = """UPDATE job_items SET status = 'skipped', retryable = true, error = '{"code": "cancelled"}',
        sequence = ordinal + 1
    WHERE seller_id = %s AND job_id = %s AND status = 'pending'"""


async def run(bench: Bench) -> list[Row]:
    """Rows of the group."""
    url = bench.migrated_database()
    async with application(url) as app:
        seller, promoter = await new_sellers(app, 2)
    with psycopg.connect(url) as connection:
        add_listings(connection, promoter.seller_id, PROMOTED, environment="test")
    service, address = bench.start("service", environment=environment_for(url))
    connection = psycopg.connect(url, autocommit=True)
    try:
        case = _Case(bench, url, address, connection, seller, promoter)
        return [await case.promote(), await case.retry(), await case.cancel()]
    finally:
        connection.close()
        bench.stop(service)
        bench.drop(url)


class _Case:
    def __init__(
        self,
        bench: Bench,
        url: str,
        address: str,
        connection: psycopg.Connection,
        seller: Seller,
        promoter: Seller,
    ) -> None:
        self._bench = bench
        self._url = url
        self._address = address
        self._connection = connection
        self._seller = seller
        self._promoter = promoter

    async def _compared(
        self, operation: str, ours: Callable[[], Awaitable[float]], theirs: Callable[[], Awaitable[float]]
    ) -> Row:
        found = await paired(self._bench.rounds(7, 15), {"statement": theirs, "product": ours})
        return compare(
            operation,
            "one set-based statement on the same rows",
            found["product"],
            found["statement"],
            "ms",
            bar=2.5,
            scale=1e3,
        )

    def _statement(self, statement: str, *parameters: object) -> float:
        began = time.perf_counter()
        self._connection.execute(statement, parameters, prepare=True)
        return time.perf_counter() - began

    async def promote(self) -> Row:
        """Promote 1,000."""
        seller = self._promoter

        async def ours() -> float:
            end_jobs(self._url)
            one = request("POST", "/api/v1/products/test/promote", key=seller.live_key, body=b"{}")
            return await send_all(self._address, [[one]], expected=202)

        async def theirs() -> float:
            return self._statement(_PROMOTE, seller.seller_id)

        tidy(self._url)
        return await self._compared("promote 1,000, to the 202", ours, theirs)

    async def retry(self) -> Row:
        """Retry 10,000."""
        seller = self._seller

        async def ours() -> float:
            job_id = add_done_job(self._url, seller.seller_id, COUNT, status="failed")[0]
            tidy(self._url)
            one = request("POST", f"/api/v1/products/jobs/{job_id}/retry", key=seller.test_key)
            took = await send_all(self._address, [[one]], expected=202)
            end_jobs(self._url)
            return took

        async def theirs() -> float:
            job_id = add_done_job(self._url, seller.seller_id, COUNT, status="failed")[0]
            tidy(self._url)
            return self._statement(_RETRY, seller.seller_id, job_id)

        return await self._compared("retry of 10,000", ours, theirs)

    async def cancel(self) -> Row:
        """Cancel 10,000."""
        seller = self._seller
        principal = Principal(
            seller_id=seller.seller_id, environment=Environment.TEST, scopes=frozenset(Scope), key_id="bench"
        )

        async def new_job() -> str:
            async with application(self._url) as app:
                wanted = [Item(f"CAN{number:07d}", "MCO1234", None) for number in range(COUNT)]
                answer = await create_job(app.database, principal, PublicationRequest(items=wanted))
            tidy(self._url)
            return answer.result.job_id

        async def ours() -> float:
            job_id = await new_job()
            one = request("POST", f"/api/v1/products/jobs/{job_id}/cancel", key=seller.test_key)
            return await send_all(self._address, [[one]], expected=200)

        async def theirs() -> float:
            job_id = await new_job()
            took = self._statement(_CANCEL, seller.seller_id, job_id)
            end_jobs(self._url)
            return took

        return await self._compared("cancel of 10,000", ours, theirs)
