"""The harness's own launcher of workers: one process that has loaded everything and forks a worker when told.

A worker that is killed hundreds of times must not take a second each time to start. It is otherwise the worker of
``listings worker``: the same application, the same connector, the same loop. What differs is read from its environment:

* ``LISTINGS_FAULT_POINT``: where it dies (``points.py``);
* ``LISTINGS_FAULT_SCALE``: waits that are minutes and hours in production are divided by this number, so that what
  happens after them can be seen within a test.

Orders come as JSON lines on standard input, ``{"order": id, "environment": {...}}``; the answers are
``{"order": id, "started": pid}``, ``{"ready": id, "owner": owner}`` and ``{"exited": id, "code": code}``: process ids
come again within hours of killing. When standard input ends, every worker is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import selectors
import signal
import sys
from typing import Any

import uvloop

from core import log
from core.app import Application
from core.marketplace import errors as marketplace_errors
from core.marketplace import throttle
from core.settings import Settings
from core.worker import decide, follow_ups, reconcile
from tests.faults.points import Fate

SCALE = "LISTINGS_FAULT_SCALE"
_PR_SET_PDEATHSIG = 1


def say(**message: Any) -> None:
    """One line to the harness; short enough to be written in one piece."""
    os.write(1, (json.dumps(message) + "\n").encode())


def scale_time(divisor: float) -> None:
    """Shorten the long waits of the worker."""
    marketplace_errors.MAX_RETRY_AFTER /= divisor
    decide.Breaker.FIRST_PAUSE /= divisor
    decide.Breaker.LONGEST_PAUSE /= divisor
    decide.LONGEST_DELAY /= divisor
    reconcile.LATE_CREATION_SECONDS /= divisor
    reconcile.UNSENT_SECONDS /= divisor
    throttle.LONGEST_BACKOFF = max(1.0, throttle.LONGEST_BACKOFF / divisor)
    follow_ups.LATE_RETRY_SECONDS /= divisor
    follow_ups.ABSENT_SECONDS /= divisor
    first, second, third, fourth = follow_ups.LATE_DELAYS
    follow_ups.LATE_DELAYS = (first / divisor, second / divisor, third / divisor, fourth / divisor)


async def work(order: int) -> None:
    """The worker of this order, until SIGTERM or until its fate."""
    settings = Settings(_env_file=None)
    log.configure(log_format=settings.log_format, level=settings.log_level)
    divisor = float(os.environ.get(SCALE) or 1)
    scale_time(divisor)
    fate = Fate.from_environment()
    assert settings.database_url is not None
    assert settings.secret_key is not None
    application = Application(
        settings,
        name="worker",
        database_url=settings.database_url.get_secret_value(),
        secret_key=settings.secret_key.get_secret_value(),
    )
    await application.open(60)
    marketplace = application.marketplace()
    marketplace._picture_retry_seconds /= divisor
    worker = application.worker(marketplace)
    if fate is not None:
        worker.context.reached = fate.reached
        fate.arm_requests()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.context.stopping.set)
    say(ready=order, owner=worker.context.owner)
    try:
        await worker.run()
    finally:
        await marketplace.aclose()
        await application.close()


def become_worker(order: int, environment: dict[str, str]) -> None:
    """The forked child: never returns."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.environ.clear()
        os.environ.update(environment)
        uvloop.run(work(order))
        code = 0
    except BaseException as error:
        sys.stderr.write(json.dumps({"event": "worker_died", "error": repr(error)}) + "\n")
        sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Take orders until standard input ends."""
    children: dict[int, tuple[int, int]] = {}
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        say(ready=0)
        while True:
            for key, _ in selector.select():
                if key.fd != 0:
                    number, pid = children.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(pid, 0)
                    say(exited=number, code=os.waitstatus_to_exitcode(status))
                    continue
                chunk = os.read(0, 1 << 16)
                if not chunk:
                    for _, pid in children.values():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    order = json.loads(line)
                    pid = os.fork()
                    if pid == 0:
                        selector.close()
                        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                        for descriptor in children:
                            os.close(descriptor)
                        become_worker(order["order"], order["environment"])
                    descriptor = os.pidfd_open(pid)
                    children[descriptor] = (order["order"], pid)
                    selector.register(descriptor, selectors.EVENT_READ)
                    say(order=order["order"], started=pid)


if __name__ == "__main__":
    main()
