"""Unknown outcomes: leased for a search, reposted at most once. Guarded by owner and fence."""

from __future__ import annotations

from typing import Any

import msgspec

from core.domain.states import Environment, JobStatus
from core.ports.work import DoubtfulItem, StoredDraft
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("intents")


async def due(connection: Connection, *, hopeless_after: float) -> list[tuple[int, Environment]]:
    """Sellers and environments with searches to be made now. A search is hopeless that many seconds after
    its settle window."""
    cursor = await connection.execute(_SQL["select_due"], {"hopeless_after": hopeless_after})
    return [(row[0], Environment(row[1])) for row in await cursor.fetchall()]


async def claim(
    connection: Connection,
    seller_id: int,
    environment: Environment,
    *,
    owner: str,
    lease: float,
    hopeless_after: float,
    limit: int,
) -> list[DoubtfulItem]:
    """Lease unknown outcomes of one account."""
    cursor = await connection.execute(
        _SQL["claim"],
        {
            "seller_id": seller_id,
            "environment": environment,
            "owner": owner,
            "lease": lease,
            "hopeless_after": hopeless_after,
            "limit": limit,
        },
    )
    return [
        DoubtfulItem(
            sku=row[0],
            job_id=row[1],
            ordinal=row[2],
            fence=row[3],
            attempt=row[4],
            stored=msgspec.convert(row[5], StoredDraft),
            started_at=row[6],
            searches=row[7],
            settled=row[8],
            hopeless=row[9],
            seconds_left=row[10],
            job_status=JobStatus(row[11]),
            job_stopped=row[12] is not None,
            unsent=row[13],
        )
        for row in await cursor.fetchall()
    ]


def _key(seller_id: int, environment: Environment, item: DoubtfulItem, owner: str) -> dict[str, Any]:
    return {
        "seller_id": seller_id,
        "environment": environment,
        "sku": item.sku,
        "owner": owner,
        "fence": item.fence,
    }


async def postpone(
    connection: Connection, seller_id: int, environment: Environment, item: DoubtfulItem, *, owner: str, delay: float
) -> None:
    """Search again after ``delay`` seconds."""
    await connection.execute(_SQL["postpone"], {**_key(seller_id, environment, item, owner), "delay": delay})


async def repost(
    connection: Connection,
    seller_id: int,
    environment: Environment,
    item: DoubtfulItem,
    *,
    owner: str,
    marketplace_user_id: int,
    lease: float,
) -> bool:
    """Make the one new attempt the intent; False when it must not be made: somebody else was first, the job was
    cancelled or stopped, or the account is no longer this user's. Commits before anything is sent."""
    cursor = await connection.execute(_SQL["share_job"], {"seller_id": seller_id, "job_id": item.job_id})
    job = await cursor.fetchone()
    if job is None or job[0] == JobStatus.CANCELLED or job[1] is not None:
        return False
    cursor = await connection.execute(
        _SQL["repost"],
        {
            **_key(seller_id, environment, item, owner),
            "lease": lease,
            "marketplace_user_id": marketplace_user_id,
        },
    )
    return await cursor.fetchone() is not None


async def unsent(
    connection: Connection,
    seller_id: int,
    environment: Environment,
    item: DoubtfulItem,
    *,
    owner: str,
    delay: float,
    counted: bool,
) -> None:
    """The new attempt came to nothing for certain; it may be made after ``delay`` seconds. ``counted``: as one of those
    after which it is given up."""
    values = {**_key(seller_id, environment, item, owner), "delay": delay, "counted": counted}
    await connection.execute(_SQL["unsent"], values)


async def doubt_expired(connection: Connection, *, settle: float) -> int:
    """Search for reposts whose sender let its lease end; returns how many."""
    return (await connection.execute(_SQL["doubt_expired"], {"settle": settle})).rowcount


async def release_owned(connection: Connection, owner: str) -> None:
    """Leave a stopping worker's searches to the others."""
    await connection.execute(_SQL["release_owned"], {"owner": owner})
