"""Whether an account may be used, what it already sells, and when it has to rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from core import metrics
from core.domain.failures import Failure
from core.domain.sku import is_sku
from core.domain.states import Environment
from core.errors import ApiError
from core.ports.marketplace import (
    MULTIGET_LIMIT,
    NEWEST_PAGE,
    Account,
    Listing,
    Outcome,
    Result,
    SellerModel,
)
from core.ports.work import AccountContext
from core.storage import accounts
from core.storage.database import Connection, DatabaseError
from core.worker.context import WorkerContext, log
from core.worker.decide import Breaker, Heard, heard, is_own_doing

CONTEXT_SECONDS = 2.0
"""How long an account's row is believed."""
MAX_OFFSET = 1_000
"""Listings that can be paged through (reference, section 4)."""
RETRY_SECONDS = 5.0
REFUSED_SECONDS = 5.0
"""How long a refusal of the account holds every send back at most."""

SLOWED = "the marketplace asked to slow down"
SILENT = "the marketplace does not answer"


@dataclass(frozen=True, slots=True)
class Ready:
    """The account may be used. ``search_first``: not all of its listings are known, so each SKU has to be
    searched for before its first send."""

    account: Account
    search_first: bool


@dataclass(frozen=True, slots=True)
class NotReady:
    """Wait ``delay`` seconds, or stop the job when ``failure`` is set. ``outage``: what the items fail with when the
    marketplace cannot be asked for too long; None while the account only rests."""

    delay: float = RETRY_SECONDS
    failure: Failure | None = None
    outage: Failure | None = None


