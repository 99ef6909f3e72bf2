"""A job that has ended leaves nothing behind that a worker would look at again."""

from __future__ import annotations

import uuid

from core.app import Application
from core.domain.api_key import Principal, Scope
from core.domain.publication import Item, PublicationRequest
from core.domain.states import Environment, JobStatus
from core.ports.marketplace import Listing, ListingDraft
from core.ports.work import DoubtfulItem, JobTerms, Recorded, Run, StoredDraft
from core.storage import intents, work
from core.storage.database import Connection
from core.use_cases.create_job import create_job
from core.worker.recorder import success
from tests.support.service import Tenant

SKU = "ENDEDJOB01"
LIVE = Environment.LIVE
FIRST, SECOND = str(uuid.uuid4()), str(uuid.uuid4())
DRAFT = StoredDraft(
    draft=ListingDraft(
        sku=SKU,
        title="Silla plegable",
        category_id="MCO1234",
        price=1000,
        listing_type_id="gold_special",
        quantity=1,
        image_urls=(),
        warranty_time="90 días",
    )
)


async def test_a_job_that_ends_by_a_search_leaves_no_run_that_stays_due_for_ever(
    application: Application, tenant: Tenant
) -> None:
    database = application.database
    seller_id = tenant.seller_id
    principal = Principal(seller_id=seller_id, environment=LIVE, scopes=frozenset(Scope), key_id="key")
    answer = await create_job(database, principal, PublicationRequest(items=[Item(SKU, None, True)]))
    job_id = answer.result.job_id

    # A worker sends the one item and dies; its run is taken back, the send goes to the search.
    async def claim(connection: Connection) -> list[Run]:
        return await work.claim(connection, seller_id, LIVE, owner=FIRST, lease=600, limit=1)

    (run,) = await database.read(claim)

    async def intend(connection: Connection) -> JobTerms | None:
        await work.start_jobs(connection, seller_id, {job_id})
        await work.insert_intents(
            connection,
            run,
            owner=FIRST,
            marketplace_user_id=tenant.marketplace_users[LIVE],
            intents=[(0, SKU, DRAFT)],
        )
        return await work.job_terms(connection, seller_id, job_id)

    terms = await database.transact(intend)
    assert terms is not None

    async def rescue(connection: Connection) -> int | None:
        return await work.rescue(connection, (seller_id, job_id, 0, run.fence), owner=FIRST, settle=600, spread=0)

    assert await database.transact(rescue) == 1

    # The search finds the listing, which ends the job.
    async def search(connection: Connection) -> list[DoubtfulItem]:
        return await intents.claim(connection, seller_id, LIVE, owner=SECOND, lease=600, hopeless_after=600, limit=10)

    (doubtful,) = await database.read(search)
    listing = Listing(listing_id="MCO77", sku=SKU, status="active")

    async def adopt(connection: Connection) -> Recorded | None:
        return await work.record(
            connection,
            seller_id,
            job_id,
            [success(ordinal=0, fence=doubtful.fence, stored=DRAFT, listing=listing)],
            owner=SECOND,
            terms=terms,
            first_ordinal=0,
            settle=600,
            first_search=1,
            reconciling="unknown",
        )

    recorded = await database.transact(adopt)

    async def left(connection: Connection) -> int:
        cursor = await connection.execute("SELECT count(*) FROM work_runs WHERE seller_id = %s", [seller_id])
        row = await cursor.fetchone()
        return int(row[0]) if row else 0

    assert recorded is not None
    assert recorded.status is JobStatus.COMPLETED
    assert await database.read(left) == 0
    assert (seller_id, LIVE) not in await database.read(work.due)
