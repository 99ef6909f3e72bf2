"""Serving a sandbox on a real socket, as a process of its own or inside another one."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import uvloop

from sandbox.app import Sandbox
from sandbox.config import SandboxConfig
from sandbox.connection import Connection
from sandbox.notifications import Notifier

TICK_SECONDS = 0.05
STOP_SECONDS = 1.0
POLL_SECONDS = 0.01
BACKLOG = 1024


class SandboxServer:
    """A sandbox that listens. `start`, use `address`, `stop`; all on one event loop."""

    def __init__(self, config: SandboxConfig) -> None:
        """Raises OSError or ValueError when the data folder cannot be used."""
        self.config = config
        self.sandbox = Sandbox(config)
        self.address: tuple[str, int] = (config.host, config.port)
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._notifier: Notifier | None = None

    @property
    def url(self) -> str:
        """Base address, with the port that was really taken."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        """Listens. Raises OSError when the address cannot be bound."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self.sandbox, self._connections),
            self.config.host,
            self.config.port,
            backlog=BACKLOG,
        )
        name = self._server.sockets[0].getsockname()
        self.address = (name[0], name[1])
        self._ticker = loop.create_task(self._tick())
        if self.config.notification_url is not None:
            self._notifier = Notifier(self.sandbox, self.config.notification_url)
            self._notifier.start()

    async def _tick(self) -> None:
        # What happens by itself (late creations, moderation) must not wait for the next request.
        market = self.sandbox.market
        while True:
            await asyncio.sleep(TICK_SECONDS)
            market.advance(market.clock())
            market.effects.flush()

    async def stop(self) -> None:
        """Stops within 2 seconds: no new connections, running answers out, the log durable and closed."""
        if self._server is not None:
            self._server.close()
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        if self._notifier is not None:
            await self._notifier.stop()
        for connection in list(self._connections):
            connection.stop()
        await asyncio.sleep(0)
        await self.sandbox.market.effects.close()
        for _ in range(round(STOP_SECONDS / POLL_SECONDS)):
            if not any(connection.answering for connection in self._connections):
                break
            await asyncio.sleep(POLL_SECONDS)
        # What is left never answers (a silence or drip fault) or has not closed its side.
        for connection in list(self._connections):
            connection.reset()
        await asyncio.sleep(0)


async def serve(
    config: SandboxConfig,
    *,
    ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serves until `stop` is set; without it until SIGTERM or SIGINT. `ready` gets the base address."""
    server = SandboxServer(config)
    await server.start()
    if stop is None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        if ready is not None:
            ready(server.url)
        await stop.wait()
    finally:
        await server.stop()


def run(config: SandboxConfig) -> int:
    """Serves until SIGTERM or SIGINT, in this thread. Prints one ready line; returns the exit code."""

    def ready(url: str) -> None:
        sys.stdout.write(f"sandbox marketplace ready on {url}\n")
        sys.stdout.flush()

    # Items live as long as the process: letting the collector walk all of them again and again would take
    # a third of the time of a large job.
    gc.set_threshold(100_000, 50, 100)
    try:
        uvloop.run(serve(config, ready=ready))
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"sandbox: cannot start: {problem}\n")
        return 2
    return 0


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise argparse.ArgumentTypeError("HOST:PORT is needed, port 0 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parser() -> argparse.ArgumentParser:
    """The command line of ``python -m sandbox``."""
    defaults = SandboxConfig()
    made = argparse.ArgumentParser(
        prog="sandbox",
        description="A marketplace that speaks the Mercado Libre API (site MCO) on a local socket.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = made.add_argument
    add("--addr", type=_address, default=f"{defaults.host}:{defaults.port}", help="HOST:PORT, port 0 for a free one")
    add(
        "--data",
        type=Path,
        dest="data_dir",
        metavar="DIR",
        help="folder of the effects log; without it nothing is kept",
    )
    add("--fsync", action=argparse.BooleanOptionalAction, default=True, help="write to disk before answering")
    add("--seller-model", choices=("user_product", "classic"), default=defaults.seller_model, help="of new users")
    add("--picture-delay-seconds", type=float, default=defaults.picture_delay_seconds, help="until pictures are there")
    add("--index-lag-seconds", type=float, default=defaults.index_lag_seconds, help="until a search finds a new item")
    add("--delete-conflict-seconds", type=float, default=defaults.delete_conflict_seconds, help="409 after closing")
    add("--latency-seconds", type=float, default=defaults.latency_seconds, help="added to every answer")
    add("--requests-per-second", type=float, help="ceiling of the whole application, 429 above it")
    add("--access-token-seconds", type=int, default=defaults.access_token_seconds, help="life of issued tokens")
    add("--rotation-invalidates", action="store_true", help="a refresh makes older access tokens invalid")
    add("--client-id", help="the only client id that /oauth/token takes")
    add("--client-secret", help="the only client secret that /oauth/token takes")
    add("--usd-to-cop", type=float, default=defaults.usd_to_cop, help="exchange rate")
    add("--first-item-number", type=int, help="number of the first item id")
    add("--notification-url", help="http address that gets a webhook for each item change")
    add("--seed", type=int, default=defaults.seed, help="seed of everything random")
    return made


def config_of(argv: Sequence[str] | None) -> SandboxConfig:
    """The configuration that these arguments ask for; exits with 2 and a usage line when they are wrong."""
    values: dict[str, Any] = vars(parser().parse_args(argv))
    host, port = values.pop("addr")
    known = {field.name for field in fields(SandboxConfig)}
    return SandboxConfig(host=host, port=port, **{key: value for key, value in values.items() if key in known})


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m sandbox``: serves until SIGTERM or SIGINT. 0 after a stop, 2 when it cannot start."""
    return run(config_of(argv))
