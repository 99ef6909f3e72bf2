"""Cancel, retry, schedule and promote racing with the work and with each other, while workers are killed."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster, Pace, Seller
from tests.faults.load import Clients, Sent

ENDS = ("completed", "failed", "cancelled")
WORKER_KILL_SECONDS = 4.0


async def run(campaign: Campaign) -> None:
    """Rounds of five races, three at a time; in the end a job that was scheduled sleeps through a restart."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    async with Cluster(campaign.folder, seed=campaign.seed, pace=Pace(latency=0.02, settle=2.0)) as cluster:
        clients = Clients(cluster, chance)
        races = (
            _cancel_against_completion,
            _retry_against_cancel,
            _two_promotions,
            _publish_beside_promotion,
            _same_sku_in_many_jobs,
        )
        stop = asyncio.Event()

        async def kill_workers() -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), chance.uniform(0.5, 1.5) * WORKER_KILL_SECONDS)
                worker = chance.choice(cluster.workers)
                await worker.kill()
                outcome.counts["worker kills"] += 1
                await worker.start()

        async def rounds(lane: int) -> None:
            for number in range(lane, volumes.steering_rounds, 3):
                await races[number % len(races)](campaign, cluster, clients, await cluster.new_seller())

        killing = asyncio.create_task(kill_workers())
        try:
            await asyncio.gather(*(rounds(lane) for lane in range(3)))
        finally:
            stop.set()
            await killing
        await _schedule_across_a_restart(campaign, cluster, clients)
        outcome.measure("until nothing was left", await cluster.quiesce(90))
        campaign.finish(cluster, clients)
    share = volumes.steering_rounds // len(races)
    outcome.want("cancels against completion", share)
    outcome.want("retries against cancels", share)
    outcome.want("pairs of promotions", share)
    outcome.want("publications beside a promotion", share)
    outcome.want("one SKU in several jobs", share)
    outcome.want("schedules across a restart")
    outcome.want("worker kills", 3)


async def _ended(cluster: Cluster, clients: Clients, seller: Seller, job_id: str) -> Any:
    """The job's detail once it is terminal and nothing of it is on the wire."""
    detail: Any = None

    async def terminal() -> bool:
        nonlocal detail
        detail = await clients.read(seller, "live", f"/products/jobs/{job_id}?limit=1000")
        return bool(detail and detail["job"]["status"] in ENDS and detail["job"]["pending"] == 0)

    await cluster.in_time(f"the end of job {job_id}", terminal, 60)
    return detail


def _expect(cluster: Cluster, what: str, holds: bool, *seen: object) -> None:
    if not holds:
        cluster.troubles.append(f"{what}: {seen}")


async def _cancel_against_completion(campaign: Campaign, cluster: Cluster, clients: Clients, seller: Seller) -> None:
    """Whoever is first wins; a cancelled job stays cancelled, and its items are what they became."""
    for _ in range(6):
        job_id = await clients.create(seller, "live", await cluster.stock(campaign.random.randint(1, 25)))
        assert job_id is not None
        await asyncio.sleep(campaign.random.uniform(0, 0.8))
        cancels = await asyncio.gather(*(clients.act(seller, "live", "cancel", job_id) for _ in range(2)))
        won = [each for each in cancels if each.outcome == "acknowledged"]
        job = (await _ended(cluster, clients, seller, job_id))["job"]
        campaign.outcome.counts[f"cancel won {len(won)}"] += 1
        _expect(cluster, "two cancels", len(won) <= 1, [(each.status, each.code) for each in cancels])
        _expect(cluster, "the end after a cancel", (job["status"] == "cancelled") == bool(won), job)
    campaign.outcome.counts["cancels against completion"] += 1


async def _retry_against_cancel(campaign: Campaign, cluster: Cluster, clients: Clients, seller: Seller) -> None:
    """A job whose account was refused is retried twice and cancelled twice at once."""
    await cluster.market("POST", f"/users/{seller.users['live']}", {"list_allow": False})
    job_id = await clients.create(seller, "live", await cluster.stock(campaign.random.randint(1, 12)))
    assert job_id is not None
    failed = (await _ended(cluster, clients, seller, job_id))["job"]
    _expect(cluster, "a job of a blocked account", failed["status"] == "failed" and failed["error_message"], failed)
    await cluster.market("POST", f"/users/{seller.users['live']}", {"list_allow": True})
    operations = ["retry", "cancel", "retry", "cancel"]
    campaign.random.shuffle(operations)
    answers = await asyncio.gather(*(clients.act(seller, "live", each, job_id) for each in operations))
    job = (await _ended(cluster, clients, seller, job_id))["job"]
    retried = [each for each in answers if each.operation == "retry" and each.outcome == "acknowledged"]
    cancelled = [each for each in answers if each.operation == "cancel" and each.outcome == "acknowledged"]
    _expect(cluster, "retries of one failure", len(retried) == 1, [(each.operation, each.code) for each in answers])
    # A cancellation finds either the failed job, which is terminal, or the one that the retry queued.
    _expect(cluster, "cancels of one retry", len(cancelled) <= 1, [(each.operation, each.code) for each in answers])
    _expect(cluster, "the end after both", (job["status"] == "cancelled") == bool(cancelled), job)
    campaign.outcome.counts["retries against cancels"] += 1


