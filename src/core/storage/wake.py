"""Tells the workers that work is due, so that a small job does not wait for the next poll.

Only a hint (rule 19): polling is the base, and one that is lost, late or switched off changes no result. A NOTIFY
inside the accepting transaction would be simpler, but commits with one take turns on a lock of the whole server
(measured: half the commits a second); so a process sends at most one in PERIOD_SECONDS, on its own, after the commits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import structlog

from core.errors import ApiError
from core.storage.statements import load

if TYPE_CHECKING:
    from core.storage.database import Database

_SQL = load("work")
CHANNEL = "work_due"
PERIOD_SECONDS = 0.03

log = structlog.get_logger("core.storage")


class WakeUps:
    """The hints of one process. ``enabled`` off: says nothing."""

    def __init__(self, database: Database, *, enabled: bool) -> None:
        self._database = database
        self._enabled = enabled
        self._wanted = False
        self._sending: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Wake the workers; returns at once. Called after the commit of what they shall find."""
        if not self._enabled:
            return
        self._wanted = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send(), name="wake workers")

    async def _send(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                async with self._database.connection() as connection:
                    await connection.execute(_SQL["notify_due"], {"channel": CHANNEL})
            except (ApiError, psycopg.Error) as error:
                log.info("workers_not_woken", error=type(error).__name__)
            await asyncio.sleep(PERIOD_SECONDS)

    async def aclose(self) -> None:
        """Send nothing more."""
        self._enabled = False
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
