"""A job that has ended leaves nothing behind that a worker would look at again."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from core.app import Application
from core.domain.api_key import Principal, Scope
from core.domain.publication import Item, PublicationRequest
from core.domain.states import Environment, JobStatus
from core.ports.marketplace import Listing, ListingDraft
from core.ports.work import DoubtfulItem, JobTerms, Recorded, Run, StoredDraft
from core.slots import Slots
from core.storage import accounts, intents, jobs, work
from core.storage.database import Connection
from core.use_cases import administration
from core.use_cases.create_job import create_job
from core.worker.accounts import Accounts
from core.worker.context import WorkerContext
from core.worker.reconcile import Reconciler
from core.worker.recorder import success
from tests.support import service
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


@dataclass
class Doubtful:
    """A job whose one send is searched for, because its worker has died."""

    job_id: str
    terms: JobTerms


async def doubtful_job(application: Application, tenant: Tenant) -> Doubtful:
    """Accepted, sent by a worker that died, taken back from it."""
    database, seller_id = application.database, tenant.seller_id
    principal = Principal(seller_id=seller_id, environment=LIVE, scopes=frozenset(Scope), key_id="key")
    answer = await create_job(database, principal, PublicationRequest(items=[Item(SKU, None, True)]))
    job_id = answer.result.job_id

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
    return Doubtful(job_id, terms)


async def test_a_job_that_ends_by_a_search_leaves_no_run_that_stays_due_for_ever(
    application: Application, tenant: Tenant
) -> None:
    database, seller_id = application.database, tenant.seller_id
    doubtful = await doubtful_job(application, tenant)

    async def search(connection: Connection) -> list[DoubtfulItem]:
        return await intents.claim(connection, seller_id, LIVE, owner=SECOND, lease=600, hopeless_after=600, limit=10)

    (item,) = await database.read(search)
    listing = Listing(listing_id="MCO77", sku=SKU, status="active")

    async def adopt(connection: Connection) -> Recorded | None:
        return await work.record(
            connection,
            seller_id,
            doubtful.job_id,
            [success(ordinal=0, fence=item.fence, stored=DRAFT, listing=listing)],
            owner=SECOND,
            terms=doubtful.terms,
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


async def test_what_a_look_at_the_account_has_found_is_adopted_when_the_account_can_no_longer_be_asked(
    own_application: Application,
) -> None:
    # Given up instead, the item would be failed while its listing stays open, known to this service, for ever.
    tenant = await service.new_tenant(own_application)
    database = own_application.database
    doubtful = await doubtful_job(own_application, tenant)
    listing = Listing(
        listing_id="MCO4711",
        sku=SKU,
        status="active",
        permalink="https://example.com/MCO4711",
        title="Silla plegable",
        price=1000,
        category_id="MCO1234",
        listing_type_id="gold_special",
    )

    async def found(connection: Connection) -> None:
        await accounts.adopt_found(
            connection,
            tenant.seller_id,
            LIVE,
            marketplace_user_id=tenant.marketplace_users[LIVE],
            currency="COP",
            found=[listing],
        )

    await database.read(found)
    await administration.disconnect_account(database, tenant.seller_id, LIVE)
    context = WorkerContext(
        database=database,
        marketplace=None,  # type: ignore[arg-type]  # an account that is not connected is not asked
        settings=own_application.settings,
    )
    reconciler = Reconciler(context, Accounts(context), Slots(4))

    await reconciler.sweep()
    page = await database.read(
        lambda connection: jobs.page(connection, tenant.seller_id, doubtful.job_id, status=None, limit=1, offset=0)
    )

    assert page is not None
    assert page.job.status is JobStatus.COMPLETED
    assert [(item.status.value, item.listing_id) for item in page.items] == [("success", "MCO4711")]
