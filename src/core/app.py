"""Where everything is put together: settings → pool, stores, ports.

Each process builds one ``Application`` on its event loop and closes it last.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from core import metrics, tracing
from core.domain.failures import ACCOUNT_WIDE
from core.settings import Settings, SettingsError
from core.storage.accounts import StoredSlotStore, StoredTokenStore, TokenCipher
from core.storage.database import Database
from core.use_cases.authorize import Authorizer

if TYPE_CHECKING:
    from core.marketplace import MercadoLibre
    from core.ports.marketplace import Marketplace
    from core.worker.process import Worker


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
            notify=settings.database_listen,
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
        metrics.follow_pool(self.database.usage)

    async def close(self) -> None:
        """Close what open() opened."""
        await self.database.close()

    def marketplace(self) -> MercadoLibre:
        """A connector to the marketplace of the settings, with this process's connections; whoever asks closes it.

        Raises:
            SettingsError: no marketplace is configured.
        """
        # Here and not above: the core server has no use for an HTTP client and its memory.
        from core.marketplace import MercadoLibre  # noqa: PLC0415

        settings = self.settings
        if settings.marketplace_url is None:
            raise SettingsError("LISTINGS_MARKETPLACE_URL: must be set for a worker")
        for outcome in ("refreshed", "refused", "failed", "other_user"):
            metrics.token_refreshes.labels(outcome)
        return MercadoLibre(
            base_url=settings.marketplace_url,
            client_id=settings.marketplace_client_id,
            client_secret=settings.marketplace_client_secret.get_secret_value(),
            timeout_seconds=settings.marketplace_timeout_seconds,
            rate=settings.marketplace_rate,
            token_store=self.tokens,
            slot_store=self.slots,
            # Searches and follow-ups beside the sends; a call must never wait for a connection.
            connections=settings.worker_concurrency + 16,
            observe=_observe,
            observe_wait=metrics.marketplace_wait_seconds.observe,
            observe_refresh=lambda outcome: metrics.token_refreshes.labels(outcome).inc(),
        )

    def worker(self, marketplace: Marketplace) -> Worker:
        """A worker on this application; ``worker.run()`` works until ``worker.context.stopping`` is set."""
        for reason in ACCOUNT_WIDE:
            # From the start, so that the first one is seen as an increase.
            metrics.jobs_stopped.labels(reason)
        from core.worker.context import WorkerContext  # noqa: PLC0415
        from core.worker.process import Worker  # noqa: PLC0415

        return Worker(WorkerContext(database=self.database, marketplace=marketplace, settings=self.settings))


def _observe(operation: str, outcome: str, seconds: float) -> None:
    _calls(operation, outcome).inc()
    _seconds(operation).observe(seconds)
    failed = None if outcome in ("done", "refused") else outcome
    tracing.told(f"marketplace {operation}", seconds, failed=failed, outcome=outcome)


# Looked up once: finding a metric by its labels costs as much as counting with it.
_calls = functools.cache(metrics.marketplace_calls.labels)
_seconds = functools.cache(metrics.marketplace_seconds.labels)
