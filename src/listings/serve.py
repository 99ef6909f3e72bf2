"""``listings serve``: the whole service on one machine.

This process hosts core server and gateway on one event loop; PostgreSQL, the sandbox marketplace and the workers are
its children. Everything is checked before anything starts. The end goes in order, within ten seconds: the gateway and
the core server finish their requests, the workers (asked first, because they take longest) finish or give back what
they hold, then the sandbox, then PostgreSQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import structlog
from cryptography.fernet import Fernet

from core.app import Application
from core.settings import Settings
from core.storage.connecting import AWAY, check_address
from core.storage.database import DatabaseAway
from core.storage.embedded import EmbeddedPostgres, EmbeddedPostgresError
from core.storage.migrate import MigrationError, migrate
from core.use_cases import administration
from core.use_cases.authorize import rate_storage
from grpc_server.server import CoreServer, server_credentials
from http_gateway.config import GatewayConfig
from http_gateway.server import open_channel, running_gateway
from listings.addresses import listener, nth, see_that_free
from listings.demo import Demo, ensure_demo
from listings.installation import (
    check_secret_key,
    demo_path,
    find_secret_key,
    keep_secret_key,
    secret_key_path,
    use_data_folder,
)
from listings.output import Output, UsageError
from listings.signals import run_until_stopped
from listings.supervise import ChildProcess

T = TypeVar("T")

_log = structlog.get_logger("listings.serve")

STOP_SECONDS: Final = 10.0
"""Everything has stopped this long after it was asked to."""
_GATEWAY_SECONDS: Final = 3.0
_CORE_SECONDS: Final = 2.0
_WORKER_SECONDS: Final = 7.0
_SANDBOX_SECONDS: Final = 1.5
_POSTGRES_SECONDS: Final = 5.0
"""What a fast shutdown may take, usually a fraction of it; then an immediate one, which the next start repairs."""
_LOOK_AT_POSTGRES: Final = 0.5
_OPEN_SECONDS: Final = 30.0


def run_serve(settings: Settings, output: Output, *, workers: int, demo: bool | None) -> None:
    """Run the whole service until stopped.

    Args:
        settings: of the environment.
        output: where the ready line and, once, the demo keys go.
        workers: worker processes.
        demo: whether there is a demo seller; None: with the embedded database.

    Raises:
        UsageError: an address is in use, the data folder cannot be written, a component does not start.
        SettingsError: a setting is wrong.
    """
    wanted = settings.database_url is None if demo is None else demo
    # Absolute: it goes to child processes and into messages.
    settings = settings.model_copy(update={"data_dir": settings.data_dir.expanduser().absolute()})
    check(settings, workers=workers)
    run_until_stopped(_Service(settings, output, workers=workers, demo=wanted).run)


def check(settings: Settings, *, workers: int) -> None:
    """Everything that can be known to be wrong before anything starts.

    Raises:
        UsageError, SettingsError: it is.
    """
    GatewayConfig.from_settings(settings)
    server_credentials(settings)
    if settings.database_url is not None:
        check_address(settings.database_url.get_secret_value())
    rate_storage(settings.rate_limit_storage)
    if settings.secret_key is not None:
        check_secret_key(settings.secret_key.get_secret_value())
    use_data_folder(settings)
    metrics = {f"LISTINGS_METRICS_ADDR + {index}": nth(settings.metrics_addr, index) for index in range(workers)}
    see_that_free(
        {
            "LISTINGS_HTTP_ADDR": settings.http_addr,
            "LISTINGS_GRPC_ADDR": settings.grpc_addr,
            "LISTINGS_SANDBOX_ADDR": settings.sandbox_addr if settings.marketplace_url is None else None,
            **metrics,
        }
    )


class _Service:
    """One run of the whole service."""

    def __init__(self, settings: Settings, output: Output, *, workers: int, demo: bool) -> None:
        self._settings = settings
        self._output = output
        self._demo = demo
        self._worker_count = workers
        self._workers: list[ChildProcess] = []
        self._started = False
        self._stop_by: float | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Start everything, wait until ``stop`` is set, stop everything. A stop during the start ends the start."""
        serving = asyncio.create_task(self._serve(stop), name="serve")
        asked = asyncio.create_task(self._when_asked(stop, serving), name="when asked to stop")
        try:
            await serving
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        _log.info("service_stopped")

    async def _when_asked(self, stop: asyncio.Event, serving: asyncio.Task[None]) -> None:
        await stop.wait()
        _log.info("service_stopping")
        self._stop_by = time.monotonic() + STOP_SECONDS
        for worker in self._workers:
            worker.begin_stop()
        if not self._started:
            serving.cancel()

    async def _serve(self, stop: asyncio.Event) -> None:
        settings = self._settings
        # Entered in the order in which things depend on each other, left in the opposite one.
        async with contextlib.AsyncExitStack() as running:
            sandbox = await running.enter_async_context(self._sandbox())
            database_url = await running.enter_async_context(self._database())
            await _in_thread(lambda: _migrate(database_url))
            secret_key = await self._secret_key(database_url)
            application = await running.enter_async_context(_opened(settings, database_url, secret_key))
            marketplace_url = settings.marketplace_url or await sandbox.address(running)
            environment = self._worker_environment(database_url, secret_key, marketplace_url)
            workers = await running.enter_async_context(self._start_workers(environment))
            core = CoreServer(application)
            await core.start()
            running.push_async_callback(core.drain, _CORE_SECONDS)
            base_url = await running.enter_async_context(self._gateway(core))
            demo = await self._ensure_demo(application, base_url, core.target)
            await workers
            self._started = True
            if not stop.is_set():
                self._tell(base_url, core.target, marketplace_url, demo)
                await stop.wait()

    # The parts, each running for the length of its block.

    @contextlib.asynccontextmanager
    async def _sandbox(self) -> AsyncIterator[_StartingSandbox]:
        """The sandbox, starting while the database starts. It is stopped before the database when it was waited for,
        and here at the latest."""
        environment = {**os.environ, "LISTINGS_DATA_DIR": str(self._settings.data_dir)}
        sandbox = _StartingSandbox(ChildProcess("sandbox", ["sandbox"], environment))
        if self._settings.marketplace_url is None:
            sandbox.begin()
        try:
            yield sandbox
        finally:
            await sandbox.stop()

    @contextlib.asynccontextmanager
    async def _database(self) -> AsyncIterator[str]:
        """The URL of the database named, or of the embedded one, which is kept alive."""
        if self._settings.database_url is not None:
            yield self._settings.database_url.get_secret_value()
            return
        server = EmbeddedPostgres(self._settings.data_dir, stop_seconds=_POSTGRES_SECONDS)
        watching: asyncio.Task[None] | None = None
        try:
            url = await _started(server)
            watching = asyncio.create_task(_keep_alive(server), name="keep PostgreSQL")
            yield url
        except EmbeddedPostgresError as error:
            raise UsageError(str(error)) from None
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            await _in_thread(server.stop)

    async def _secret_key(self, database_url: str) -> str:
        """The key that is set or kept; a new one, kept from now on, for a database without tokens.

        Raises:
            UsageError: a new key could not read the tokens that the database holds.
        """
        settings = self._settings
        path = secret_key_path(settings)
        if settings.secret_key is not None or path.exists():
            key = find_secret_key(settings)
            check_secret_key(key)
            return key
        key = Fernet.generate_key().decode("ascii")
        async with _opened(settings, database_url, key) as application:
            sellers = await administration.list_sellers(application.database)
        if any(account.status != "disconnected" for seller in sellers for account in seller.accounts):
            raise UsageError(
                f"LISTINGS_SECRET_KEY: not set, {path} is gone, and the database holds tokens it encrypted"
            )
        keep_secret_key(settings, key)
        return key

    def _worker_environment(self, database_url: str, secret_key: str, marketplace_url: str) -> dict[str, str]:
        """What every worker gets; secrets go this way, because arguments can be read by others."""
        settings = self._settings
        environment = {
            **os.environ,
            "LISTINGS_DATA_DIR": str(settings.data_dir),
            "LISTINGS_DATABASE_URL": database_url,
            "LISTINGS_SECRET_KEY": secret_key,
            "LISTINGS_MARKETPLACE_URL": marketplace_url,
            "LISTINGS_DRAIN_SECONDS": str(min(settings.drain_seconds, _WORKER_SECONDS)),
        }
        if settings.marketplace_url is None:
            if "marketplace_rate" not in settings.model_fields_set:
                environment["LISTINGS_MARKETPLACE_RATE"] = "off"
            if "marketplace_client_secret" not in settings.model_fields_set:
                # The sandbox takes any, but not an empty one.
                environment["LISTINGS_MARKETPLACE_CLIENT_SECRET"] = "sandbox"  # noqa: S105
        return environment

    @contextlib.asynccontextmanager
    async def _start_workers(self, environment: dict[str, str]) -> AsyncIterator[asyncio.Future[list[str]]]:
        """The workers, starting; the value is done when all are ready."""
        for index in range(self._worker_count):
            metrics = nth(self._settings.metrics_addr, index)
            shown = {} if metrics is None else {"LISTINGS_METRICS_ADDR": metrics}
            self._workers.append(ChildProcess(f"worker {index + 1}", ["worker"], environment | shown))
        starting = asyncio.gather(*(worker.start() for worker in self._workers))
        try:
            yield starting
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            seconds = self._seconds_left() - _SANDBOX_SECONDS - 1
            await asyncio.gather(*(worker.stop(seconds) for worker in self._workers))

    def _seconds_left(self) -> float:
        """Until everything must have stopped; all of it when nobody asked for a stop and the start failed."""
        return STOP_SECONDS if self._stop_by is None else self._stop_by - time.monotonic()

    @contextlib.asynccontextmanager
    async def _gateway(self, core: CoreServer) -> AsyncIterator[str]:
        """The gateway before this core server; the value is the base URL of REST v1."""
        settings = self._settings
        config = dataclasses.replace(
            GatewayConfig.from_settings(settings),
            grpc_target=settings.grpc_target or core.target,
            shutdown_grace=min(settings.drain_seconds, _GATEWAY_SECONDS),
        )
        bound = listener("LISTINGS_HTTP_ADDR", settings.http_addr)
        # Beside the core server the gateway calls it directly; a target means that it is elsewhere.
        channel: Any = open_channel(config) if settings.grpc_target else core.loopback()
        try:
            async with running_gateway(config, channel, listener=bound) as address:
                yield f"{address}/api/v1"
        finally:
            await channel.close(None)

    async def _ensure_demo(self, application: Application, base_url: str, target: str) -> Demo | None:
        if not self._demo:
            return None
        return await ensure_demo(
            application,
            base_url=base_url,
            grpc_target=self._settings.grpc_target or target,
            connect=self._settings.marketplace_url is None,
        )

    def _tell(self, base_url: str, target: str, marketplace_url: str, demo: Demo | None) -> None:
        """The ready line and, for the start that made the demo seller, its keys: on standard output alone."""
        output, path = self._output, demo_path(self._settings)
        told = {
            "status": "ready",
            "base_url": base_url,
            "grpc_target": target,
            "marketplace_url": marketplace_url,
            "data_dir": str(self._settings.data_dir),
        }
        if demo is not None:
            told["demo_file"] = str(path)
            if demo.created:
                shown = {"live_key": demo.document["live_key"], "test_key": demo.document["test_key"]}
                told |= shown
                output.say(f"Demo seller {demo.document['seller_id']}, its keys are shown this once:")
                output.facts([("  live key", shown["live_key"]), ("  test key", shown["test_key"])])
            output.say(f"Demo keys and SKUs are in {path}")
        output.facts(
            [
                ("REST", base_url),
                ("documentation", base_url.removesuffix("/api/v1") + "/docs"),
                ("gRPC", target),
                ("marketplace", marketplace_url),
                ("data", str(self._settings.data_dir)),
            ]
        )
        output.document(told)
        output.say(f"ready on {base_url} (Ctrl-C stops)")
        output.out.file.flush()


