"""Runs a process on uvloop until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

import uvloop

from core.settings import SettingsError, split_address
from listings.supervise import watch_parent

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run_until_stopped(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, supervised: bool = False) -> None:
    """Run ``work`` with an event that SIGTERM, SIGINT, SIGHUP and, for a child, the end of its parent set."""

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            loop.add_signal_handler(number, stop.set)
        if supervised:
            watch_parent(stop)
        await work(stop)

    uvloop.run(run())


@contextlib.contextmanager
def showing_metrics(address: str | None) -> Iterator[None]:
    """Prometheus metrics of this process at ``HOST:PORT`` for the length of the block; nowhere when absent.

    Raises:
        SettingsError: the address cannot be had.
    """
    if address is None:
        yield
        return
    from prometheus_client import start_http_server  # noqa: PLC0415 - most processes show none

    host, port = split_address(address)
    try:
        server, thread = start_http_server(port, host)
    except OSError:
        raise SettingsError(f"LISTINGS_METRICS_ADDR: cannot listen on {address}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
