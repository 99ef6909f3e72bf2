"""Whether a key is let in: key, scope, rate (decisions, "Order of checks")."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.storage import Storage as LimitStorage
from limits.aio.strategies import FixedWindowRateLimiter
from limits.errors import ConfigurationError
from limits.storage import storage_from_string

from core.domain import api_key
from core.domain.api_key import Principal, Scope
from core.domain.states import Environment
from core.errors import ApiError
from core.settings import Settings, SettingsError, parse_rate
from core.storage import keys
from core.storage.database import Connection, Database

KEY_CACHE_SECONDS = 0.8
"""How long a found key is believed. Revocation must hold everywhere within one second (decisions,
section 4); a fifth of it is left for the look-up itself."""
KEY_CACHE_SIZE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What an operation demands of the key."""

    scope: Scope | None
    writes: bool = False
    live_only: bool = False


@dataclass(frozen=True, slots=True)
class RateState:
    """The ``RateLimit-Policy`` and ``RateLimit`` header values after this request; ``reset`` in seconds."""

    policy: str
    state: str
    reset: int


class Authorizer:
    """Looks keys up, remembers them for less than a second, and counts requests."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._found: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Principal | None]] = {}
        self._write = _limit(settings.rate_limit_write)
        self._read = _limit(settings.rate_limit_read)
        self._bad = _limit(settings.rate_limit_bad_keys)
        self._limiter = FixedWindowRateLimiter(rate_storage(settings.rate_limit_storage))

    async def authenticate(self, secret: str | None, address: str) -> Principal:
        """The principal of a key.

        Args:
            secret: what the caller sent as its key.
            address: the caller's network address; only for counting bad keys.

        Raises:
            ApiError: E_AUTH_MISSING_KEY; E_AUTH_INVALID_KEY, alike for malformed, unknown, revoked and
                expired keys; E_RATE_LIMITED for bad keys from an address that sent too many.
        """
        if not secret:
            raise ApiError("E_AUTH_MISSING_KEY", "Send your API key in the X-API-Key header.")
        digest = api_key.digest(secret)
        known = self._known(digest)
        if known is not None:
            return known
        if not api_key.is_well_formed(secret):
            raise await self._bad_key(address)
        principal = await self._look_up(digest)
        if principal is None:
            raise await self._bad_key(address)
        return principal

    async def recheck(self, digest: bytes) -> None:
        """Ask again whether a key that was let in is still valid; for streams.

        Raises:
            ApiError: E_AUTH_INVALID_KEY when it was revoked or has expired; E_INTERNAL when the database
                is away.
        """
        if await self._look_up(digest) is None:
            raise ApiError("E_AUTH_INVALID_KEY", "The API key was revoked or has expired.")

    def _known(self, digest: bytes) -> Principal | None:
        """What was found less than a moment ago."""
        found = self._found.get(digest)
        return found[1] if found is not None and found[0] > time.monotonic() else None

    async def _look_up(self, digest: bytes) -> Principal | None:
        known = self._known(digest)
        if known is not None:
            return known
        asking = self._asking.get(digest)
        if asking is None:
            # One question for all who ask at once, and shielded from the cancellation of any of them.
            asking = self._asking[digest] = asyncio.create_task(self._find(digest))
            asking.add_done_callback(lambda task: self._found_out(digest, task))
        return await asyncio.shield(asking)

    def _found_out(self, digest: bytes, task: asyncio.Task[Principal | None]) -> None:
        self._asking.pop(digest, None)
        if not task.cancelled():
            task.exception()

    async def _find(self, digest: bytes) -> Principal | None:
        asked_at = time.monotonic()

        async def work(connection: Connection) -> tuple[Principal, float | None] | None:
            return await keys.find(connection, digest)

        found = await self._database.read(work)
        if found is None:
            self._found.pop(digest, None)
            return None
        principal, seconds_left = found
        # Believed from the moment of asking, not of the answer: a slow answer may be an old one.
        life = KEY_CACHE_SECONDS if seconds_left is None else min(KEY_CACHE_SECONDS, seconds_left)
        self._found[digest] = (asked_at + life, principal)
        self._found.move_to_end(digest)
        if len(self._found) > KEY_CACHE_SIZE:
            self._found.popitem(last=False)
        return principal

    async def admit(
        self, principal: Principal, access: Access, told: Callable[[RateState], None] = lambda rate: None
    ) -> None:
        """Scope, then rate, then live key.

        Args:
            told: hears the rate headers as soon as they are known, so that a refusal carries them too;
                not called when limits are off.

        Raises:
            ApiError: E_AUTH_FORBIDDEN_SCOPE, E_RATE_LIMITED, E_PROMOTE_REQUIRES_LIVE_KEY.
        """
        limit = self._write if access.writes else self._read
        name = "write" if access.writes else "read"
        if access.scope is not None and access.scope not in principal.scopes:
            if limit is not None:
                told(await self._state(limit, name, principal))
            raise ApiError("E_AUTH_FORBIDDEN_SCOPE", f"This operation needs the scope {access.scope.value}.")
        if limit is not None:
            allowed = await self._limiter.hit(limit, name, principal.key_id)
            state = await self._state(limit, name, principal)
            told(state)
            if not allowed:
                raise ApiError(
                    "E_RATE_LIMITED",
                    f"More than {limit.amount} {name} requests in {limit.get_expiry()} s.",
                    retry_after=state.reset,
                )
        if access.live_only and principal.environment is not Environment.LIVE:
            raise ApiError("E_PROMOTE_REQUIRES_LIVE_KEY", "Promotion publishes to the real account: use a live key.")

    async def _state(self, limit: RateLimitItem, name: str, principal: Principal) -> RateState:
        window = await self._limiter.get_window_stats(limit, name, principal.key_id)
        reset = max(1, math.ceil(window.reset_time - time.time()))
        return RateState(
            policy=f'"{name}";q={limit.amount};w={limit.get_expiry()}',
            state=f'"{name}";r={window.remaining};t={reset}',
            reset=reset,
        )

    async def _bad_key(self, address: str) -> ApiError:
        if self._bad is not None and not await self._limiter.hit(self._bad, "bad-key", address):
            return ApiError("E_RATE_LIMITED", "Too many bad keys from this address.", retry_after=60)
        return ApiError("E_AUTH_INVALID_KEY", "The API key is malformed, unknown, revoked or expired.")


def rate_storage(address: str) -> LimitStorage:
    """Where requests are counted. Connects to nothing yet.

    Raises:
        SettingsError: the address names nothing that counts can be kept in.
    """
    if address == "memory://":
        return MemoryStorage()
    try:
        return cast(LimitStorage, storage_from_string("async+" + address))
    except (ConfigurationError, ValueError, LookupError):
        # Their words quote the address, which may hold a password.
        raise SettingsError(
            "LISTINGS_RATE_LIMIT_STORAGE: must be memory:// or the address of a Redis (needs the package coredis)"
        ) from None


def _limit(text: str) -> RateLimitItem | None:
    parsed = parse_rate(text)
    if parsed is None:
        return None
    amount, seconds = parsed
    kind = {1: RateLimitItemPerSecond, 60: RateLimitItemPerMinute, 3600: RateLimitItemPerHour}[seconds]
    return kind(amount)
