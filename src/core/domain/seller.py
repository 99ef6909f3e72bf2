"""Sellers, their settings, accounts and credits as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from core.domain.states import Environment

LISTING_TYPES = ("gold_pro", "gold_special", "gold_premium", "gold", "silver", "bronze")
"""Contract, "Shared publication options"; the last four are legacy and accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishingSettings:
    """How a seller publishes. Frozen into each job when it is accepted.

    ``trm``: units of the seller's currency per US dollar. ``price_step``: prices are rounded up to a
    multiple of it, in whole units of the currency.
    """

    trm: int = 4000
    margin_percent: Decimal = Decimal(30)
    price_step: int = 100
    warranty_time: str = "90 días"
    manufacturing_time_days: int = 20
    stock_quantity: int = 5
    listing_type_id: str = "gold_special"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """A marketplace account without its tokens."""

    environment: Environment
    marketplace_user_id: int
    status: str
    nickname: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seller:
    """A tenant."""

    seller_id: int
    name: str
    site_id: str
    currency: str
    settings: PublishingSettings
    created_at: datetime
    accounts: tuple[AccountState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxCategory:
    """A tariff category; ``rate_percent`` goes into the price."""

    index: int
    name: str
    rate_percent: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Credits. granted = available + held + used at every commit."""

    granted: int
    available: int
    held: int
    used: int
    used_test: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One line of the append-only ledger."""

    entry_number: int
    kind: str
    amount: int
    job_id: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """An API key as stored: without its secret."""

    key_id: str
    seller_id: int
    environment: Environment
    scopes: tuple[str, ...]
    last_four: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
