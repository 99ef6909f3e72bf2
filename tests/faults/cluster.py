"""The service as it really runs: core server, gateway and workers as processes, PostgreSQL, the sandbox.

Everything of one cluster lies in one temporary folder: the database, the sandbox's log of effects, a log per process
and the metrics of every process that ever lived (prometheus keeps them in mapped files, which survive SIGKILL).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
from cryptography.fernet import Fernet
from prometheus_client import CollectorRegistry, multiprocess

import core
from core.app import Application
from core.catalog.importer import import_products
from core.domain.api_key import Scope
from core.domain.states import Environment
from core.settings import Settings
from core.storage.embedded import EmbeddedPostgres
from core.storage.migrate import migrate
from core.use_cases import administration
from tests.faults.points import DEATHS
from tests.faults.programs import Command, ForkedWorker, Killable, Launcher
from tests.faults.worker_process import SCALE
from tests.support.ports import free_port
from tests.support.whole_service import clean_product

ROOT = Path(__file__).parents[2]
SOURCES = Path(core.__file__).parents[1]
EFFECTS = "sandbox/effects.jsonl"
HEALTHY_SECONDS = 10.0
"""From the database's return to a service that is ready."""
RESUME_MARGIN = 5.0
"""An orphan is taken back at the latest this long after its lease has ended."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a cluster lives. Seconds; ``scale`` divides the long waits of forked workers; ``rate`` is what they all
    share of the marketplace: out of the way, but on, as in production."""

    lease: float = 10.0
    timeout: float = 1.0
    settle: float = 3.0
    concurrency: int = 8
    scale: float = 60.0
    latency: float = 0.0
    index_lag: float = 0.3
    rate: str = "20000/second"


@dataclass(frozen=True, slots=True)
class Seller:
    """A seller with a key and a connected account in both environments."""

    seller_id: int
    keys: dict[str, str] = field(repr=False, compare=False)
    users: dict[str, int] = field(compare=False)


@dataclass(slots=True)
class Outage:
    """A time in which the service may answer 503 or not at all."""

    began: float
    ended: float = float("inf")


