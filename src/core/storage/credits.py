"""Credits: conditional updates on the balance and the append-only ledger, always together."""

from __future__ import annotations

from typing import Any

from core.domain.seller import Balance, LedgerEntry
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("credits")


def _balance(row: tuple[Any, ...]) -> Balance:
    return Balance(granted=row[0], available=row[1], held=row[2], used=row[3], used_test=row[4])


async def balance(connection: Connection, seller_id: int) -> Balance | None:
    """A seller's credits; None when the seller is unknown."""
    cursor = await connection.execute(_SQL["select_balance"], {"seller_id": seller_id})
    row = await cursor.fetchone()
    return _balance(row) if row else None


async def grant(connection: Connection, seller_id: int, amount: int) -> Balance | None:
    """Add credits; None when the seller is unknown."""
    cursor = await connection.execute(_SQL["grant"], {"seller_id": seller_id, "amount": amount})
    row = await cursor.fetchone()
    return _balance(row) if row else None


async def hold(connection: Connection, seller_id: int, *, job_id: str, amount: int, last_sequence: int) -> bool:
    """Reserve credits; False (and nothing done) when fewer are available. ``last_sequence`` is the
    job's at this moment and tells the holds of one job apart."""
    cursor = await connection.execute(
        _SQL["hold"], {"seller_id": seller_id, "job_id": job_id, "amount": amount, "last_sequence": last_sequence}
    )
    return await cursor.fetchone() is not None


async def settle(
    connection: Connection,
    seller_id: int,
    *,
    job_id: str,
    captured: int,
    released: int,
    first_sequence: int,
    last_sequence: int,
) -> None:
    """Capture and release the holds of the results with these sequences.

    Raises:
        RuntimeError: fewer credits are held than that, which would be a lost or doubled settlement; the
            transaction must not commit.
    """
    if captured + released == 0:
        return
    cursor = await connection.execute(
        _SQL["settle"],
        {
            "seller_id": seller_id,
            "job_id": job_id,
            "captured": captured,
            "released": released,
            "first_sequence": first_sequence,
            "last_sequence": last_sequence,
        },
    )
    if cursor.rowcount == 0:
        raise RuntimeError(f"seller {seller_id}: fewer credits held than job {job_id} settles")


async def meter_test(connection: Connection, seller_id: int, amount: int) -> None:
    """Count items published with test keys."""
    if amount:
        await connection.execute(_SQL["meter_test"], {"seller_id": seller_id, "amount": amount})


async def ledger(connection: Connection, seller_id: int, limit: int) -> list[LedgerEntry]:
    """The latest entries, newest first."""
    cursor = await connection.execute(_SQL["select_ledger"], {"seller_id": seller_id, "limit": limit})
    return [
        LedgerEntry(entry_number=row[0], kind=row[1], amount=row[2], job_id=row[3], created_at=row[4])
        for row in await cursor.fetchall()
    ]


async def audit(connection: Connection, seller_id: int) -> str | None:
    """What does not add up in a seller's books, in words; None when all does."""
    cursor = await connection.execute(_SQL["audit"], {"seller_id": seller_id})
    row = await cursor.fetchone()
    if row is None:
        return None
    names = ("granted", "held", "used", "ledger granted", "ledger held", "ledger used", "pending live items")
    return ", ".join(f"{name} {value}" for name, value in zip(names, row, strict=True))
