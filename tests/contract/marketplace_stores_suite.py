"""What must hold for whatever keeps the accounts' tokens and the application's sending slots."""

from __future__ import annotations

import abc
import asyncio
import itertools

import pytest

from core.domain.states import Environment
from core.ports.marketplace import SlotStore, StoredTokens, TokenStore

LIVE = Environment.LIVE


class TokenWorld(abc.ABC):
    """A token store with one seller, whose live account can be connected."""

    store: TokenStore
    seller_id: int

    @abc.abstractmethod
    async def connect(self, access_token: str, refresh_token: str | None) -> None:
        """Connect the live account (again)."""


async def present(world: TokenWorld) -> StoredTokens:
    stored = await world.store.read(world.seller_id, LIVE)
    assert stored is not None
    return stored


class TokenStoreSuite:
    """A subclass provides the fixture ``token_world``."""

    async def test_nothing_is_stored_before_the_account_is_connected(self, token_world: TokenWorld) -> None:
        assert await token_world.store.read(token_world.seller_id, LIVE) is None
        assert not await token_world.store.begin_refresh(token_world.seller_id, LIVE, 1, 10)

    async def test_a_connected_account_has_its_pair(self, token_world: TokenWorld) -> None:
        await token_world.connect("APP_USR-1", "TG-1")
        stored = await present(token_world)
        assert (stored.access_token, stored.refresh_token, stored.status) == ("APP_USR-1", "TG-1", "connected")
        assert stored.seconds_left is None
        assert await token_world.store.read(token_world.seller_id, Environment.TEST) is None

    async def test_one_of_many_gets_the_right_to_refresh(self, token_world: TokenWorld) -> None:
        await token_world.connect("APP_USR-1", "TG-1")
        version = (await present(token_world)).version
        taken = await asyncio.gather(
            *(token_world.store.begin_refresh(token_world.seller_id, LIVE, version, 30) for _ in range(10))
        )
        assert sum(taken) == 1

    async def test_the_right_ends_by_itself(self, token_world: TokenWorld) -> None:
        await token_world.connect("APP_USR-1", "TG-1")
        store, seller_id, version = token_world.store, token_world.seller_id, (await present(token_world)).version
        assert await store.begin_refresh(seller_id, LIVE, version, 0.3)
        assert not await store.begin_refresh(seller_id, LIVE, version, 0.3)
        async with asyncio.timeout(5):
            while not await store.begin_refresh(seller_id, LIVE, version, 30):
                await asyncio.sleep(0.05)

    async def test_a_new_pair_moves_the_version_on_and_ends_the_right(self, token_world: TokenWorld) -> None:
        await token_world.connect("APP_USR-1", "TG-1")
        store, seller_id, version = token_world.store, token_world.seller_id, (await present(token_world)).version
        assert await store.begin_refresh(seller_id, LIVE, version, 30)
        pair = {"access_token": "APP_USR-2", "refresh_token": "TG-2"}
        assert await store.finish_refresh(seller_id, LIVE, version, **pair, expires_in=100)
        stored = await present(token_world)
        assert (stored.access_token, stored.refresh_token, stored.version) == ("APP_USR-2", "TG-2", version + 1)
        assert stored.seconds_left is not None
        assert 90 < stored.seconds_left <= 100
        # The old version is over for everybody.
        assert not await store.begin_refresh(seller_id, LIVE, version, 30)
        assert not await store.finish_refresh(seller_id, LIVE, version, **pair, expires_in=100)
        await store.require_authorization(seller_id, LIVE, version)
        assert (await present(token_world)).status == "connected"
        assert await store.begin_refresh(seller_id, LIVE, version + 1, 30)

    async def test_a_right_given_back_is_free(self, token_world: TokenWorld) -> None:
        await token_world.connect("APP_USR-1", "TG-1")
        store, seller_id, version = token_world.store, token_world.seller_id, (await present(token_world)).version
        assert await store.begin_refresh(seller_id, LIVE, version, 30)
        await store.abandon_refresh(seller_id, LIVE, version)
        stored = await present(token_world)
        assert (stored.access_token, stored.refresh_token, stored.version) == ("APP_USR-1", "TG-1", version)
        assert await store.begin_refresh(seller_id, LIVE, version, 30)

    async def test_a_lost_grant_is_marked_until_the_account_is_connected_again(self, token_world: TokenWorld) -> None:
        await token_world.connect("APP_USR-1", "TG-1")
        store, seller_id, version = token_world.store, token_world.seller_id, (await present(token_world)).version
        await store.require_authorization(seller_id, LIVE, version)
        assert (await present(token_world)).status == "reauthorization_required"
        await token_world.connect("APP_USR-3", "TG-3")
        stored = await present(token_world)
        assert (stored.access_token, stored.status) == ("APP_USR-3", "connected")
        assert stored.version > version


class SlotStoreSuite:
    """A subclass provides the fixture ``slot_store``; each test uses an application of its own.

    Slots are many seconds apart, so that the seconds a busy machine takes for a reservation do not count.
    """

    async def test_the_first_slot_is_now_and_the_others_follow_at_the_rate(self, slot_store: SlotStore) -> None:
        delay, spacing = await slot_store.reserve("first", 4, 0.04)
        assert delay == pytest.approx(0, abs=1e-6)
        assert spacing == pytest.approx(25)
        delay, spacing = await slot_store.reserve("first", 1, 0.04)
        assert 90 < delay <= 100

    async def test_concurrent_reservations_do_not_overlap(self, slot_store: SlotStore) -> None:
        taken = await asyncio.gather(*(slot_store.reserve("concurrent", 2, 0.1) for _ in range(10)))
        delays = sorted(delay for delay, _ in taken)
        assert all(10 < later - earlier < 30 for earlier, later in itertools.pairwise(delays))
        assert 170 < delays[-1] <= 180

    async def test_concurrent_reservations_do_not_slow_the_rate_down(self, slot_store: SlotStore) -> None:
        taken = await asyncio.gather(*(slot_store.reserve("undiminished", 1, 100.0) for _ in range(50)))
        assert [spacing for _, spacing in taken] == pytest.approx([0.01] * 50)

    async def test_a_pause_holds_everybody_and_halves_the_rate(self, slot_store: SlotStore) -> None:
        await slot_store.reserve("paused", 1, 4.0)
        await slot_store.slow_down("paused", 50.0)
        delay, spacing = await slot_store.reserve("paused", 1, 4.0)
        assert 40 < delay <= 53
        assert spacing == pytest.approx(0.5)

    async def test_processes_that_hear_of_one_burst_halve_the_rate_once(self, slot_store: SlotStore) -> None:
        await slot_store.reserve("burst", 1, 4.0)
        await asyncio.gather(*(slot_store.slow_down("burst", 5.0) for _ in range(4)))
        _, spacing = await slot_store.reserve("burst", 1, 4.0)
        assert spacing == pytest.approx(0.5)

    async def test_a_shorter_pause_does_not_cut_a_longer_one(self, slot_store: SlotStore) -> None:
        await slot_store.slow_down("longer", 50.0)
        await slot_store.slow_down("longer", 1.0)
        delay, _ = await slot_store.reserve("longer", 1, 4.0)
        assert delay > 40

    async def test_applications_do_not_hold_each_other_up(self, slot_store: SlotStore) -> None:
        await slot_store.slow_down("one", 50.0)
        delay, spacing = await slot_store.reserve("other", 1, 4.0)
        assert delay == pytest.approx(0, abs=1e-6)
        assert spacing == pytest.approx(0.25)
