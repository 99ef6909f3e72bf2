"""The application's rate: every process takes its sending slots from one store.

Slots are reserved in runs, so that one statement serves many calls, and a run is never longer than what
is waited for here, nor than a second: a quiet process takes no slots away from a busy one. Who gets the next slot is
settled when its time comes, and accounts take turns: one with two hundred calls to make does not hold up the first
call of another.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections.abc import Hashable

import structlog

from core.ports.marketplace import SlotStore
from core.slots import Slots

_LOG = structlog.stdlib.get_logger("core.marketplace")
_RATE = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,3})?)/(second|minute|hour)", re.ASCII)
PATIENCE_SECONDS = 30.0
"""A wait for a slot that is longer than this is the worker's to organise: callers hold leases."""
_AHEAD_SECONDS = 0.05
"""A slot is given away this long before its time: timers are too coarse to give hundreds away one by one."""
_UNIT_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0}


def calls_per_second(rate: str) -> float | None:
    """``4/second``, ``90/minute``, ``1000/hour`` as calls a second; None for ``off``.

    Raises:
        ValueError: for anything else, and for a rate of 0.
    """
    if rate == "off":
        return None
    match = _RATE.fullmatch(rate)
    if match is None or float(match.group(1)) <= 0:
        raise ValueError("the rate must be off or NUMBER/second, /minute or /hour, above 0")
    return float(match.group(1)) / _UNIT_SECONDS[match.group(2)]


class Throttle:
    """Waits for the application's slots.

    Args:
        store: where all processes reserve.
        application: the application's public id; the marketplace counts by it.
        per_second: the rate that the application may use.
        patience_seconds: nobody waits here for a slot that is farther away.
    """

    def __init__(
        self, store: SlotStore, application: str, per_second: float, *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._store = store
        self._patience_seconds = patience_seconds
        self._application = application
        self._per_second = per_second
        self._longest_run = max(1, math.ceil(per_second))
        self._turns = Slots(1)
        self._waiting = 0
        self._next = 0.0
        self._spacing = 0.0
        self._left = 0
        self._pauses = 0

    async def acquire(self, account: Hashable) -> float:
        """Wait for a slot of this account. Returns 0.0 when one call may be sent now; else the seconds until it makes
        sense to ask again. Raises what the store raises."""
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience_seconds) as limit:
                return await self._wait(account)
        except TimeoutError:
            if not limit.expired():
                raise
            return max(1.0, self._waiting * self._spacing)
        finally:
            self._waiting -= 1

    async def _wait(self, account: Hashable) -> float:
        while True:
            async with self._turns.of(account):
                pauses = self._pauses
                moment = await self._slot()
                delay = moment - time.monotonic()
                if delay > self._patience_seconds:
                    return delay
                if delay > _AHEAD_SECONDS:
                    await asyncio.sleep(delay - _AHEAD_SECONDS)
            delay = moment - time.monotonic()
            if delay > 0:
                await asyncio.sleep(delay)
            # A slot handed out before the marketplace asked for a pause is void.
            if pauses == self._pauses:
                return 0.0

    async def _slot(self) -> float:
        """The time of the next slot. It is this caller's, unless it is too far away to wait for."""
        while True:
            now = time.monotonic()
            # Slots that went by unused are not made up for: that would be a burst.
            while self._left and self._next + self._spacing <= now:
                self._next += self._spacing
                self._left -= 1
            if self._left:
                moment = self._next
                # One too far away stays for those who ask again.
                if moment - now <= self._patience_seconds:
                    self._next += self._spacing
                    self._left -= 1
                return moment
            await self._reserve()

    async def _reserve(self) -> None:
        # Lets everybody who comes in this instant be counted.
        await asyncio.sleep(0)
        slots = min(self._longest_run, max(1, self._waiting))
        pauses = self._pauses
        delay, spacing = await self._store.reserve(self._application, slots, self._per_second)
        if pauses != self._pauses:
            return
        # Counted from now, not from before the call: a slot may be used late, never early.
        self._next = time.monotonic() + max(delay, 0.0)
        self._spacing = max(spacing, 1e-6)
        self._left = slots

    async def pause(self, seconds: float) -> None:
        """The marketplace asked to slow down: nobody sends for that long, in any process."""
        self._pauses += 1
        self._left = 0
        try:
            await self._store.slow_down(self._application, seconds)
        except Exception:
            # The answer that asked for it must still be told; the next 429 asks again.
            _LOG.exception("marketplace_slow_down_failed")


LONGEST_BACKOFF = 60.0
"""Seconds; after a row of 429 that name no time."""


class Backoff:
    """How long to pause after a 429 that names no time: 1 s doubled with each burst, up to 60 s, and up to
    half as long again by chance.

    A burst of 429 to calls that were on their way together counts once.
    """

    def __init__(self) -> None:
        self._bursts = 0
        self._until = 0.0

    def seconds(self, told: float | None) -> tuple[float, bool]:
        """The pause, and whether it is news: the first 429 of a burst, or a longer pause than before.

        Args:
            told: what the marketplace asked for, already within bounds; None when it named no time.
        """
        now = time.monotonic()
        first = now >= self._until
        if first:
            self._bursts += 1
        if told is None:
            limit = min(LONGEST_BACKOFF, 2.0 ** (self._bursts - 1))
            told = limit * random.uniform(1.0, 1.5) if first else max(self._until - now, 1.0)  # noqa: S311
        news = first or now + told > self._until + 1.0
        self._until = max(self._until, now + told)
        return told, news

    def ok(self) -> None:
        """A call was not throttled; after the pause that ends the row of bursts."""
        if self._bursts and time.monotonic() >= self._until:
            self._bursts = 0
