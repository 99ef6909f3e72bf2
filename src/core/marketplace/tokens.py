"""Access tokens: cached per account, refreshed once for everybody who waits (rule 30).

Inside a process one task per account reads or refreshes while all others wait for it; between processes
the store's guard lets one refresh. A refresh token works once, so the new pair is stored before anybody
uses it, and a refresh once begun is finished even when its callers give up.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import structlog

from core.domain.failures import Cause, Failure
from core.domain.states import Environment
from core.marketplace.answers import TokenPair, read_error, read_tokens
from core.marketplace.client import Answer, HttpClient
from core.marketplace.errors import OAUTH_ERRORS, not_sent, retry_after_seconds, stopped, told_causes
from core.ports.marketplace import Account, Outcome, Result, StoredTokens, TokenStore

_LOG = structlog.stdlib.get_logger("core.marketplace")

REFRESH_MARGIN_SECONDS = 60.0
"""A token is renewed this long before its end."""
RECHECK_SECONDS = 30.0
"""The stored pair is read again after this time, so that a disconnected or newly connected account is seen."""
UNREADABLE_SECONDS = 120.0
"""How long a key that reads an account's tokens is waited for before its jobs fail."""

_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_Key = tuple[int, Environment]


@dataclass(slots=True, repr=False)
class Grant:
    """A usable token as the headers of a request. Has no repr so that no log can show it.

    ``fresh_until`` is on the monotonic clock.
    """

    headers: Mapping[str, str]
    version: int
    fresh_until: float
    marketplace_user_id: int


