"""A new secret key, from putting it in front to taking the old one away."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet

from core.app import Application
from core.domain.states import Environment
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
