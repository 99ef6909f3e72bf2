"""Whether the database can serve."""

from __future__ import annotations

from core.storage.database import Connection
from core.storage.migrate import migrations
from core.storage.statements import load

_SQL = load("health")
_NEEDED = len(migrations())


async def can_serve(connection: Connection) -> bool:
    """Whether the server takes writes and its schema is new enough for this program."""
    cursor = await connection.execute(_SQL["select_readiness"])
    row = await cursor.fetchone()
    return row is not None and bool(row[0]) and int(row[1] or 0) >= _NEEDED
