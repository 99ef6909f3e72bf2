"""What the database says of its own state of health (rule 67)."""

from __future__ import annotations

import msgspec

from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("vitals")


class Vitals(msgspec.Struct, frozen=True):
    """``oldest_transaction``: seconds since the oldest open transaction of our role began; 0 without one.
    ``dead_rows``: rows that wait to be cleaned away, in the table that has most of them."""

    oldest_transaction: float
    dead_rows: int


async def read(connection: Connection) -> Vitals:
    """The vitals now. Of other roles' transactions PostgreSQL tells only a member of pg_monitor."""
    cursor = await connection.execute(_SQL["select_vitals"])
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - a SELECT of scalars gives a row
    return Vitals(oldest_transaction=max(0.0, row[0]), dead_rows=row[1])
