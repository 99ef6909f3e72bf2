"""Every seeded defect turns its check red (``tests/faults/mutants``)."""

from __future__ import annotations

from tests.faults.campaign import Campaign
from tests.faults.mutants.defects import DEFECTS
from tests.faults.mutants.seeding import try_all


async def run(campaign: Campaign) -> None:
    """All of them."""
    lines: list[str] = []
    failed = await try_all(DEFECTS, lines.append)
    campaign.outcome.violations += failed
    campaign.outcome.counts["defects noticed"] = sum("noticed by" in line and "NOT" not in line for line in lines)
    campaign.outcome.want("defects noticed", len(DEFECTS))
