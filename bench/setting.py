"""What a run of the bench stands on: a PostgreSQL of its own with full durability, databases, child processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import shutil
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import psycopg
from cryptography.fernet import Fernet
from psycopg import sql

from bench.measure import Row
from core.app import Application
from core.domain.api_key import Scope
from core.domain.states import Environment
from core.settings import Settings
from core.storage.embedded import EmbeddedPostgres
from core.storage.migrate import migrate
from core.use_cases import administration

REPOSITORY = Path(__file__).parents[1]
RESULTS = REPOSITORY / "bench" / "results"
SECRET_KEY = Fernet.generate_key().decode()
_SERVER = {
    "max_connections": "200",
    # No checkpoint falls into the one measurement and not into the other.
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
}
NOWHERE = "http://127.0.0.1:1"
"""A marketplace address for processes that never call it."""


@dataclass(slots=True)
class Seller:
    """A seller with its keys."""

    seller_id: int
    live_key: str
    test_key: str


@dataclass(slots=True)
class Bench:
    """One run. ``quick``: fewer rounds and smaller cases."""

    quick: bool
    folder: Path
    server_url: str
    rows: list[Row] = field(default_factory=list)
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    def rounds(self, quick: int, full: int) -> int:
        """How often a case is repeated."""
        return quick if self.quick else full

    # Databases.

    def empty_database(self) -> str:
        """URL of a new database without tables."""
        name = f"bench_{secrets.token_hex(4)}"
        with psycopg.connect(self.server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return urlunsplit(urlsplit(self.server_url)._replace(path=f"/{name}"))

    def migrated_database(self) -> str:
        """URL of a new database with the service's tables."""
        url = self.empty_database()
        migrate(url)
        return url

    def drop(self, url: str) -> None:
        """Drop what one of the two made."""
        name = urlsplit(url).path.removeprefix("/")
        with psycopg.connect(self.server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    # Processes.

    def start(self, module: str, *arguments: str, environment: dict[str, str] | None = None) -> tuple[Any, str]:
        """Start ``python -m bench.programs.<module>``; gives the process and the last word of its ready line.

        Raises:
            RuntimeError: it ended before it was ready.
        """
        return self.start_command(
            [sys.executable, "-m", f"bench.programs.{module}", *arguments], environment=environment, name=module
        )

    def start_command(
        self, command: list[str], *, name: str, environment: dict[str, str] | None = None, ready: str = "ready"
    ) -> tuple[Any, str]:
        """Start a command; gives the process and the last word of the first line that holds ``ready``."""
        log = (self.folder / f"{name}.log").open("a")
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}", **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self.children.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if ready in line:
                return process, line.split()[-1]
        said = (self.folder / f"{name}.log").read_text()[-2000:]
        raise RuntimeError(f"{name} did not start: {said}")

    def stop(self, *processes: subprocess.Popen[str]) -> None:
        """End processes of ``start``."""
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(12)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
            self.children.remove(process)


@contextlib.contextmanager
def prepared(*, quick: bool) -> Iterator[Bench]:
    """A run with its PostgreSQL; everything it started or wrote is gone afterwards."""
    RESULTS.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="listings-bench-"))
    server = EmbeddedPostgres(folder / "database", settings=_SERVER)
    try:
        bench = Bench(quick=quick, folder=folder, server_url=server.start())
        try:
            yield bench
        finally:
            bench.stop(*bench.children)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def server_facts(url: str) -> dict[str, str]:
    """What the database promises, for the report."""
    names = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")
    with psycopg.connect(url) as connection:
        return {name: connection.execute(f"SHOW {name}").fetchone()[0] for name in names}  # type: ignore[index]


def plain_access(url: str) -> dict[str, str]:
    """Host, user, password and database name, for drivers that do not read libpq URLs as libpq does."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    return {
        "host": query["host"][0] if "host" in query else str(parts.hostname),
        "port": query["port"][0] if "port" in query else str(parts.port or 5432),
        "user": query["user"][0] if "user" in query else str(parts.username),
        "password": query["password"][0] if "password" in query else str(parts.password),
        "database": parts.path.removeprefix("/"),
    }


# The service.


def settings_for(url: str, **changes: Any) -> Settings:
    """The service's settings in the bench: the defaults, without limits of rate."""
    chosen: dict[str, Any] = {
        "database_url": url,
        "secret_key": SECRET_KEY,
        "rate_limit_write": "off",
        "rate_limit_read": "off",
        "rate_limit_bad_keys": "off",
        "marketplace_rate": "off",
        "marketplace_url": NOWHERE,
        "marketplace_client_secret": "bench",
        "http_addr": "127.0.0.1:0",
        "grpc_addr": "127.0.0.1:0",
    }
    return Settings(_env_file=None, **(chosen | changes))


def environment_for(url: str, **changes: str) -> dict[str, str]:
    """The same as environment variables."""
    chosen = {
        "database_url": url,
        "secret_key": SECRET_KEY,
        "rate_limit_write": "off",
        "rate_limit_read": "off",
        "rate_limit_bad_keys": "off",
        "marketplace_rate": "off",
        "marketplace_url": NOWHERE,
        "marketplace_client_secret": "bench",
        "http_addr": "127.0.0.1:0",
        "grpc_addr": "127.0.0.1:0",
        "log_level": "WARNING",
    }
    return {f"LISTINGS_{name.upper()}": value for name, value in (chosen | changes).items()}


@contextlib.asynccontextmanager
async def application(url: str, **changes: Any) -> Any:
    """An open application on this database."""
    app = Application(settings_for(url, **changes), name="bench", database_url=url, secret_key=SECRET_KEY)
    await app.open()
    try:
        yield app
    finally:
        await app.close()


async def new_sellers(app: Application, count: int, *, credit: int = 10**9) -> list[Seller]:
    """Sellers with credits, a live and a test key, and both accounts connected."""

    async def make(number: int) -> Seller:
        database = app.database
        seller = await administration.create_seller(database, name=f"Seller {number}", first_credits=credit)
        keys = {}
        for environment in Environment:
            _, keys[environment] = await administration.create_key(
                database, seller.seller_id, environment=environment, scopes=[scope.value for scope in Scope]
            )
            user = 10**9 + seller.seller_id * 2 + (environment is Environment.TEST)
            await administration.connect_account(
                database,
                app.cipher,
                seller.seller_id,
                environment,
                marketplace_user_id=user,
                access_token=f"APP_USR-bench-{user}",
            )
        return Seller(seller.seller_id, keys[Environment.LIVE], keys[Environment.TEST])

    made: list[Seller] = []
    for start in range(0, count, 8):
        made += await asyncio.gather(*(make(number) for number in range(start, min(count, start + 8))))
    return made


def skus(count: int, prefix: str = "SKU") -> list[str]:
    """That many different SKUs."""
    return [f"{prefix}{number:0{10 - len(prefix)}d}" for number in range(count)]


def items(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Items as clients send them, half with a category, half to be categorised."""
    chance = random.Random(seed)
    alphabet = string.ascii_uppercase + string.digits
    found: list[dict[str, Any]] = []
    for number in range(count):
        sku = "".join(chance.choices(alphabet, k=10))
        if number % 2:
            found.append({"sku": sku, "auto_categorize": True})
        else:
            found.append({"sku": sku, "category_id": f"MCO{chance.randrange(10**5, 10**6)}"})
    return found
