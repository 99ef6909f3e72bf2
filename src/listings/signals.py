"""Runs a process on uvloop until it is asked to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

import uvloop

from listings.supervise import watch_parent

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def calm_collector() -> None:
    """Let the cyclic garbage collector look less often, and no more at what the imports made.

    A request of 10,000 items makes that many objects, all freed by their counts; with the defaults the collector went
    through every object of the process again and again meanwhile, a fifth of the request's time (measured).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def run_until_stopped(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, supervised: bool = False) -> None:
    """Run ``work`` with an event that SIGTERM, SIGINT, SIGHUP and, for a child, the end of its parent set."""

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            # Started by nohup: the end of the terminal is not meant.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, stop.set)
        if supervised:
            watch_parent(stop)
        await work(stop)

    calm_collector()
    uvloop.run(run())
