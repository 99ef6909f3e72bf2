"""What storage guarantees by itself: tries, time limits, constraints, sweeps that one bad row does not stop."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from core.app import Application
from core.domain.api_key import Principal, Scope
from core.domain.publication import Item, PublicationRequest
from core.domain.states import Environment
from core.errors import ApiError
from core.slots import Slots
from core.storage import acceptance, vitals, work
from core.storage.database import MAX_TRIES, Connection, Database, is_transient
from core.use_cases.create_job import create_job
from core.worker import follow_ups
from core.worker.accounts import Accounts
from core.worker.context import WorkerContext
from core.worker.follow_ups import FollowUps
from core.worker.recovery import Recovery
from tests.conftest import NewTenant
from tests.support import service
from tests.support.service import Tenant

LIVE = Environment.LIVE
RETRIED = ("40001", "40P01", "25P03", "57P01", "57P02", "57P03", "08006", "08003")
NOT_RETRIED = ("57014", "23505", "23514", "22P02", "55P03")


def _numbers() -> Iterator[int]:
    yield from range(10**6)


numbers = _numbers()


async def accept(application: Application, tenant: Tenant, *, key: str | None = None, sku: str | None = None) -> str:
    principal = Principal(seller_id=tenant.seller_id, environment=LIVE, scopes=frozenset(Scope), key_id="key")
    items = [Item(sku or f"RULE{next(numbers):06d}", None, True)]
    request = PublicationRequest(items=items, idempotency_key=key)
    return (await create_job(application.database, principal, request)).result.job_id


async def rows(database: Database, statement: str, *parameters: object) -> list[tuple[object, ...]]:
    async def look(connection: Connection) -> list[tuple[object, ...]]:
        cursor = await connection.execute(statement, parameters)
        return await cursor.fetchall() if cursor.description else []

    return await database.read(look)


async def tries_of(database: Database, sqlstate: str) -> int:
    """How often a transaction is run that always fails with this state."""
    tried = 0

    async def fail(connection: Connection) -> None:
        nonlocal tried
        tried += 1
        await connection.execute(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{sqlstate}'; END $$")

    with pytest.raises((ApiError, psycopg.Error)):
        await database.transact(fail)
    return tried


@pytest.mark.parametrize("sqlstate", RETRIED)
async def test_what_another_try_may_heal_is_tried_five_times(application: Application, sqlstate: str) -> None:
    assert await tries_of(application.database, sqlstate) == MAX_TRIES


@pytest.mark.parametrize("sqlstate", NOT_RETRIED)
async def test_what_no_other_try_heals_is_tried_once(application: Application, sqlstate: str) -> None:
    # 57014, a statement that took too long, among them: more of it is the last thing a busy database needs.
    assert await tries_of(application.database, sqlstate) == 1


def test_a_broken_connection_without_a_state_is_transient() -> None:
    assert is_transient(psycopg.OperationalError("server closed the connection unexpectedly"))
    assert not is_transient(psycopg.DataError("not a matter of the connection"))


async def test_every_connection_has_its_time_limits(application: Application) -> None:
    limits = await rows(
        application.database,
        "SELECT current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')",
    )

    assert limits == [("15s", "5s")]


async def test_a_transaction_that_stands_still_is_ended_and_made_again(
    own_database_url: str, own_application: Application
) -> None:
    """Its process was stopped for a while: meanwhile others must get at what it had locked."""
    tenant = await service.new_tenant(own_application)
    tries = 0

    async def work(connection: Connection) -> int:
        nonlocal tries
        tries += 1
        await connection.execute("SELECT FROM sellers WHERE seller_id = %s FOR UPDATE", [tenant.seller_id])
        if tries == 1:
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'")
            async with asyncio.timeout(20):
                # Waits for the lock of the transaction above: given when that has been ended.
                async with await psycopg.AsyncConnection.connect(own_database_url) as other:
                    await other.execute("SELECT FROM sellers WHERE seller_id = %s FOR UPDATE", [tenant.seller_id])
        await connection.execute("SELECT 1")
        return tries

    assert await own_application.database.transact(work) == 2


async def test_without_prepared_statements_everything_works_and_none_is_left(own_database_url: str) -> None:
    application = service.new_application(own_database_url, database_prepare=False, database_pool_size=2)
    await application.open()
    try:
        tenant = await service.new_tenant(application)
        jobs = {await accept(application, tenant) for _ in range(5)}
        kept = await rows(application.database, "SELECT count(*) FROM pg_prepared_statements")
    finally:
        await application.close()

    assert len(jobs) == 5
    assert kept == [(0,)]


@pytest.mark.parametrize(
    "change",
    [
        "available = -1, granted = granted - available - 1",
        "held = -1, granted = granted - held - 1",
        "used = -1, granted = granted - used - 1",
        "available = available + 1",
    ],
)
async def test_balances_cannot_be_negative_or_not_add_up(application: Application, tenant: Tenant, change: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        await rows(application.database, f"UPDATE credit_balances SET {change} WHERE seller_id = %s", tenant.seller_id)


async def test_a_result_cannot_be_settled_twice_in_the_ledger(application: Application, tenant: Tenant) -> None:
    settle = """
        INSERT INTO credit_ledger (seller_id, entry_number, kind, amount, job_id, first_sequence, last_sequence)
        VALUES (%s, %s, 'capture', 1, %s, 1, 1)
    """
    job_id = str(uuid.uuid4())
    await rows(application.database, settle, tenant.seller_id, 1001, job_id)

    with pytest.raises(psycopg.errors.UniqueViolation):
        await rows(application.database, settle, tenant.seller_id, 1002, job_id)


async def test_a_terminal_job_has_an_end_and_an_active_one_has_none(application: Application, tenant: Tenant) -> None:
    job_id = await accept(application, tenant)

    for change in ("status = 'cancelled'", "completed_at = now()", "pending = pending - 1"):
        with pytest.raises(psycopg.errors.CheckViolation):
            await rows(application.database, f"UPDATE jobs SET {change} WHERE job_id = %s", job_id)


async def test_forgetting_old_keys_changes_no_answer(application: Application, tenant: Tenant) -> None:
    old, young = str(uuid.uuid4()), str(uuid.uuid4())
    first_old = await accept(application, tenant, key=old, sku="OLDKEY0001")
    first_young = await accept(application, tenant, key=young, sku="YOUNGKEY01")
    await rows(
        application.database,
        "UPDATE idempotency_keys SET created_at = now() - interval '26 hours' WHERE idempotency_key = %s",
        old,
    )

    await application.database.read(acceptance.forget_old_keys)
    kept = await rows(
        application.database,
        "SELECT idempotency_key::text FROM idempotency_keys WHERE seller_id = %s",
        tenant.seller_id,
    )

    assert kept == [(young,)]
    # After a day the key was new again before it was forgotten, and is so afterwards.
    assert await accept(application, tenant, key=old, sku="OLDKEY0001") != first_old
    assert await accept(application, tenant, key=young, sku="YOUNGKEY01") == first_young


async def _lost_run(application: Application, tenant: Tenant) -> tuple[str, int]:
    """A job whose one run is held by a worker that has died: its id and the fence."""
    job_id = await accept(application, tenant)

    async def claim(connection: Connection) -> int:
        (run,) = await work.claim(connection, tenant.seller_id, LIVE, owner=str(uuid.uuid4()), lease=60, limit=1)
        return run.fence

    fence = await application.database.read(claim)
    await rows(
        application.database,
        "UPDATE work_runs SET leased_until = now() - interval '1 second' WHERE job_id = %s",
        job_id,
    )
    return job_id, fence


async def test_a_rescued_run_is_due_again_a_little_later_each_time(application: Application, tenant: Tenant) -> None:
    job_id, fence = await _lost_run(application, tenant)
    waits = []
    for returns in (0, 1, 3):
        await rows(
            application.database,
            """
            UPDATE work_runs SET returns = %s, owner = gen_random_uuid(), leased_until = now() - interval '1 second'
            WHERE job_id = %s
            """,
            returns,
            job_id,
        )

        async def rescue(connection: Connection) -> int | None:
            return await work.rescue(
                connection, (tenant.seller_id, job_id, 0, fence), owner=str(uuid.uuid4()), settle=60, spread=1.5
            )

        await application.database.transact(rescue)
        found = await rows(
            application.database,
            "SELECT extract(epoch FROM due_at - now())::float8 FROM work_runs WHERE job_id = %s",
            job_id,
        )
        waits.append(float(str(found[0][0])))

    assert waits == pytest.approx([1.5, 3.0, 12.0], abs=0.5)


async def test_a_run_that_cannot_be_rescued_now_leaves_the_others_alone(
    own_database_url: str,
) -> None:
    application = service.new_application(own_database_url, statement_timeout_seconds=1)
    await application.open()
    try:
        stuck, free = await service.new_tenant(application), await service.new_tenant(application)
        stuck_job, _ = await _lost_run(application, stuck)
        free_job, _ = await _lost_run(application, free)
        recovery = Recovery(_worker_context(application))
        blocker = await psycopg.AsyncConnection.connect(own_database_url)
        async with blocker, asyncio.timeout(20):
            # Its job's row is locked for longer than a statement may take.
            await blocker.execute("SELECT FROM jobs WHERE job_id = %s FOR UPDATE", [stuck_job])
            rescued = await recovery.rescue_expired()
        held = await rows(application.database, "SELECT job_id::text FROM work_runs WHERE owner IS NOT NULL")
        afterwards = await recovery.rescue_expired()
    finally:
        await application.close()

    assert free_job != stuck_job
    assert rescued == 1
    assert held == [(stuck_job,)]
    assert afterwards == 1


def _worker_context(application: Application) -> WorkerContext:
    """A context of a worker that makes no calls."""
    return WorkerContext(
        database=application.database,
        marketplace=None,  # type: ignore[arg-type]  # nothing here speaks to a marketplace
        settings=application.settings,
    )


async def test_two_workers_never_have_one_name(application: Application, new_tenant: NewTenant) -> None:
    owners = {_worker_context(application).owner for _ in range(100)}

    assert len(owners) == 100
    assert {str(uuid.UUID(owner)) for owner in owners} == owners


async def test_an_open_transaction_and_dead_rows_are_seen(own_database_url: str, own_application: Application) -> None:
    database = own_application.database
    tenant = await service.new_tenant(own_application)
    before = await database.read(vitals.read)
    for _ in range(20):
        await rows(database, "UPDATE sellers SET name = name WHERE seller_id = %s RETURNING 1", tenant.seller_id)
    holder = await psycopg.AsyncConnection.connect(own_database_url)
    async with holder, asyncio.timeout(30):
        await holder.execute("SELECT 1")
        while (seen := await database.read(vitals.read)).dead_rows < 5 or seen.oldest_transaction < 0.3:
            # What was counted of a session is told when it is idle for a second, or asked to.
            await rows(database, "SELECT pg_stat_force_next_flush()")
            await asyncio.sleep(0.05)

    assert before.oldest_transaction < 0.3 <= seen.oldest_transaction < 30
    assert before.dead_rows < seen.dead_rows


async def test_follow_ups_are_carried_out_until_none_is_due(own_application: Application) -> None:
    """However many have come together, none waits for the next sweep."""
    tenant = await service.new_tenant(own_application, connected=())
    await rows(
        own_application.database,
        """
        INSERT INTO follow_ups (seller_id, follow_up_id, environment, kind, skus, due_at)
        SELECT %s, gen_random_uuid(), 'live', 'late_creation', ARRAY['SKU0000001'], now()
        FROM generate_series(1, %s) RETURNING 1
        """,
        tenant.seller_id,
        2 * follow_ups.BATCH + 1,
    )
    context = _worker_context(own_application)

    assert await FollowUps(context, Accounts(context), Slots(8)).sweep() == 2 * follow_ups.BATCH + 1


async def test_old_idempotency_keys_go_however_many_there_are(application: Application, tenant: Tenant) -> None:
    async with application.database.connection() as connection:
        await connection.execute(
            "INSERT INTO idempotency_keys (seller_id, environment, idempotency_key, operation, fingerprint, job_id,"
            " result, created_at) SELECT %s, 'live', gen_random_uuid(), 'CreateJob', '', gen_random_uuid(), '',"
            " now() - interval '26 hours' FROM generate_series(1, 12000)",
            (tenant.seller_id,),
        )
        await Recovery(_worker_context(application)).forget_old_keys()
        cursor = await connection.execute(
            "SELECT count(*) FROM idempotency_keys WHERE seller_id = %s", (tenant.seller_id,)
        )
        assert await cursor.fetchone() == (0,)
