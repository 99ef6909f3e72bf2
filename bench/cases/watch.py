"""Streaming: from a commit to a watcher, and a thousand watchers at once."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from typing import Any

import grpc
import psycopg

from bench.measure import Row, compare, cpu_seconds, memory_bytes, percentile
from bench.product import tidy
from bench.setting import Bench, Seller, application, environment_for, new_sellers
from listing_publication.v1 import jobs_pb2, jobs_pb2_grpc

_NEW_JOBS = """INSERT INTO jobs (seller_id, job_id, job_number, environment, kind, status, total_items, pending,
    listing_type_id, tax_category_id, terms, started_at)
    SELECT %(seller)s, uuidv7(), n, 'test', 'publication', 'processing', 10000, 10000, 'gold_special', 0,
        '{"currency": "COP"}', now()
    FROM generate_series(1, %(count)s) n RETURNING job_id::text"""
# The counters move without an item's result, so that a watcher gets one message for one change.
_TICK = """UPDATE jobs SET skipped = skipped + 1, pending = pending - 1
    WHERE seller_id = %s AND job_id = ANY (%s::uuid[])
    RETURNING pg_notify('job_changed', seller_id || ':' || job_id)"""


async def run(bench: Bench) -> list[Row]:
    """Rows of the group."""
    url = bench.migrated_database()
    try:
        return [await _latency(bench, url), *await _thousand(bench, url)]
    finally:
        bench.drop(url)


async def _jobs(url: str, count: int) -> tuple[Seller, list[str]]:
    async with application(url) as app:
        seller = (await new_sellers(app, 1))[0]
    with psycopg.connect(url) as connection:
        rows = connection.execute(_NEW_JOBS, {"seller": seller.seller_id, "count": count}).fetchall()
    tidy(url)
    return seller, [row[0] for row in rows]


@contextlib.asynccontextmanager
async def _watching(target: str, seller: Seller, job_ids: list[str], heard: Any) -> Any:
    """One stream a job on as many channels as keep one from being the limit; ``heard(job, now)`` for each message."""
    channels = [
        grpc.aio.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
        for _ in range(1 + len(job_ids) // 250)
    ]
    ready = [asyncio.Event() for _ in job_ids]

    async def watch(place: int, job_id: str) -> None:
        stub = jobs_pb2_grpc.JobServiceStub(channels[place % len(channels)])
        call = stub.WatchJob(
            jobs_pb2.WatchJobRequest(job_id=job_id, after_sequence=0), metadata=(("x-api-key", seller.test_key),)
        )
        async for message in call:
            now = time.perf_counter()
            if message.WhichOneof("event") == "progress":
                heard(job_id, now)
            ready[place].set()

    tasks = [asyncio.create_task(watch(place, job_id)) for place, job_id in enumerate(job_ids)]
    try:
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.wait() for each in ready))
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in channels:
            await channel.close()


async def _changes(
    url: str, seller_id: int, job_ids: list[str], *, seconds: float, pause: float, sent: dict[str, float]
) -> None:
    """Change one job after the other, a commit each; notes when each commit returned."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    ends = time.perf_counter() + seconds
    turn = 0
    while time.perf_counter() < ends:
        job_id = job_ids[turn % len(job_ids)]
        await connection.execute(_TICK, (seller_id, [job_id]))
        sent[job_id] = time.perf_counter()
        turn += 1
        await asyncio.sleep(pause)
    await connection.close()


async def _latency(bench: Bench, url: str) -> Row:
    seller, job_ids = await _jobs(url, 100)
    seconds = 4.0 if bench.quick else 8.0
    # Each job changes every 1.5 s: never within the second in which progress is held back.
    pause = 1.5 / len(job_ids)
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    for _ in range(bench.rounds(2, 4)):
        for program, found in (("bare_stream", theirs), ("service", ours)):
            sent: dict[str, float] = {}
            delays: list[float] = []

            def heard(job_id: str, now: float, sent: dict[str, float] = sent, delays: list[float] = delays) -> None:
                if job_id in sent:
                    # A message may overtake the client's own notice of its commit.
                    delays.append(max(now - sent.pop(job_id), 0.0))
                else:
                    delays.append(0.0)

            process, target = bench.start(program, "--grpc", environment=environment_for(url))
            async with _watching(target, seller, job_ids, heard):
                await asyncio.sleep(1.2)
                delays.clear()
                await _changes(url, seller.seller_id, job_ids, seconds=seconds, pause=pause, sent=sent)
                await asyncio.sleep(0.3)
            bench.stop(process)
            found.append(delays)
    row = compare(
        "commit to watcher, uncoalesced, 100 watchers: p99",
        "bare NOTIFY to stream",
        [percentile(each, 0.99) for each in ours],
        [percentile(each, 0.99) for each in theirs],
        "ms",
        bar=3.0,
        scale=1e3,
    )
    medians = [statistics.median(delay for each in delays for delay in each) * 1e3 for delays in (ours, theirs)]
    row.note = f"medians {medians[0]:.2f} and {medians[1]:.2f} ms after the commit returned"
    return row


async def _thousand(bench: Bench, url: str) -> list[Row]:
    seller, job_ids = await _jobs(url, 1000)
    process, target = bench.start("service", "--grpc", environment=environment_for(url))
    seconds = 5 if bench.quick else 12
    count = 0

    def heard(_job: str, _now: float) -> None:
        nonlocal count
        count += 1

    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    # Measured against itself with the first watcher, so that what is loaded once does not count.
    async with _watching(target, seller, job_ids[:1], heard):
        before = memory_bytes(process.pid)
    async with _watching(target, seller, job_ids, heard):
        await asyncio.sleep(2.0)
        memory = memory_bytes(process.pid) - before
        slots = 20
        began = spent = 0.0
        for tick in range(slots * (seconds + 2)):
            if tick == slots * 2:
                began, spent, count = time.perf_counter(), cpu_seconds(process.pid), 0
            due = time.perf_counter() + 1 / slots
            await connection.execute(_TICK, (seller.seller_id, job_ids[tick % slots :: slots]))
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        took = time.perf_counter() - began
        spent = cpu_seconds(process.pid) - spent
    await connection.close()
    bench.stop(process)
    events = count / took
    share = spent / took / max(events / 1000, 0.01)
    return [
        Row(
            "1,000 watchers at 1 event/s: CPU",
            "12 % of a core",
            share * 100,
            12.0,
            "%",
            ratio=share / 0.12,
            bar=1.0,
            note=f"{events:.0f} events/s were received; stated for 1,000",
        ),
        Row(
            "1,000 watchers: memory each",
            "32 KB",
            memory / 1000 / 1024,
            32.0,
            "KB",
            ratio=memory / 1000 / 1024 / 32,
            bar=1.0,
        ),
    ]
