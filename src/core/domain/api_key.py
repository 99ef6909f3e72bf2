"""API keys: their form, and what a key may do (contract, "Authentication"; decisions, section 4)."""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.domain.states import Environment

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET_BYTES = 32
BODY_LENGTH = 43
"""Characters that 32 bytes take in base62, zero-padded."""
CHECKSUM_LENGTH = 6
"""Characters that a CRC-32 takes in base62, zero-padded. It catches typing and truncation, not attack."""

KEY_PATTERN = re.compile(rf"svc_(live|test)_([0-9A-Za-z]{{{BODY_LENGTH}}})([0-9A-Za-z]{{{CHECKSUM_LENGTH}}})", re.ASCII)


class Scope(StrEnum):
    """What a key may be allowed; ``resource:action``."""

    PRODUCTS_WRITE = "products:write"
    PRODUCTS_READ = "products:read"
    ACCOUNT_READ = "account:read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who is calling, as the key says. Every statement takes its seller from here, never from a body."""

    seller_id: int
    environment: Environment
    scopes: frozenset[Scope]
    key_id: str
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made. ``secret`` is shown once and never stored; ``digest`` is what is kept."""

    key_id: str
    secret: str
    digest: bytes
    last_four: str


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, remainder = divmod(number, 62)
        digits.append(_ALPHABET[remainder])
    return "".join(reversed(digits))


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode("ascii")), CHECKSUM_LENGTH)


def new_key(environment: Environment) -> NewKey:
    """A fresh key with 256 random bits."""
    start = f"svc_{environment.value}_" + _base62(int.from_bytes(secrets.token_bytes(SECRET_BYTES)), BODY_LENGTH)
    secret = start + _checksum(start)
    return NewKey(
        key_id="key_" + _base62(int.from_bytes(secrets.token_bytes(12)), 17),
        secret=secret,
        digest=digest(secret),
        last_four=secret[-4:],
    )


def is_well_formed(secret: str) -> bool:
    """Whether prefix, length, alphabet and checksum fit, so that a mistyped key costs no look-up."""
    match = KEY_PATTERN.fullmatch(secret)
    return match is not None and secrets.compare_digest(_checksum(secret[:-CHECKSUM_LENGTH]), match.group(3))


def digest(secret: str) -> bytes:
    """What is stored and looked up: SHA-256. A fast hash is right for 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
