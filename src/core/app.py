"""Where everything is put together: settings → pool, stores, ports.

Each process builds one ``Application`` on its event loop and closes it last.
"""

from __future__ import annotations

from core.settings import Settings, SettingsError
from core.storage.accounts import StoredSlotStore, StoredTokenStore, TokenCipher
from core.storage.database import Database
from core.use_cases.authorize import Authorizer


class Application:
    """What a process works with. ``database`` is opaque to the faces: they hand it to use cases."""

    def __init__(self, settings: Settings, *, name: str, database_url: str, secret_key: str) -> None:
        self.settings = settings
        self.database = Database(
            database_url,
            name=name,
            max_size=settings.database_pool_size,
            statement_timeout=settings.statement_timeout_seconds,
            prepare=settings.database_prepare,
        )
        try:
            self.cipher = TokenCipher(secret_key)
        except ValueError:
            raise SettingsError("LISTINGS_SECRET_KEY: must be Fernet keys (32 bytes, URL-safe base64)") from None
        self.authorizer = Authorizer(self.database, settings)
        self.tokens = StoredTokenStore(self.database, self.cipher)
        self.slots = StoredSlotStore(self.database)

    async def open(self, wait: float = 30.0) -> None:
        """Connect to the database; raises psycopg_pool.PoolTimeout when it stays away that long."""
        await self.database.open(wait)

    async def close(self) -> None:
        """Close what open() opened."""
        await self.database.close()
