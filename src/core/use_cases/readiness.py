"""Whether this process can serve: a write-capable database with the right schema answers (rule 68)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from core import metrics
from core.errors import ApiError
from core.storage import health
from core.storage.database import Database, DatabaseError

CHECK_SECONDS = 1.0
CHECK_TIMEOUT_SECONDS = 5.0
"""A database that does not answer within this is away: a cut network sends no error."""

log = structlog.get_logger("core.readiness")


async def is_ready(database: Database) -> bool:
    """Ask the database once. Never raises for the database's sake."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
            return await database.read(health.can_serve)
    except (ApiError, DatabaseError, TimeoutError):
        return False


async def follow(database: Database, told: Callable[[bool], Awaitable[None]]) -> NoReturn:
    """Ask every second until cancelled, and tell each change (the first answer included).

    The asking is also what makes the pool notice dead connections and look for new ones while no request
    comes in.
    """
    present: bool | None = None
    while True:
        ready = await is_ready(database)
        metrics.database_up.labels("core").set(ready)
        if ready is not present:
            if present is not None or not ready:
                (log.info if ready else log.warning)("database_ready" if ready else "database_not_ready")
            present = ready
            await told(ready)
        await asyncio.sleep(CHECK_SECONDS)
