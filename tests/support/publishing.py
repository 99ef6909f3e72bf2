"""A worker in the test's own event loop, on a real database and against a real sandbox process.

    async with publishing(database_url, sandbox) as shop:
        skus = await shop.stock("MINE", 3)
        job_id = await shop.publish(tenant, skus)
        ended = await shop.ended(tenant, job_id)

Everything a test wants to know is asked of the use cases, of the database, or of the sandbox's operator side.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
import pytest

from core.app import Application
from core.domain.api_key import Principal, Scope
from core.domain.jobs import Job, JobItem
from core.domain.product import Product
from core.domain.publication import Item, PromotionRequest, PublicationRequest
from core.domain.states import TERMINAL, Environment, ItemStatus
from core.ports.marketplace import Account, ListingDraft, StatesResult
from core.storage import catalog, jobs
from core.storage.database import Connection
from core.use_cases.create_job import create_job
from core.use_cases.promote import promote
from core.use_cases.steer_jobs import Cancelled, Retried, cancel_job, retry_job
from core.worker.process import Worker
from tests.support import service
from tests.support.sandbox import RunningSandbox
from tests.support.service import Tenant

T = TypeVar("T")

LIVE, TEST = Environment.LIVE, Environment.TEST
CATEGORY = "MCO158426"
"""A leaf of the sandbox's tree that takes the stock's products."""
QUICK: dict[str, Any] = {
    "marketplace_client_secret": "secret",
    "marketplace_timeout_seconds": 3,
    "marketplace_settle_seconds": 1.2,
    "lease_seconds": 13,
    "poll_seconds": 0.05,
}
_numbers = itertools.count()


def leave_out_once(monkeypatch: pytest.MonkeyPatch, worker: Worker, listing_id: str) -> asyncio.Event:
    """The next look at this listing tells nothing of it: its entry of a multiget had a code of its own (reference,
    section 3.8). The event is set when that has happened."""
    market = worker.context.marketplace
    look = market.get_listings
    happened = asyncio.Event()

    async def forgetful(account: Account, listing_ids: Sequence[str]) -> StatesResult:
        states = await look(account, listing_ids)
        if listing_id not in states.listings or happened.is_set():
            return states
        happened.set()
        rest = {key: value for key, value in states.listings.items() if key != listing_id}
        return msgspec.structs.replace(states, listings=rest)

    monkeypatch.setattr(market, "get_listings", forgetful)
    return happened


async def until(look: Callable[[], Awaitable[T]], seconds: float = 20.0, what: str = "it") -> T:
    """The first true answer of ``look``; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        found = await look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not come to pass within {seconds} s"
        await asyncio.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Ended:
    """A job with all of its items, in request order."""

    job: Job
    items: list[JobItem]

    def codes(self) -> list[str | None]:
        """The failure code of each item; None for one without."""
        return [item.error["code"] if item.error else None for item in self.items]

    def count(self, status: str) -> int:
        """Items of this status."""
        return sum(item.status == status for item in self.items)


