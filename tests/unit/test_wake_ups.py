"""Hints to the workers: at once, few, and never anybody's trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from core.errors import internal
from core.storage import wake
from core.storage.database import Database
from core.storage.wake import WakeUps


class Notified:
    """A database that counts notifications; ``away`` makes it unreachable."""

    def __init__(self) -> None:
        self.sent = 0
        self.away = False
        self.heard = asyncio.Event()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        if self.away:
            self.heard.set()
            raise internal()
        yield self

    async def execute(self, statement: object, values: dict[str, str]) -> None:
        assert values == {"channel": "work_due"}
        self.sent += 1
        self.heard.set()


def hints(database: Notified, *, enabled: bool = True) -> WakeUps:
    return WakeUps(cast("Database", database), enabled=enabled)


async def heard(database: Notified) -> None:
    async with asyncio.timeout(5):
        await database.heard.wait()
    database.heard.clear()


async def test_many_hints_of_one_instant_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "PERIOD_SECONDS", 0.01)
    database = Notified()
    wake_ups = hints(database)
    for _ in range(1000):
        wake_ups.soon()
    await heard(database)
    assert database.sent == 1
    # One that comes after the notification left is not lost with those before it.
    wake_ups.soon()
    await heard(database)
    assert database.sent == 2
    await wake_ups.aclose()


async def test_a_database_that_is_away_troubles_nobody_and_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "PERIOD_SECONDS", 0.0)
    database = Notified()
    wake_ups = hints(database)
    database.away = True
    wake_ups.soon()
    await heard(database)
    database.away = False
    wake_ups.soon()
    await heard(database)
    assert database.sent == 1
    await wake_ups.aclose()


async def test_switched_off_and_closed_say_nothing() -> None:
    database = Notified()
    silent, closed = hints(database, enabled=False), hints(database)
    silent.soon()
    await closed.aclose()
    closed.soon()
    await silent.aclose()
    await asyncio.sleep(0)
    assert database.sent == 0