class _StartingSandbox:
    """The sandbox's process, which starts in the background."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._starting: asyncio.Task[str] | None = None

    def begin(self) -> None:
        """Start it, and wait for nothing."""
        self._starting = asyncio.create_task(self._process.start(), name="start sandbox")

    async def address(self, running: contextlib.AsyncExitStack) -> str:
        """Its address, once it is ready. From now on it stops in its turn in ``running``.

        Raises:
            UsageError: it did not start.
        """
        running.push_async_callback(self.stop)
        assert self._starting is not None  # noqa: S101 - asked for only when it was begun
        url = await self._starting
        # Started again it must be found where the workers look for it, also when any free port was taken first.
        self._process.environment["LISTINGS_SANDBOX_ADDR"] = url.removeprefix("http://")
        return url

    async def stop(self) -> None:
        """Stop it. A second time nothing is left to do."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._process.stop(_SANDBOX_SECONDS)


@contextlib.asynccontextmanager
async def _opened(settings: Settings, database_url: str, secret_key: str) -> AsyncIterator[Application]:
    application = Application(settings, name="serve", database_url=database_url, secret_key=secret_key)
    try:
        await application.open(_OPEN_SECONDS)
    except DatabaseAway:
        raise UsageError(AWAY) from None
    try:
        yield application
    finally:
        await application.close()


