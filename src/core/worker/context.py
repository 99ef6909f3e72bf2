"""What the worker's parts share: the database, the marketplace, the settings and the owner's identity."""

from __future__ import annotations

import asyncio
import math
import random
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from core.ports.marketplace import Marketplace
from core.settings import LEASE_MARGIN_SECONDS, Settings, parse_rate
from core.storage.database import Database

log = structlog.get_logger("core.worker")

AHEAD = 4
"""Times the calls that may be in flight: the items a worker has at hand, so that no slot waits for the database."""
INTENT_SECONDS = 5
"""Sends for which intents are committed ahead: after a crash each of them has to be searched for, so no more
than will leave soon."""


@dataclass(slots=True, kw_only=True)
class WorkerContext:
    """One per process. ``owner`` is fresh at each start, so that nobody can be taken for a former self
    (rule 11)."""

    database: Database
    marketplace: Marketplace
    settings: Settings
    owner: str = field(default_factory=lambda: str(uuid.uuid4()))
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    random: random.Random = field(default_factory=random.Random)
    reached: Callable[[str], Coroutine[Any, Any, None]] | None = None
    """Told the name of each point at which the process may be made to die in fault tests."""

    @property
    def lease(self) -> float:
        """Seconds."""
        return self.settings.lease_seconds

    @property
    def settle(self) -> float:
        """Seconds an unknown outcome is searched for."""
        return self.settings.marketplace_settle_seconds

    @property
    def hopeless_after(self) -> float:
        """Seconds after its settle window from which an unknown outcome that cannot be searched for is given up."""
        return self.settle * 4

    @property
    def first_search(self) -> float:
        """Seconds until the first search for an unknown outcome."""
        return min(2.0, self.settle / 10)

    @property
    def send_margin(self) -> float:
        """What a lease must have left when a send begins, in seconds (rule 22)."""
        return self.settings.marketplace_timeout_seconds + LEASE_MARGIN_SECONDS / 2

    @property
    def intents_ahead(self) -> int:
        """Intents committed at once: what leaves soon, by the rate and by the calls that may be in flight."""
        in_flight = 2 * self.settings.worker_concurrency
        rate = parse_rate(self.settings.marketplace_rate)
        if rate is None:
            return in_flight
        amount, seconds = rate
        return max(1, min(in_flight, math.ceil(amount / seconds * INTENT_SECONDS)))

    async def point(self, name: str) -> None:
        """Pass a named point."""
        if self.reached is not None:
            await self.reached(name)
