"""Core server and gateway in one process, wired as ``listings serve`` wires them, without workers and sandbox.

Settings come from LISTINGS_* variables. Says ``ready ADDRESS``: the gateway's, or with ``--grpc`` the core server's.
"""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import sys

import uvloop

from core import log
from core.app import Application
from core.settings import Settings
from grpc_server.server import CoreServer
from http_gateway.config import GatewayConfig
from http_gateway.server import running_gateway
from listings.signals import calm_collector


async def main() -> None:
    """Serve until SIGTERM."""
    settings = Settings.load()
    log.configure(level=settings.log_level)
    assert settings.database_url is not None
    assert settings.secret_key is not None
    application = Application(
        settings,
        name="core",
        database_url=settings.database_url.get_secret_value(),
        secret_key=settings.secret_key.get_secret_value(),
    )
    await application.open()
    core = CoreServer(application)
    await core.start()
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    config = dataclasses.replace(GatewayConfig.from_settings(settings), shutdown_grace=2.0)
    async with running_gateway(config, core.loopback()) as address:  # type: ignore[arg-type]
        sys.stdout.write(f"ready {core.target if '--grpc' in sys.argv else address}\n")
        sys.stdout.flush()
        await ending.wait()
    await core.drain(1.0)
    await application.close()


if __name__ == "__main__":
    calm_collector()
    uvloop.run(main())
