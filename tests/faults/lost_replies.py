"""The smallest campaign: one worker, replies lost in three ways, and otherwise a calm day.

On a calm day nobody is rescued, no lease is lost and nothing is fenced off; a check that only ever sees trouble would
not notice a service that makes its own.
"""

from __future__ import annotations

import asyncio

from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster, Pace, Seller
from tests.faults.load import Clients

LOST = ("reset_after", "silence_after", "error_after", "broken_json")
CALM_ITEMS = 60


async def run(campaign: Campaign) -> None:
    """Each SKU of one job loses the reply to its first creation; the other job's are answered slowly."""
    outcome = campaign.outcome
    pace = Pace(concurrency=4, latency=0.2, settle=2.0, scale=60.0)
    async with Cluster(campaign.folder, seed=campaign.seed, workers=1, pace=pace) as cluster:
        clients = Clients(cluster, campaign.random)
        calm = await cluster.new_seller()
        await _warm(cluster, clients, calm)
        for number, kind in enumerate(LOST):
            unlucky = await cluster.new_seller()
            for sku in await cluster.stock(3):
                await cluster.fault(kind, operation="item_create", sku=sku, times=1)
                await clients.create(unlucky, ("live", "test")[number % 2], [sku])
        await clients.create(calm, "live", await cluster.stock(CALM_ITEMS))
        outcome.measure("until nothing was left", await cluster.quiesce(60))
        fired = await cluster.market("GET", "/faults")
        campaign.finish(cluster, clients)
        outcome.counts["lost replies"] = sum(fired["fired_by_kind"].values())
    for name in ("runs rescued", "leases lost", "fenced writes", "late doubles closed", "reconciliations reposted"):
        if outcome.counts[name]:
            outcome.violations.append(f"not a calm day: {outcome.counts[name]} {name}")
    outcome.want("lost replies", 3 * len(LOST))
    outcome.want("reconciliations adopted", 3 * len(LOST))


async def _warm(cluster: Cluster, clients: Clients, seller: Seller) -> None:
    """A first job, so that the calm one meets no first look at anything."""
    await clients.create(seller, "live", await cluster.stock(1))
    await cluster.quiesce(20)
    await asyncio.sleep(0)
