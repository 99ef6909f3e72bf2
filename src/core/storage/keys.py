"""API keys by digest. The secret itself never comes here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from core.domain.api_key import NewKey, Principal, Scope
from core.domain.seller import KeyRecord
from core.domain.states import Environment
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("keys")


def _record(row: tuple[Any, ...]) -> KeyRecord:
    return KeyRecord(
        key_id=row[0],
        seller_id=row[1],
        environment=Environment(row[2]),
        scopes=tuple(row[3]),
        last_four=row[4],
        created_at=row[5],
        expires_at=row[6],
        revoked_at=row[7],
    )


async def insert(
    connection: Connection,
    seller_id: int,
    key: NewKey,
    *,
    environment: Environment,
    scopes: Sequence[Scope],
    expires_at: datetime | None,
) -> KeyRecord | None:
    """Store a new key; None when the seller is unknown."""
    cursor = await connection.execute(
        _SQL["insert_key"],
        {
            "key_hash": key.digest,
            "key_id": key.key_id,
            "seller_id": seller_id,
            "environment": environment,
            "scopes": [scope.value for scope in scopes],
            "last_four": key.last_four,
            "expires_at": expires_at,
        },
    )
    row = await cursor.fetchone()
    return _record(row) if row else None


async def find(connection: Connection, digest: bytes) -> tuple[Principal, float | None] | None:
    """The principal of a key that is neither revoked nor expired by the database's clock, and the
    seconds until it expires; None for any other."""
    cursor = await connection.execute(_SQL["select_key_by_hash"], {"key_hash": digest})
    row = await cursor.fetchone()
    if row is None:
        return None
    principal = Principal(
        seller_id=row[0],
        environment=Environment(row[1]),
        scopes=frozenset(map(Scope, row[2])),
        key_id=row[3],
        expires_at=row[4],
    )
    return principal, row[5]


async def select(connection: Connection, seller_id: int) -> list[KeyRecord]:
    """A seller's keys, newest first."""
    cursor = await connection.execute(_SQL["select_keys"], {"seller_id": seller_id})
    return [_record(row) for row in await cursor.fetchall()]


async def revoke(connection: Connection, key_id: str) -> KeyRecord | None:
    """Revoke; None when there is no such key."""
    cursor = await connection.execute(_SQL["revoke_key"], {"key_id": key_id})
    row = await cursor.fetchone()
    return _record(row) if row else None
