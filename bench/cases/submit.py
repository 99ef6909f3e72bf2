"""Accepting jobs: 10,000 items at once, and one item from eight clients."""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import psycopg

from bench import peers
from bench.load import request, send_all
from bench.measure import Row, compare, paired, skipped
from bench.product import end_jobs, tidy
from bench.setting import Bench, Seller, application, environment_for, items, new_sellers, plain_access
from listing_publication.v1 import publishing_pb2

COUNT = 10_000
JOBS_A_SELLER = 6
CLIENTS = 8
OPERATION = "POST 10,000 items, to the 202"
ONE = "POST 1 item, 8 clients"


class _Item(msgspec.Struct, gc=False):
    sku: str
    category_id: str | None = None
    auto_categorize: bool | None = None


class _Body(msgspec.Struct):
    items: list[_Item]
    listing_type_id: str | None = None


_FLOOR_TABLE = """CREATE TABLE job_item (seller_id bigint, job_id uuid, ordinal int, sku text, category_id text,
    auto_categorize bool, status smallint, PRIMARY KEY (seller_id, job_id, ordinal))"""
_SKU = re.compile(r"[A-Za-z0-9]{10}")


def floor(connection: psycopg.Connection, body: bytes) -> None:
    """The least that accepting a job through two processes can be: decode, validate, protobuf there and back, COPY."""
    asked = msgspec.json.decode(body, type=_Body)
    message = publishing_pb2.CreateJobRequest(listing_type_id=asked.listing_type_id)
    add = message.items.add
    for item in asked.items:
        sku, category = item.sku, item.category_id
        if len(sku) != 10 or not (sku.isalnum() and sku.isascii()):
            raise ValueError("sku")
        if category is None:
            if not item.auto_categorize:
                raise ValueError("neither")
            add(sku=sku, auto_categorize=True)
        else:
            if item.auto_categorize or not (category[:3].isalpha() and category[3:].isdigit() and category.isascii()):
                raise ValueError("category")
            add(sku=sku, category_id=category)
    read = publishing_pb2.CreateJobRequest.FromString(message.SerializeToString())
    start, null = f"7\t{uuid.uuid4()}\t", r"\N"
    lines = [
        f"{start}{ordinal}\t{item.sku}\t{item.category_id or null}\t{'t' if item.auto_categorize else 'f'}\t0\n"
        for ordinal, item in enumerate(read.items)
    ]
    with connection.transaction(), connection.cursor().copy("COPY job_item FROM STDIN") as copy:
        copy.write("".join(lines))


