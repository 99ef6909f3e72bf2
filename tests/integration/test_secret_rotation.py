"""A new secret key, from putting it in front to taking the old one away."""

from __future__ import annotations

from unittest import mock

import pytest
from cryptography.fernet import Fernet

from core.app import Application
from core.domain.failures import Failure
from core.domain.states import Environment
from core.marketplace import tokens as tokens_module
from core.marketplace.tokens import Grant, Tokens
from core.ports.marketplace import Account, Outcome, Result
from core.storage.accounts import StoredTokenStore, TokenCipher
from core.use_cases import administration
from tests.support import service


async def test_after_reencryption_the_old_key_can_go(own_application: Application) -> None:
    old, new = service.SECRET_KEY, Fernet.generate_key().decode()
    database = own_application.database
    tenants = [await service.new_tenant(own_application) for _ in range(3)]
    before = [await own_application.tokens.read(tenant.seller_id, Environment.TEST) for tenant in tenants]

    assert await administration.reencrypt_tokens(database, TokenCipher(f"{new},{old}")) == (6, 0)

    alone = StoredTokenStore(database, TokenCipher(new))
    after = [await alone.read(tenant.seller_id, Environment.TEST) for tenant in tenants]
    assert after == before
    assert await administration.reencrypt_tokens(database, TokenCipher(new)) == (6, 0)


async def test_a_key_that_fits_nothing_changes_nothing(own_application: Application) -> None:
    tenant = await service.new_tenant(own_application)
    stranger = TokenCipher(Fernet.generate_key().decode())

    assert await administration.reencrypt_tokens(own_application.database, stranger) == (0, 2)

    tokens = await own_application.tokens.read(tenant.seller_id, Environment.LIVE)
    assert tokens is not None
    with pytest.raises(ValueError, match="none of the keys"):
        stranger.reencrypt(own_application.cipher.encrypt("x"))


async def test_tokens_that_no_key_reads_are_told_as_such(own_application: Application) -> None:
    tenant = await service.new_tenant(own_application)
    stranger = StoredTokenStore(own_application.database, TokenCipher(Fernet.generate_key().decode()))

    found = await stranger.read(tenant.seller_id, Environment.LIVE)

    assert found is not None
    assert (found.status, found.access_token, found.refresh_token) == ("unreadable", "", None)

    await administration.disconnect_account(own_application.database, tenant.seller_id, Environment.LIVE)
    found = await stranger.read(tenant.seller_id, Environment.LIVE)
    assert found is not None
    assert found.status == "disconnected"


async def test_an_account_whose_tokens_no_key_reads_has_to_be_connected_again(
    own_application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a failure of our own storage its jobs would wait for ever."""
    tenant = await service.new_tenant(own_application)
    stored = await own_application.tokens.read(tenant.seller_id, Environment.TEST)
    assert stored is not None
    cipher = TokenCipher(Fernet.generate_key().decode())
    tokens = Tokens(
        StoredTokenStore(own_application.database, cipher),
        mock.Mock(),
        client_id="",
        client_secret="",
        timeout_seconds=1,
        before_send=mock.AsyncMock(),
    )
    account = Account(
        seller_id=tenant.seller_id,
        environment=Environment.TEST,
        marketplace_user_id=stored.marketplace_user_id or 0,
        site_id="MCO",
        currency="COP",
    )

    at_first = await tokens.get(account)
    monkeypatch.setattr(tokens_module, "UNREADABLE_SECONDS", 0.0)
    later = await tokens.get(account)

    assert isinstance(at_first, Result)
    assert (at_first.outcome, at_first.failure) == (Outcome.NOT_SENT, Failure("internal_error"))
    assert isinstance(later, Result)
    assert later.failure == Failure("account_reauthorization_required")

    await administration.connect_account(
        own_application.database,
        cipher,
        tenant.seller_id,
        Environment.TEST,
        marketplace_user_id=account.marketplace_user_id,
        access_token="APP_USR-new",
    )
    assert isinstance(await tokens.get(account), Grant)
