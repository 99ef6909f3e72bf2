"""Marketplace accounts: encrypted tokens, the refresh guard and the shared rate limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from psycopg.types.json import Jsonb

from core.domain.seller import AccountState
from core.domain.states import Environment
from core.ports.marketplace import Listing, Profile, SellerModel, SlotStore, StoredTokens, TokenStore
from core.ports.work import AccountContext
from core.storage.database import Connection, Database
from core.storage.listings import listing_row
from core.storage.statements import load

_SQL = load("accounts")


class TokenCipher:
    """Encrypts tokens at rest: Fernet keys, comma separated; the first encrypts, all decrypt.

    Raises:
        ValueError: a key is not 32 bytes in URL-safe base64.
    """

    def __init__(self, keys: str) -> None:
        self._fernet = MultiFernet([Fernet(key.strip()) for key in keys.split(",")])

    def encrypt(self, text: str) -> bytes:
        """For storage."""
        return self._fernet.encrypt(text.encode())

    def decrypt(self, stored: bytes) -> str:
        """Back to clear text, in memory only."""
        return self._fernet.decrypt(bytes(stored)).decode()

    def reencrypt(self, stored: bytes) -> bytes:
        """The same under the first key.

        Raises:
            ValueError: none of the keys fits.
        """
        try:
            return self._fernet.rotate(bytes(stored))
        except InvalidToken:
            raise ValueError("none of the keys fits") from None


@dataclass(frozen=True, slots=True)
class SealedTokens:
    """An account's tokens as they lie in the database."""

    seller_id: int
    environment: Environment
    access: bytes = field(repr=False)
    refresh: bytes | None = field(repr=False)


async def sealed(connection: Connection) -> list[SealedTokens]:
    """The tokens of every account that has any."""
    cursor = await connection.execute(_SQL["select_sealed"])
    return [
        SealedTokens(row[0], Environment(row[1]), bytes(row[2]), None if row[3] is None else bytes(row[3]))
        for row in await cursor.fetchall()
    ]


async def reseal(connection: Connection, cipher: TokenCipher, tokens: SealedTokens) -> None:
    """Encrypt them under the cipher's first key; what was renewed meanwhile is left as it is.

    Raises:
        ValueError: none of the cipher's keys fits.
    """
    await connection.execute(
        _SQL["reseal"],
        {
            "seller_id": tokens.seller_id,
            "environment": tokens.environment,
            "old_access": tokens.access,
            "old_refresh": tokens.refresh,
            "new_access": cipher.reencrypt(tokens.access),
            "new_refresh": None if tokens.refresh is None else cipher.reencrypt(tokens.refresh),
        },
    )


def _state(row: tuple[Any, ...]) -> AccountState:
    return AccountState(environment=Environment(row[0]), marketplace_user_id=row[1], status=row[2], nickname=row[3])


async def connect(
    connection: Connection,
    cipher: TokenCipher,
    seller_id: int,
    environment: Environment,
    *,
    marketplace_user_id: int,
    access_token: str,
    refresh_token: str | None,
) -> AccountState | None:
    """Connect or reconnect; None when the seller is unknown. In the caller's transaction."""
    await connection.execute(_SQL["lock_account"], {"seller_id": seller_id, "environment": environment})
    cursor = await connection.execute(
        _SQL["connect"],
        {
            "seller_id": seller_id,
            "environment": environment,
            "marketplace_user_id": marketplace_user_id,
            "access_token": cipher.encrypt(access_token),
            "refresh_token": cipher.encrypt(refresh_token) if refresh_token else None,
        },
    )
    row = await cursor.fetchone()
    return _state(row) if row else None


async def disconnect(connection: Connection, seller_id: int, environment: Environment) -> AccountState | None:
    """Forget the tokens; None when there was no account."""
    cursor = await connection.execute(_SQL["disconnect"], {"seller_id": seller_id, "environment": environment})
    row = await cursor.fetchone()
    return _state(row) if row else None


class StoredTokenStore(TokenStore):
    """Tokens in the accounts table."""

    def __init__(self, database: Database, cipher: TokenCipher) -> None:
        self._database = database
        self._cipher = cipher

    async def _changed(self, statement: str, seller_id: int, environment: Environment, **values: Any) -> bool:
        async def work(connection: Connection) -> bool:
            cursor = await connection.execute(
                _SQL[statement], {"seller_id": seller_id, "environment": environment, **values}
            )
            return cursor.rowcount == 1

        return await self._database.read(work)

    async def read(self, seller_id: int, environment: Environment) -> StoredTokens | None:
        """See TokenStore."""

        async def work(connection: Connection) -> tuple[Any, ...] | None:
            cursor = await connection.execute(
                _SQL["select_tokens"], {"seller_id": seller_id, "environment": environment}
            )
            return await cursor.fetchone()

        row = await self._database.read(work)
        if row is None:
            return None
        status = row[4]
        try:
            access = self._cipher.decrypt(row[0]) if row[0] else ""
            refresh = self._cipher.decrypt(row[1]) if row[1] else None
        except InvalidToken:
            access, refresh = "", None
            status = "unreadable" if status == "connected" else status
        return StoredTokens(
            access_token=access,
            refresh_token=refresh,
            seconds_left=row[2],
            version=row[3],
            status=status,
            marketplace_user_id=row[5],
        )

    async def begin_refresh(self, seller_id: int, environment: Environment, version: int, seconds: float) -> bool:
        """See TokenStore."""
        return await self._changed("begin_refresh", seller_id, environment, version=version, seconds=seconds)

    async def finish_refresh(
        self,
        seller_id: int,
        environment: Environment,
        version: int,
        *,
        access_token: str,
        refresh_token: str,
        expires_in: int,
    ) -> bool:
        """See TokenStore."""
        return await self._changed(
            "finish_refresh",
            seller_id,
            environment,
            version=version,
            access_token=self._cipher.encrypt(access_token),
            refresh_token=self._cipher.encrypt(refresh_token),
            expires_in=expires_in,
        )

    async def abandon_refresh(self, seller_id: int, environment: Environment, version: int) -> None:
        """See TokenStore."""
        await self._changed("abandon_refresh", seller_id, environment, version=version)

    async def require_authorization(self, seller_id: int, environment: Environment, version: int) -> None:
        """See TokenStore."""
        await self._changed("require_authorization", seller_id, environment, version=version)


