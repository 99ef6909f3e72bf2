"""Slots: never more than there are, each account in its turn, none lost when callers give up."""

from __future__ import annotations

import asyncio
import random

import pytest

from core.slots import Slots


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_accounts_take_turns_when_more_want_than_there_are() -> None:
    slots = Slots(1)
    order: list[str] = []

    async def call(name: str) -> None:
        async with slots.of(name):
            order.append(name)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(call("large")) for _ in range(5)]
    await settled()
    tasks = [asyncio.create_task(call("large")) for _ in range(20)]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(call("small")) for _ in range(2)]
    await asyncio.gather(*tasks)

    # Of twenty calls that stood before it at most one or two went first.
    assert order.index("small") <= 5 + 3
    assert len(order) == 27
    second = [place for place, name in enumerate(order) if name == "small"][1]
    assert second - order.index("small") == 2


@pytest.mark.parametrize("seed", range(5))
async def test_never_more_than_the_limit_and_none_is_lost(seed: int) -> None:
    chance, slots, limit = random.Random(seed), Slots(3), 3
    running = most = 0

    async def call(key: int) -> None:
        nonlocal running, most
        async with slots.of(key):
            running += 1
            most = max(most, running)
            try:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
                if chance.random() < 0.2:
                    raise ValueError
            finally:
                running -= 1

    tasks = []
    for _ in range(200):
        tasks.append(asyncio.create_task(call(chance.randrange(4))))
        if chance.random() < 0.3:
            chance.choice(tasks).cancel()
        if chance.random() < 0.5:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (running, most) == (0, limit), f"seed {seed}"
    # All of them are free again.
    async with asyncio.timeout(5):
        async with slots.of("a"), slots.of("b"), slots.of("c"):
            waiting = asyncio.create_task(call(9))
            await settled()
            assert not waiting.done()
        await asyncio.gather(waiting, return_exceptions=True)