@dataclass(slots=True)
class _Known:
    until: float = 0.0
    context: AccountContext | None = None
    breaker: Breaker = field(default_factory=Breaker)
    rests_until: float = 0.0
    refused_until: float = 0.0
    scanned: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    preparing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Accounts:
    """The accounts this process works for."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._known: dict[tuple[int, Environment], _Known] = {}
        metrics.accounts_resting.set_function(self._resting)

    async def prepare(self, seller_id: int, environment: Environment, stretch: str) -> Ready | NotReady:
        """Make sure that the account may be used: connected, of the right site, allowed to list, and its present
        listings known, which are looked through once for each stretch of a job."""
        known = self._of(seller_id, environment)
        # Runs of one job begin side by side: one of them asks, the others find it answered.
        async with known.preparing:
            return await self._prepare(seller_id, environment, stretch, known)

    async def _prepare(self, seller_id: int, environment: Environment, stretch: str, known: _Known) -> Ready | NotReady:
        found = await self._load(seller_id, environment, known)
        if found is None or found.marketplace_user_id is None or found.status == "disconnected":
            return NotReady(failure=Failure("account_not_connected"))
        if found.status != "connected":
            return NotReady(failure=Failure("account_reauthorization_required"))
        rest = max(found.paused_seconds, self.rests(seller_id, environment))
        if rest > 0:
            return NotReady(delay=rest)
        if self.refused(seller_id, environment):
            return NotReady(delay=1.0)
        account = _account(seller_id, environment, found, found.marketplace_user_id)
        if not found.profile_fresh:
            problem = await self._ask_profile(account)
            if problem is not None:
                return problem
            known.until = 0.0
            found = await self._load(seller_id, environment, known) or found
            account = _account(seller_id, environment, found, account.marketplace_user_id)
        if stretch not in known.scanned:
            problem = await self._scan(account, found, known)
            if problem is not None:
                return problem
            known.scanned.add(stretch)
            if len(known.scanned) > 1000:
                known.scanned = {stretch}
            known.until = 0.0
            found = await self._load(seller_id, environment, known) or found
        return Ready(account, search_first=not found.all_known)

    async def account(self, seller_id: int, environment: Environment) -> Account | None:
        """The account as it stands, for searches and follow-ups; None when it cannot be used."""
        known = self._of(seller_id, environment)
        found = await self._load(seller_id, environment, known)
        if found is None or found.marketplace_user_id is None or found.status != "connected":
            return None
        return _account(seller_id, environment, found, found.marketplace_user_id)

    def _of(self, seller_id: int, environment: Environment) -> _Known:
        known = self._known.get((seller_id, environment))
        if known is None:
            known = self._known[seller_id, environment] = _Known()
        return known

    def rests(self, seller_id: int, environment: Environment) -> float:
        """Seconds this process lets the account rest; 0 when it may be used."""
        known = self._known.get((seller_id, environment))
        return max(0.0, known.rests_until - time.monotonic()) if known else 0.0

    def _resting(self) -> int:
        now = time.monotonic()
        return sum(known.rests_until > now for known in list(self._known.values()))

    async def heard(self, account: Account, result: Result) -> None:
        """Take note of how a call ended: a throttled account rests, one that stays silent as well."""
        known = self._of(account.seller_id, account.environment)
        if result.failure is not None and result.failure.account_wide:
            known.refused_until = time.monotonic() + REFUSED_SECONDS
        match heard(result):
            case Heard.SLOW_DOWN:
                await self._rest(account, known, max(1.0, result.retry_after or 1.0), SLOWED)
            case Heard.SILENCE if not self._context.stopping.is_set():
                pause = known.breaker.failed(time.monotonic())
                if pause is not None:
                    await self._rest(account, known, pause, SILENT)
            case Heard.ANSWER:
                known.breaker.succeeded()

    def refused(self, seller_id: int, environment: Environment) -> bool:
        """Whether the account as a whole was refused a moment ago: until the job is stopped no further call of any
        run may begin, each would be refused as well."""
        known = self._known.get((seller_id, environment))
        return known is not None and time.monotonic() < known.refused_until

    def holds_back(self, seller_id: int, environment: Environment) -> bool:
        """Whether it rests or was refused: asked before every call."""
        known = self._known.get((seller_id, environment))
        return known is not None and time.monotonic() < max(known.rests_until, known.refused_until)

    def forget(self, seller_id: int, environment: Environment) -> None:
        """Read the account anew before it is used again."""
        known = self._known.get((seller_id, environment))
        if known is not None:
            known.until = 0.0

    def stopped(self, seller_id: int, environment: Environment) -> None:
        """The job that an account's refusal stops is stopped: others of the account may find out for themselves."""
        known = self._known.get((seller_id, environment))
        if known is not None:
            known.until = known.refused_until = 0.0

    async def doubt_profile(self, account: Account) -> None:
        """The marketplace said something of the account that the stored profile does not: ask again before the next
        send."""

        async def work(connection: Connection) -> None:
            await accounts.forget_profile(connection, account.seller_id, account.environment)

        with suppress(ApiError, DatabaseError):  # It saves refused calls, no more.
            await self._context.database.read(work)
        self.forget(account.seller_id, account.environment)

    async def _load(self, seller_id: int, environment: Environment, known: _Known) -> AccountContext | None:
        if known.until > time.monotonic():
            return known.context

        async def work(connection: Connection) -> AccountContext | None:
            return await accounts.context(connection, seller_id, environment)

        found = await self._context.database.read(work)
        if known.context is not None and (
            found is None or found.marketplace_user_id != known.context.marketplace_user_id
        ):
            # Another user's account: nothing that was learnt of the former one holds.
            known.scanned.clear()
            known.foreign.clear()
            known.breaker = Breaker()
            known.rests_until = known.refused_until = 0.0
        known.context = found
        known.until = time.monotonic() + CONTEXT_SECONDS
        return known.context

    async def _rest(self, account: Account, known: _Known, seconds: float, reason: str) -> None:
        until = time.monotonic() + seconds
        if until <= known.rests_until + 0.5:
            return  # Sixty-four calls in flight hear the same: one pause, one write.
        known.rests_until = until
        metrics.accounts_paused.labels("throttled" if reason is SLOWED else "silent").inc()
        log.warning("account_rests", seller_id=account.seller_id, seconds=round(seconds, 1), reason=reason)

        async def work(connection: Connection) -> None:
            await accounts.pause(connection, account.seller_id, account.environment, seconds=seconds, reason=reason)

        try:
            await self._context.database.read(work)
        except (ApiError, DatabaseError) as error:
            # This process rests all the same; whoever called has a result in hand that must not be lost.
            log.warning("pause_not_stored", seller_id=account.seller_id, error=type(error).__name__)

    async def _ask_profile(self, account: Account) -> NotReady | None:
        answer = await self._context.marketplace.profile(account)
        await self.heard(account, answer)
        if answer.outcome is not Outcome.DONE or answer.profile is None:
            return self._not_ready(account, answer)
        profile = answer.profile
        if profile.site_id != account.site_id:
            return NotReady(failure=Failure("account_wrong_site"))
        if not profile.may_list:
            return NotReady(failure=answer.failure or Failure("account_not_allowed"))

        async def work(connection: Connection) -> None:
            await accounts.store_profile(
                connection,
                account.seller_id,
                account.environment,
                marketplace_user_id=account.marketplace_user_id,
                profile=profile,
            )

        await self._context.database.read(work)
        return None

    def _not_ready(self, account: Account, answer: Result) -> NotReady:
        if answer.failure is not None and answer.failure.account_wide:
            self.forget(account.seller_id, account.environment)
            return NotReady(failure=answer.failure)
        rest = self.rests(account.seller_id, account.environment)
        busy = answer.outcome is Outcome.THROTTLED
        outage = None if is_own_doing(answer) else Failure("marketplace_busy" if busy else "marketplace_unavailable")
        return NotReady(delay=max(answer.retry_after or 0.0, rest, 1.0), outage=outage)

    async def _scan(self, account: Account, found: AccountContext, known: _Known) -> NotReady | None:
        """Learn of listings made outside this service, newest first, down to where the account was looked through
        before: one call when nothing was made. That all of a page are known is no reason to stop: this service may have
        made them after one that it does not know, or an earlier look may have been cut short."""
        market = self._context.marketplace
        offset, newest, untold = 0, 0, False
        complete: bool | None = None
        while True:
            page = await market.newest_listings(account, offset)
            await self.heard(account, page)
            if page.outcome is not Outcome.DONE:
                return self._not_ready(account, page)
            numbers = [int(each[3:]) for each in page.listing_ids]
            newest = max(newest, *numbers) if numbers else newest
            unknown = await self._unknown(account, page.listing_ids, known)
            for start in range(0, len(unknown), MULTIGET_LIMIT):
                batch = unknown[start : start + MULTIGET_LIMIT]
                states = await market.get_listings(account, batch)
                await self.heard(account, states)
                if states.outcome is not Outcome.DONE:
                    return self._not_ready(account, states)
                await self._adopt(account, list(states.listings.values()))
                known.foreign.update(states.listings)
                untold = untold or len(states.listings) + len(states.missing) < len(batch)
            offset += NEWEST_PAGE
            if offset >= page.total or not page.listing_ids:
                complete = True
                break
            # What is not known of an account small enough to be looked through as a whole is learnt from its beginning.
            if (found.all_known or page.total > MAX_OFFSET) and min(numbers) <= found.scanned_to:
                break
            if offset >= MAX_OFFSET:
                complete = False
                break
        complete = False if untold else complete
        if newest > found.scanned_to or complete not in (None, found.all_known):

            async def work(connection: Connection) -> None:
                await accounts.store_scan(
                    connection,
                    account.seller_id,
                    account.environment,
                    marketplace_user_id=account.marketplace_user_id,
                    scanned_to=newest,
                    all_known=complete,
                )

            await self._context.database.read(work)
        return None

    async def _unknown(self, account: Account, listing_ids: Sequence[str], known: _Known) -> list[str]:
        if len(known.foreign) > 100_000:
            known.foreign.clear()
        asked = [each for each in listing_ids if each not in known.foreign]
        if not asked:
            return []

        async def work(connection: Connection) -> set[str]:
            return await accounts.known_listing_ids(connection, account.seller_id, account.environment, asked)

        stored = await self._context.database.read(work)
        return [each for each in asked if each not in stored]

    async def _adopt(self, account: Account, listings: Sequence[Listing]) -> None:
        # Of several open listings of one SKU the oldest is taken: the last one written wins in a dict.
        by_sku = {
            each.sku: each
            for each in sorted(listings, key=lambda each: (each.created_at is None, str(each.created_at)), reverse=True)
            if each.is_open and is_sku(each.sku)
        }
        if not by_sku:
            return

        async def work(connection: Connection) -> None:
            await accounts.adopt_found(
                connection,
                account.seller_id,
                account.environment,
                marketplace_user_id=account.marketplace_user_id,
                currency=account.currency,
                found=list(by_sku.values()),
            )

        await self._context.database.read(work)


def _account(seller_id: int, environment: Environment, found: AccountContext, marketplace_user_id: int) -> Account:
    return Account(
        seller_id=seller_id,
        environment=environment,
        marketplace_user_id=marketplace_user_id,
        site_id=found.site_id,
        currency=found.currency,
        model=found.model or SellerModel.USER_PRODUCT,
    )
