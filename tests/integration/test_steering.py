"""What a cancellation and a retry leave behind in jobs that are longer than a run and half done."""

from __future__ import annotations

from core.app import Application
from core.domain.api_key import Principal, Scope
from core.domain.jobs import JobItem
from core.domain.publication import RUN_SIZE, Item, PublicationRequest
from core.domain.states import Environment, ItemStatus, JobStatus
from core.storage import credits as credit_store
from core.storage import jobs
from core.storage.database import Connection
from core.use_cases.create_job import create_job
from core.use_cases.steer_jobs import cancel_job, retry_job
from tests.support import service
from tests.support.finishing import finish, put_on_the_wire, take_off_the_wire
from tests.support.service import Tenant


async def accept(application: Application, tenant: Tenant, count: int) -> str:
    principal = Principal(
        seller_id=tenant.seller_id, environment=Environment.LIVE, scopes=frozenset(Scope), key_id="steering"
    )
    items = [Item(sku, "MCO1234", None) for sku in service.skus(count)]
    return (await create_job(application.database, principal, PublicationRequest(items=items))).result.job_id


async def results(application: Application, tenant: Tenant, job_id: str, *, page: int) -> list[JobItem]:
    """All results, read page by page as a watcher that resumes reads them."""
    found: list[JobItem] = []

    async def look(connection: Connection) -> list[JobItem]:
        after = found[-1].sequence or 0 if found else 0
        return await jobs.results_after(connection, tenant.seller_id, job_id, after=after, limit=page)

    while some := await application.database.read(look):
        assert len(some) <= page
        found += some
    return found


async def runs(application: Application, job_id: str) -> list[int]:
    async with application.database.connection() as connection:
        cursor = await connection.execute(
            "SELECT first_ordinal FROM work_runs WHERE job_id = %s ORDER BY first_ordinal", [job_id]
        )
        return [row[0] for row in await cursor.fetchall()]


async def check_books(application: Application, tenant: Tenant) -> None:
    assert await application.database.read(lambda c: credit_store.audit(c, tenant.seller_id)) is None


async def test_a_cancellation_numbers_what_it_ends_round_what_is_done_and_on_the_wire(
    application: Application, tenant: Tenant
) -> None:
    database, seller = application.database, tenant.seller_id
    job_id = await accept(application, tenant, 30)
    await finish(database, seller, job_id, 4)
    await put_on_the_wire(database, seller, job_id, 12)
    async with database.connection() as connection:
        # Every third of the rest stays on the wire, so that it lies between items that end.
        await connection.execute("DELETE FROM intents WHERE job_id = %s AND ordinal %% 3 <> 0", [job_id])

    cancelled = await cancel_job(database, seller, job_id)

    assert (cancelled.items, cancelled.in_flight) == (22, 4)
    assert (cancelled.job.status, cancelled.job.pending, cancelled.job.skipped) == (JobStatus.CANCELLED, 4, 22)
    found = await results(application, tenant, job_id, page=7)
    assert [item.sequence for item in found] == list(range(1, 27))
    ended = [item for item in found if item.status is ItemStatus.SKIPPED]
    on_the_wire = {6, 9, 12, 15}
    assert [item.ordinal for item in ended] == [n for n in range(4, 30) if n not in on_the_wire]
    assert {str(item.error) for item in ended} == {"{'code': 'cancelled'}"}
    assert await runs(application, job_id) == []
    await check_books(application, tenant)
    await take_off_the_wire(database, seller, job_id)
    await finish(database, seller, job_id)
    found = await results(application, tenant, job_id, page=7)
    assert [item.sequence for item in found] == list(range(1, 31))
    await check_books(application, tenant)


async def test_results_that_retries_replaced_stay_as_they_were(application: Application, tenant: Tenant) -> None:
    database, seller = application.database, tenant.seller_id
    job_id = await accept(application, tenant, 2 * RUN_SIZE + 50)
    # The middle run and a few beside it fail so that they can be sent again; what succeeds or never can is around it.
    await finish(database, seller, job_id, RUN_SIZE - 5)
    await finish(database, seller, job_id, 20, failure="marketplace_busy")
    await finish(database, seller, job_id, RUN_SIZE - 20, failure="marketplace_conflict")
    await finish(database, seller, job_id, failure="title_refused")
    told = await results(application, tenant, job_id, page=60)
    assert [item.sequence for item in told] == list(range(1, 2 * RUN_SIZE + 51))

    for number in (1, 2, 3):
        retried = await retry_job(database, seller, job_id)

        assert retried.items == retried.job.pending == RUN_SIZE
        assert (retried.job.status, retried.job.retries) == (JobStatus.QUEUED, number)
        assert await runs(application, job_id) == [0, RUN_SIZE]
        await check_books(application, tenant)
        assert await results(application, tenant, job_id, page=60) == told
        await finish(database, seller, job_id, 50, failure="marketplace_busy")
        await finish(database, seller, job_id, failure="marketplace_conflict")
        now_told = await results(application, tenant, job_id, page=60)
        assert now_told[: len(told)] == told
        told = now_told
        assert [item.sequence for item in told] == list(range(1, 2 * RUN_SIZE + 51 + number * RUN_SIZE))
        assert {item.ordinal for item in told[-RUN_SIZE:]} == set(range(RUN_SIZE - 5, 2 * RUN_SIZE - 5))
    await check_books(application, tenant)
