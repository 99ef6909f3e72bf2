"""The stores in PostgreSQL keep what the contract suite of token and slot stores asks for."""

from __future__ import annotations

import pytest
import pytest_asyncio

from core.app import Application
from core.domain.states import Environment
from core.ports.marketplace import SlotStore
from core.storage.accounts import StoredSlotStore, StoredTokenStore
from core.use_cases import administration
from tests.contract.marketplace_stores_suite import SlotStoreSuite, TokenStoreSuite, TokenWorld
from tests.support.service import new_tenant


class StoredTokenWorld(TokenWorld):
    """A seller in the database."""

    def __init__(self, application: Application, seller_id: int) -> None:
        self._application = application
        self.store = StoredTokenStore(application.database, application.cipher)
        self.seller_id = seller_id

    async def connect(self, access_token: str, refresh_token: str | None) -> None:
        await administration.connect_account(
            self._application.database,
            self._application.cipher,
            self.seller_id,
            Environment.LIVE,
            marketplace_user_id=4242,
            access_token=access_token,
            refresh_token=refresh_token,
        )


@pytest_asyncio.fixture
async def token_world(application: Application) -> TokenWorld:
    return StoredTokenWorld(application, (await new_tenant(application, connected=())).seller_id)


@pytest_asyncio.fixture
async def slot_store(application: Application) -> SlotStore:
    return StoredSlotStore(application.database)


class TestStoredTokenStore(TokenStoreSuite):
    """The suite on the store in PostgreSQL."""

    async def test_tokens_are_never_stored_in_clear_text(self, token_world: TokenWorld) -> None:
        assert isinstance(token_world, StoredTokenWorld)
        await token_world.connect("APP_USR-in-the-clear", "TG-in-the-clear")
        async with token_world._application.database.connection() as connection:
            cursor = await connection.execute(
                "SELECT access_token, refresh_token FROM marketplace_accounts WHERE seller_id = %s",
                (token_world.seller_id,),
            )
            row = await cursor.fetchone()
        assert row is not None
        assert all(b"in-the-clear" not in bytes(stored) for stored in row)


class TestStoredSlotStore(SlotStoreSuite):
    """The suite on the store in PostgreSQL."""

    async def test_the_rate_grows_back_by_a_tenth_of_what_is_configured_a_minute(
        self, application: Application, slot_store: SlotStore
    ) -> None:
        async def passed(minutes: float) -> float:
            async with application.database.connection() as connection:
                await connection.execute(
                    "UPDATE marketplace_rate SET share_changed_at = share_changed_at - make_interval(secs => %s),"
                    " next_slot = now() WHERE application = 'growing'",
                    (minutes * 60,),
                )
            return (await slot_store.reserve("growing", 1, 1.0))[1]

        await slot_store.slow_down("growing", 1.0)
        spacings = [await passed(minutes) for minutes in (0, 0.5, 0.6, 2.5, 1.1, 60, 0)]
        assert spacings == pytest.approx([1 / share for share in (0.5, 0.5, 0.6, 0.8, 0.9, 1, 1)])