class StoredSlotStore(SlotStore):
    """The application's sending slots in one row."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(self, application: str, slots: int, per_second: float) -> tuple[float, float]:
        """See SlotStore."""

        async def work(connection: Connection) -> tuple[float, float]:
            cursor = await connection.execute(
                _SQL["reserve_slots"], {"application": application, "slots": slots, "per_second": per_second}
            )
            row = await cursor.fetchone()
            assert row is not None  # noqa: S101 - an upsert returns its row
            return float(row[0]), float(row[1])

        return await self._database.read(work)

    async def slow_down(self, application: str, seconds: float) -> None:
        """See SlotStore."""

        async def work(connection: Connection) -> None:
            await connection.execute(_SQL["slow_down"], {"application": application, "seconds": seconds})

        await self._database.read(work)


async def context(connection: Connection, seller_id: int, environment: Environment) -> AccountContext | None:
    """What a worker needs to know of an account; None when the seller is unknown."""
    cursor = await connection.execute(_SQL["select_account"], {"seller_id": seller_id, "environment": environment})
    row = await cursor.fetchone()
    if row is None:
        return None
    return AccountContext(
        site_id=row[0],
        currency=row[1],
        marketplace_user_id=row[2],
        status=row[3],
        model=SellerModel(row[4]) if row[4] else None,
        profile_fresh=bool(row[5]),
        paused_seconds=row[6] or 0.0,
        scanned_to=row[7] or 0,
        all_known=bool(row[8]),
    )


async def store_profile(
    connection: Connection, seller_id: int, environment: Environment, *, marketplace_user_id: int, profile: Profile
) -> None:
    """Keep what the marketplace said of the account's user."""
    await connection.execute(
        _SQL["store_profile"],
        {
            "seller_id": seller_id,
            "environment": environment,
            "marketplace_user_id": marketplace_user_id,
            "nickname": profile.nickname,
            "model": profile.model,
        },
    )


async def forget_profile(connection: Connection, seller_id: int, environment: Environment) -> None:
    """Ask the marketplace again before the next run."""
    await connection.execute(_SQL["forget_profile"], {"seller_id": seller_id, "environment": environment})


async def store_scan(
    connection: Connection,
    seller_id: int,
    environment: Environment,
    *,
    marketplace_user_id: int,
    scanned_to: int,
    all_known: bool | None,
) -> None:
    """The account's listings were looked through, the newest being ``scanned_to``; whether all of them are known now,
    None: as before."""
    await connection.execute(
        _SQL["store_scan"],
        {
            "seller_id": seller_id,
            "environment": environment,
            "marketplace_user_id": marketplace_user_id,
            "scanned_to": scanned_to,
            "all_known": all_known,
        },
    )


async def pause(
    connection: Connection, seller_id: int, environment: Environment, *, seconds: float, reason: str
) -> None:
    """Send nothing for this account for a while; the reason is shown to the seller."""
    await connection.execute(
        _SQL["pause"], {"seller_id": seller_id, "environment": environment, "seconds": seconds, "reason": reason}
    )


async def known_listing_ids(
    connection: Connection, seller_id: int, environment: Environment, listing_ids: Sequence[str]
) -> set[str]:
    """Which of these listings are already known."""
    cursor = await connection.execute(
        _SQL["select_known_listing_ids"],
        {"seller_id": seller_id, "environment": environment, "listing_ids": list(listing_ids)},
    )
    return {row[0] for row in await cursor.fetchall()}


async def adopt_found(
    connection: Connection,
    seller_id: int,
    environment: Environment,
    *,
    marketplace_user_id: int,
    currency: str,
    found: Sequence[Listing],
) -> None:
    """Remember listings found on this user's account. One per SKU; an open one already known stays."""
    await connection.execute(
        _SQL["adopt_found"],
        {
            "seller_id": seller_id,
            "environment": environment,
            "marketplace_user_id": marketplace_user_id,
            "currency": currency,
            "found": Jsonb([listing_row(each) for each in found]),
        },
    )
