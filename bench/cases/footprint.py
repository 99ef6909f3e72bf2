"""Memory during a job, and how long ``listings serve`` takes to be ready."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

import psutil
import psycopg

from bench.load import request, send_all
from bench.measure import Row, memory_bytes
from bench.product import add_products
from bench.setting import Bench, skus

MEGABYTE = 1024 * 1024
COUNT = 10_000


async def run(bench: Bench) -> list[Row]:
    """Rows of the group."""
    folder = bench.folder / "serve"
    environment = {
        "LISTINGS_DATA_DIR": str(folder),
        "LISTINGS_HTTP_ADDR": "127.0.0.1:0",
        "LISTINGS_GRPC_ADDR": "127.0.0.1:0",
        "LISTINGS_SANDBOX_ADDR": "127.0.0.1:0",
        "LISTINGS_LOG_LEVEL": "WARNING",
    }
    command = [sys.executable, "-m", "listings", "serve"]

    def serve() -> tuple[Any, str, float]:
        began = time.perf_counter()
        process, said = bench.start_command(command, name="serve", environment=environment, ready="ready on")
        return process, said, time.perf_counter() - began

    process, _, first = serve()
    bench.stop(process)
    later = []
    for _ in range(bench.rounds(2, 4)):
        process, _, took = serve()
        later.append(took)
        bench.stop(process)
    process = bench.start_command(command, name="serve", environment=environment, ready="REST")
    server, address = process[0], process[1].removesuffix("/api/v1")
    rows = await _during_a_job(server, address, folder)
    bench.stop(server)
    return [
        *rows,
        Row(
            "serve to ready, first start", "6 s", first, 6.0, "s", ratio=first / 6, bar=None, note="bar ≤ 6 s, reported"
        ),
        Row(
            "serve to ready, later starts",
            "3 s",
            statistics.median(later),
            3.0,
            "s",
            ratio=statistics.median(later) / 3,
            bar=None,
            note="bar ≤ 3 s, reported",
        ),
    ]


async def _during_a_job(server: Any, address: str, folder: Any) -> list[Row]:
    demo = json.loads((folder / "demo.json").read_text())
    url = _database_url(server.pid)
    wanted = skus(COUNT, "MEM")
    add_products(url, wanted)
    body = json.dumps({"items": [{"sku": sku, "category_id": "MCO1234"} for sku in wanted]}).encode()
    await send_all(address, [[request("POST", "/api/v1/products", key=demo["test_key"], body=body)]], expected=202)
    main: list[int] = []
    worker: list[int] = []
    whole: list[int] = []
    ends = time.perf_counter() + 20
    with psycopg.connect(url, autocommit=True) as connection:
        while time.perf_counter() < ends:
            own = psutil.Process(server.pid)
            main.append(own.memory_full_info().pss)
            worker.append(sum(memory_bytes(each.pid) for each in own.children() if "worker" in each.cmdline()))
            whole.append(memory_bytes(server.pid))
            row = connection.execute("SELECT sum(pending) FROM jobs").fetchone()
            if row is not None and not row[0]:
                break
            time.sleep(0.3)  # noqa: ASYNC251 - nothing else runs here
    found = [
        ("memory: core server + gateway, during a 10,000-item job", main, 150),
        ("memory: worker", worker, 120),
        ("memory: whole serve with PostgreSQL and sandbox", whole, 400),
    ]
    return [
        Row(
            operation,
            f"{bar} MB",
            max(values) / MEGABYTE,
            float(bar),
            "MB",
            ratio=max(values) / MEGABYTE / bar,
            bar=1.0,
            note="greatest of samples, shared pages counted once",
        )
        for operation, values, bar in found
    ]


def _database_url(pid: int) -> str:
    for child in psutil.Process(pid).children():
        found = child.environ().get("LISTINGS_DATABASE_URL")
        if found and child.pid != os.getpid():
            return found
    raise RuntimeError("no worker found")
