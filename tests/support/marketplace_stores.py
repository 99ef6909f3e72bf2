"""Token and slot stores in memory, for tests of the connector alone.

The stores in PostgreSQL are held to the same suites.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from core.domain.states import Environment
from core.ports.marketplace import StoredTokens

Key = tuple[int, Environment]


@dataclass
class Row:
    """One account's pair. Times on the monotonic clock."""

    access_token: str
    refresh_token: str | None
    expires_at: float | None
    version: int = 1
    status: str = "connected"
    guarded_until: float = 0.0
    marketplace_user_id: int | None = None


@dataclass
class MemoryTokenStore:
    """``TokenStore`` in memory, with the guard that PostgreSQL would keep."""

    rows: dict[Key, Row] = field(default_factory=dict)
    reads: int = 0
    refreshes: int = 0

    def connect(
        self,
        seller_id: int,
        environment: Environment,
        access_token: str,
        refresh_token: str | None = None,
        seconds_left: float | None = None,
        marketplace_user_id: int | None = None,
    ) -> None:
        """Connect (again): the version moves on."""
        old = self.rows.get((seller_id, environment))
        self.rows[seller_id, environment] = Row(
            access_token,
            refresh_token,
            None if seconds_left is None else time.monotonic() + seconds_left,
            version=old.version + 1 if old else 1,
            marketplace_user_id=marketplace_user_id,
        )

    async def read(self, seller_id: int, environment: Environment) -> StoredTokens | None:
        self.reads += 1
        row = self.rows.get((seller_id, environment))
        if row is None:
            return None
        return StoredTokens(
            access_token=row.access_token,
            refresh_token=row.refresh_token,
            seconds_left=None if row.expires_at is None else row.expires_at - time.monotonic(),
            version=row.version,
            status=row.status,
            marketplace_user_id=row.marketplace_user_id,
        )

    async def begin_refresh(self, seller_id: int, environment: Environment, version: int, seconds: float) -> bool:
        row = self.rows.get((seller_id, environment))
        now = time.monotonic()
        if row is None or row.version != version or now < row.guarded_until:
            return False
        row.guarded_until = now + seconds
        self.refreshes += 1
        return True

    async def finish_refresh(
        self,
        seller_id: int,
        environment: Environment,
        version: int,
        *,
        access_token: str,
        refresh_token: str,
        expires_in: int,
    ) -> bool:
        row = self.rows.get((seller_id, environment))
        if row is None or row.version != version:
            return False
        self.rows[seller_id, environment] = Row(
            access_token,
            refresh_token,
            time.monotonic() + expires_in,
            version=version + 1,
            marketplace_user_id=row.marketplace_user_id,
        )
        return True

    async def abandon_refresh(self, seller_id: int, environment: Environment, version: int) -> None:
        row = self.rows.get((seller_id, environment))
        if row is not None and row.version == version:
            row.guarded_until = 0.0

    async def require_authorization(self, seller_id: int, environment: Environment, version: int) -> None:
        row = self.rows.get((seller_id, environment))
        if row is not None and row.version == version:
            row.status = "reauthorization_required"


@dataclass
class MemorySlotStore:
    """``SlotStore`` in memory."""

    next_slot: float = 0.0
    factor: float = 1.0
    reservations: list[int] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    halved_at: float = float("-inf")

    async def reserve(self, application: str, slots: int, per_second: float) -> tuple[float, float]:
        self.reservations.append(slots)
        now = time.monotonic()
        spacing = self.factor / per_second
        first = max(now, self.next_slot)
        self.next_slot = first + slots * spacing
        return first - now, spacing

    async def slow_down(self, application: str, seconds: float) -> None:
        self.pauses.append(seconds)
        if time.monotonic() - self.halved_at >= 1.0:
            self.factor *= 2
            self.halved_at = time.monotonic()
        self.next_slot = max(self.next_slot, time.monotonic() + seconds)
