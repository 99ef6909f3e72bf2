"""Everyday traffic while things are broken: jobs with and without a key, looks, cancellations, retries."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.faults.cluster import Cluster, Seller
from tests.faults.load import Clients


@asynccontextmanager
async def traffic(
    cluster: Cluster,
    clients: Clients,
    chance: random.Random,
    *,
    sellers: int = 6,
    sizes: tuple[int, ...] = (1, 2, 5, 12),
    pause: float = 0.25,
    keyless: float = 0.2,
) -> AsyncIterator[list[Seller]]:
    """Traffic of that many sellers for the length of the block."""
    stop = asyncio.Event()
    made = [await cluster.new_seller() for _ in range(sellers)]
    skus = await cluster.stock(200)

    async def one(seller: Seller) -> None:
        while not stop.is_set():
            environment = chance.choice(("live", "test"))
            taken = await _take(cluster, skus, chance.choice(sizes))
            job_id = await clients.create(seller, environment, taken, key=chance.random() >= keyless, tries=2000)
            if job_id is not None and chance.random() < 0.3:
                await clients.read(seller, environment, f"/products/jobs/{job_id}")
                await clients.read(seller, environment, "/account")
            if job_id is not None and chance.random() < 0.1:
                await clients.act(seller, environment, "cancel", job_id)
                await clients.act(seller, environment, "retry", job_id)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), chance.uniform(0, 2 * pause))

    tasks = [asyncio.create_task(one(seller)) for seller in made]
    try:
        yield made
    finally:
        stop.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                cluster.troubles.append(f"traffic ended with {type(result).__name__}: {result}")


async def _take(cluster: Cluster, skus: list[str], count: int) -> list[str]:
    """New SKUs; the stock is filled up in large pieces, and not while the database is away."""
    while len(skus) < count:
        try:
            skus += await cluster.stock(200)
        except Exception:
            await asyncio.sleep(0.2)
    taken, skus[:count] = skus[:count], []
    return taken
