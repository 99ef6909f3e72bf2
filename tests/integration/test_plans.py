"""The plans of the statements that are run for every request and every run of items.

A table that was empty a minute ago has no statistics, and a planner without them takes thousands of rows for a handful:
it reads whole tables, or compares every row with every other. Each statement is run here as its callers run it, on
tables without statistics, on the same with them, and must touch no more rows than it has business with.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from core.app import Application
from core.domain.api_key import Principal, Scope
from core.domain.failures import Failure
from core.domain.publication import RUN_SIZE, Item, PublicationRequest
from core.domain.states import Environment, ItemStatus
from core.ports.marketplace import ListingDraft
from core.ports.work import StoredDraft
from core.storage import acceptance, accounts, jobs, sellers, statements, work
from core.use_cases.create_job import create_job
from tests.support import service
from tests.support.postgres import start_test_postgres

TABLES = {"job_items", "jobs", "listings", "work_runs", "intents", "products", "replaced_results"}
ITEMS = 4_000
WHOLE = {("select_due", "work_runs")}
"""What is read as a whole on purpose: runs are few, deleted when they are done, and an index on when they are due would
be written at every claim."""
MOST_ROWS = 20 * RUN_SIZE
"""Rows one scan or one join may look at, in all its rounds, for a run of RUN_SIZE items. Each with each would be
RUN_SIZE times RUN_SIZE."""
NAMES = {text: name for group in statements.groups() for name, text in statements.load(group).items()}

FILL = """
INSERT INTO products (sku, title, category, cost_usd, image_urls)
    SELECT 'PLN' || lpad(n::text, 7, '0'), 'Maleta ' || n, 'Suitcases', 20, '{https://images.example.com/a.jpg}'
    FROM generate_series(0, %(items)s - 1) n;
INSERT INTO listings (seller_id, environment, sku, listing_id, permalink, title, listing_type_id, price, currency,
        category_id, status_meli, app_status, published_at)
    SELECT %(seller)s, e, 'PLN' || lpad(n::text, 7, '0'), 'MCO' || n, 'https://example.com/' || n, 'Maleta',
        'gold_special', 1000, 'COP', 'MCO1', 'active', 1, now()
    FROM generate_series(0, %(items)s - 1) n, unnest(ARRAY['test', 'live']::environment[]) e;
WITH other AS (
    INSERT INTO sellers (name, site_id, currency, trm, margin_percent, price_step, warranty_time,
        manufacturing_time_days, stock_quantity, listing_type_id)
    SELECT 'Other ' || n, 'MCO', 'COP', 4000, 0, 1, '', 0, 1, 'gold_special' FROM generate_series(1, 50) n
    RETURNING seller_id
), done AS (
    INSERT INTO jobs (seller_id, job_id, job_number, environment, kind, status, total_items, pending, skipped,
        listing_type_id, tax_category_id, terms, completed_at)
    SELECT seller_id, gen_random_uuid(), n, 'test', 'publication', 'cancelled', 1, 0, 1, 'gold_special', 0, '{}', now()
    FROM other, generate_series(1, 50) n
    RETURNING seller_id, job_id
)
INSERT INTO work_runs (seller_id, job_id, first_ordinal, last_ordinal, environment, due_at)
SELECT seller_id, job_id, 0, 0, 'test', now() + interval '1 day' FROM done;
INSERT INTO intents (seller_id, environment, sku, job_id, ordinal, first_ordinal, fence, owner, kind,
        attempt, state, draft, started_at)
    SELECT seller_id, 'test', 'OTH' || lpad((row_number() OVER ())::text, 7, '0'), job_id, 0, 0, 1,
        gen_random_uuid(), 'create', 1, 'sending', '{}', now()
    FROM work_runs WHERE seller_id <> %(seller)s ON CONFLICT DO NOTHING;
INSERT INTO replaced_results (seller_id, job_id, retry, first_ordinal, last_sequence, results)
    SELECT seller_id, job_id, 1, 0, 1, ARRAY[ROW(1, 0, 'OTH0000001', NULL, 1, NULL, '{}')::replaced_result]
    FROM work_runs WHERE seller_id <> %(seller)s;
