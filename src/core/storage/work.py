"""What the worker reads and writes."""

from __future__ import annotations

from collections.abc import Sequence

from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("work")


async def promotable(connection: Connection, seller_id: int, skus: Sequence[str]) -> dict[str, tuple[str, int]]:
    """(category, price) of the test listings among these SKUs that a live publication takes over."""
    if not skus:
        return {}
    cursor = await connection.execute(_SQL["select_promotable"], {"seller_id": seller_id, "skus": list(skus)})
    return {row[0]: (row[1], row[2]) for row in await cursor.fetchall()}
