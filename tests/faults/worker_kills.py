"""Workers killed at random under load: every SKU ends as one listing or one honest failure."""

from __future__ import annotations

import asyncio
import contextlib

from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster, Pace, Seller
from tests.faults.load import Clients

SELLERS = 6


async def run(campaign: Campaign) -> None:
    """Two workers of ``listings worker``, killed in turn while jobs of all sizes are published."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    pace = Pace(concurrency=8, latency=0.15, scale=1)
    async with Cluster(campaign.folder, seed=campaign.seed, forked=False, pace=pace) as cluster:
        clients = Clients(cluster, chance)
        sellers = [await cluster.new_seller() for _ in range(SELLERS)]
        skus = await cluster.stock(volumes.worker_kill_items)
        done = asyncio.Event()

        async def publish(seller: Seller, share: list[str]) -> None:
            # Spread over the whole time of the killing, so that every kill meets work.
            while share:
                size = chance.choice((1, 3, 10, 25, 40, 120))
                taken, share[:] = share[:size], share[size:]
                environment = chance.choice(("live", "test"))
                # While workers die faster than they work, all slots of a seller stay taken for minutes.
                await clients.create(seller, environment, taken, tries=20_000)

        async def kill() -> None:
            for number in range(volumes.worker_kills):
                worker = cluster.workers[number % len(cluster.workers)]
                await asyncio.sleep(chance.uniform(0.2, 1.4))
                outcome.counts["worker kills"] += 1
                if await _held(cluster):
                    outcome.counts["kills with work in hand"] += 1
                await worker.kill()
                restarts.append(asyncio.create_task(worker.start()))
                if number >= 1:
                    # The other one is up again before its turn comes.
                    await restarts[number - 1]

        restarts: list[asyncio.Task[None]] = []
        shares = [skus[number :: len(sellers)] for number in range(len(sellers))]
        killing = asyncio.create_task(kill())
        try:
            await asyncio.gather(*(publish(seller, share) for seller, share in zip(sellers, shares, strict=True)))
            await killing
        finally:
            killing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await killing
            await asyncio.gather(*restarts)
            done.set()
        outcome.measure("until nothing was left", await cluster.quiesce(180))
        campaign.finish(cluster, clients)
    outcome.counts["items"] = sum(outcome.counts[f"items {each}"] for each in ("success", "failed", "skipped"))
    outcome.want("worker kills", volumes.worker_kills)
    outcome.want("items", volumes.worker_kill_items)
    outcome.want("kills with work in hand", volumes.worker_kills // 2)
    outcome.want("runs rescued", volumes.worker_kills // 4)
    outcome.want("reconciliations adopted")
    outcome.want("reconciliations reposted")


async def _held(cluster: Cluster) -> bool:
    rows = await cluster.query("SELECT count(*) FROM work_runs WHERE owner IS NOT NULL")
    return bool(rows[0][0])
