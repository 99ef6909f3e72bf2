"""Readers of events that break off at random beside eight writers: each event once, in order, without holes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field

import grpc

from listing_publication.v1 import jobs_pb2, jobs_pb2_grpc
from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster, Seller
from tests.faults.load import Clients
from tests.support import finishing

WRITERS = 8
ITEMS = 1_250
READERS = 2
CORE_KILLS = 2


async def run(campaign: Campaign) -> None:
    """Jobs without a worker; the writers give items their results as a worker records them."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    count = -(-volumes.events // ITEMS)
    async with Cluster(campaign.folder, seed=campaign.seed, workers=0) as cluster:
        clients = Clients(cluster, chance)
        left = count
        while left > 0:
            # Six jobs of a seller at most may be active.
            sellers = [await cluster.new_seller() for _ in range(4)]
            batch = min(left, 16)
            left -= batch
            jobs: list[tuple[Seller, str]] = []
            for number in range(batch):
                seller = sellers[number % len(sellers)]
                job_id = await clients.create(seller, "test", await cluster.stock(ITEMS), key=False)
                assert job_id is not None
                jobs.append((seller, job_id))
            await _watch(campaign, cluster, jobs)
        await cluster.query("DELETE FROM work_runs")
        campaign.finish(cluster, clients, market=False)
    outcome.want("events written", volumes.events)
    outcome.want("events read", volumes.events * READERS)
    outcome.want("streams broken off", count * READERS * 2)
    outcome.want("core server kills", CORE_KILLS)


@dataclass
class _Reader:
    """One reader of one job, through all of its streams."""

    seller: Seller
    job_id: str
    chance: random.Random
    seen: int = 0
    breaks: int = 0
    state: dict[int, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    async def read(self, target: str) -> None:
        """Until the job's end."""
        while True:
            patience = self.chance.randint(1, 400)
            try:
                async with grpc.aio.insecure_channel(target) as channel:
                    if await self._stream(channel, patience):
                        return
                self.breaks += 1
            except grpc.aio.AioRpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    self.faults.append(f"{error.code().name}: {error.details()}")
                    return
                await asyncio.sleep(0.2)

    async def _stream(self, channel: grpc.aio.Channel, patience: int) -> bool:
        stub = jobs_pb2_grpc.JobServiceStub(channel)
        call = stub.WatchJob(
            jobs_pb2.WatchJobRequest(job_id=self.job_id, after_sequence=self.seen),
            metadata=(("x-api-key", self.seller.keys["test"]),),
            timeout=120,
        )
        job = None
        try:
            async for event in call:
                kind = event.WhichOneof("event")
                if kind == "job":
                    job = event.job
                elif kind == "item":
                    if event.item.sequence != self.seen + 1:
                        self.faults.append(f"after {self.seen} came {event.item.sequence}")
                    self.seen = event.item.sequence
                    self.state[event.item.sequence] = event.item.status
                    patience -= 1
                    if patience <= 0:
                        return False
        finally:
            call.cancel()
        assert job is not None
        told = Counter(self.state.values())
        if (told["success"], told["failed"], len(self.state)) != (job.successful, job.failed, job.total_items):
            self.faults.append(f"replay gives {dict(told)}, the job says {job.successful} and {job.failed}")
        return True


async def _watch(campaign: Campaign, cluster: Cluster, jobs: list[tuple[Seller, str]]) -> None:
    outcome, chance = campaign.outcome, campaign.random
    readers = [
        _Reader(seller, job_id, random.Random(chance.random())) for seller, job_id in jobs for _ in range(READERS)
    ]
    open_jobs = dict.fromkeys(jobs, ITEMS)

    async def write() -> None:
        own = random.Random(chance.random())
        while open_jobs:
            job = own.choice(list(open_jobs))
            failure = "marketplace_unavailable" if own.random() < 0.2 else None
            done = await finishing.finish(
                cluster.application.database,
                job[0].seller_id,
                job[1],
                own.randint(1, 30),
                failure=failure,
                notify=own.random() < 0.8,
            )
            outcome.counts["events written"] += done
            if job in open_jobs:
                open_jobs[job] -= done
                if open_jobs[job] <= 0:
                    del open_jobs[job]
            await asyncio.sleep(own.uniform(0, 0.02))

    async def kill() -> None:
        while outcome.counts["core server kills"] < CORE_KILLS:
            await asyncio.sleep(chance.uniform(1.0, 2.0))
            async with cluster.outage():
                await cluster.core_server.kill()
                await cluster.core_server.start()
            outcome.counts["core server kills"] += 1

    killing = asyncio.create_task(kill())
    reading = [asyncio.create_task(reader.read(cluster.grpc_target)) for reader in readers]
    try:
        await asyncio.gather(*(write() for _ in range(WRITERS)))
        await killing
        done, late = await asyncio.wait(reading, timeout=60)
        for task in done:
            task.result()
    finally:
        killing.cancel()
        for task in reading:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*reading, return_exceptions=True)
    if late:
        cluster.troubles.append(f"{len(late)} readers did not reach the end of their job")
    for reader in readers:
        outcome.counts["events read"] += len(reader.state)
        outcome.counts["streams broken off"] += reader.breaks
        cluster.troubles += [f"reader of {reader.job_id}: {fault}" for fault in reader.faults[:3]]
