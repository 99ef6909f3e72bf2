"""Other queues, as their documentation uses them."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from bench.setting import Bench, plain_access


@contextlib.asynccontextmanager
async def procrastinate_sender(url: str) -> AsyncIterator[Callable[[list[dict[str, Any]]], Awaitable[None]]]:
    """Defers one task per item with Procrastinate, in one batch."""
    import procrastinate  # noqa: PLC0415 - only this case needs it

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(queue="items", name="item")
    async def item(job: str, sku: str, category_id: str | None) -> None:
        return None

    async with app.open_async():
        await app.schema_manager.apply_schema_async()

        async def send(items: list[dict[str, Any]]) -> None:
            await item.batch_defer_async(
                *[{"job": "j", "sku": each["sku"], "category_id": each.get("category_id")} for each in items]
            )

        yield send


@contextlib.asynccontextmanager
async def pgqueuer_sender(url: str) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Enqueues so many jobs with PgQueuer, in one call."""
    import asyncpg  # noqa: PLC0415
    from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415
    from pgqueuer.queries import Queries  # noqa: PLC0415

    access = plain_access(url)
    connection = await asyncpg.connect(**{**access, "port": int(access["port"])})
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()

    async def send(count: int) -> None:
        await queries.enqueue(["item"] * count, [b"x"] * count, [0] * count)

    try:
        yield send
    finally:
        await connection.close()


@functools.cache
def redis_missing() -> str:
    """Why there is no redis-server; empty when there is one. Installs it where that is possible."""
    if shutil.which("redis-server"):
        return ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return "redis-server is not installed"
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "redis-server"]
    print("installing redis-server", flush=True)
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    return "" if done.returncode == 0 and shutil.which("redis-server") else "redis-server cannot be installed"


@contextlib.contextmanager
def celery_sender(bench: Bench) -> Iterator[Callable[[Sequence[dict[str, Any]]], None]]:
    """Sends one task per item with Celery to a Redis that keeps nothing on disk."""
    from celery import Celery  # noqa: PLC0415

    socket = bench.folder / "redis.sock"
    server, _ = bench.start_command(
        ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"],
        name="redis",
        ready="eady to accept connections",
    )
    app = Celery("bench", broker=f"redis+socket://{socket}")
    app.conf.update(task_ignore_result=True)

    @app.task(name="item", ignore_result=True)
    def item(sku: str) -> None:
        return None

    def send(items: Sequence[dict[str, Any]]) -> None:
        with app.producer_or_acquire() as producer:
            for each in items:
                item.apply_async((each["sku"],), producer=producer)

    try:
        yield send
    finally:
        app.close()
        bench.stop(server)