@dataclass
class Shop:
    """An application, a sandbox, and the workers a test runs."""

    application: Application
    sandbox: RunningSandbox
    workers: list[Worker] = field(default_factory=list)

    @property
    def worker(self) -> Worker:
        """The one that runs."""
        return self.workers[-1]

    # Orders.

    async def tenant(self, **arguments: Any) -> Tenant:
        """A seller; arguments as for ``service.new_tenant``."""
        return await service.new_tenant(self.application, **arguments)

    async def stock(self, prefix: str, count: int = 1, **changes: Any) -> list[str]:
        """Put that many products into the catalogue; their SKUs, different at each call."""
        number = next(_numbers)
        skus = [f"{prefix[:3]:X<3}{number:03d}{index:04d}" for index in range(count)]
        assert all(len(sku) == 10 for sku in skus)
        await self.put(*(product(sku, **changes) for sku in skus))
        return skus

    async def put(self, *products: Product) -> None:
        """Insert or change products."""

        async def work(connection: Connection) -> tuple[int, int]:
            return await catalog.upsert(connection, products)

        await self.application.database.transact(work)

    async def publish(
        self, tenant: Tenant, skus: Sequence[str], *, environment: Environment = TEST, category: str | None = CATEGORY,
        **options: Any,
    ) -> str:  # fmt: skip
        """A job of these SKUs; ``category`` None: inferred. The job's id."""
        items = [Item(sku, category, None if category else True) for sku in skus]
        answer = await create_job(
            self.application.database, principal(tenant, environment), PublicationRequest(items=items, **options)
        )
        return answer.result.job_id

    async def promote(self, tenant: Tenant, skus: Sequence[str] | None = None) -> str:
        """A promotion; the job's id."""
        answer = await promote(self.application.database, principal(tenant, LIVE), PromotionRequest(skus=skus))
        return answer.result.job_id

    async def cancel(self, tenant: Tenant, job_id: str) -> Cancelled:
        """Cancel it."""
        return await cancel_job(self.application.database, tenant.seller_id, job_id)

    async def retry(self, tenant: Tenant, job_id: str) -> Retried:
        """Retry it."""
        return await retry_job(self.application.database, tenant.seller_id, job_id)

    # Looking.

    async def job(self, tenant: Tenant, job_id: str) -> Job:
        """The job as readers see it."""
        found = await self.application.database.read(lambda c: jobs.find(c, tenant.seller_id, job_id))
        assert found is not None
        return found

    async def look(self, tenant: Tenant, job_id: str) -> Ended:
        """The job with all of its items as they stand."""

        async def work(connection: Connection) -> Ended:
            page = await jobs.page(connection, tenant.seller_id, job_id, status=None, limit=20_000, offset=0)
            assert page is not None
            return Ended(page.job, list(page.items))

        return await self.application.database.read(work)

    async def ended(self, tenant: Tenant, job_id: str, seconds: float = 20.0) -> Ended:
        """The job once it is terminal and nothing of it is pending; checks what must hold of every job."""

        async def over() -> bool:
            job = await self.job(tenant, job_id)
            return job.status in TERMINAL and job.pending == 0

        await until(over, seconds, f"the end of job {job_id}")
        ended = await self.look(tenant, job_id)
        await self.check(tenant, ended)
        return ended

    async def check(self, tenant: Tenant, ended: Ended) -> None:
        """Counters, sequences, credits and leftovers of a job that has ended."""
        job = ended.job
        assert job.total_items == job.pending + job.successful + job.failed + job.skipped == len(ended.items)
        for status in ItemStatus:
            assert ended.count(status) == {
                ItemStatus.PENDING: job.pending, ItemStatus.SUCCESS: job.successful,
                ItemStatus.FAILED: job.failed, ItemStatus.SKIPPED: job.skipped,
            }[status]  # fmt: skip
        assert job.reconciling == 0
        assert await self.sequences(tenant, job.job_id) == list(range(1, job.last_sequence + 1))
        assert await self.rows("SELECT sku FROM intents WHERE job_id = %s", job.job_id) == []
        await until(lambda: self._no_runs(job.job_id), 5, "the end of the job's runs")
        await self.books(tenant)

    async def _no_runs(self, job_id: str) -> bool:
        return await self.rows("SELECT 1 FROM work_runs WHERE job_id = %s", job_id) == []

    async def books(self, tenant: Tenant) -> None:
        """Balances, ledger and pending items agree."""
        from core.storage import credits as credit_store

        found = await self.application.database.read(lambda c: credit_store.audit(c, tenant.seller_id))
        assert found is None, found

    async def sequences(self, tenant: Tenant, job_id: str) -> list[int]:
        """The sequences of all results of the job, replaced ones included, in order."""
        found = await self.application.database.read(
            lambda c: jobs.results_after(c, tenant.seller_id, job_id, after=0, limit=100_000)
        )
        return [item.sequence or 0 for item in found]

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a statement gives."""
        async with self.application.database.connection() as connection:
            cursor = await connection.execute(statement.encode(), values)
            return await cursor.fetchall()

    async def change(self, statement: str, *values: Any) -> int:
        """Change rows behind the service's back, as time or a fault would; how many."""
        async with self.application.database.connection() as connection:
            return (await connection.execute(statement.encode(), values)).rowcount

    async def listing(self, tenant: Tenant, sku: str, environment: Environment = TEST) -> dict[str, Any]:
        """The stored listing of a SKU."""
        names = ("listing_id", "price", "category_id", "category_name", "status_meli", "app_status",
                 "published_to_live", "published_at")  # fmt: skip
        (row,) = await self.rows(
            f"SELECT {', '.join(names)} FROM listings WHERE seller_id = %s AND environment = %s AND sku = %s",
            tenant.seller_id, environment.value, sku,
        )  # fmt: skip
        return dict(zip(names, row, strict=True))

    def on_market(self, tenant: Tenant, sku: str, environment: Environment = TEST) -> list[dict[str, Any]]:
        """Open items of this SKU on the account, as the marketplace has them."""
        found = self.sandbox.items(user=tenant.marketplace_users[environment], sku=sku)
        return [each for each in found if each["status"] != "closed"]

    async def make_by_hand(self, tenant: Tenant, sku: str, environment: Environment = TEST) -> str:
        """A listing made on the account without this service; its id."""
        marketplace = self.application.marketplace()
        try:
            draft = ListingDraft(
                sku=sku,
                title="Maleta hecha a mano",
                category_id=CATEGORY,
                price=77_000,
                listing_type_id="gold_special",
                quantity=1,
                image_urls=("https://images.example.com/hand.jpg",),
            )
            made = await marketplace.create_listing(self.account(tenant, environment), draft, lambda: True)
        finally:
            await marketplace.aclose()
        assert made.listing is not None, made
        self.sandbox.change_item(made.listing.listing_id, index_lag_seconds=0)
        return made.listing.listing_id

    def account(self, tenant: Tenant, environment: Environment = TEST) -> Account:
        """The connected account, as the connector takes it."""
        return Account(
            seller_id=tenant.seller_id,
            environment=environment,
            marketplace_user_id=tenant.marketplace_users[environment],
            site_id="MCO",
            currency="COP",
        )

    def created(self, tenant: Tenant, environment: Environment = TEST) -> int:
        """Items ever made on the account, closed ones included."""
        return len(self.sandbox.items(user=tenant.marketplace_users[environment], limit=100_000))

    def fault(self, tenant: Tenant, fault: str, environment: Environment = TEST, **rule: Any) -> int:
        """A fault for one account only."""
        return self.sandbox.add_fault(fault, user_id=tenant.marketplace_users[environment], **rule)

    def fired(self, rule_id: int) -> int:
        """How often a rule struck."""
        rules = self.sandbox.call("GET", "/sandbox/faults")["rules"]
        return next(int(rule["fired"]) for rule in rules if rule["id"] == rule_id)

    def forget(self, rule_id: int) -> None:
        """Remove a rule."""
        self.sandbox.call("DELETE", f"/sandbox/faults/{rule_id}")

    # Workers.

    @contextlib.asynccontextmanager
    async def working(self, *, dies_at: Gate | None = None, **changes: Any) -> AsyncIterator[Worker]:
        """A worker with a connector of its own, until the end of the block; ``changes`` are attributes of its
        context. ``dies_at``: the gate at which it dies, where ``reached`` is not that gate itself."""
        marketplace = self.application.marketplace()
        worker = self.application.worker(marketplace)
        for name, value in changes.items():
            setattr(worker.context, name, value)
        gate = dies_at or worker.context.reached
        if isinstance(gate, Gate) and gate.dies:
            _mortal(worker, gate)
        task = asyncio.create_task(worker.run())
        self.workers.append(worker)
        try:
            yield worker
        finally:
            self.workers.remove(worker)
            worker.context.stopping.set()
            await task
            await marketplace.aclose()


