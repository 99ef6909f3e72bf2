"""``python -m bench.flames``: flame graphs of the two hottest paths, accepting items and working them.

Samples the processes with py-spy (which needs root or the right to trace) and writes flame-submit.svg and
flame-work.svg to bench/results/. docs/performance.md says what is to be seen in them.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench.cases.submit import COUNT, Turns
from bench.cases.work import Product
from bench.load import request, send_all
from bench.setting import RESULTS, Bench, application, environment_for, items, new_sellers, prepared
from core import log

SAMPLES_A_SECOND = 250
POSTS = 120


@contextmanager
def sampled(pid: int, name: str) -> Iterator[None]:
    """Sample this process for the length of the block, into bench/results/flame-<name>.svg."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None:
        raise SystemExit("py-spy is not installed beside this Python: make bench installs it")
    target = f"flame-{name}.svg"
    # The graph's title is the command: without folders it is the same on every machine.
    command = ["py-spy", "record", "--rate", str(SAMPLES_A_SECOND), "--output", target, "--pid", str(pid)]
    silent = subprocess.DEVNULL
    recorder = subprocess.Popen(command, executable=spy, cwd=RESULTS, stdin=silent, stdout=silent, stderr=silent)
    try:
        yield
    finally:
        # py-spy writes what it has when it is interrupted, and ends by itself when the process has.
        recorder.send_signal(signal.SIGINT)
        recorder.wait(60)
    print(RESULTS / target)


async def submit(bench: Bench) -> None:
    """Jobs of 10,000 items, one after the other, by REST."""
    url = bench.migrated_database()
    async with application(url) as app:
        turns = Turns(url, await new_sellers(app, 8))
    service, address = bench.start("service", environment=environment_for(url))
    body = json.dumps({"items": items(COUNT), "listing_type_id": "gold_special"}).encode()

    async def post(times: int) -> None:
        for _ in range(times):
            one = request("POST", "/api/v1/products", key=turns.key(), body=body)
            await send_all(address, [[one]], expected=202)

    await post(6)
    with sampled(service.pid, "submit"):
        await post(POSTS)
    bench.stop(service)
    bench.drop(url)


async def work(bench: Bench) -> None:
    """40,000 items before a marketplace that answers at once."""
    url = bench.migrated_database()
    async with application(url) as app:
        product = Product(bench, url, await new_sellers(app, 4, credit=10**12))
    with closing(product), ExitStack() as recording:

        def worker() -> subprocess.Popen[str]:
            process: subprocess.Popen[str] = bench.start("instant_worker", environment=environment_for(url))[0]
            recording.enter_context(sampled(process.pid, "work"))
            return process

        await product.rate(worker, 1)
    bench.drop(url)


def main() -> int:
    """Both, one after the other."""
    log.configure(level="ERROR")
    began = time.perf_counter()
    paths: tuple[Callable[[Bench], Coroutine[Any, Any, None]], ...] = (submit, work)
    with prepared(quick=True) as bench:
        for path in paths:
            uvloop.run(path(bench))
    print(f"{time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
