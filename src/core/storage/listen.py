"""Hears notifications, on a connection of its own: which jobs changed, that work is due.

Only a hint that makes watchers and workers sooner (rule 19): whoever listens also polls, and a notification that is
lost, late or repeated changes no result.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NoReturn

import psycopg
import structlog

from core.storage.database import Database

CHANNEL = "job_changed"
"""Payload ``seller_id:job_id``, sent in the transaction that changes the job or its items."""
HEARTBEAT_SECONDS = 15.0
ANSWER_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 5.0

log = structlog.get_logger("core.listen")


async def listen(database: Database, changed: Callable[[int, str], None], connected: Callable[[], None]) -> NoReturn:
    """Call ``changed(seller_id, job_id)`` for each changed job, until cancelled; the rest as ``hear``."""
    await hear(database, CHANNEL, lambda payload: _tell(payload, changed), connected)


async def hear(
    database: Database, channel: str, told: Callable[[str], None], connected: Callable[[], None]
) -> NoReturn:
    """Call ``told(payload)`` for each notification on a channel, until cancelled.

    ``connected`` is called after every (re)connection: whatever was notified before is unknown, so the caller reads
    anew. A connection that stays silent for HEARTBEAT_SECONDS is asked whether it is alive.
    """
    pause = 0.1
    while True:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                connection = await psycopg.AsyncConnection.connect(database.url, **database.options)
            try:
                await _answered(connection, f"LISTEN {channel}")
                pause = 0.1
                connected()
                while True:
                    async for notification in connection.notifies(timeout=HEARTBEAT_SECONDS):
                        told(notification.payload)
                    await _answered(connection, "SELECT 1")
            finally:
                await connection.close()
        except (psycopg.Error, OSError, TimeoutError) as error:
            log.info("listener_reconnects", error=type(error).__name__)
        await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - spread, not secrecy
        pause = min(LONGEST_PAUSE_SECONDS, pause * 2)


async def _answered(connection: psycopg.AsyncConnection[tuple[object, ...]], statement: str) -> None:
    async with asyncio.timeout(ANSWER_SECONDS):
        await connection.execute(statement.encode())


def _tell(payload: str, changed: Callable[[int, str], None]) -> None:
    seller, _, job_id = payload.partition(":")
    if seller.isascii() and seller.isdigit() and job_id:
        changed(int(seller), job_id)
