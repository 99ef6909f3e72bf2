"""What a seller has: credits, settings, tariffs."""

from __future__ import annotations

from dataclasses import dataclass

from core.domain.api_key import Principal
from core.domain.seller import PublishingSettings, TaxCategory
from core.domain.states import Environment
from core.errors import internal
from core.storage import sellers
from core.storage.database import Connection, Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """GET /account. ``available`` is for the environment of the calling key (decisions, section 4)."""

    seller_id: int
    site_id: str
    currency: str
    settings: PublishingSettings
    total: int
    available: int
    used_live: int
    used_test: int
    ml_connected: bool


async def get_account(database: Database, principal: Principal) -> Account:
    """The caller's account."""

    async def work(connection: Connection) -> Account | None:
        found = await sellers.overview(connection, principal.seller_id, principal.environment)
        if found is None:
            return None
        site_id, currency, settings, balance, connected = found
        used_live = balance.used + balance.held
        live = principal.environment is Environment.LIVE
        return Account(
            seller_id=principal.seller_id,
            site_id=site_id,
            currency=currency,
            settings=settings,
            total=balance.granted,
            available=balance.granted - used_live if live else balance.granted,
            used_live=used_live,
            used_test=balance.used_test,
            ml_connected=connected,
        )

    account = await database.read(work)
    if account is None:
        raise internal()
    return account


async def list_tax_categories(database: Database, principal: Principal) -> list[TaxCategory]:
    """The caller's tariff categories, by index."""

    async def work(connection: Connection) -> list[TaxCategory]:
        return await sellers.tax_categories(connection, principal.seller_id)

    return await database.read(work)