def _migrate(database_url: str) -> None:
    try:
        migrate(database_url, lambda name: _log.info("migration_applied", name=name))
    except MigrationError as error:
        raise UsageError(str(error)) from None


async def _in_thread(work: Callable[[], T]) -> T:
    """Run what blocks in a thread. A cancellation waits for its end: a half-done start could not be stopped."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise


async def _started(server: EmbeddedPostgres) -> str:
    """Start PostgreSQL. A stop that is asked for meanwhile ends it, also in the middle of a long recovery."""
    future = asyncio.get_running_loop().run_in_executor(None, server.start)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not (await asyncio.wait([future], timeout=_LOOK_AT_POSTGRES))[0]:
            pid = server.pid
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGINT)
        if not future.cancelled():
            future.exception()
        raise


async def _keep_alive(server: EmbeddedPostgres) -> None:
    """Start PostgreSQL again when it died: the service heals as with any database that comes back."""
    while True:
        await asyncio.sleep(_LOOK_AT_POSTGRES)
        if server.pid is not None:
            continue
        _log.error("postgres_ended")
        try:
            # As at the beginning: a stop must not wait for the end of a long recovery.
            await _started(server)
            _log.info("postgres_started_again")
        except EmbeddedPostgresError as error:
            _log.error("postgres_not_started", error=str(error))
            await asyncio.sleep(5)
