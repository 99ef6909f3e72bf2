"""Working jobs: items per second through the worker."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp
import msgspec
import psycopg

from bench import peers
from bench.measure import Row, compare, cpu_seconds, paired
from bench.product import add_products, end_jobs, tidy
from bench.setting import Bench, Seller, application, environment_for, new_sellers, plain_access, skus
from core.domain.api_key import Principal, Scope
from core.domain.publication import Item, PublicationRequest
from core.domain.states import Environment
from core.use_cases.create_job import create_job

AT_ONCE = 64


async def observed(
    start: Callable[[], list[Any]], left: Callable[[], int], stop: Callable[[list[Any]], None], *, limit: float = 120
) -> tuple[float, float]:
    """Start workers on waiting work and watch it go.

    Returns:
        Items per second between the first progress seen and the end, and CPU seconds of the workers per item.

    Raises:
        RuntimeError: the work was not done in time.
    """
    total = left()
    began: tuple[float, int, float] | None = None
    processes = start()
    pids = [process.pid for process in processes]
    try:
        deadline = time.perf_counter() + limit
        while True:
            await asyncio.sleep(0.02 if began is None else 0.1)
            now, remaining = time.perf_counter(), left()
            if began is None and remaining < total:
                began = now, remaining, cpu_seconds(*pids)
            if remaining == 0:
                break
            if now > deadline:
                raise RuntimeError(f"{remaining} of {total} items were not worked in {limit:.0f} s")
        assert began is not None
        done = began[1]
        return done / (now - began[0]), (cpu_seconds(*pids) - began[2]) / done
    finally:
        stop(processes)


class Product:
    """Jobs of 10,000 items, each of a seller of its own, before one or two workers."""

    def __init__(self, bench: Bench, url: str, sellers: Sequence[Seller]) -> None:
        self._bench = bench
        self._url = url
        self._batch = 0
        self._principals = [
            Principal(seller_id=seller.seller_id, environment=Environment.LIVE, scopes=frozenset(Scope), key_id="bench")
            for seller in sellers
        ]
        self._connection = psycopg.connect(url, autocommit=True)
        self.cpu_per_item: list[float] = []

    def close(self) -> None:
        """Close its connection."""
        self._connection.close()

    def _left(self) -> int:
        row = self._connection.execute("SELECT coalesce(sum(pending), 0) FROM jobs WHERE completed_at IS NULL")
        found = row.fetchone()
        return int(found[0]) if found else 0

    async def rate(self, start: Callable[[], Any], processes: int) -> float:
        """Items per second, every SKU new."""
        end_jobs(self._url)
        self._connection.execute("DELETE FROM follow_ups")
        job_ids = []
        async with application(self._url) as app:
            for principal in self._principals:
                self._batch += 1
                wanted = skus(10_000, f"{self._batch:03d}")
                add_products(self._url, wanted)
                asked = PublicationRequest(items=[Item(sku, "MCO1234", None) for sku in wanted])
                answer = await create_job(app.database, principal, asked)
                job_ids.append(answer.result.job_id)
        tidy(self._url)
        rate, cpu = await observed(
            lambda: [start() for _ in range(processes)], self._left, lambda started: self._bench.stop(*started)
        )
        self.cpu_per_item.append(cpu)
        row = self._connection.execute(
            "SELECT sum(successful) FROM jobs WHERE job_id = ANY (%s::uuid[])", [job_ids]
        ).fetchone()
        if row is None or row[0] != len(job_ids) * 10_000:
            raise RuntimeError(f"not every item was published: {row}")
        return rate


async def run(bench: Bench) -> list[Row]:
    """Rows of the group."""
    url = bench.migrated_database()
    jobs = 2 if bench.quick else 4
    async with application(url) as app:
        sellers = await new_sellers(app, jobs, credit=10**12)
    product = Product(bench, url, sellers)
    rounds = bench.rounds(3, 5)
    try:
        rows = await _instant(bench, url, product, rounds)
        rows += await _http(bench, url, product, rounds)
    finally:
        product.close()
        bench.drop(url)
    return rows


async def _instant(bench: Bench, url: str, product: Product, rounds: int) -> list[Row]:
    queue_url = bench.empty_database()
    access = json.dumps(plain_access(queue_url))
    count = 20_000 if bench.quick else 40_000
    connection = psycopg.connect(queue_url, autocommit=True)

    def left() -> int:
        row = connection.execute("SELECT count(*) FROM pgqueuer").fetchone()
        return int(row[0]) if row else 0

    async with peers.pgqueuer_sender(queue_url) as send:

        async def pgqueuer() -> float:
            await send(count)
            rate, _ = await observed(
                lambda: [bench.start("queue_peer", "100", environment={"BENCH_DATABASE": access})[0]],
                left,
                lambda started: bench.stop(*started),
            )
            return rate

        environment = environment_for(url)

        def worker() -> Any:
            return bench.start("instant_worker", environment=environment)[0]

        product.cpu_per_item.clear()
        found = await paired(
            rounds, {"pgqueuer": pgqueuer, "one": lambda: product.rate(worker, 1)}, warm=not bench.quick
        )
    connection.close()
    bench.drop(queue_url)
    cpu = sorted(product.cpu_per_item)[len(product.cpu_per_item) // 2]
    two = await paired(bench.rounds(2, 3), {"two": lambda: product.rate(worker, 2)}, warm=False)
    return [
        compare(
            "items/s through the worker, marketplace answers at once",
            "PgQueuer no-op jobs, same server",
            found["one"],
            found["pgqueuer"],
            "items/s",
            bar=2.0,
            at_least=True,
            note=f"{cpu * 1e6:.0f} µs of worker CPU an item",
        ),
        compare(
            "two workers, marketplace answers at once",
            "one",
            two["two"],
            found["one"][: len(two["two"])],
            "items/s",
            note="database and workers share two cores",
        ),
    ]


async def bare_loop(address: str, count: int) -> float:
    """Creations per second of the same HTTP client with nothing around it."""
    left = iter(range(count))
    body = {
        "family_name": "Maleta de viaje",
        "category_id": "MCO1234",
        "price": 100_000,
        "currency_id": "COP",
        "available_quantity": 5,
        "buying_mode": "buy_it_now",
        "condition": "new",
        "listing_type_id": "gold_special",
        "pictures": [{"source": f"https://images.example.com/SKU/{n}.jpg"} for n in range(8)],
        "attributes": [{"id": "BRAND", "value_name": "Marca"}, {"id": "SELLER_SKU", "value_name": "SKU0000001"}],
        "description": "d" * 700,
    }
    encoded = msgspec.json.encode(body)
    headers = {"Authorization": "Bearer bench", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def lane() -> None:
            for _ in left:
                async with session.post(f"{address}/items", data=encoded, headers=headers) as answer:
                    if answer.status != 201:
                        raise RuntimeError(f"status {answer.status}")
                    msgspec.json.decode(await answer.read())

        began = time.perf_counter()
        await asyncio.gather(*(lane() for _ in range(AT_ONCE)))
        return count / (time.perf_counter() - began)


async def _http(bench: Bench, url: str, product: Product, rounds: int) -> list[Row]:
    market, address = bench.start("static_marketplace")
    environment = environment_for(url, marketplace_url=address)
    command = [sys.executable, "-m", "listings", "worker"]

    def worker() -> Any:
        return bench.start_command(command, name="worker", environment=environment)[0]

    count = 20_000 if bench.quick else 40_000
    product.cpu_per_item.clear()
    found = await paired(
        rounds,
        {
            "bare": lambda: bare_loop(address, count),
            "one": lambda: product.rate(worker, 1),
            "two": lambda: product.rate(worker, 2),
        },
        warm=not bench.quick,
    )
    bench.stop(market)
    cpu = sorted(product.cpu_per_item)[len(product.cpu_per_item) // 2]
    return [
        compare(
            "items/s through the worker to a static HTTP server, one process",
            "bare loop of the same HTTP client",
            found["one"],
            found["bare"],
            "items/s",
            bar=0.6,
            at_least=True,
            note=f"{cpu * 1e6:.0f} µs of worker CPU an item",
        ),
        compare(
            "two worker processes, static HTTP server",
            "one worker process",
            found["two"],
            found["one"],
            "items/s",
            bar=1.5,
            at_least=True,
        ),
    ]
