"""Equal requests with one Idempotency-Key at the same time, and many creates for the last free place."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster
from tests.faults.load import Clients

SLOTS = 6
RACERS = 8


async def run(campaign: Campaign) -> None:
    """Both through gateway and core server; no worker moves the jobs."""
    volumes, outcome = campaign.volumes, campaign.outcome
    async with Cluster(campaign.folder, seed=campaign.seed, workers=0) as cluster:
        clients = Clients(cluster, campaign.random)
        moment = (datetime.now(UTC) + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M")
        for _ in range(volumes.equal_post_rounds):
            await _equal_posts(campaign, cluster, clients, moment)
        for number in range(volumes.slot_rounds):
            await _sixth_slot(campaign, cluster, clients, moment, promote=number % 4 == 3)
        campaign.finish(cluster, clients)
    outcome.want("equal posts", volumes.equal_post_rounds * volumes.equal_posts)
    outcome.want("replays", volumes.equal_post_rounds * (volumes.equal_posts - 1))
    outcome.want("races for the sixth slot", volumes.slot_rounds)


async def _equal_posts(campaign: Campaign, cluster: Cluster, clients: Clients, moment: str) -> None:
    """One hundred at once make one job; ninety-nine replays are its first answer byte for byte."""
    seller = await cluster.new_seller(balance=1_000)
    environment = campaign.random.choice(("live", "test"))
    skus = await cluster.stock(campaign.random.choice((1, 7, 60)))
    body = {"items": [{"sku": sku, "auto_categorize": True} for sku in skus], "scheduled_for": moment}
    key = str(uuid.UUID(int=campaign.random.getrandbits(128), version=4))
    answers = await asyncio.gather(
        *(
            clients.call(seller, environment, "create", "/products", body, skus=skus, key=key, seconds=30)
            for _ in range(campaign.volumes.equal_posts)
        )
    )
    campaign.outcome.counts["equal posts"] += len(answers)
    statuses = {answer.status for answer in answers}
    fresh = sum(not answer.replayed for answer in answers)
    jobs = await cluster.query("SELECT count(*) FROM jobs WHERE seller_id = %s", [seller.seller_id])
    if statuses != {202} or fresh != 1 or jobs[0][0] != 1:
        cluster.troubles.append(f"equal posts: statuses {statuses}, {fresh} not replayed, {jobs[0][0]} jobs")
    held = await cluster.query("SELECT held FROM credit_balances WHERE seller_id = %s", [seller.seller_id])
    if held[0][0] != (len(skus) if environment == "live" else 0):
        cluster.troubles.append(f"equal posts: {held[0][0]} credits are held for {len(skus)} items")


async def _sixth_slot(campaign: Campaign, cluster: Cluster, clients: Clients, moment: str, *, promote: bool) -> None:
    """Five jobs are active; of eight requests at once exactly one gets the sixth place."""
    seller = await cluster.new_seller()
    skus = await cluster.stock(SLOTS + RACERS)
    for sku in skus[: SLOTS - 1]:
        await clients.create(seller, campaign.random.choice(("live", "test")), [sku], key=False, scheduled_for=moment)
    if promote:
        # A promotion takes part: it is under the same limit.
        await _make_test_product(cluster, seller.seller_id, skus[-1])
    racers = [
        clients.call(
            seller,
            environment,
            "create",
            "/products",
            {"items": [{"sku": sku, "auto_categorize": True}], "scheduled_for": moment},
            skus=[sku],
        )
        for sku, environment in zip(skus[SLOTS:], ("live", "test") * RACERS, strict=False)
    ]
    if promote:
        racers.append(clients.call(seller, "live", "promote", "/products/test/promote", {"skus": [skus[-1]]}))
    answers = await asyncio.gather(*racers)
    campaign.outcome.counts["races for the sixth slot"] += 1
    taken = sum(answer.status == 202 for answer in answers)
    others = {(answer.status, answer.code) for answer in answers if answer.status != 202}
    active = await cluster.query(
        "SELECT count(*) FROM jobs WHERE seller_id = %s AND status IN ('queued', 'processing', 'scheduled')",
        [seller.seller_id],
    )
    if taken != 1 or active[0][0] != SLOTS or others != {(429, "E_PRODUCT_MAX_CONCURRENT_JOBS")}:
        cluster.troubles.append(f"sixth slot: {taken} were taken, {active[0][0]} are active, the others got {others}")
    for answer in answers:
        if answer.job_id is not None:
            await clients.act(seller, answer.environment, "cancel", answer.job_id)


async def _make_test_product(cluster: Cluster, seller_id: int, sku: str) -> None:
    await cluster.query(
        """
        INSERT INTO listings (seller_id, environment, sku, listing_id, permalink, title, listing_type_id, price,
            currency, category_id, status_meli, app_status, published_at)
        VALUES (%s, 'test', %s, 'MCO1', 'https://example.com/', 'Silla', 'gold_special', 1000, 'COP', 'MCO1234',
            'active', 1, now())
        """,
        [seller_id, sku],
    )
