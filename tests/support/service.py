"""A core to test against: settings, tenants and their keys, on a database of the shared test server.

The fixtures in ``tests/conftest.py`` are made of these; a test that needs something special calls them itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.fernet import Fernet

from core.app import Application
from core.domain.api_key import Scope
from core.domain.states import Environment
from core.settings import Settings
from core.storage.migrate import migrate
from core.use_cases import administration
from tests.support.postgres import start_test_postgres

SECRET_KEY = Fernet.generate_key().decode()
OPERATOR_TOKEN = "operator-" + secrets.token_hex(8)
TEMPLATE = "listings_migrated"
ALL_SCOPES = tuple(scope.value for scope in Scope)


def new_database() -> str:
    """The URL of a fresh, migrated database (about 0.2 s). Drop it with ``start_test_postgres().drop_database``."""
    server = start_test_postgres()
    return server.create_database(server.create_template(TEMPLATE, _migrate))


def _migrate(url: str) -> None:
    migrate(url)


def settings_for(database_url: str, **changes: Any) -> Settings:
    """Settings of a test: nothing from the environment's ``.env``, rate limits off, free ports, fast polls."""
    chosen: dict[str, Any] = {
        "database_url": database_url,
        "grpc_addr": "127.0.0.1:0",
        "http_addr": "127.0.0.1:0",
        "sandbox_addr": "127.0.0.1:0",
        "rate_limit_write": "off",
        "rate_limit_read": "off",
        "rate_limit_bad_keys": "off",
        "marketplace_rate": "off",
        "operator_token": OPERATOR_TOKEN,
        "secret_key": SECRET_KEY,
        "poll_seconds": 0.1,
        "drain_seconds": 5,
    }
    return Settings(_env_file=None, **(chosen | changes))


def environment_for(database_url: str, **changes: str) -> dict[str, str]:
    """The same as environment variables, for processes that a test starts. Names as in ``changes``: without
    the prefix, in lower case."""
    chosen = {
        "database_url": database_url,
        "rate_limit_write": "off",
        "rate_limit_read": "off",
        "rate_limit_bad_keys": "off",
        "marketplace_rate": "off",
        "operator_token": OPERATOR_TOKEN,
        "secret_key": SECRET_KEY,
    }
    return {f"LISTINGS_{name.upper()}": value for name, value in (chosen | changes).items()}


def new_application(database_url: str, *, name: str = "test", **changes: Any) -> Application:
    """An application that is not open yet, on this database."""
    settings = settings_for(database_url, **changes)
    return Application(settings, name=name, database_url=database_url, secret_key=SECRET_KEY)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A seller with a live and a test key of all scopes. ``marketplace_users``: the connected accounts'."""

    application: Application = field(repr=False)
    seller_id: int
    live_key: str = field(repr=False)
    test_key: str = field(repr=False)
    live_key_id: str
    test_key_id: str
    marketplace_users: dict[Environment, int]

    async def key(self, environment: str = "test", scopes: Sequence[str] = ALL_SCOPES, **more: Any) -> tuple[str, str]:
        """Another key: (key id, secret)."""
        record, secret = await administration.create_key(
            self.application.database, self.seller_id, environment=Environment(environment), scopes=scopes, **more
        )
        return record.key_id, secret

    async def credits(self) -> tuple[int, int, int, int, int]:
        """(granted, available, held, used, used_test)."""
        balance, _ = await administration.get_credits(self.application.database, self.seller_id)
        return balance.granted, balance.available, balance.held, balance.used, balance.used_test


async def new_tenant(
    application: Application,
    *,
    balance: int = 100_000,
    connected: Sequence[str] = ("live", "test"),
    settings: dict[str, Any] | None = None,
) -> Tenant:
    """A fresh seller with credits, two keys, and these accounts connected (with tokens the sandbox accepts)."""
    database = application.database
    seller = await administration.create_seller(database, name="Tienda", first_credits=balance, settings=settings)
    keys = {}
    for environment in Environment:
        keys[environment] = await administration.create_key(
            database, seller.seller_id, environment=environment, scopes=ALL_SCOPES
        )
    users = {}
    for name in connected:
        environment = Environment(name)
        user = secrets.randbelow(10**9) + 10**9
        users[environment] = user
        await administration.connect_account(
            database,
            application.cipher,
            seller.seller_id,
            environment,
            marketplace_user_id=user,
            access_token=f"APP_USR-{secrets.token_hex(8)}-{user}",
        )
    live, test = keys[Environment.LIVE], keys[Environment.TEST]
    return Tenant(application, seller.seller_id, live[1], test[1], live[0].key_id, test[0].key_id, users)


def skus(count: int, prefix: str = "SKU") -> list[str]:
    """That many different SKUs."""
    return [f"{prefix}{number:0{10 - len(prefix)}d}" for number in range(count)]
