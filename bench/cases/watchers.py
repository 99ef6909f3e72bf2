"""A thousand watchers of one job on one core server while its 10,000 items are published: each must see each result
exactly once and in order. Not among the default groups, because it takes twenty minutes: ``--only watchers``.

The marketplace is the sandbox, the worker is the service's own. Delay is counted from when a commit's notification
reached this process to when a watcher had the event: what the watchers' own process needs is in it.
"""

from __future__ import annotations

import array
import asyncio
import os
import sys
import time
from collections import Counter

import grpc
import psycopg

from bench.measure import Row, memory_bytes
from bench.product import add_products
from bench.setting import Bench, Seller, application, environment_for, new_sellers, skus
from core.domain.api_key import Principal, Scope
from core.domain.publication import Item, PublicationRequest
from core.domain.states import Environment
from core.use_cases.create_job import create_job
from listing_publication.v1 import jobs_pb2, jobs_pb2_grpc

_LAST = "SELECT last_sequence FROM jobs WHERE seller_id = %s AND job_id = %s"


async def run(bench: Bench) -> list[Row]:
    """Rows of the group."""
    watchers, items, rate = (100, 1_000, 100) if bench.quick else (1_000, 10_000, 10)
    url = bench.migrated_database()
    try:
        return await _watched(bench, url, watchers, items, rate)
    finally:
        bench.drop(url)


class _Crowd:
    """Watchers of one job and what they saw."""

    def __init__(self, target: str, seller: Seller, job_id: str, count: int) -> None:
        self._metadata = (("x-api-key", seller.test_key),)
        self._job_id = job_id
        self._channels = [
            grpc.aio.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
            for _ in range(1 + count // 250)
        ]
        self.count = count
        self.seen = array.array("q", [0] * count)
        """The last sequence each has seen; results come one by one, so it is also how many."""
        self.wrong = 0
        self.late: Counter[int] = Counter()
        """Events by their delay in milliseconds."""
        self.known: dict[int, float] = {}
        """When the commit of a sequence was heard of."""
        self._ready = asyncio.Semaphore(0)
        self._tasks: list[asyncio.Task[None]] = []

    async def gather(self, count: int) -> None:
        """Let watchers come until there are so many, and wait until each has its first message."""
        came = count - len(self._tasks)
        for place in range(len(self._tasks), count):
            self._tasks.append(asyncio.create_task(self._watch(place)))
        async with asyncio.timeout(120):
            for _ in range(came):
                await self._ready.acquire()

    async def _watch(self, place: int) -> None:
        stub = jobs_pb2_grpc.JobServiceStub(self._channels[place % len(self._channels)])
        request = jobs_pb2.WatchJobRequest(job_id=self._job_id, after_sequence=0)
        first = True
        async for message in stub.WatchJob(request, metadata=self._metadata):
            if first:
                first = False
                self._ready.release()
            if message.WhichOneof("event") != "item":
                continue
            sequence = message.item.sequence
            if sequence != self.seen[place] + 1:
                self.wrong += 1
            self.seen[place] = sequence
            heard = self.known.get(sequence)
            # An event may overtake the notification: then it was not late.
            self.late[0 if heard is None else int((time.perf_counter() - heard) * 1000)] += 1

    async def end(self) -> None:
        """Wait until every stream has ended by itself."""
        await asyncio.gather(*self._tasks)
        for channel in self._channels:
            await channel.close()

    def percentile(self, part: float) -> float:
        """Delay in milliseconds below which that part of all events lies."""
        left = part * self.late.total()
        for milliseconds, number in sorted(self.late.items()):
            left -= number
            if left <= 0:
                return float(milliseconds + 1)
        return 0.0


async def _hear(url: str, seller_id: int, job_id: str, known: dict[int, float]) -> None:
    """Note when each sequence's commit was told; ends with its task."""
    listening = await psycopg.AsyncConnection.connect(url, autocommit=True)
    asking = await psycopg.AsyncConnection.connect(url, autocommit=True)
    async with listening, asking:
        await listening.execute("LISTEN job_changed")
        async for notification in listening.notifies():
            heard = time.perf_counter()
            if notification.payload != f"{seller_id}:{job_id}":
                continue
            row = await (await asking.execute(_LAST, (seller_id, job_id))).fetchone()
            for sequence in range(len(known) + 1, (row[0] if row else 0) + 1):
                known[sequence] = heard


async def _watched(bench: Bench, url: str, watchers: int, items: int, rate: int) -> list[Row]:
    names = skus(items)
    add_products(url, names)
    async with application(url) as app:
        seller = (await new_sellers(app, 1))[0]
        principal = Principal(
            seller_id=seller.seller_id, environment=Environment.TEST, scopes=frozenset(Scope), key_id="bench"
        )
        wanted = [Item(sku=name, category_id="MCO195301", auto_categorize=False) for name in names]
        job_id = (await create_job(app.database, principal, PublicationRequest(items=wanted))).result.job_id
    process, target = bench.start("service", "--grpc", environment=environment_for(url))
    crowd = _Crowd(target, seller, job_id, watchers)
    await crowd.gather(1)
    alone = memory_bytes(process.pid)
    await crowd.gather(watchers)
    quiet = memory_bytes(process.pid)
    hearing = asyncio.create_task(_hear(url, seller.seller_id, job_id, crowd.known))
    sandbox, marketplace = bench.start_command(
        [sys.executable, "-m", "sandbox", "--addr", "127.0.0.1:0", "--picture-delay-seconds", "0"], name="sandbox"
    )
    worker, _ = bench.start_command(
        [sys.executable, "-m", "listings", "worker"],
        name="worker",
        environment=environment_for(url, marketplace_url=marketplace, marketplace_rate=f"{rate}/second"),
    )
    began = time.perf_counter()
    busiest = 0
    async with asyncio.timeout(120 + 4 * items / rate):
        ending = asyncio.create_task(crowd.end())
        while not ending.done():
            await asyncio.wait([ending], timeout=1.0)
            busiest = max(busiest, memory_bytes(process.pid))
        await ending
    took = time.perf_counter() - began
    hearing.cancel()
    await asyncio.gather(hearing, return_exceptions=True)
    bench.stop(worker, sandbox, process)
    missing = sum(items - last for last in crowd.seen)
    title = f"{watchers:,} watchers, {items:,} items published"
    spread = f"{items / took:.1f} items/s, {crowd.late.total() / took:,.0f} events/s"
    return [
        Row(
            f"{title}: results missed, doubled or out of order",
            "none",
            float(missing + crowd.wrong),
            0.0,
            "events",
            ratio=float(missing + crowd.wrong),
            bar=0.0,
            note=f"of {watchers * items:,}",
        ),
        Row(f"{title}: commit to watcher, p99", "", crowd.percentile(0.99), None, "ms", note=spread),
        Row(f"{title}: commit to watcher, p50", "", crowd.percentile(0.5), None, "ms"),
        Row(
            f"{title}: memory of the core server for each watcher",
            "32 KB",
            (quiet - alone) / (watchers - 1) / 1024,
            32.0,
            "KB",
            ratio=(quiet - alone) / (watchers - 1) / 1024 / 32,
            bar=1.0,
            note=f"quiet; {(busiest - alone) / (watchers - 1) / 1024:.0f} KB at the busiest, on {os.cpu_count()} cores",
        ),
    ]
