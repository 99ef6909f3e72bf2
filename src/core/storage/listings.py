"""Listings: test products as readers see them, and what is still to be done about listings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import uuid_utils
from psycopg.types.json import Jsonb

from core.domain.jobs import TestProduct, TestProductList
from core.domain.listing import app_status
from core.domain.states import Environment
from core.ports.marketplace import Listing
from core.ports.work import FollowUp
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("listings")


async def test_products(
    connection: Connection,
    seller_id: int,
    *,
    published_to_live: bool | None,
    status_meli: str | None,
    app_status: int | None,
    sku: str | None,
    limit: int,
    offset: int = 0,
    after: tuple[datetime, str] | None = None,
) -> TestProductList:
    """Some of the seller's test products, newest first, then by SKU, those after (time, SKU) if it is given; None in
    a filter matches all."""
    filters = {
        "seller_id": seller_id,
        "published_to_live": published_to_live,
        "status_meli": status_meli,
        "app_status": app_status,
        "sku": sku,
    }
    cursor = await connection.execute(_SQL["count_test_products"], filters)
    count = await cursor.fetchone()
    after_time, after_sku = after or (None, "")
    page = {"limit": limit, "offset": offset, "after_time": after_time, "after_sku": after_sku}
    cursor = await connection.execute(_SQL["select_test_products"], filters | page)
    products = [
        TestProduct(
            sku=row[0],
            listing_id=row[1],
            title=row[2],
            image=row[3],
            permalink=row[4],
            listing_type_id=row[5],
            price=row[6],
            currency=row[7],
            category_id=row[8],
            category_name=row[9],
            tax_category_id=row[10],
            status_meli=row[11],
            app_status=row[12],
            published_to_live=row[13],
            published_at=row[14],
        )
        for row in await cursor.fetchall()
    ]
    return TestProductList(products=products, total=count[0] if count else 0)


def listing_row(listing: Listing) -> dict[str, Any]:
    """A listing as the statements read it from JSON."""
    return {
        "sku": listing.sku,
        "listing_id": listing.listing_id,
        "permalink": listing.permalink,
        "title": listing.title,
        "image": listing.image or None,
        "listing_type_id": listing.listing_type_id,
        "price": listing.price,
        "category_id": listing.category_id,
        "status_meli": listing.status,
        "sub_status": list(listing.sub_status),
        "app_status": app_status(listing.status, listing.sub_status),
    }


async def open_listing(connection: Connection, seller_id: int, environment: Environment, sku: str) -> Listing | None:
    """The open listing of this SKU that is known here; its time of creation is not kept."""
    cursor = await connection.execute(
        _SQL["select_open_listing"], {"seller_id": seller_id, "environment": environment, "sku": sku}
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return Listing(
        listing_id=row[0],
        sku=sku,
        status=row[1],
        sub_status=tuple(row[2]),
        permalink=row[3],
        title=row[4],
        price=row[5],
        category_id=row[6],
        listing_type_id=row[7],
        image=row[8],
    )


async def listing_ids(
    connection: Connection, seller_id: int, environment: Environment, skus: Sequence[str], *, since: datetime
) -> dict[str, str]:
    """The known listing of each of these SKUs, but for those published again after ``since``."""
    cursor = await connection.execute(
        _SQL["select_listing_ids"],
        {"seller_id": seller_id, "environment": environment, "skus": list(skus), "since": since},
    )
    return {row[0]: row[1] for row in await cursor.fetchall()}


async def on_record(
    connection: Connection, seller_id: int, environment: Environment, sku: str
) -> tuple[str | None, bool]:
    """(the SKU's open listing, whether a send of it is not answered yet)."""
    cursor = await connection.execute(
        _SQL["select_on_record"], {"seller_id": seller_id, "environment": environment, "sku": sku}
    )
    row = await cursor.fetchone()
    return (row[0], bool(row[1])) if row else (None, False)


async def disown(
    connection: Connection, seller_id: int, environment: Environment, sku: str, listing_id: str, *, since: datetime
) -> bool:
    """Let the listing on record count as closed, so that nothing is sent to it any more, if nothing of its SKU was
    published after ``since``; False (and nothing done) otherwise. Takes part in the caller's transaction."""
    key = {"seller_id": seller_id, "environment": environment, "sku": sku, "listing_id": listing_id}
    if (await connection.execute(_SQL["lock_unpublished"], key | {"since": since})).rowcount == 0:
        return False
    return (await connection.execute(_SQL["disown"], key)).rowcount == 1


async def refresh(
    connection: Connection,
    seller_id: int,
    environment: Environment,
    *,
    marketplace_user_id: int,
    found: Sequence[Listing],
) -> None:
    """Take over what the marketplace now says of listings of this user's account."""
    await connection.execute(
        _SQL["refresh"],
        {
            "seller_id": seller_id,
            "environment": environment,
            "marketplace_user_id": marketplace_user_id,
            "found": Jsonb([listing_row(each) for each in found]),
        },
    )


async def mark_closed(
    connection: Connection, seller_id: int, environment: Environment, closed: dict[str, str], *, missing: bool
) -> set[str]:
    """The marketplace has closed these listings (id by SKU), or, with ``missing``, does not know them.

    Returns:
        The SKUs marked: a missing listing published a moment ago may only be slow to appear and is left alone.
    """
    cursor = await connection.execute(
        _SQL["mark_closed"],
        {
            "seller_id": seller_id,
            "environment": environment,
            "skus": list(closed),
            "listing_ids": list(closed.values()),
            "missing": missing,
        },
    )
    return {row[0] for row in await cursor.fetchall()}


async def add_follow_up(
    connection: Connection,
    seller_id: int,
    environment: Environment,
    *,
    kind: str,
    skus: Sequence[str],
    delay: float,
    tries: int = 0,
    since: datetime | None = None,
) -> None:
    """Something to be done about listings after ``delay`` seconds."""
    await connection.execute(
        _SQL["insert_follow_up"],
        {
            "seller_id": seller_id,
            "follow_up_id": str(uuid_utils.uuid7()),
            "environment": environment,
            "kind": kind,
            "skus": list(skus),
            "delay": delay,
            "tries": tries,
            "since": since,
        },
    )


async def claim_follow_ups(connection: Connection, *, lease: float, limit: int) -> list[FollowUp]:
    """What is due, leased for a while."""
    cursor = await connection.execute(_SQL["claim_follow_ups"], {"lease": lease, "limit": limit})
    return [
        FollowUp(
            seller_id=row[0],
            follow_up_id=row[1],
            environment=Environment(row[2]),
            kind=row[3],
            skus=tuple(row[4]),
            tries=row[5],
            since=row[6],
            leased_until=row[7],
        )
        for row in await cursor.fetchall()
    ]


async def return_follow_up(connection: Connection, follow_up: FollowUp, *, delay: float, tries: int) -> None:
    """Again after ``delay`` seconds."""
    await connection.execute(
        _SQL["return_follow_up"],
        {
            "seller_id": follow_up.seller_id,
            "follow_up_id": follow_up.follow_up_id,
            "leased_until": follow_up.leased_until,
            "delay": delay,
            "tries": tries,
        },
    )


async def delete_follow_up(connection: Connection, follow_up: FollowUp) -> bool:
    """Done; False when somebody else has taken it over since."""
    cursor = await connection.execute(
        _SQL["delete_follow_up"],
        {
            "seller_id": follow_up.seller_id,
            "follow_up_id": follow_up.follow_up_id,
            "leased_until": follow_up.leased_until,
        },
    )
    return cursor.rowcount == 1
