"""API keys: form, checksum, and what is kept of them."""

from __future__ import annotations

import hashlib
import re

import pytest

from core.domain.api_key import digest, is_well_formed, new_key
from core.domain.states import Environment


@pytest.mark.parametrize("environment", list(Environment))
def test_a_new_key_has_the_prefix_of_its_environment_and_checks(environment: Environment) -> None:
    key = new_key(environment)

    assert re.fullmatch(rf"svc_{environment.value}_[0-9A-Za-z]{{49}}", key.secret)
    assert is_well_formed(key.secret)
    assert key.last_four == key.secret[-4:]
    assert key.digest == hashlib.sha256(key.secret.encode()).digest() == digest(key.secret)
    assert key.secret not in key.key_id


def test_no_two_keys_are_alike() -> None:
    keys = [new_key(Environment.TEST) for _ in range(200)]

    assert len({key.secret for key in keys}) == len({key.key_id for key in keys}) == 200


def test_a_typing_error_anywhere_is_noticed() -> None:
    secret = new_key(Environment.LIVE).secret
    for position in range(len(secret)):
        other = "1" if secret[position] != "1" else "2"
        assert not is_well_formed(secret[:position] + other + secret[position + 1 :])
        assert not is_well_formed(secret[:position] + secret[position + 1 :])
    for odd in ("", secret + "0", f" {secret}", f"{secret}\n", secret.replace("live", "test"), secret.upper()):
        assert not is_well_formed(odd)
