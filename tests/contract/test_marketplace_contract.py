"""The Mercado Libre connector before the sandbox, over a real socket, held to the marketplace's promises."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from core.domain.states import Environment
from core.marketplace import MercadoLibre
from core.ports.marketplace import Account
from tests.contract.marketplace_suite import REQUEST_SECONDS, MarketplaceSuite, World
from tests.support.marketplace_stores import MemorySlotStore, MemoryTokenStore
from tests.support.sandbox import RunningSandbox, run_sandbox

_USERS = itertools.count(7_000_000_001)  # beyond 32 bits


class SandboxWorld(World):
    """A fresh marketplace user in a shared sandbox."""

    def __init__(self, sandbox: RunningSandbox) -> None:
        self._sandbox = sandbox
        user_id = next(_USERS)
        self.account = Account(
            seller_id=user_id - 7_000_000_000,
            environment=Environment.TEST,
            marketplace_user_id=user_id,
            site_id="MCO",
            currency="COP",
        )
        tokens = MemoryTokenStore()
        tokens.connect(
            self.account.seller_id,
            self.account.environment,
            f"APP_USR-contract-{user_id}",
            f"TG-contract-{user_id}",
            marketplace_user_id=user_id,
        )
        self.marketplace = MercadoLibre(
            base_url=sandbox.url,
            client_id="9999",
            client_secret="contract",
            timeout_seconds=REQUEST_SECONDS,
            rate="off",
            token_store=tokens,
            slot_store=MemorySlotStore(),
        )

    def fault(self, kind: str, **rule: object) -> None:
        self._sandbox.add_fault(kind, **rule)

    def heal(self) -> None:
        self._sandbox.clear_faults()

    def made(self, sku: str | None = None) -> list[dict[str, Any]]:
        query: dict[str, object] = {"user": self.account.marketplace_user_id}
        return self._sandbox.items(**query) if sku is None else self._sandbox.items(**query, sku=sku)

    def requests(self, operation: str) -> int:
        return self._sandbox.requests(operation)

    def change_user(self, **changes: object) -> None:
        self._sandbox.change_user(self.account.marketplace_user_id, **changes)

    def change_item(self, listing_id: str, **changes: object) -> None:
        self._sandbox.change_item(listing_id, **changes)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[RunningSandbox]:
    """One sandbox for the module; every test has a user of its own."""
    with run_sandbox("--index-lag-seconds", "0.3", "--picture-delay-seconds", "0.2") as running:
        yield running


@pytest.fixture
async def world(sandbox: RunningSandbox) -> AsyncIterator[World]:
    """A fresh account; faults end with the test."""
    made = SandboxWorld(sandbox)
    try:
        yield made
    finally:
        sandbox.clear_faults()
        await made.marketplace.aclose()


class TestMercadoLibre(MarketplaceSuite):
    """The suite on the connector."""
