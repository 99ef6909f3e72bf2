"""Core server and gateway killed under traffic: what was acknowledged exists, what exists was asked for."""

from __future__ import annotations

import asyncio

from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster, Pace
from tests.faults.load import Clients
from tests.faults.programs import Command
from tests.faults.traffic import traffic


async def run(campaign: Campaign) -> None:
    """Both are killed at random, each started again at once."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    async with Cluster(campaign.folder, seed=campaign.seed, pace=Pace(concurrency=8, latency=0.02)) as cluster:
        clients = Clients(cluster, chance)

        async def kill(process: Command, times: int, name: str) -> None:
            for _ in range(times):
                await asyncio.sleep(chance.uniform(0.3, 1.5))
                async with cluster.outage():
                    await process.kill()
                    outcome.counts[name] += 1
                    await process.start()
                    outcome.measure("ready again after", await cluster.until_ready())

        async with traffic(cluster, clients, chance, sellers=8, pause=0.1, keyless=0.3):
            await asyncio.gather(
                kill(cluster.core_server, volumes.core_kills, "core server kills"),
                kill(cluster.gateway, volumes.gateway_kills, "gateway kills"),
            )
        outcome.measure("until nothing was left", await cluster.quiesce(60))
        campaign.finish(cluster, clients)
        outcome.counts["reads"] = clients.reads
    outcome.want("core server kills", volumes.core_kills)
    outcome.want("gateway kills", volumes.gateway_kills)
    outcome.want("acknowledged", volumes.core_kills)
    outcome.want("unanswered", volumes.core_kills)
    outcome.want("replays")
