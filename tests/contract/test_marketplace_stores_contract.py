"""The stores in memory keep what the stores in PostgreSQL keep: tests with them say something."""

from __future__ import annotations

import pytest

from core.domain.states import Environment
from core.ports.marketplace import SlotStore
from tests.contract.marketplace_stores_suite import SlotStoreSuite, TokenStoreSuite, TokenWorld
from tests.support.marketplace_stores import MemorySlotStore, MemoryTokenStore


class MemoryTokenWorld(TokenWorld):
    """One seller in memory."""

    def __init__(self) -> None:
        self.memory = MemoryTokenStore()
        self.store = self.memory
        self.seller_id = 1

    async def connect(self, access_token: str, refresh_token: str | None) -> None:
        self.memory.connect(self.seller_id, Environment.LIVE, access_token, refresh_token)


class SlotsByApplication:
    """A store in memory for each application."""

    def __init__(self) -> None:
        self._stores: dict[str, MemorySlotStore] = {}

    async def reserve(self, application: str, slots: int, per_second: float) -> tuple[float, float]:
        return await self._stores.setdefault(application, MemorySlotStore()).reserve(application, slots, per_second)

    async def slow_down(self, application: str, seconds: float) -> None:
        await self._stores.setdefault(application, MemorySlotStore()).slow_down(application, seconds)


@pytest.fixture
def token_world() -> TokenWorld:
    return MemoryTokenWorld()


@pytest.fixture
def slot_store() -> SlotStore:
    return SlotsByApplication()


class TestMemoryTokenStore(TokenStoreSuite):
    """The suite on the store in memory."""


class TestMemorySlotStore(SlotStoreSuite):
    """The suite on the store in memory."""