"""


class Explaining:
    """A connection that looks at the plan of each statement, run for real, before it runs it for its caller."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.seen: list[str] = []
        self.most_rows = MOST_ROWS
        self.faults: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, statement: Any, parameters: Any = None, **options: Any) -> Any:
        """See psycopg."""
        name = NAMES.get(statement)
        if name is not None:
            self.seen.append(name)
            await self._connection.execute("SAVEPOINT plan")
            explain = "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "
            cursor = await self._connection.execute(explain + statement, parameters)
            row = await cursor.fetchone()
            await self._connection.execute("ROLLBACK TO plan")
            for node in _nodes(row[0][0]["Plan"]):
                self._judge(name, node)
        return await self._connection.execute(statement, parameters, **options)

    def _judge(self, name: str, node: dict[str, Any]) -> None:
        relation = node.get("Relation Name")
        if relation in TABLES and node["Node Type"] == "Seq Scan" and (name, relation) not in WHOLE:
            self.faults.append(f"{name} reads all of {relation}")
        looked_at = sum(
            node.get(key, 0) for key in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
        )
        if (name, relation) not in WHOLE and looked_at * node.get("Actual Loops", 1) > self.most_rows:
            self.faults.append(f"{name} looks at {looked_at * node['Actual Loops']:.0f} rows in a {node['Node Type']}")


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


@pytest_asyncio.fixture(params=["without statistics", "with statistics"])
async def filled(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Application, Principal]]:
    """A seller with thousands of listings and two live jobs of thousands of items, one of them half done."""
    url = service.new_database()
    application = service.new_application(url)
    await application.open()
    tenant = await service.new_tenant(application)
    principal = Principal(
        seller_id=tenant.seller_id, environment=Environment.LIVE, scopes=frozenset(Scope), key_id="plans"
    )
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(FILL, {"seller": tenant.seller_id, "items": ITEMS})
    wanted = [Item(f"PLN{number:07d}", None, True) for number in range(ITEMS)]
    for _ in range(2):
        await create_job(application.database, principal, PublicationRequest(items=wanted))
    with psycopg.connect(url, autocommit=True) as connection:
        if request.param == "with statistics":
            connection.execute("VACUUM ANALYZE")
        else:
            found = connection.execute("SELECT count(*) FROM pg_stats WHERE tablename = 'job_items'")
            assert found.fetchone() == (0,)
    yield application, principal
    await application.close()
    start_test_postgres().drop_database(url)


async def test_working_a_run_touches_its_own_rows(filled: tuple[Application, Principal]) -> None:
    application, principal = filled
    owner = str(uuid.uuid4())
    async with application.database.connection() as plain, plain.transaction():
        connection: Any = Explaining(plain)
        assert len(await work.due(connection)) == 1
        run, *_ = await work.claim(connection, principal.seller_id, Environment.LIVE, owner=owner, lease=60.0, limit=1)
        await work.start_jobs(connection, principal.seller_id, [run.job_id])
        assert await work.renew(connection, [run], owner=owner, lease=60.0)
        terms = await work.job_terms(connection, run.seller_id, run.job_id)
        assert terms is not None
        newest = [f"MCO9{number:09d}" for number in range(100)]
        assert await accounts.known_listing_ids(connection, run.seller_id, Environment.LIVE, newest) == set()
        items = await work.run_items(connection, run, terms)
        assert len(items) == RUN_SIZE
        user = await _marketplace_user(plain, principal.seller_id)
        granted = await work.insert_intents(
            connection,
            run,
            owner=owner,
            marketplace_user_id=user,
            intents=[(item.ordinal, item.sku, _draft(item.sku)) for item in items],
        )
        assert len(granted) == RUN_SIZE
        results = [_published(item.ordinal, item.sku, run.fence) for item in items]
        recorded = await work.record(
            connection,
            run.seller_id,
            run.job_id,
            results,
            owner=owner,
            terms=terms,
            first_ordinal=run.first_ordinal,
            settle=60.0,
            first_search=2.0,
        )
        assert recorded is not None
        assert recorded.successful == RUN_SIZE
        await work.end_run(connection, run, owner=owner, delay=0.0, returns=0)
        assert connection.faults == []
        assert {"claim", "select_run_items", "insert_intents", "mark_updates", "record", "end_run"} <= {
            *connection.seen
        }


