"""Workers stopped by SIGSTOP past the end of their leases, then resumed: their late results must count for nothing."""

from __future__ import annotations

import asyncio
import functools
import signal

from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster, Pace
from tests.faults.load import Clients
from tests.faults.programs import send
from tests.faults.traffic import traffic

WORKERS = 6


async def run(campaign: Campaign) -> None:
    """Five of six workers sleep at a time, in the middle of their work; the sixth takes over what they held."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    pace = Pace(concurrency=4, latency=0.25, settle=2.0)
    async with Cluster(campaign.folder, seed=campaign.seed, workers=WORKERS, pace=pace) as cluster:
        clients = Clients(cluster, chance)
        async with traffic(cluster, clients, chance, sellers=8, sizes=(8, 20, 30), pause=1.0):
            paused = 0
            while paused < volumes.pauses:
                sleepers = chance.sample(cluster.workers, min(WORKERS - 1, volumes.pauses - paused))
                for worker in sleepers:
                    # In the middle of a run, not between two.
                    await cluster.in_time("work in hand", functools.partial(_is_sending, cluster, worker), 60)
                    send(worker, signal.SIGSTOP)
                paused += len(sleepers)
                await asyncio.sleep(pace.lease + 3.0)
                for worker in sleepers:
                    send(worker, signal.SIGCONT)
                await asyncio.sleep(1.5)
            outcome.counts["pauses past the lease"] = paused
        outcome.measure("until nothing was left", await cluster.quiesce(90))
        campaign.finish(cluster, clients)
    outcome.want("pauses past the lease", volumes.pauses)
    outcome.want("fenced writes")
    outcome.want("leases lost")
    outcome.want("runs rescued", volumes.pauses // 2)


async def _is_sending(cluster: Cluster, worker: object) -> bool:
    """Whether this worker has sends on the wire now."""
    owner = getattr(worker, "owner", "")
    rows = await cluster.query("SELECT count(*) FROM intents WHERE owner = %s AND state = 'sending'", [owner])
    return bool(rows[0][0])
