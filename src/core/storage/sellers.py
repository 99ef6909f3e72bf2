"""Sellers, their tariffs and the overview that GET /account shows."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import Any

from core.domain.seller import AccountState, Balance, PublishingSettings, Seller, TaxCategory
from core.domain.states import Environment
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("sellers")


def _settings(row: tuple[Any, ...]) -> PublishingSettings:
    return PublishingSettings(
        trm=row[0],
        margin_percent=row[1],
        price_step=row[2],
        warranty_time=row[3],
        manufacturing_time_days=row[4],
        stock_quantity=row[5],
        listing_type_id=row[6],
    )


def _seller(row: tuple[Any, ...]) -> Seller:
    return Seller(
        seller_id=row[0],
        name=row[1],
        site_id=row[2],
        currency=row[3],
        settings=_settings(row[4:11]),
        created_at=row[11],
        accounts=tuple(
            AccountState(
                environment=Environment(account["environment"]),
                marketplace_user_id=account["marketplace_user_id"],
                status=account["status"],
                nickname=account["nickname"],
            )
            for account in row[12]
        ),
    )


async def insert(
    connection: Connection, *, name: str, site_id: str, currency: str, settings: PublishingSettings
) -> int:
    """Add a seller with an empty balance and tariff category 0. Returns its id."""
    cursor = await connection.execute(
        _SQL["insert_seller"], {"name": name, "site_id": site_id, "currency": currency, **asdict(settings)}
    )
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - INSERT ... RETURNING gives a row or raises
    return int(row[0])


async def select(connection: Connection, seller_id: int | None = None) -> list[Seller]:
    """One seller (an empty list when unknown) or all, by id."""
    cursor = await connection.execute(_SQL["select_sellers"], {"seller_id": seller_id})
    return [_seller(row) for row in await cursor.fetchall()]


async def update(connection: Connection, seller_id: int, changes: dict[str, Any]) -> bool:
    """Change the settings named; False when the seller is unknown."""
    parameters = dict.fromkeys(PublishingSettings.__dataclass_fields__) | changes | {"seller_id": seller_id}
    return (await connection.execute(_SQL["update_seller"], parameters)).rowcount == 1


async def lock(connection: Connection, seller_id: int) -> bool:
    """Lock the seller's row until the transaction ends; False when the seller is unknown."""
    cursor = await connection.execute(_SQL["lock_seller"], {"seller_id": seller_id})
    return await cursor.fetchone() is not None


async def tax_categories(connection: Connection, seller_id: int) -> list[TaxCategory]:
    """By index."""
    cursor = await connection.execute(_SQL["select_tax_categories"], {"seller_id": seller_id})
    return [TaxCategory(index=row[0], name=row[1], rate_percent=row[2]) for row in await cursor.fetchall()]


async def set_tax_category(
    connection: Connection, seller_id: int, *, index: int, name: str, rate_percent: Decimal
) -> None:
    """Set one tariff category."""
    await connection.execute(
        _SQL["upsert_tax_category"],
        {"seller_id": seller_id, "index": index, "name": name, "rate_percent": rate_percent},
    )


async def overview(
    connection: Connection, seller_id: int, environment: Environment
) -> tuple[str, str, PublishingSettings, Balance, bool] | None:
    """(site_id, currency, settings, balance, account connected); None when the seller is unknown."""
    cursor = await connection.execute(
        _SQL["select_account_overview"], {"seller_id": seller_id, "environment": environment}
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    balance = Balance(granted=row[10], available=row[11], held=row[12], used=row[13], used_test=row[14])
    return row[1], row[2], _settings(row[3:10]), balance, row[15]