async def _make_test_products(cluster: Cluster, clients: Clients, seller: Seller, count: int) -> list[str]:
    skus = await cluster.stock(count)
    job_id = await clients.create(seller, "test", skus)
    assert job_id is not None
    detail = await _ended(cluster, clients, seller, job_id)
    return [item["sku"] for item in detail["items"] if item["status"] == "success"]


async def _promote(clients: Clients, seller: Seller, skus: list[str]) -> Sent:
    return await clients.call(seller, "live", "promote", "/products/test/promote", {"skus": skus})


async def _two_promotions(campaign: Campaign, cluster: Cluster, clients: Clients, seller: Seller) -> None:
    """Of two promotions of the same products each product goes into one job."""
    skus = await _make_test_products(cluster, clients, seller, campaign.random.randint(2, 12))
    answers = await asyncio.gather(*(_promote(clients, seller, skus) for _ in range(2)))
    jobs = [each.job_id for each in answers if each.job_id is not None]
    codes = [each.code for each in answers if each.outcome == "refused"]
    _expect(cluster, "two promotions", len(jobs) == 1 and codes == ["E_PROMOTE_NO_CANDIDATES"], jobs, codes)
    for job_id in jobs:
        await _ended(cluster, clients, seller, job_id)
    campaign.outcome.counts["pairs of promotions"] += 1


async def _publish_beside_promotion(campaign: Campaign, cluster: Cluster, clients: Clients, seller: Seller) -> None:
    """A live publication of SKUs that are being promoted: one listing each, both items say so."""
    skus = await _make_test_products(cluster, clients, seller, campaign.random.randint(2, 10))
    promotion, published = await asyncio.gather(
        _promote(clients, seller, skus), clients.create(seller, "live", skus, tries=10)
    )
    for job_id in (promotion.job_id, published):
        if job_id is not None:
            await _ended(cluster, clients, seller, job_id)
    pending = await clients.read(seller, "live", "/products/test?already_published=false&limit=100")
    left = {each["sku"] for each in pending["products"]} if pending else set()
    rows = await cluster.query(
        """
        SELECT i.sku FROM job_items i JOIN jobs j USING (seller_id, job_id)
        WHERE j.seller_id = %s AND j.environment = 'live' AND i.status = 'success'
        """,
        [seller.seller_id],
    )
    _expect(cluster, "published to live, yet to be promoted", not left & {row[0] for row in rows}, left)
    campaign.outcome.counts["publications beside a promotion"] += 1


async def _same_sku_in_many_jobs(campaign: Campaign, cluster: Cluster, clients: Clients, seller: Seller) -> None:
    """Five jobs with the same SKUs at once: one listing each, however many jobs name it."""
    skus = await cluster.stock(campaign.random.randint(1, 8))
    jobs = await asyncio.gather(*(clients.create(seller, "live", skus) for _ in range(5)))
    for job_id in jobs:
        if job_id is not None:
            await _ended(cluster, clients, seller, job_id)
    campaign.outcome.counts["one SKU in several jobs"] += 1


async def _schedule_across_a_restart(campaign: Campaign, cluster: Cluster, clients: Clients) -> None:
    """A scheduled job whose time comes while everything is down runs at once afterwards, and one whose time has not
    come does not."""
    seller = await cluster.new_seller()
    soon, late = (datetime.now(UTC) + timedelta(minutes=each) for each in (10, 90))
    first = await clients.create(seller, "live", await cluster.stock(5), scheduled_for=soon.strftime("%Y-%m-%dT%H:%M"))
    second = await clients.create(seller, "test", await cluster.stock(5), scheduled_for=late.strftime("%Y-%m-%dT%H:%M"))
    assert first is not None
    assert second is not None
    async with cluster.outage():
        await asyncio.gather(*(worker.kill() for worker in cluster.workers), cluster.core_server.kill())
        # Both jobs come nearer: the first one's time passes in this outage.
        await cluster.query(
            "UPDATE jobs SET scheduled_for = scheduled_for - interval '10 minutes' WHERE status = 'scheduled'"
        )
        await cluster.query(
            "UPDATE work_runs SET due_at = due_at - interval '10 minutes' WHERE job_id = ANY (%s::uuid[])",
            [[first, second]],
        )
        await cluster.core_server.start()
        await asyncio.gather(*(worker.start() for worker in cluster.workers))
        await cluster.until_ready()
    done = (await _ended(cluster, clients, seller, first))["job"]
    waits = (await clients.read(seller, "live", f"/products/jobs/{second}"))["job"]
    _expect(cluster, "a schedule that passed while all was down", done["status"] == "completed", done)
    _expect(cluster, "a schedule that has not come", waits["status"] == "scheduled", waits)
    campaign.outcome.counts["schedules across a restart"] += 1
