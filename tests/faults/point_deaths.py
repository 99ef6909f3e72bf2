"""Processes that die at named points: worker, request, core server.

Four workers of the launcher are armed one life after another, each with one point and a number of passes, so that every
point is the place of some deaths while jobs are published, cancelled and retried around them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg

from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster, Pace, Seller
from tests.faults.load import Clients
from tests.faults.points import REQUEST_POINTS, SERVER_POINTS, VARIABLE, WORKER_POINTS
from tests.faults.programs import ForkedWorker

WORKERS = 4
SELLERS = 8
LIFE_SECONDS = 9.0
"""A worker that has not reached its point by then gets another one; the point is tried again later."""


async def run(campaign: Campaign) -> None:
    """See the module."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    points = (*WORKER_POINTS, *REQUEST_POINTS, *SERVER_POINTS)
    share = -(-volumes.point_deaths // len(points))
    async with Cluster(
        campaign.folder, seed=campaign.seed, workers=WORKERS, pace=Pace(concurrency=4, latency=0.03, settle=2.0)
    ) as cluster:
        clients = Clients(cluster, chance)
        sellers = [await cluster.new_seller() for _ in range(SELLERS)]
        plan = _Plan(share, chance)
        everything = asyncio.Event()
        load = [asyncio.create_task(_publish(cluster, clients, seller, chance, everything)) for seller in sellers]
        try:
            await asyncio.gather(
                *(
                    _live_and_die(worker, plan, chance)
                    for worker in cluster.workers
                    if isinstance(worker, ForkedWorker)
                ),
                _kill_server(cluster, clients, plan, share, chance),
            )
        finally:
            everything.set()
            for task in load:
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        for worker in cluster.workers:
            if worker.pid is None:
                await worker.start()
        outcome.measure("until nothing was left", await cluster.quiesce(120))
        deaths = cluster.deaths()
        outcome.counts.update({f"death {point}": deaths[point] for point in (*WORKER_POINTS, *REQUEST_POINTS)})
        outcome.counts.update({f"death {point}": number for point, number in plan.server_deaths.items()})
        campaign.finish(cluster, clients, rescuers=False)
    outcome.counts["deaths at points"] = sum(outcome.counts[f"death {point}"] for point in points)
    outcome.want("deaths at points", volumes.point_deaths)
    for point in points:
        outcome.want(f"death {point}", share)
    outcome.want("runs rescued", volumes.point_deaths // 8)
    outcome.want("reconciliations adopted", volumes.point_deaths // 16)
    outcome.want("reconciliations reposted", volumes.point_deaths // 16)


class _Plan:
    """Which point is still to be died at, and how often."""

    def __init__(self, each: int, chance: random.Random) -> None:
        wanted = [point for point in (*WORKER_POINTS, *REQUEST_POINTS) for _ in range(each)]
        chance.shuffle(wanted)
        self.left = deque(wanted)
        self.server_deaths: dict[str, int] = dict.fromkeys(SERVER_POINTS, 0)


async def _live_and_die(worker: ForkedWorker, plan: _Plan, chance: random.Random) -> None:
    await worker.kill()
    while plan.left:
        point = plan.left.popleft()
        # What happens once a run is passed many times, what happens rarely must be met the first time.
        frequent = point in ("before_send", "after_send", "before_claim_commit", *REQUEST_POINTS)
        nth = chance.randint(1, 8) if frequent else 1
        await worker.start(**{VARIABLE: f"{point}:{nth}"})
        try:
            await asyncio.wait_for(worker.wait(), LIFE_SECONDS)
        except TimeoutError:
            await worker.kill()
            plan.left.append(point)
    await worker.start()


async def _publish(
    cluster: Cluster, clients: Clients, seller: Seller, chance: random.Random, stop: asyncio.Event
) -> None:
    """Jobs without end; some are cancelled on the way, some retried."""
    while not stop.is_set():
        environment = chance.choice(("live", "test"))
        skus = await cluster.stock(chance.choice((1, 2, 5, 12)))
        job_id = await clients.create(seller, environment, skus, tries=2000)
        if job_id is not None and chance.random() < 0.15:
            await asyncio.sleep(chance.uniform(0, 0.5))
            await clients.act(seller, environment, "cancel", job_id)
        elif job_id is not None and chance.random() < 0.1:
            await clients.act(seller, environment, "retry", job_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.3)


async def _kill_server(cluster: Cluster, clients: Clients, plan: _Plan, each: int, chance: random.Random) -> None:
    """Kill the core server around the commit of cancellations and acceptances. The jobs are scheduled, so that no
    worker meets them, and cancelled in the end."""
    seller = await cluster.new_seller()
    order = [point for point in SERVER_POINTS for _ in range(each)]
    chance.shuffle(order)
    moment = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
    for point in order:
        operation, _, when = point.partition("_")
        skus = await cluster.stock(chance.choice((1, 3, 150)))
        job_id: str | None = None
        if operation == "cancel":
            job_id = await clients.create(seller, "live", skus, tries=2000, scheduled_for=moment)
            assert job_id is not None
        act = _Act(cluster, clients, seller, operation, skus, job_id, moment)
        async with cluster.outage():
            asked = await (act.die_before_commit() if when == "before_commit" else act.die_after_commit())
            plan.server_deaths[point] += 1
            committed = await act.is_committed()
            if committed != (when == "after_commit"):
                cluster.troubles.append(f"{point}: committed is {committed}")
            await cluster.core_server.start()
            await cluster.until_ready()
        answer = await asked
        # A client that was not answered asks again; a cancellation that went through is then refused as done.
        if operation == "cancel":
            assert job_id is not None
            again = await clients.act(seller, "live", "cancel", job_id)
            expected = "E_JOB_ALREADY_TERMINAL" if committed else ""
            if again.outcome == "unknown" or again.code != expected:
                cluster.troubles.append(f"{point}: the second cancellation was told {again.status} {again.code}")
        else:
            if not isinstance(answer, str):
                cluster.troubles.append(f"{point}: the acceptance was never answered")
                continue
            await clients.act(seller, "live", "cancel", answer)


@dataclass
class _Act:
    """One cancellation or acceptance, and the death of the core server around its commit."""

    cluster: Cluster
    clients: Clients
    seller: Seller
    operation: str
    skus: list[str]
    job_id: str | None
    moment: str

    def ask(self) -> asyncio.Task[object]:
        """Send the request."""
        if self.job_id is not None:
            return asyncio.create_task(self.clients.act(self.seller, "live", self.operation, self.job_id))
        return asyncio.create_task(
            self.clients.create(self.seller, "live", self.skus, tries=2000, scheduled_for=self.moment)
        )

    async def is_committed(self) -> bool:
        """Whether the database has it."""
        if self.job_id is not None:
            rows = await self.cluster.query("SELECT status::text FROM jobs WHERE job_id = %s", [self.job_id])
            return rows == [("cancelled",)]
        statement = "SELECT count(*) FROM job_items WHERE seller_id = %s AND sku = %s"
        rows = await self.cluster.query(statement, [self.seller.seller_id, self.skus[0]])
        return bool(rows[0][0])

    async def die_before_commit(self) -> asyncio.Task[object]:
        """The request waits in its transaction for a row that the harness holds; then its server dies."""
        lock = "SELECT FROM sellers WHERE seller_id = %s FOR UPDATE"
        key: object = self.seller.seller_id
        if self.job_id is not None:
            lock, key = "SELECT FROM jobs WHERE job_id = %s FOR UPDATE", self.job_id
        connection = await psycopg.AsyncConnection.connect(self.cluster.database_url)
        async with connection:
            await connection.execute(lock, [key])
            asked = self.ask()
            await self.cluster.in_time("a request that waits", self._is_waiting, 10)
            await self.cluster.core_server.kill()
        return asked

    async def _is_waiting(self) -> bool:
        rows = await self.cluster.query(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE %s",
            ["listings core%"],
        )
        return bool(rows[0][0])

    async def die_after_commit(self) -> asyncio.Task[object]:
        """The server dies as soon as the database shows the commit, before or just after its answer has left."""
        asked = self.ask()
        await self.cluster.in_time("a commit", self.is_committed, 10)
        await self.cluster.core_server.kill()
        return asked