class Cluster:
    """See the module. ``async with Cluster(folder, seed=...) as cluster``.

    Args:
        folder: empty; everything of the cluster goes there.
        seed: of all chance here.
        workers: how many.
        forked: workers of the launcher, quick to start and able to die at a point; else ``listings worker``.
        edges: whether to run core server and gateway.
    """

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        workers: int = 2,
        forked: bool = True,
        edges: bool = True,
        pace: Pace = Pace(),
    ) -> None:
        self.folder = folder
        self.pace = pace
        self.random = random.Random(f"cluster {seed}")
        self.metrics_folder = folder / "metrics"
        self.deaths_file = folder / "deaths.jsonl"
        self.postgres = EmbeddedPostgres(folder / "database", settings={"max_connections": "200"})
        self.sellers: list[Seller] = []
        self.outages: list[Outage] = []
        self.longest_overdue = 0.0
        self.troubles: list[str] = []
        self.workers: list[Killable] = []
        self._wanted_workers = workers
        self._forked = forked
        self._edges = edges
        self._secret_key = Fernet.generate_key().decode()
        self._ports = {name: free_port() for name in ("grpc", "http", "sandbox")}
        self._stock = 0
        self._monitor: asyncio.Task[None] | None = None
        self._environment: dict[str, str] = {}

    # Starting and stopping.

    async def __aenter__(self) -> Cluster:
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _start(self) -> None:
        self.metrics_folder.mkdir()
        self.database_url = await asyncio.to_thread(self.postgres.start)
        await asyncio.to_thread(migrate, self.database_url)
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10))
        self._environment = self._make_environment()
        self.sandbox = Command(
            "sandbox",
            [
                "sandbox",
                *("--data", str(self.folder / "sandbox")),
                *("--picture-delay-seconds", "0.2", "--no-fsync"),
                *("--index-lag-seconds", str(self.pace.index_lag), "--latency-seconds", str(self.pace.latency)),
            ],
            self._environment,
            self.folder,
        )
        self.core_server = Command("grpc", ["grpc"], self._environment, self.folder)
        self.gateway = Command("gateway", ["gateway"], self._environment, self.folder)
        self.launcher = Launcher(self._environment, self.folder)
        starts: list[Awaitable[None]] = [self.sandbox.start()]
        if self._edges:
            starts += [self.core_server.start(), self.gateway.start()]
        if self._forked:
            starts.append(self.launcher.start())
        self.application = self._application()
        starts.append(self.application.open())
        await asyncio.gather(*starts)
        self._worker_connection: psycopg.AsyncConnection[Any] | None = None
        for number in range(1, self._wanted_workers + 1):
            name = f"worker-{number}"
            self.workers.append(
                ForkedWorker(name, self.launcher, self._environment)
                if self._forked
                else Command(name, ["worker"], self._environment, self.folder)
            )
        await asyncio.gather(*(worker.start() for worker in self.workers))
        self._monitor = asyncio.create_task(self._watch_leases())

    def _make_environment(self) -> dict[str, str]:
        pace = self.pace
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.folder),
            "PYTHONPATH": f"{SOURCES}:{ROOT}",
            "PROMETHEUS_MULTIPROC_DIR": str(self.metrics_folder),
            "GRPC_ENABLE_FORK_SUPPORT": "0",
            DEATHS: str(self.deaths_file),
            SCALE: str(pace.scale),
            **{
                f"LISTINGS_{name.upper()}": value
                for name, value in {
                    "database_url": self.database_url,
                    "database_pool_size": "8",
                    "data_dir": str(self.folder),
                    "secret_key": self._secret_key,
                    "grpc_addr": f"127.0.0.1:{self._ports['grpc']}",
                    "http_addr": f"127.0.0.1:{self._ports['http']}",
                    "sandbox_addr": f"127.0.0.1:{self._ports['sandbox']}",
                    "marketplace_url": self.market_url,
                    "marketplace_client_secret": "of the sandbox any will do",
                    "marketplace_rate": pace.rate,
                    "rate_limit_write": "off",
                    "rate_limit_read": "off",
                    "rate_limit_bad_keys": "off",
                    "lease_seconds": str(pace.lease),
                    "marketplace_timeout_seconds": str(pace.timeout),
                    "marketplace_settle_seconds": str(pace.settle),
                    "worker_concurrency": str(pace.concurrency),
                    "poll_seconds": "0.2",
                    "drain_seconds": "4",
                    "log_format": "json",
                }.items()
            },
        }

    def _application(self) -> Application:
        settings = Settings(_env_file=None, database_pool_size=4)
        return Application(settings, name="harness", database_url=self.database_url, secret_key=self._secret_key)

    async def __aexit__(self, *_: object) -> None:
        if self._monitor is not None:
            self._monitor.cancel()
        everything: list[Any] = [*self.workers]
        everything += [getattr(self, name) for name in ("gateway", "core_server", "sandbox") if hasattr(self, name)]
        for process in everything:
            if process.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGCONT)
        await asyncio.gather(*(process.stop(5.0) for process in everything), return_exceptions=True)
        if self._forked and hasattr(self, "launcher"):
            await self.launcher.stop()
        if hasattr(self, "application"):
            await self.application.close()
        if hasattr(self, "session"):
            await self.session.close()
        await asyncio.to_thread(self.postgres.stop)

    # Addresses.

    @property
    def base_url(self) -> str:
        """REST v1, version prefix included."""
        return f"http://127.0.0.1:{self._ports['http']}/api/v1"

    @property
    def grpc_target(self) -> str:
        """The core server."""
        return f"127.0.0.1:{self._ports['grpc']}"

    @property
    def market_url(self) -> str:
        """The sandbox."""
        return f"http://127.0.0.1:{self._ports['sandbox']}"

    @property
    def effects_file(self) -> Path:
        """The sandbox's log of effects."""
        return self.folder / EFFECTS

    # What a scenario needs of the world.

    async def new_seller(self, *, balance: int = 1_000_000) -> Seller:
        """A seller with keys, credits and two accounts whose tokens can be refreshed."""
        database = self.application.database
        made = await administration.create_seller(database, name="Tienda", first_credits=balance)
        keys, users = {}, {}
        for environment in Environment:
            _, keys[environment.value] = await administration.create_key(
                database, made.seller_id, environment=environment, scopes=[scope.value for scope in Scope]
            )
            users[environment.value] = secrets.randbelow(10**9) + 10**9
        seller = Seller(made.seller_id, keys, users)
        for environment in Environment:
            await self.connect(seller, environment)
        self.sellers.append(seller)
        return seller

    async def connect(self, seller: Seller, environment: Environment) -> None:
        """Connect an account, for the first time or again, with tokens that the sandbox takes and refreshes."""
        user = seller.users[environment.value]
        await administration.connect_account(
            self.application.database,
            self.application.cipher,
            seller.seller_id,
            environment,
            marketplace_user_id=user,
            access_token=f"APP_USR-{secrets.token_hex(8)}-{user}",
            refresh_token=f"TG-{secrets.token_hex(8)}-{user}",
        )

    async def connect_lost_accounts(self) -> int:
        """Connect again what the marketplace no longer accepted, as a seller would; how many."""
        rows = await self.query(
            "SELECT seller_id, environment::text FROM marketplace_accounts WHERE status <> 'connected'"
        )
        lost = set(rows)
        for seller in self.sellers:
            for environment in Environment:
                if (seller.seller_id, environment.value) in lost:
                    await self.connect(seller, environment)
        return len(lost)

    async def stock(self, count: int) -> list[str]:
        """That many new products that publish cleanly, one in ten with a description; their SKUs."""
        made = {}
        for number in range(self._stock, self._stock + count):
            product = clean_product(number)
            sku = f"F{number:09d}"
            made[sku] = dataclasses.replace(
                product, sku=sku, description=product.description if number % 10 == 0 else None
            )
        self._stock += count
        await import_products(self.application.database, made)
        return list(made)

    async def market(self, method: str, path: str, body: Any = None) -> Any:
        """The sandbox's operator side."""
        async with self.session.request(method, f"{self.market_url}/sandbox{path}", json=body) as answer:
            answer.raise_for_status()
            return await answer.json(content_type=None)

    async def fault(self, fault: str, **rule: Any) -> None:
        """Add a fault rule to the sandbox."""
        await self.market("POST", "/faults", {"fault": fault, **rule})

    async def query(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Rows of a statement on a connection of its own, for as long as the database answers."""
        connection = await psycopg.AsyncConnection.connect(self.database_url, autocommit=True, connect_timeout=5)
        async with connection:
            cursor = await connection.execute(statement, parameters)
            return await cursor.fetchall() if cursor.description else []

    # Watching.

    async def _watch_leases(self) -> None:
        """Notes how long ended leases stay with their dead holder: that is how long an orphan waits."""
        connection: psycopg.AsyncConnection[Any] | None = None
        healthy_since = time.monotonic()
        while True:
            await asyncio.sleep(0.25)
            if any(each.ended == float("inf") for each in self.outages) or not any(
                worker.is_ready for worker in self.workers
            ):
                healthy_since = time.monotonic()
                continue
            try:
                if connection is None or connection.closed:
                    connection = await psycopg.AsyncConnection.connect(
                        self.database_url, autocommit=True, connect_timeout=5
                    )
                cursor = await connection.execute(
                    """
                    SELECT coalesce(extract(epoch FROM now() - min(leased_until)), 0)::float8 FROM (
                        SELECT leased_until FROM work_runs WHERE leased_until < now()
                        UNION ALL
                        SELECT leased_until FROM intents
                        WHERE leased_until < now() AND state = 'sending' AND attempt = 2
                    ) ended
                    """
                )
                row = await cursor.fetchone()
            except psycopg.Error:
                connection = None
                continue
            overdue = min(float(row[0]) if row else 0.0, time.monotonic() - healthy_since)
            self.longest_overdue = max(self.longest_overdue, overdue)

    async def until_ready(self, seconds: float = 30.0) -> float:
        """Wait until the gateway says that the whole service is ready; how long that took."""
        began = time.monotonic()
        while True:
            try:
                async with self.session.get(
                    f"http://127.0.0.1:{self._ports['http']}/readyz", timeout=aiohttp.ClientTimeout(total=2)
                ) as answer:
                    if answer.status == 200:
                        return time.monotonic() - began
            except (aiohttp.ClientError, TimeoutError):
                pass
            if time.monotonic() - began > seconds:
                raise AssertionError(f"the service was not ready within {seconds:.0f} s")
            await asyncio.sleep(0.05)

    async def is_not_ready(self) -> bool:
        """Whether the gateway answers, and says that the service is not ready."""
        try:
            async with self.session.get(f"http://127.0.0.1:{self._ports['http']}/readyz") as answer:
                return answer.status == 503
        except (aiohttp.ClientError, TimeoutError):
            return False

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        """Within, and until the service has said for a moment that it is ready, it may refuse with 503."""
        outage = Outage(time.monotonic())
        self.outages.append(outage)
        try:
            yield
        finally:
            outage.ended = time.monotonic()

    async def quiesce(self, seconds: float = 120.0, *, late_looks: int = 1) -> float:
        """Wait until nothing is left to be done; how long that took. What is left after ``seconds`` is stuck.

        Args:
            late_looks: how often a late creation has to have been looked for.
        """
        began = time.monotonic()
        left: dict[str, int] = {}
        while time.monotonic() - began < seconds:
            left = await self._left(late_looks)
            if not any(left.values()):
                return time.monotonic() - began
            await asyncio.sleep(0.25)
        self.troubles.append(f"stuck after {seconds:.0f} s without faults: {left}")
        return time.monotonic() - began

    async def _left(self, late_looks: int) -> dict[str, int]:
        rows = await self.query(
            """
            SELECT (SELECT count(*) FROM jobs WHERE status IN ('queued', 'processing')),
                (SELECT count(*) FROM jobs WHERE pending > 0 AND status <> 'scheduled'),
                (SELECT count(*) FROM work_runs r JOIN jobs j USING (seller_id, job_id) WHERE j.status <> 'scheduled'),
                (SELECT count(*) FROM intents),
                (SELECT count(*) FROM follow_ups WHERE kind = 'late_creation' AND tries < %s)
            """,
            (late_looks,),
        )
        return dict(zip(("active jobs", "pending", "runs", "intents", "late looks"), rows[0], strict=True))

    async def in_time(self, what: str, look: Callable[[], Awaitable[bool]], seconds: float) -> bool:
        """Wait for something; False, with a note of it, when it does not come within ``seconds``."""
        until = time.monotonic() + seconds
        while not await look():
            if time.monotonic() > until:
                self.troubles.append(f"{what} did not happen within {seconds:.0f} s")
                return False
            await asyncio.sleep(0.02)
        return True

    # Counting.

    def metrics(self) -> Counter[str]:
        """The counters of all processes, dead ones included: by name, and by name and labels."""
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry, path=str(self.metrics_folder))  # type: ignore[no-untyped-call]
        counts: Counter[str] = Counter()
        for metric in registry.collect():
            if metric.type == "counter":
                for sample in metric.samples:
                    name = sample.name.removeprefix("listings_").removesuffix("_total")
                    counts[name] += int(sample.value)
                    for value in sample.labels.values():
                        counts[f"{name} {value}"] += int(sample.value)
        return counts

    def deaths(self) -> Counter[str]:
        """Deaths at points, by point."""
        if not self.deaths_file.exists():
            return Counter()
        return Counter(json.loads(line)["point"] for line in self.deaths_file.read_text().splitlines())

    def log_events(self, names: Sequence[str]) -> Counter[str]:
        """How often these events stand in the logs of all processes."""
        counts: Counter[str] = Counter()
        for path in self.folder.glob("*.log"):
            for line in path.read_text(errors="replace").splitlines():
                for name in names:
                    if f'"event": "{name}"' in line:
                        counts[name] += 1
        return counts

    def deadlocks(self) -> int:
        """How often PostgreSQL had to break a deadlock."""
        log = self.folder / "database" / "postgres.log"
        return log.read_text(errors="replace").count("deadlock detected")

    def tracebacks(self) -> list[str]:
        """Programs that logged an exception of theirs, with its last line. That the database was away is told in
        this way too, and is no fault of theirs."""
        found = []
        for path in sorted(self.folder.glob("*.log")):
            for line in path.read_text(errors="replace").splitlines():
                if "Traceback" not in line:
                    continue
                try:
                    words = json.loads(line)
                    event, last = words.get("event"), str(words.get("exception", "")).strip().splitlines()[-1:]
                except ValueError:
                    event, last = "", [line]
                if not last or "E_INTERNAL" not in last[0]:
                    found.append(f"{path.stem}: {event}: {last[0] if last else ''}"[:300])
        return found


def immediate_stop(postgres: EmbeddedPostgres) -> None:
    """Stop PostgreSQL as a crash does: no checkpoint, connections cut."""
    pid = postgres.pid
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    until = time.monotonic() + 20
    while postgres.pid is not None:
        if time.monotonic() > until:
            raise AssertionError("PostgreSQL did not stop")
        time.sleep(0.01)
