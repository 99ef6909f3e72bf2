"""One component as a process of its own: core server, gateway, worker, sandbox; once or several times."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from core import metrics
from core.settings import Settings
from listings.addresses import listener, nth, see_that_free
from listings.installation import find_database_url, find_secret_key, sandbox_folder
from listings.output import Output, UsageError
from listings.signals import run_until_stopped
from listings.supervise import SHARE_PORT, ChildProcess, keep_running

# ruff: noqa: PLC0415 - imports within functions: each process loads only what it runs

_AFTER_DRAIN: Final = 3.0
"""What a process may take to end after its drain, in seconds."""
OPEN_SECONDS: Final = 30.0


def say_ready(output: Output, text: str) -> None:
    """The ready line; its last word is the address, for whoever started this process."""
    output.say(text)
    output.out.file.flush()


def run_grpc(settings: Settings, output: Output, *, processes: int, supervised: bool, share_port: bool) -> None:
    """Run the core server until stopped.

    Raises:
        UsageError: an address is in use, there is no database or its schema is too old.
        SettingsError: a setting is wrong.
    """
    if not share_port:
        see_that_free({"LISTINGS_GRPC_ADDR": settings.grpc_addr, "LISTINGS_METRICS_ADDR": settings.metrics_addr})
    url, secret_key = _database_and_key(settings)
    if processes > 1:
        _run_several(settings, output, "grpc", processes, settings.grpc_addr, share_port=True)
        return

    from core.storage.connecting import AWAY
    from core.storage.database import DatabaseAway
    from grpc_server.server import serve

    async def work(stop: asyncio.Event) -> None:
        try:
            await serve(
                settings,
                database_url=url,
                secret_key=secret_key,
                ready=lambda target: say_ready(output, f"core server ready on {target}"),
                stop=stop,
                reuse_port=share_port,
            )
        except DatabaseAway:
            raise UsageError(AWAY) from None

    run_until_stopped(work, supervised=supervised)


def run_gateway(settings: Settings, output: Output, *, processes: int, supervised: bool, share_port: bool) -> None:
    """Run the gateway until stopped.

    Raises:
        UsageError: the address is in use.
        SettingsError: a setting is wrong.
    """
    if not share_port:
        see_that_free({"LISTINGS_HTTP_ADDR": settings.http_addr, "LISTINGS_METRICS_ADDR": settings.metrics_addr})
    from http_gateway.config import GatewayConfig
    from http_gateway.server import serve

    config = GatewayConfig.from_settings(settings)
    if processes > 1:
        _run_several(settings, output, "gateway", processes, settings.http_addr, share_port=True)
        return
    bound = listener("LISTINGS_HTTP_ADDR", settings.http_addr, shared=share_port)

    async def work(stop: asyncio.Event) -> None:
        # Beside /metrics, which of several processes on one port answers a scrape is chance.
        with metrics.showing(settings.metrics_addr):
            await serve(
                config,
                stop,
                listener=bound,
                on_ready=lambda address: say_ready(output, f"gateway ready on {address}/api/v1"),
            )

    run_until_stopped(work, supervised=supervised)


def run_worker(settings: Settings, output: Output, *, processes: int, supervised: bool) -> None:
    """Run a worker until stopped.

    Raises:
        UsageError: there is no database or its schema is too old, or the metrics address is in use.
        SettingsError: a setting is wrong, or no marketplace is configured.
    """
    url, secret_key = _database_and_key(settings)
    from core.app import Application
    from core.storage.connecting import AWAY
    from core.storage.database import DatabaseAway

    application = Application(settings, name="worker", database_url=url, secret_key=secret_key)
    if settings.marketplace_url is None:
        raise UsageError("LISTINGS_MARKETPLACE_URL: must be set for a worker")
    if processes > 1:
        _run_several(settings, output, "worker", processes, settings.marketplace_url, share_port=False)
        return

    async def work(stop: asyncio.Event) -> None:
        try:
            await application.open(OPEN_SECONDS)
        except DatabaseAway:
            raise UsageError(AWAY) from None
        marketplace = application.marketplace()
        worker = application.worker(marketplace)
        stopping = asyncio.create_task(_pass_on(stop, worker.context.stopping))
        try:
            with metrics.showing(settings.metrics_addr):
                say_ready(output, f"worker ready, publishing to {settings.marketplace_url}")
                await worker.run()
        finally:
            stopping.cancel()
            await marketplace.aclose()
            await application.close()

    run_until_stopped(work, supervised=supervised)


async def _pass_on(stop: asyncio.Event, stopping: asyncio.Event) -> None:
    await stop.wait()
    stopping.set()


def run_sandbox(settings: Settings, output: Output, arguments: list[str], *, supervised: bool) -> None:
    """Run the sandbox marketplace until stopped; ``arguments`` are its own and win over the settings.

    Raises:
        UsageError: the address is in use or its folder cannot be used.
        SystemExit: an argument is wrong.
    """
    from sandbox.server import config_of, serve

    given = ["--addr", settings.sandbox_addr, "--data", str(sandbox_folder(settings)), *arguments]
    config = config_of(given)
    _make_parent(config.data_dir)

    async def work(stop: asyncio.Event) -> None:
        try:
            await serve(config, ready=lambda url: say_ready(output, f"sandbox marketplace ready on {url}"), stop=stop)
        except (OSError, ValueError) as error:
            raise UsageError(f"the sandbox cannot start: {error}") from None

    run_until_stopped(work, supervised=supervised)


def _make_parent(folder: Path | None) -> None:
    if folder is None:
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"LISTINGS_DATA_DIR: {folder.parent} cannot be written ({error.strerror})") from None


def _database_and_key(settings: Settings) -> tuple[str, str]:
    from core.storage.migrate import MigrationError, check_schema

    url = find_database_url(settings)
    secret_key = find_secret_key(settings)
    try:
        check_schema(url)
    except MigrationError as error:
        raise UsageError(str(error)) from None
    return url, secret_key


def _run_several(
    settings: Settings, output: Output, name: str, processes: int, address: str, *, share_port: bool
) -> None:
    """Run the same component as child processes, each with its own metrics port."""
    if share_port and address.endswith(":0"):
        raise UsageError("several processes need one port: port 0 does not name one")
    children = []
    for index in range(processes):
        environment = dict(os.environ)
        address_of_metrics = nth(settings.metrics_addr, index)
        if address_of_metrics is not None:
            environment["LISTINGS_METRICS_ADDR"] = address_of_metrics
        arguments = [name, SHARE_PORT] if share_port else [name]
        children.append(ChildProcess(f"{name} {index + 1}", arguments, environment))

    def ready() -> None:
        say_ready(output, f"{processes} {name} processes ready on {address}")

    run_until_stopped(
        lambda stop: keep_running(children, stop, ready=ready, stop_seconds=settings.drain_seconds + _AFTER_DRAIN)
    )
