"""The application's rate and the pauses after a 429."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import pytest

from core.marketplace.throttle import Backoff, Throttle, calls_per_second
from tests.support.marketplace_stores import MemorySlotStore


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ("4/second", 4.0),
        ("90/minute", 1.5),
        ("1800/hour", 0.5),
        ("0.5/second", 0.5),
        ("3600000/hour", 1000.0),
        ("off", None),
    ],
)
def test_rates(rate: str, expected: float | None) -> None:
    assert calls_per_second(rate) == expected


@pytest.mark.parametrize(
    "rate", ["", "0/second", "-1/second", "4", "4/day", "4 / second", "four/second", "OFF", "4/second\n"]
)
def test_rates_that_are_none(rate: str) -> None:
    with pytest.raises(ValueError, match="rate"):
        calls_per_second(rate)


async def cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_calls_are_spaced_by_the_rate_and_share_statements() -> None:
    store = MemorySlotStore()
    throttle = Throttle(store, "app", 100.0)
    moments: list[float] = []

    async def call() -> None:
        await throttle.acquire("account")
        moments.append(time.monotonic())

    began = time.monotonic()
    await asyncio.gather(*(call() for _ in range(50)))
    assert moments[-1] - began >= 0.48
    assert max(moments) - began < 20
    # 50 waiting callers are served by far fewer statements than calls.
    assert len(store.reservations) <= 5
    assert sum(store.reservations) >= 50


async def test_a_run_is_no_longer_than_a_seconds_worth() -> None:
    store = MemorySlotStore()
    throttle = Throttle(store, "app", 4.0)
    tasks = [asyncio.create_task(throttle.acquire("account")) for _ in range(20)]
    async with asyncio.timeout(5):
        while sum(task.done() for task in tasks) < 2:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=0.1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert max(store.reservations) <= 4


async def test_a_lone_caller_takes_one_slot_only() -> None:
    store = MemorySlotStore()
    throttle = Throttle(store, "app", 1000.0)
    for _ in range(3):
        await throttle.acquire("account")
    assert store.reservations == [1, 1, 1]


async def test_slots_that_went_by_unused_are_not_made_up_for() -> None:
    store = MemorySlotStore()
    throttle = Throttle(store, "app", 20.0)
    # A run of several slots, of which all but the first two are left to pass.
    tasks = [asyncio.create_task(throttle.acquire("account")) for _ in range(10)]
    async with asyncio.timeout(5):
        await tasks[0]
        await tasks[1]
    for task in tasks[2:]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    store.next_slot = 0.0
    throttle._next, throttle._spacing, throttle._left = time.monotonic() - 5, 0.05, 10
    moments = []
    for _ in range(4):
        await throttle.acquire("account")
        moments.append(time.monotonic())
    assert moments[-1] - moments[0] >= 3 * 0.05 - 0.02


async def test_a_pause_voids_the_slots_already_handed_out() -> None:
    store = MemorySlotStore()
    throttle = Throttle(store, "app", 10.0)
    done: list[float] = []

    async def call() -> None:
        await throttle.acquire("account")
        done.append(time.monotonic())

    tasks = [asyncio.create_task(call()) for _ in range(6)]
    async with asyncio.timeout(5):
        await tasks[0]
        paused = time.monotonic()
        before = len(done)
        await throttle.pause(0.4)
        await asyncio.gather(*tasks)
    assert store.pauses == [0.4]
    assert all(moment - paused >= 0.38 for moment in done[before:])


async def test_nobody_waits_for_a_slot_that_is_far_away_and_it_stays_for_later() -> None:
    store = MemorySlotStore()
    throttle = Throttle(store, "app", 0.02, patience_seconds=50)
    await store.slow_down("app", 100)
    async with asyncio.timeout(40):
        waits = [await throttle.acquire("account") for _ in range(20)]
    assert all(50 < wait <= 100 for wait in waits)
    assert store.reservations == [1]
    throttle._next = time.monotonic() + 0.05  # as if that time had passed
    assert await throttle.acquire("account") == 0.0
    assert store.reservations == [1]


async def test_accounts_take_turns_however_many_calls_one_of_them_has() -> None:
    throttle = Throttle(MemorySlotStore(), "app", 50.0)
    sent: list[str] = []

    async def call(account: str) -> None:
        assert await throttle.acquire(account) == 0.0
        sent.append(account)

    many = [asyncio.create_task(call("large")) for _ in range(200)]
    async with asyncio.timeout(20):
        await asyncio.wait(many, return_when=asyncio.FIRST_COMPLETED)
        sent.clear()
        for _ in range(3):
            await call("small")
    # Beside its own there are the other's turns, and what was given away a moment ahead.
    assert len(sent) <= 30
    await cancelled(many)


async def test_a_pause_asked_for_in_one_process_holds_in_the_others_too() -> None:
    store = MemorySlotStore()
    one, other = (Throttle(store, "app", 20.0) for _ in range(2))
    sent = 0

    async def call() -> None:
        nonlocal sent
        assert await other.acquire("account") == 0.0
        sent += 1

    many = [asyncio.create_task(call()) for _ in range(200)]
    async with asyncio.timeout(20):
        await asyncio.wait(many, return_when=asyncio.FIRST_COMPLETED)
        await one.pause(3.0)
        over = store.next_slot
        sent = 0
        # One more than this process can have reserved before it heard of the pause from the store.
        while sent < 21:
            await asyncio.wait(many, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            many = [task for task in many if not task.done()]
    assert time.monotonic() >= over
    await cancelled(many)


async def test_nobody_waits_for_a_turn_longer_than_patience_lasts() -> None:
    throttle = Throttle(MemorySlotStore(), "app", 4.0, patience_seconds=0.6)
    async with asyncio.timeout(20):
        waits = await asyncio.gather(*(throttle.acquire("account") for _ in range(10)))
    assert 1 <= waits.count(0.0) <= 4
    assert all(wait >= 1.0 for wait in waits if wait)


async def test_a_pause_that_cannot_be_stored_does_not_hide_the_answer() -> None:
    class Broken(MemorySlotStore):
        async def slow_down(self, application: str, seconds: float) -> None:
            raise OSError("database away")

    throttle = Throttle(Broken(), "app", 10.0)
    await throttle.pause(1.0)
    assert throttle._left == 0


def test_backoff_doubles_by_burst_not_by_answer() -> None:
    backoff = Backoff()
    first, news = backoff.seconds(None)
    assert news
    assert 1 <= first <= 1.5
    for _ in range(50):
        seconds, news = backoff.seconds(None)
        assert not news
        assert 1 <= seconds <= 1.5
    for expected in (2, 4, 8, 16, 32, 60, 60):
        backoff._until = 0.0
        seconds, news = backoff.seconds(None)
        assert news
        assert expected <= seconds <= 1.5 * expected


def test_what_the_marketplace_asks_for_counts() -> None:
    backoff = Backoff()
    assert backoff.seconds(17.0) == (17.0, True)
    assert backoff.seconds(17.0) == (17.0, False)
    # A longer pause than before is news.
    assert backoff.seconds(60.0) == (60.0, True)


def test_success_after_the_pause_ends_the_row() -> None:
    backoff = Backoff()
    for _ in range(4):
        backoff._until = 0.0
        backoff.seconds(None)
    backoff.ok()
    assert backoff._bursts == 4  # still within the pause
    backoff._until = 0.0
    backoff.ok()
    assert backoff.seconds(None)[0] <= 1.5
