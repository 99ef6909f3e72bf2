"""Sellers, keys, credits, accounts and tariffs, for whoever runs the service."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from core.domain import api_key
from core.domain.api_key import Scope
from core.domain.seller import (
    LISTING_TYPES,
    AccountState,
    Balance,
    KeyRecord,
    LedgerEntry,
    PublishingSettings,
    Seller,
    TaxCategory,
)
from core.domain.states import Environment
from core.domain.text import is_name
from core.errors import ApiError, Violation
from core.storage import accounts, keys, sellers
from core.storage import credits as credit_store
from core.storage.accounts import TokenCipher
from core.storage.database import Connection, Database

LEDGER_LINES = 50
MAX_CREDITS = 10**15

_RANGES = {
    "trm": (1, 10**9),
    "price_step": (1, 10**9),
    "manufacturing_time_days": (0, 60),
    "stock_quantity": (1, 99_999),
}
NAME_RULE = "must have 1 to {} characters, no control character among them"
_KEY_ID = re.compile(r"key_[0-9A-Za-z]{1,40}", re.ASCII)
_TOKEN = re.compile(r"[\x21-\x7e]{1,2000}", re.ASCII)


def invalid_value(name: str, rule: str) -> ApiError:
    """A value that breaks its rule; names the value, never shows it."""
    return ApiError("E_ADMIN_INVALID", f"{name} {rule}.", violations=[Violation("E_ADMIN_INVALID", rule, name)])


def not_found(what: str) -> ApiError:
    """Nothing by that name."""
    return ApiError("E_ADMIN_NOT_FOUND", f"There is no such {what}.")


def parse_percent(name: str, text: str, *, highest: int = 1000) -> Decimal:
    """A percentage as a decimal number with at most 3 places.

    Raises:
        ApiError: E_ADMIN_INVALID.
    """
    rule = f"must be a decimal number from 0 to {highest} with at most 3 places"
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise invalid_value(name, rule) from None
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -3 or not 0 <= value <= highest:
        raise invalid_value(name, rule)
    return value


def check_settings(changes: dict[str, Any]) -> dict[str, Any]:
    """The settings given (None: not given), judged. ``margin_percent`` comes as text or Decimal.

    Raises:
        ApiError: E_ADMIN_INVALID.
    """
    given = {name: value for name, value in changes.items() if value is not None}
    unknown = given.keys() - {each.name for each in fields(PublishingSettings)}
    if unknown:
        raise invalid_value(min(unknown), "is no setting")
    for name, (lowest, highest) in _RANGES.items():
        if name in given and not lowest <= given[name] <= highest:
            raise invalid_value(name, f"must be from {lowest} to {highest}")
    if "margin_percent" in given:
        given["margin_percent"] = parse_percent("margin_percent", str(given["margin_percent"]))
    if "warranty_time" in given and not is_name(given["warranty_time"], 40):
        raise invalid_value("warranty_time", NAME_RULE.format(40))
    if "listing_type_id" in given and given["listing_type_id"] not in LISTING_TYPES:
        raise invalid_value("listing_type_id", "must be one of " + ", ".join(LISTING_TYPES))
    return given


async def create_seller(
    database: Database,
    *,
    name: str,
    first_credits: int = 0,
    site_id: str = "MCO",
    currency: str = "COP",
    settings: dict[str, Any] | None = None,
) -> Seller:
    """Add a seller with tariff category 0 (General, 0 %) and, if asked, its first credits.

    Raises:
        ApiError: E_ADMIN_INVALID.
    """
    if not is_name(name, 200):
        raise invalid_value("name", NAME_RULE.format(200))
    if not 0 <= first_credits <= MAX_CREDITS:
        raise invalid_value("credits", f"must be from 0 to {MAX_CREDITS}")
    if site_id != "MCO":
        raise invalid_value("site", "must be MCO, the only site this service publishes on")
    if currency != "COP":
        raise invalid_value("currency", "must be COP, the currency of site MCO")
    chosen = PublishingSettings(**check_settings(settings or {}))

    async def work(connection: Connection) -> Seller:
        seller_id = await sellers.insert(connection, name=name, site_id=site_id, currency=currency, settings=chosen)
        if first_credits:
            await credit_store.grant(connection, seller_id, first_credits)
        return (await sellers.select(connection, seller_id))[0]

    return await database.transact(work)


async def list_sellers(database: Database) -> list[Seller]:
    """All, by id."""
    return await database.read(sellers.select)


async def get_seller(database: Database, seller_id: int) -> Seller:
    """One seller.

    Raises:
        ApiError: E_ADMIN_NOT_FOUND.
    """

    async def work(connection: Connection) -> list[Seller]:
        return await sellers.select(connection, seller_id)

    found = await database.read(work)
    if not found:
        raise not_found("seller")
    return found[0]


async def update_seller(database: Database, seller_id: int, settings: dict[str, Any]) -> Seller:
    """Change the settings given; jobs already accepted keep theirs.

    Raises:
        ApiError: E_ADMIN_INVALID, E_ADMIN_NOT_FOUND.
    """
    changes = check_settings(settings)
    if not changes:
        raise invalid_value("settings", "must name at least one setting")

    async def work(connection: Connection) -> Seller:
        if not await sellers.update(connection, seller_id, changes):
            raise not_found("seller")
        return (await sellers.select(connection, seller_id))[0]

    return await database.transact(work)


async def create_key(
    database: Database,
    seller_id: int,
    *,
    environment: Environment,
    scopes: Sequence[str],
    expires_at: datetime | None = None,
) -> tuple[KeyRecord, str]:
    """Make a key. The secret is in the answer and nowhere else, ever.

    Raises:
        ApiError: E_ADMIN_INVALID, E_ADMIN_NOT_FOUND.
    """
    unknown = set(scopes) - set(Scope)
    if unknown:
        raise invalid_value("scope", "must be one of " + ", ".join(Scope))
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise invalid_value("expires_at", "must be in the future")
    chosen = [scope for scope in Scope if scope.value in scopes]
    key = api_key.new_key(environment)

    async def work(connection: Connection) -> KeyRecord | None:
        return await keys.insert(
            connection, seller_id, key, environment=environment, scopes=chosen, expires_at=expires_at
        )

    record = await database.transact(work)
    if record is None:
        raise not_found("seller")
    return record, key.secret


async def list_keys(database: Database, seller_id: int) -> list[KeyRecord]:
    """A seller's keys, newest first.

    Raises:
        ApiError: E_ADMIN_NOT_FOUND.
    """
    await get_seller(database, seller_id)

    async def work(connection: Connection) -> list[KeyRecord]:
        return await keys.select(connection, seller_id)

    return await database.read(work)


async def revoke_key(database: Database, key_id: str) -> KeyRecord:
    """Revoke a key: within one second everywhere. Revoking again changes nothing.

    Raises:
        ApiError: E_ADMIN_NOT_FOUND.
    """

    if not _KEY_ID.fullmatch(key_id):
        raise not_found("key")

    async def work(connection: Connection) -> KeyRecord | None:
        return await keys.revoke(connection, key_id)

    record = await database.transact(work)
    if record is None:
        raise not_found("key")
    return record


async def grant_credits(database: Database, seller_id: int, amount: int) -> Balance:
    """Add credits.

    Raises:
        ApiError: E_ADMIN_INVALID, E_ADMIN_NOT_FOUND.
    """
    if not 1 <= amount <= MAX_CREDITS:
        raise invalid_value("amount", f"must be from 1 to {MAX_CREDITS}")

    async def work(connection: Connection) -> Balance | None:
        return await credit_store.grant(connection, seller_id, amount)

    balance = await database.transact(work)
    if balance is None:
        raise not_found("seller")
    return balance


async def get_credits(database: Database, seller_id: int) -> tuple[Balance, list[LedgerEntry]]:
    """A seller's balance and latest ledger entries, newest first.

    Raises:
        ApiError: E_ADMIN_NOT_FOUND.
    """

    async def work(connection: Connection) -> tuple[Balance | None, list[LedgerEntry]]:
        return (
            await credit_store.balance(connection, seller_id),
            await credit_store.ledger(connection, seller_id, LEDGER_LINES),
        )

    balance, entries = await database.read(work)
    if balance is None:
        raise not_found("seller")
    return balance, entries


async def connect_account(
    database: Database,
    cipher: TokenCipher,
    seller_id: int,
    environment: Environment,
    *,
    marketplace_user_id: int,
    access_token: str,
    refresh_token: str | None = None,
) -> AccountState:
    """Connect or reconnect a marketplace account; tokens are stored encrypted.

    Raises:
        ApiError: E_ADMIN_INVALID, E_ADMIN_NOT_FOUND.
    """
    if not 1 <= marketplace_user_id < 2**63:
        raise invalid_value("marketplace_user_id", "must be a positive 64-bit integer")
    for name, token in (("access_token", access_token), ("refresh_token", refresh_token)):
        if token is not None and not _TOKEN.fullmatch(token):
            raise invalid_value(name, "must have 1 to 2000 visible ASCII characters")

    async def work(connection: Connection) -> AccountState | None:
        return await accounts.connect(
            connection,
            cipher,
            seller_id,
            environment,
            marketplace_user_id=marketplace_user_id,
            access_token=access_token,
            refresh_token=refresh_token,
        )

    state = await database.transact(work)
    if state is None:
        raise not_found("seller")
    return state


async def disconnect_account(database: Database, seller_id: int, environment: Environment) -> AccountState:
    """Forget an account's tokens.

    Raises:
        ApiError: E_ADMIN_NOT_FOUND.
    """

    async def work(connection: Connection) -> AccountState | None:
        return await accounts.disconnect(connection, seller_id, environment)

    state = await database.transact(work)
    if state is None:
        raise not_found("account")
    return state


async def reencrypt_tokens(database: Database, cipher: TokenCipher) -> tuple[int, int]:
    """Encrypt every account's tokens under the first of the cipher's keys, so that the others can be taken away.
    Safe to run again, and beside everything else.

    Returns:
        Accounts done, and accounts whose tokens none of the keys can read.
    """
    done = unreadable = 0
    for tokens in await database.read(accounts.sealed):

        async def work(connection: Connection, tokens: accounts.SealedTokens = tokens) -> None:
            await accounts.reseal(connection, cipher, tokens)

        try:
            await database.read(work)
            done += 1
        except ValueError:
            unreadable += 1
    return done, unreadable


async def set_tax_category(
    database: Database, seller_id: int, *, index: int, name: str, rate_percent: str
) -> list[TaxCategory]:
    """Set one tariff category; indices stay without holes.

    Raises:
        ApiError: E_ADMIN_INVALID, E_ADMIN_NOT_FOUND.
    """
    rate = parse_percent("rate", rate_percent)
    if not is_name(name, 100):
        raise invalid_value("name", NAME_RULE.format(100))

    async def work(connection: Connection) -> list[TaxCategory]:
        if not await sellers.lock(connection, seller_id):
            raise not_found("seller")
        present = await sellers.tax_categories(connection, seller_id)
        if not 0 <= index <= min(len(present), 999):
            raise invalid_value("index", f"must be from 0 to {min(len(present), 999)}: indices have no holes")
        await sellers.set_tax_category(connection, seller_id, index=index, name=name, rate_percent=rate)
        return await sellers.tax_categories(connection, seller_id)

    return await database.transact(work)


async def list_tax_categories(database: Database, seller_id: int) -> list[TaxCategory]:
    """A seller's tariff categories, by index.

    Raises:
        ApiError: E_ADMIN_NOT_FOUND.
    """
    await get_seller(database, seller_id)

    async def work(connection: Connection) -> list[TaxCategory]:
        return await sellers.tax_categories(connection, seller_id)

    return await database.read(work)
