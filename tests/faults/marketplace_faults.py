"""A marketplace that fails in every way it knows, and is killed itself now and then.

A third of all calls is struck. Creations meet the kinds whose effect may or may not have happened; every other
operation meets the kinds that a call which is safe to repeat can meet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

from tests.faults.campaign import Campaign
from tests.faults.cluster import Cluster, Pace
from tests.faults.load import Clients

SHARE = 0.35
SELLERS = 40
# Without a rate: every 429 of one account would hold up the sends of all.
PACE = Pace(concurrency=24, settle=3.0, latency=0.0, scale=200.0, index_lag=0.4, rate="off")

ON_CREATION: tuple[dict[str, Any], ...] = (
    {"fault": "reset_before"},
    {"fault": "reset_after"},
    {"fault": "silence_before"},
    {"fault": "silence_after"},
    {"fault": "created_late", "seconds": 1.6, "then": "silence"},
    {"fault": "created_late", "seconds": 1.6, "then": "error", "status": 504},
    # Beyond the settle window: a second creation is made, the late one has to be found and closed. Far beyond, because
    # a busy machine makes the second one late.
    {"fault": "created_late", "seconds": PACE.settle + 6, "then": "reset"},
    {"fault": "error_500"},
    {"fault": "error_503"},
    {"fault": "html_502"},
    {"fault": "error_after", "status": 500},
    {"fault": "html_after", "status": 502},
    {"fault": "rate_limit"},
    {"fault": "rate_limit_seconds", "seconds": 1},
    {"fault": "rate_limit_date", "seconds": 2},
    {"fault": "rate_limit_absurd"},
    {"fault": "rate_limit_absurd", "retry_after": "soon"},
    {"fault": "truncated_body"},
    {"fault": "broken_json"},
    {"fault": "empty_body"},
    {"fault": "huge_body", "size": 3_000_000},
    {"fault": "deep_body", "size": 20_000},
    {"fault": "slow_drip", "seconds": 0.05},
    {"fault": "mismatched_sku"},
    {"fault": "missing_id"},
    {"fault": "odd_types"},
    {"fault": "partial_206"},
    {"fault": "wrong_content_type"},
    {"fault": "http_200_not_json"},
    # As 120 s are to a window of 150 s.
    {"fault": "index_lag", "seconds": PACE.settle * 0.8},
    {"fault": "delay_after", "seconds": 1.5},
    {"fault": "unauthorized_401"},
    {"fault": "token_revoked"},
    {"fault": "redirect_302"},
    {"fault": "conflict_409"},
    {"fault": "locked_423"},
    {"fault": "refuse_400"},
    {"fault": "picture_quota_400"},
)
ON_THE_REST: tuple[dict[str, Any], ...] = (
    {"fault": "reset_before"},
    {"fault": "silence_before"},
    {"fault": "error_500"},
    {"fault": "html_502"},
    {"fault": "rate_limit_seconds", "seconds": 1},
    {"fault": "truncated_body"},
    {"fault": "broken_json"},
    {"fault": "http_200_not_json"},
    {"fault": "redirect_302"},
    {"fault": "unauthorized_401"},
)
OPERATIONS = ("item_search", "item_multiget", "description_create", "category", "users_me", "domain_discovery")
SANDBOX_KILLS = 3


async def run(campaign: Campaign) -> None:
    """Publish until the marketplace has had enough calls."""
    volumes, outcome, chance = campaign.volumes, campaign.outcome, campaign.random
    async with Cluster(campaign.folder, seed=campaign.seed, pace=PACE) as cluster:
        clients = Clients(cluster, chance)
        sellers = [await cluster.new_seller() for _ in range(SELLERS)]
        enough = asyncio.Event()

        async def publish() -> None:
            while not enough.is_set():
                skus = await cluster.stock(chance.choice((1, 5, 12, 25)))
                await clients.create(chance.choice(sellers), chance.choice(("live", "test")), skus, tries=20)

        await _add_rules(cluster, chance.randrange(2**31))
        publishers = [asyncio.create_task(publish()) for _ in range(6)]
        try:
            fired = await _until_enough(campaign, cluster)
        finally:
            enough.set()
            for task in publishers:
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await cluster.market("DELETE", "/faults")
        # What is searched for waits until the seller connects again.
        outcome.counts["accounts connected again"] += await cluster.connect_lost_accounts()
        # The first look comes before what is later than the settle window (PACE scales it to 3 s after the send).
        outcome.measure("until nothing was left", await cluster.quiesce(150, late_looks=2))
        campaign.finish(cluster, clients)
        outcome.counts["faulty calls"] = fired.total()
        outcome.counts["kinds of fault"] = len(fired)
        outcome.counts.update({f"fault {name}": number for name, number in fired.items()})
    outcome.want("marketplace calls", volumes.marketplace_calls)
    outcome.want("faulty calls", int(volumes.marketplace_calls * SHARE * 0.8))
    outcome.want("kinds of fault", 20)
    outcome.want("sandbox kills", SANDBOX_KILLS)
    for name in sorted({rule["fault"] for rule in ON_CREATION}):
        outcome.want(f"fault {name}")
    outcome.want("reconciliations adopted", 50)
    outcome.want("reconciliations reposted", 10)
    outcome.want("late doubles closed")


async def _until_enough(campaign: Campaign, cluster: Cluster) -> Counter[str]:
    """Wait for the wanted number of calls, killing the sandbox now and then; how often each kind struck."""
    counts, wanted = campaign.outcome.counts, campaign.volumes.marketplace_calls
    fired: Counter[str] = Counter()
    while True:
        await asyncio.sleep(1.0)
        # A token refused twice is a lost connection. Nobody would publish any more when all are lost.
        counts["accounts connected again"] += await cluster.connect_lost_accounts()
        counters = await cluster.market("GET", "/counters")
        calls = counts["marketplace calls"] + sum(counters["requests"].values())
        if calls < wanted * (counts["sandbox kills"] + 1) // (SANDBOX_KILLS + 1):
            continue
        # Its counters die with it.
        counts["marketplace calls"] = calls
        fired.update((await cluster.market("GET", "/faults"))["fired_by_kind"])
        if counts["sandbox kills"] == SANDBOX_KILLS:
            return fired
        await cluster.sandbox.kill()
        counts["sandbox kills"] += 1
        await cluster.sandbox.start()
        await _add_rules(cluster, campaign.random.randrange(2**31))


async def _add_rules(cluster: Cluster, seed: int) -> None:
    """A third of the creations, and a third of everything else. The first rule that strikes decides, so each rule
    takes its share of what those before it have left."""
    rules: list[dict[str, Any]] = []
    for kinds, operation in ((ON_CREATION, "item_create"), *((ON_THE_REST, each) for each in OPERATIONS)):
        share = SHARE / len(kinds)
        for number, kind in enumerate(kinds):
            left = 1 - share * number
            rules.append({**kind, "operation": operation, "probability": share / left, "seed": seed + len(rules)})
    await cluster.market("POST", "/faults", rules)
