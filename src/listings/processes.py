"""The processes of the service as commands: ``serve``, ``grpc``, ``gateway``, ``worker``, ``sandbox``, ``migrate``.

Each loads only what it runs: a worker needs no gRPC, a gateway no database.
"""

# ruff: noqa: PLC0415 - imports within functions, for the reason above

from __future__ import annotations

import os
from typing import Annotated

import typer

from core import log, metrics, tracing
from core.settings import Settings
from listings.output import AsJson, Output, UsageError

Processes = Annotated[int, typer.Option("--processes", min=1, max=64, help="So many processes, sharing the address.")]
Supervised = Annotated[bool, typer.Option("--supervised", hidden=True)]
SharePort = Annotated[bool, typer.Option("--share-port", hidden=True)]

NAMES = frozenset({"serve", "grpc", "gateway", "worker", "sandbox", "migrate"})


def load_settings(role: str) -> Settings:
    """The settings; log, traces and what metrics say of this process are as they want them.

    Args:
        role: serve, core, gateway, worker, sandbox or migrate: how logs, metrics and traces name this process.

    Raises:
        SettingsError: a setting is wrong.
    """
    settings = Settings.load()
    log.configure(log_format=settings.log_format, level=settings.log_level)
    metrics.describe_process(role)
    tracing.configure(role)
    return settings


def serve(
    *,
    workers: Annotated[int, typer.Option("--workers", "--processes", min=1, max=64, help="Worker processes.")] = 1,
    demo: Annotated[
        bool | None, typer.Option("--demo/--no-demo", help="The demo seller; default: with the embedded database.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the whole service on this machine until Ctrl-C.

    Without LISTINGS_DATABASE_URL it brings its own PostgreSQL, without LISTINGS_MARKETPLACE_URL a sandbox marketplace;
    both keep their data in LISTINGS_DATA_DIR (default .listings). The first start makes a demo seller and prints its
    two keys, once.

    Examples:

        listings serve

        LISTINGS_HTTP_ADDR=127.0.0.1:9090 listings serve --workers 2
    """
    # Children are started by exec, so gRPC has nothing to prepare for a fork; with this it does not say so either.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    with Output(as_json) as output:
        from listings.serve import run_serve

        run_serve(load_settings("serve"), output, workers=workers, demo=demo)


def grpc(processes: Processes = 1, supervised: Supervised = False, share_port: SharePort = False) -> None:
    """Run the core server (gRPC) at LISTINGS_GRPC_ADDR.

    With several processes, rate limits hold over all of them only with LISTINGS_RATE_LIMIT_STORAGE on Redis.

    Example: listings grpc --processes 2
    """
    with Output() as output:
        from listings.single import run_grpc

        run_grpc(load_settings("core"), output, processes=processes, supervised=supervised, share_port=share_port)


def gateway(processes: Processes = 1, supervised: Supervised = False, share_port: SharePort = False) -> None:
    """Run the REST gateway at LISTINGS_HTTP_ADDR; it calls the core server at LISTINGS_GRPC_TARGET.

    Example: LISTINGS_GRPC_TARGET=10.0.0.5:50051 listings gateway
    """
    with Output() as output:
        from listings.single import run_gateway

        run_gateway(load_settings("gateway"), output, processes=processes, supervised=supervised, share_port=share_port)


def worker(processes: Processes = 1, supervised: Supervised = False) -> None:
    """Run a worker: it publishes the items of accepted jobs. Any number may run, on any machine.

    Example: LISTINGS_MARKETPLACE_URL=https://api.mercadolibre.com listings worker --processes 2
    """
    with Output() as output:
        from listings.single import run_worker

        run_worker(load_settings("worker"), output, processes=processes, supervised=supervised)


def sandbox(context: typer.Context, supervised: Supervised = False) -> None:
    """Run the sandbox marketplace at LISTINGS_SANDBOX_ADDR, its state in LISTINGS_DATA_DIR/sandbox.

    Takes the options of the sandbox itself as well, for example --latency-seconds 0.2 or --seller-model classic;
    `python -m sandbox --help` lists them.

    Example: listings sandbox --picture-delay-seconds 0
    """
    with Output() as output:
        from listings.single import run_sandbox

        run_sandbox(load_settings("sandbox"), output, context.args, supervised=supervised)


def migrate(as_json: AsJson = False) -> None:
    """Bring the database's schema to this program's version. Safe to run again, and beside running processes.

    Example: LISTINGS_DATABASE_URL=postgresql://… listings migrate
    """
    with Output(as_json) as output:
        from core.storage.migrate import MigrationError
        from core.storage.migrate import migrate as apply
        from listings.installation import find_database_url

        applied: list[str] = []
        try:
            version = apply(find_database_url(load_settings("migrate")), applied.append)
        except MigrationError as error:
            raise UsageError(str(error)) from None
        output.document({"version": version, "applied": applied})
        for name in applied:
            output.say(f"applied {name}")
        output.say(f"The schema is at version {version}.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (serve, grpc, gateway, worker, migrate):
        app.command(rich_help_panel="Processes")(command)
    app.command(
        rich_help_panel="Processes", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
    )(sandbox)