def principal(tenant: Tenant, environment: Environment) -> Principal:
    """The tenant calling with a key of this environment."""
    return Principal(seller_id=tenant.seller_id, environment=environment, scopes=frozenset(Scope), key_id="k")


def product(sku: str, **changes: Any) -> Product:
    """A product that publishes cleanly."""
    chosen: dict[str, Any] = {
        "title": f"Maleta rígida mediana {sku}",
        "category": "Suitcases",
        "cost_usd": Decimal("19.99"),
        "image_urls": ("https://images.example.com/a.jpg",),
    }
    return Product(sku=sku, **(chosen | changes))


@contextlib.asynccontextmanager
async def publishing(
    database_url: str, sandbox: RunningSandbox, *, working: bool = True, **settings: Any
) -> AsyncIterator[Shop]:
    """A shop on this database; with ``working`` a worker runs from the start. ``settings`` win over ``QUICK``."""
    application = service.new_application(database_url, marketplace_url=sandbox.url, **(QUICK | settings))
    await application.open()
    shop = Shop(application, sandbox)
    try:
        if working:
            async with shop.working():
                yield shop
        else:
            yield shop
    finally:
        await application.close()


def _mortal(worker: Worker, gate: Gate) -> None:
    """From the moment the worker stands at the gate it does nothing but stand there, and renew."""
    for owner, name in (
        (worker, "_claim"),
        (worker._recovery, "rescue_expired"),
        (worker._recovery, "restore_stranded"),
        (worker._reconciler, "sweep"),
        (worker._follow_ups, "sweep"),
    ):
        step = getattr(owner, name)

        async def unless_dead(step: Callable[[], Awaitable[int]] = step) -> int:
            return 0 if gate.has_arrived else await step()

        setattr(owner, name, unless_dead)


class Gate:
    """Holds a worker at a named point until it is opened: ``shop.working(reached=gate)``.

    Args:
        point: the name, as in ``core.worker``.
        skip: passes let through first.
        dies: once there, the worker claims, rescues and searches nothing any more, as a dead one.
    """

    def __init__(self, point: str, *, skip: int = 0, dies: bool = False) -> None:
        self.point = point
        self.dies = dies
        self._skip = skip
        self._arrived = asyncio.Event()
        self._open = asyncio.Event()

    async def __call__(self, point: str) -> None:
        """Told by the worker where it is."""
        if point != self.point:
            return
        if self._skip:
            self._skip -= 1
            return
        self._arrived.set()
        await self._open.wait()

    @property
    def has_arrived(self) -> bool:
        """Whether the worker stands at the point, or stood there."""
        return self._arrived.is_set()

    async def arrived(self, seconds: float = 10.0) -> None:
        """The worker stands at the point."""
        async with asyncio.timeout(seconds):
            await self._arrived.wait()

    def open(self) -> None:
        """Let it through, now and from now on."""
        self._open.set()
