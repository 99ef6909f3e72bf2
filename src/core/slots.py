"""Calls in flight, bounded for the process and handed out to the accounts in turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from types import TracebackType


class Slots:
    """At most ``limit`` at once. Where more want one, each key has its turn: an account with two hundred calls waiting
    does not make another's first call wait for all of them.

        async with slots.of(key):
            ...
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    def of(self, key: Hashable) -> Slot:
        """A slot for this key, to be entered once."""
        return Slot(self, key)

    async def _take(self, key: Hashable) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()  # It was handed over in the same instant.
            raise

    def _give_back(self) -> None:
        while self._waiting:
            key, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(key)
            else:
                del self._waiting[key]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Slot:
    """See Slots."""

    __slots__ = ("_key", "_slots")

    def __init__(self, slots: Slots, key: Hashable) -> None:
        self._slots = slots
        self._key = key

    async def __aenter__(self) -> None:
        await self._slots._take(self._key)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots._give_back()