async def test_answering_about_jobs_touches_a_page(filled: tuple[Application, Principal]) -> None:
    application, principal = filled
    seller_id = principal.seller_id
    async with application.database.connection() as plain, plain.transaction():
        await plain.execute(
            """UPDATE job_items SET status = 'success', sequence = ordinal + 1, listing_id = 'MCO' || ordinal
            WHERE seller_id = %s AND ordinal < 2000""",
            [seller_id],
        )
        connection: Any = Explaining(plain)
        found = await jobs.newest(connection, seller_id, status=None, from_time=None, to_time=None, limit=20, offset=0)
        job_id = found.jobs[0].job_id
        numbers = [job.job_number for job in found.jobs]
        older = await jobs.newest(
            connection, seller_id, status=None, from_time=None, to_time=None, limit=20, before=numbers[0]
        )
        assert [job.job_number for job in older.jobs] == numbers[1:]
        page = await jobs.page(connection, seller_id, job_id, status=ItemStatus.PENDING, limit=100, after=-1)
        assert page is not None
        page = await jobs.page(connection, seller_id, job_id, status=None, limit=100, after=1_799)
        assert page is not None
        assert page.items[0].ordinal == 1_800
        for offset in (0, 1_800):
            page = await jobs.page(connection, seller_id, job_id, status=None, limit=100, offset=offset)
            assert page is not None
            assert [item.status_meli for item in page.items] == ["active"] * 100
        assert await jobs.find(connection, seller_id, job_id) is not None
        connection.most_rows = 1
        page = await jobs.page(connection, seller_id, job_id, status=ItemStatus.FAILED, limit=100)
        assert page is not None
        assert page.items == []
        connection.most_rows = MOST_ROWS
        assert len(await jobs.watched(connection, [(seller_id, job.job_id) for job in found.jobs])) == 2
        assert connection.faults == []
        assert {"select_job", "select_page", "select_jobs_newest", "select_watched"} <= {*connection.seen}


async def test_steering_a_job_touches_its_own_rows(filled: tuple[Application, Principal]) -> None:
    application, principal = filled
    seller_id = principal.seller_id
    async with application.database.connection() as plain, plain.transaction():
        connection: Any = Explaining(plain)
        found = await jobs.active(plain, seller_id)
        job_id = found[0].job_id
        assert await jobs.lock(connection, seller_id, job_id) is not None
        stopped = Failure("account_not_connected")
        assert await jobs.close_pending(connection, seller_id, job_id, failure=stopped, cancel=False) == ITEMS
        assert await jobs.count_in_flight(connection, seller_id, job_id) == 0
        assert await jobs.count_retryable(connection, seller_id, job_id) == ITEMS
        assert await jobs.reopen(connection, seller_id, job_id) == ITEMS
        results = await jobs.results_after(connection, seller_id, job_id, after=1_000, limit=500)
        assert [item.sequence for item in results] == list(range(1_001, 1_501))
        assert connection.faults == []
        assert {"end_pending", "close_job", "keep_replaced", "reopen_items", "reopen_job"} <= {*connection.seen}


async def test_accepting_a_job_touches_its_own_rows(filled: tuple[Application, Principal]) -> None:
    application, principal = filled
    async with application.database.connection() as plain, plain.transaction():
        connection: Any = Explaining(plain)
        await sellers.lock(connection, principal.seller_id)
        standing = await acceptance.standing(connection, principal.seller_id, Environment.LIVE, str(uuid.uuid4()))
        assert standing.active_jobs == 2
        assert connection.faults == []
        assert "select_acceptance" in connection.seen


async def _marketplace_user(connection: Any, seller_id: int) -> int:
    cursor = await connection.execute(
        "SELECT marketplace_user_id FROM marketplace_accounts WHERE seller_id = %s AND environment = 'live'",
        [seller_id],
    )
    row = await cursor.fetchone()
    return int(row[0])


def _draft(sku: str) -> StoredDraft:
    draft = ListingDraft(
        sku=sku,
        title="Maleta",
        category_id="MCO1",
        price=1000,
        listing_type_id="gold_special",
        quantity=1,
        image_urls=("https://images.example.com/a.jpg",),
    )
    return StoredDraft(draft=draft)


def _published(ordinal: int, sku: str, fence: int) -> work.ItemResult:
    return work.ItemResult(
        ordinal=ordinal,
        sku=sku,
        outcome="success",
        intent=True,
        fence=fence,
        attempts=1,
        listing_id=f"MCO{ordinal}",
        permalink=f"https://example.com/{ordinal}",
        price=1000,
        category_id="MCO1",
        title="Maleta",
        listing_type_id="gold_special",
        status_meli="active",
    )