class Tokens:
    """Grants for accounts.

    Args:
        store: where pairs live.
        http: sends the refresh.
        client_id: the application's id.
        client_secret: its secret.
        timeout_seconds: of one request; sizes the guard.
        before_send: waits for the application's throttle; a result means that the wait is too long.
        observe: told how each refresh ended: refreshed, refused, failed or other_user.
    """

    def __init__(
        self,
        store: TokenStore,
        http: HttpClient,
        *,
        client_id: str,
        client_secret: str,
        timeout_seconds: float,
        before_send: Callable[[Account], Awaitable[Result | None]],
        observe: Callable[[str], object] = lambda outcome: None,
    ) -> None:
        self._store = store
        self._http = http
        self._client_id = client_id
        self._client_secret = client_secret
        # Two tries of the refresh and storing the pair.
        self._guard_seconds = 2 * timeout_seconds + 10
        self._before_send = before_send
        self._observe = observe
        self._unreadable_since: dict[_Key, float] = {}
        self._grants: dict[_Key, Grant] = {}
        self._flights: dict[_Key, asyncio.Task[Grant | Result]] = {}
        # Pairs got but not stored, with the version that they follow: the refresh token in the store is used up.
        self._unstored: dict[_Key, tuple[int, TokenPair]] = {}

    def cached(self, account: Account) -> Grant | None:
        """The account's grant while it is fresh: no waiting, no statement."""
        grant = self._grants.get((account.seller_id, account.environment))
        if (
            grant is None
            or time.monotonic() >= grant.fresh_until
            or grant.marketplace_user_id != account.marketplace_user_id
        ):
            return None
        return grant

    async def get(self, account: Account) -> Grant | Result:
        """A usable grant, or how the attempt to get one ended (nothing was sent with it)."""
        return self.cached(account) or await self._shared(account, None)

    async def renew(self, account: Account, version: int) -> Grant | Result:
        """A grant newer than this version, which the marketplace has refused."""
        grant = self.cached(account)
        if grant is not None and grant.version != version:
            return grant
        return await self._shared(account, version)

    async def give_up(self, account: Account, version: int) -> None:
        """A fresh token was refused too: mark the account until it is connected again."""
        self._grants.pop((account.seller_id, account.environment), None)
        try:
            await self._store.require_authorization(account.seller_id, account.environment, version)
        except Exception:
            _LOG.exception("marketplace_account_mark_failed", seller_id=account.seller_id)

    async def aclose(self) -> None:
        """Wait for refreshes under way: cutting one off would lose the account's only refresh token."""
        while self._flights:
            await asyncio.wait(tuple(self._flights.values()))
            await asyncio.sleep(0)  # lets their done callbacks run

    async def _shared(self, account: Account, refused: int | None) -> Grant | Result:
        key = (account.seller_id, account.environment)
        while True:
            flight = self._flights.get(key)
            if flight is None:
                flight = asyncio.create_task(self._safely_obtain(account, refused))
                self._flights[key] = flight
                flight.add_done_callback(lambda done: self._flights.pop(key, None))
            # A caller that gives up must not stop the flight for the others.
            ended = await asyncio.shield(flight)
            # The flight may have begun before this version was refused; then another one is needed.
            if refused is None or not isinstance(ended, Grant) or ended.version != refused:
                return ended

    async def _safely_obtain(self, account: Account, refused: int | None) -> Grant | Result:
        try:
            return await self._obtain(account, refused)
        except Exception:
            _LOG.exception(
                "marketplace_token_failed", seller_id=account.seller_id, environment=account.environment.value
            )
            return not_sent("internal_error")

    async def _obtain(self, account: Account, refused: int | None) -> Grant | Result:
        seller_id, environment = account.seller_id, account.environment
        self._grants.pop((seller_id, environment), None)
        deadline = time.monotonic() + self._guard_seconds
        pause = 0.05
        waited_for_slot = False
        while True:
            stored = await self._store.read(seller_id, environment)
            ended = self._as_stored(account, stored, refused)
            if stored is None or ended is not None:
                return ended or stopped("account_not_connected")
            version, pair = self._unstored.pop((seller_id, environment), (0, None))
            if pair is not None and version == stored.version:
                await self._keep(account, version, pair, stored.refresh_token or "", time.monotonic())
                continue
            if not stored.refresh_token:
                await self._store.require_authorization(seller_id, environment, stored.version)
                return stopped("account_reauthorization_required")
            if not waited_for_slot:
                # Before the guard is taken: a wait inside it would use it up.
                ended = await self._before_send(account)
                waited_for_slot = True
            elif await self._store.begin_refresh(seller_id, environment, stored.version, self._guard_seconds):
                ended = await self._refresh(account, stored)
            elif time.monotonic() >= deadline:
                ended = not_sent()
            else:
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
                pause = min(2 * pause, 1.0)
            if ended is not None:
                return ended

    def _unreadable(self, account: Account) -> Result:
        """None of our keys fits. For a while that may be a new key that has not reached this process; then the account
        has to be connected again. Nothing is marked in the store: the right key mends it."""
        since = self._unreadable_since.setdefault((account.seller_id, account.environment), time.monotonic())
        _LOG.error("marketplace_tokens_unreadable", seller_id=account.seller_id, environment=account.environment.value)
        if time.monotonic() - since < UNREADABLE_SECONDS:
            return not_sent("internal_error")
        return stopped("account_reauthorization_required")

    def _as_stored(self, account: Account, stored: StoredTokens | None, refused: int | None) -> Grant | Result | None:
        """What the stored pair is good for: a grant, no more at all, or None: it has to be renewed."""
        if stored is not None and stored.status == "unreadable":
            return self._unreadable(account)
        self._unreadable_since.pop((account.seller_id, account.environment), None)
        if stored is None or stored.status != "connected":
            lost = stored is not None and stored.status == "reauthorization_required"
            return stopped("account_reauthorization_required" if lost else "account_not_connected")
        if stored.marketplace_user_id not in (None, account.marketplace_user_id):
            # Connected to another user since the caller read the account: it has to read it again.
            return not_sent("internal_error", Cause("other_user", "The account was connected anew."))
        if stored.version == refused:
            return None
        left = stored.seconds_left
        if left is None or left > REFRESH_MARGIN_SECONDS:
            usable = RECHECK_SECONDS if left is None else left - REFRESH_MARGIN_SECONDS
            return self._remember(account, stored.access_token, stored.version, usable)
        if left > 0 and not stored.refresh_token:
            # It cannot be renewed, so it is used to its end.
            return self._remember(account, stored.access_token, stored.version, left)
        return None

    def _remember(self, account: Account, access_token: str, version: int, seconds: float) -> Grant:
        grant = Grant(
            {"Authorization": "Bearer " + access_token, "Content-Type": "application/json"},
            version,
            time.monotonic() + min(seconds, RECHECK_SECONDS),
            account.marketplace_user_id,
        )
        self._grants[(account.seller_id, account.environment)] = grant
        return grant

    async def _refresh(self, account: Account, stored: StoredTokens) -> Grant | Result | None:
        """Refresh under the guard. None: somebody else moved the pair on; read again."""
        seller_id, environment, version = account.seller_id, account.environment, stored.version
        until = time.monotonic() + self._guard_seconds
        log = _LOG.bind(seller_id=seller_id, environment=environment.value)
        answer = await self._ask(stored)
        if isinstance(answer, Result):
            self._observe("failed")
            log.warning("marketplace_refresh_failed", outcome=answer.outcome.value)
            await self._abandon(account, version)
            return answer
        if isinstance(answer, TokenPair):
            if answer.user_id is not None and answer.user_id != account.marketplace_user_id:
                # Listings must never go to another user's account.
                self._observe("other_user")
                log.error("marketplace_refresh_other_user")
                await self._store.require_authorization(seller_id, environment, version)
                return stopped("account_reauthorization_required")
            if not await self._keep(account, version, answer, stored.refresh_token or "", until):
                return None
            self._observe("refreshed")
            log.info("marketplace_token_refreshed")
            lifetime = float(answer.expires_in)
            return self._remember(
                account, answer.access_token, version + 1, max(lifetime - REFRESH_MARGIN_SECONDS, lifetime / 2)
            )
        error = read_error(answer.body)
        words = (error.error.lower(), error.message.lower(), error.code.lower())
        reason = next((word for word in words if word in OAUTH_ERRORS), "")
        code = OAUTH_ERRORS.get(reason, "account_not_allowed" if answer.status == 403 else "application_blocked")
        self._observe("refused")
        log.error("marketplace_refresh_refused", reason=reason or f"http_{answer.status}", failure=code)
        if code == "account_reauthorization_required":
            now = await self._store.read(seller_id, environment)
            if now is not None and now.version != version:
                return None
            await self._store.require_authorization(seller_id, environment, version)
        else:
            await self._abandon(account, version)
        return stopped(code, *told_causes(error, answer.status))

    async def _ask(self, stored: StoredTokens) -> TokenPair | Answer | Result:
        """One refresh; one repeat with the same token when nobody knows how the first ended.

        An ``Answer`` is a refusal; a ``Result`` leaves the pair as it was, for all that is known.
        """
        form = urlencode(
            {
                "grant_type": "refresh_token",
                "client_id": self._client_id,
                "client_secret": self._client_secret,
                "refresh_token": stored.refresh_token or "",
            }
        ).encode("ascii")
        for last in (False, True):
            answer = await self._http.send("POST", "/oauth/token", _FORM, form)
            if isinstance(answer, Answer):
                if answer.status == 429:
                    return Result(
                        outcome=Outcome.THROTTLED,
                        failure=Failure("marketplace_busy"),
                        retry_after=retry_after_seconds(answer.retry_after),
                    )
                pair = read_tokens(answer.body) if answer.status in (200, 201) else None
                if pair is not None:
                    return pair
                if 400 <= answer.status < 500 and answer.status not in (408, 409, 423, 425):
                    return answer
            elif not answer.sent and not last:
                return not_sent()
            if not last:
                await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311
        return not_sent()

    async def _keep(self, account: Account, version: int, pair: TokenPair, used: str, until: float) -> bool:
        """Store the new pair, as long as the guard allows, and else when it is next asked for: the old refresh token no
        longer works."""
        key = account.seller_id, account.environment
        self._unstored[key] = version, pair
        pause = 0.1
        while True:
            try:
                kept = await self._store.finish_refresh(
                    *key,
                    version,
                    access_token=pair.access_token,
                    refresh_token=pair.refresh_token or used,
                    expires_in=pair.expires_in,
                )
            except Exception:
                if time.monotonic() + pause >= until:
                    raise
                _LOG.warning("marketplace_token_store_failed", seller_id=account.seller_id, exc_info=True)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 2.0)
            else:
                self._unstored.pop(key, None)
                return kept

    async def _abandon(self, account: Account, version: int) -> None:
        try:
            await self._store.abandon_refresh(account.seller_id, account.environment, version)
        except Exception:
            # The guard ends by itself.
            _LOG.warning("marketplace_refresh_abandon_failed", seller_id=account.seller_id, exc_info=True)