class Turns:
    """Keys of test environments, each used six times before its seller's jobs have to be ended."""

    def __init__(self, url: str, sellers: list[Seller]) -> None:
        self._url = url
        self._keys = [seller.test_key for seller in sellers]
        self._used = 0

    def key(self) -> str:
        """The next one."""
        if self._used == JOBS_A_SELLER * len(self._keys):
            end_jobs(self._url)
            self._used = 0
        self._used += 1
        return self._keys[(self._used - 1) // JOBS_A_SELLER]

    def begin(self) -> None:
        """All may be used anew."""
        end_jobs(self._url)
        self._used = 0


def _posting(address: str, path: str, body: bytes, key: Callable[[], str]) -> Callable[[], Awaitable[float]]:
    async def post() -> float:
        return await send_all(address, [[request("POST", path, key=key(), body=body)]], expected=202)

    return post


async def run(bench: Bench) -> list[Row]:
    """Rows of the group."""
    url = bench.migrated_database()
    per_client = 12 if bench.quick else 60
    async with application(url) as app:
        sellers = await new_sellers(app, CLIENTS * per_client // JOBS_A_SELLER)
    service, address = bench.start("service", environment=environment_for(url))
    rest = address
    try:
        turns = Turns(url, sellers)
        rows = await _many(bench, url, rest, turns)
        rows += await _one(bench, url, rest, turns, per_client)
    finally:
        bench.stop(service)
        bench.drop(url)
    return rows


async def _many(bench: Bench, url: str, address: str, turns: Turns) -> list[Row]:
    body = json.dumps({"items": items(COUNT), "listing_type_id": "gold_special"}).encode()
    rounds = bench.rounds(5, 11)
    floor_url, peer_url = bench.empty_database(), bench.empty_database()
    peer, peer_address = bench.start("fastapi_peer", environment={"BENCH_DATABASE": json.dumps(plain_access(peer_url))})
    product = _posting(address, "/api/v1/products", body, turns.key)
    rows: list[Row] = []
    with psycopg.connect(floor_url, autocommit=True) as connection:
        connection.execute(_FLOOR_TABLE)

        async def run_floor() -> float:
            began = time.perf_counter()
            floor(connection, body)
            return time.perf_counter() - began

        found = await paired(
            rounds,
            {
                "floor": run_floor,
                "product": product,
                "asyncpg": _posting(peer_address, "/asyncpg", body, str),
            },
        )
    rows.append(_row("floor: decode, validate, protobuf, COPY", found["product"], found["floor"], 2.0))
    rows.append(_row("FastAPI + asyncpg COPY (no auth, keys, credits)", found["product"], found["asyncpg"], 0.75))
    turns.begin()
    slow = bench.rounds(2, 5)
    found = await paired(slow, {"sqlalchemy": _posting(peer_address, "/sqlalchemy", body, str), "product": product})
    rows.append(_row("FastAPI + SQLAlchemy", found["product"], found["sqlalchemy"], 0.12))
    bench.stop(peer)
    bench.drop(floor_url)
    bench.drop(peer_url)
    queue_url = bench.empty_database()
    async with peers.procrastinate_sender(queue_url) as send:
        found = await paired(slow, {"procrastinate": lambda: _timed(send(items(COUNT))), "product": product})
    rows.append(_row("Procrastinate batch_defer (no HTTP)", found["product"], found["procrastinate"], 0.1))
    bench.drop(queue_url)
    reason = peers.redis_missing()
    if reason:
        rows.append(skipped(OPERATION, "Celery + Redis", reason))
    else:
        with peers.celery_sender(bench) as send_celery:
            asked = items(COUNT)

            async def celery() -> float:
                began = time.perf_counter()
                await asyncio.to_thread(send_celery, asked)
                return time.perf_counter() - began

            found = await paired(bench.rounds(1, 3), {"celery": celery, "product": product}, warm=not bench.quick)
        rows.append(_row("Celery + Redis (no HTTP, not durable)", found["product"], found["celery"], 0.03))
    turns.begin()
    return rows


async def _timed(work: Any) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


def _row(against: str, ours: list[float], theirs: list[float], bar: float) -> Row:
    return compare(OPERATION, against, ours, theirs, "ms", bar=bar, scale=1e3)


async def _one(bench: Bench, url: str, address: str, turns: Turns, per_client: int) -> list[Row]:
    peer_url = bench.empty_database()
    peer, peer_address = bench.start("fastapi_peer", environment={"BENCH_DATABASE": json.dumps(plain_access(peer_url))})
    body = json.dumps({"items": items(1), "listing_type_id": "gold_special"}).encode()
    total = CLIENTS * per_client

    async def product() -> float:
        turns.begin()
        keys = [turns.key() for _ in range(total)]
        requests = [request("POST", "/api/v1/products", key=key, body=body) for key in keys]
        by_client = [requests[place * per_client : (place + 1) * per_client] for place in range(CLIENTS)]
        return total / await send_all(address, by_client, expected=202)

    async def asyncpg() -> float:
        one = request("POST", "/asyncpg", body=body)
        return total / await send_all(peer_address, [[one] * per_client] * CLIENTS, expected=202)

    tidy(url)
    found = await paired(bench.rounds(5, 9), {"asyncpg": asyncpg, "product": product})
    bench.stop(peer)
    bench.drop(peer_url)
    return [
        compare(
            ONE,
            "FastAPI + asyncpg",
            found["product"],
            found["asyncpg"],
            "req/s",
            bar=1.0,
            at_least=True,
            note="many sellers: each key is used six times",
        )
    ]
