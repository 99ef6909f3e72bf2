"""PostgreSQL crashing, cutting connections and turning read-only under traffic."""

from __future__ import annotations

import asyncio
import random
import time

import psycopg

from tests.faults.campaign import Campaign
from tests.faults.cluster import HEALTHY_SECONDS, Cluster, Pace, immediate_stop
from tests.faults.load import Clients
from tests.faults.traffic import traffic


async def run(campaign: Campaign) -> None:
    """One kind after another, each under the same traffic."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    pace = Pace(concurrency=8, latency=0.05, scale=60.0)
    async with Cluster(campaign.folder, seed=campaign.seed, pace=pace) as cluster:
        clients = Clients(cluster, chance)
        async with traffic(cluster, clients, chance, sellers=8, pause=0.2):
            for number in range(volumes.database_stops):
                await asyncio.sleep(chance.uniform(1.0, 2.5))
                await _crash(campaign, cluster, away=0.2 if number % 4 else 4.0)
            await _terminate(campaign, cluster, chance, volumes.terminated_backends)
            for _ in range(volumes.read_only_periods):
                await _read_only(campaign, cluster, 4.0)
                await asyncio.sleep(chance.uniform(1.0, 2.0))
        outcome.measure("until nothing was left", await cluster.quiesce(90))
        campaign.finish(cluster, clients)
        outcome.counts["reads"] = clients.reads
    outcome.want("immediate stops", volumes.database_stops)
    outcome.want("backends terminated", volumes.terminated_backends)
    outcome.want("read-only periods", volumes.read_only_periods)
    outcome.want("unanswered", volumes.database_stops)
    outcome.want("acknowledged", volumes.database_stops * 5)


async def _crash(campaign: Campaign, cluster: Cluster, away: float) -> None:
    async with cluster.outage():
        await asyncio.to_thread(immediate_stop, cluster.postgres)
        await asyncio.sleep(away)
        await asyncio.to_thread(cluster.postgres.start)
        campaign.outcome.counts["immediate stops"] += 1
        await _heals(campaign, cluster, "after a crash")


async def _heals(campaign: Campaign, cluster: Cluster, what: str) -> None:
    """The edges are ready, and a worker gets something done, within ten seconds."""
    began = time.monotonic()
    campaign.outcome.measure(f"ready {what}", await cluster.until_ready(), HEALTHY_SECONDS)
    before = (await cluster.query("SELECT coalesce(sum(last_sequence), 0) FROM jobs"))[0][0]

    async def progress() -> bool:
        return bool((await cluster.query("SELECT coalesce(sum(last_sequence), 0) FROM jobs"))[0][0] > before)

    await cluster.in_time(f"a result {what}", progress, HEALTHY_SECONDS + 5)
    campaign.outcome.measure(f"first result {what}", time.monotonic() - began, HEALTHY_SECONDS)


async def _terminate(campaign: Campaign, cluster: Cluster, chance: random.Random, wanted: int) -> None:
    """Connections of the service cut from the server's side, in the middle of whatever they do."""
    done = 0
    async with cluster.outage():
        while done < wanted:
            rows = await cluster.query(
                """
                SELECT pg_terminate_backend(pid) FROM (
                    SELECT pid FROM pg_stat_activity WHERE application_name = ANY (%s)
                    ORDER BY state = 'active' DESC, random() LIMIT %s
                ) chosen
                """,
                [["listings core", "listings worker"], min(chance.randint(1, 4), wanted - done)],
            )
            done += sum(1 for row in rows if row[0])
            await asyncio.sleep(chance.uniform(0.02, 0.25))
        await _heals(campaign, cluster, "after cut connections")
    campaign.outcome.counts["backends terminated"] += done


async def _read_only(campaign: Campaign, cluster: Cluster, seconds: float) -> None:
    """As with a server that has become a standby: what connects finds every write refused with 25006. When writes
    are allowed again, the connections that the service holds still refuse them: it must see that they are dead."""
    async with cluster.outage():
        await _set_read_only(cluster, "on")
        await cluster.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ANY (%s)",
            [["listings core", "listings worker"]],
        )
        await cluster.in_time("a service that is not ready while nothing can be written", cluster.is_not_ready, seconds)
        await asyncio.sleep(seconds)
        await _set_read_only(cluster, "off")
        campaign.outcome.counts["read-only periods"] += 1
        await _heals(campaign, cluster, "after a read-only period")


async def _set_read_only(cluster: Cluster, value: str) -> None:
    connection = await psycopg.AsyncConnection.connect(cluster.database_url, autocommit=True)
    async with connection:
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(f"ALTER ROLE CURRENT_USER SET default_transaction_read_only = {value}")
