"""Unknown outcomes: search, adopt, repost once, or give up honestly (failure rules 25 to 27)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from structlog.contextvars import bind_contextvars

from core import metrics, tracing
from core.domain.failures import Failure
from core.domain.states import Environment
from core.errors import ApiError
from core.ports.marketplace import Account, Listing, Outcome, Result, SearchResult
from core.ports.work import DoubtfulItem, JobTerms, Recorded
from core.slots import Slots
from core.storage import intents, listings, work
from core.storage.database import Connection, DatabaseError
from core.storage.work import ItemResult
from core.worker.accounts import Accounts
from core.worker.context import WorkerContext, log
from core.worker.decide import CREATION_TOLERANCE, AfterSearch, Next, Search, after_call, after_search, is_own_doing
from core.worker.recorder import count, failed, pending, success

BATCH = 50
UNSENT_SECONDS = 5.0
LATE_CREATION_SECONDS = 600.0
"""When a reposted item is first looked at for a creation that came late."""


class Reconciler:
    """Resolves unknown outcomes of one account at a time."""

    def __init__(self, context: WorkerContext, accounts: Accounts, slots: Slots) -> None:
        self._context = context
        self._accounts = accounts
        self._slots = slots

    async def sweep(self) -> int:
        """Claim and resolve what is due; returns how many intents were looked at."""

        async def due(connection: Connection) -> list[tuple[int, Environment]]:
            return await intents.due(connection, hopeless_after=self._context.hopeless_after)

        # Side by side: an account whose marketplace is silent must not make the others wait for its timeouts.
        accounts = [self._account(*each) for each in await self._context.database.read(due)]
        return sum(await asyncio.gather(*accounts))

    async def _account(self, seller_id: int, environment: Environment) -> int:
        try:
            return await self._resolve_some(seller_id, environment)
        except (ApiError, DatabaseError) as error:
            log.warning("search_failed", seller_id=seller_id, error=type(error).__name__)
        except Exception:
            log.exception("search_failed", seller_id=seller_id)
        return 0

    async def _resolve_some(self, seller_id: int, environment: Environment) -> int:
        async def claim(connection: Connection) -> list[DoubtfulItem]:
            return await intents.claim(
                connection,
                seller_id,
                environment,
                owner=self._context.owner,
                lease=self._context.lease,
                hopeless_after=self._context.hopeless_after,
                limit=BATCH,
            )

        doubtful = await self._context.database.read(claim)
        account = await self._accounts.account(seller_id, environment)
        terms: dict[str, JobTerms] = {}
        for job_id in {item.job_id for item in doubtful}:

            async def look(connection: Connection, job_id: str = job_id) -> JobTerms | None:
                return await work.job_terms(connection, seller_id, job_id)

            found = await self._context.database.read(look)
            if found is not None:
                terms[job_id] = found
        ended = await asyncio.gather(
            *(
                self._one(seller_id, environment, account, item, terms[item.job_id])
                for item in doubtful
                if item.job_id in terms
            ),
            return_exceptions=True,
        )
        # One item's trouble does not keep the others from being resolved; it is looked at again when its lease ends.
        for trouble in ended:
            if isinstance(trouble, ApiError | DatabaseError):
                log.warning("search_failed", seller_id=seller_id, error=type(trouble).__name__)
            elif isinstance(trouble, Exception):
                log.error("search_broke", seller_id=seller_id, exc_info=trouble)
        return len(doubtful)

    async def _one(
        self,
        seller_id: int,
        environment: Environment,
        account: Account | None,
        item: DoubtfulItem,
        terms: JobTerms,
    ) -> None:
        bind_contextvars(job_id=item.job_id)  # each item is a task of its own
        with tracing.span(
            "reconcile item",
            parent=terms.trace_context,
            kind="consumer",
            job_id=item.job_id,
            seller_id=seller_id,
            ordinal=item.ordinal,
            searches=item.searches,
        ) as span:
            step = await self._resolve(seller_id, environment, account, item, terms)
            span.note(step=step.value)

    async def _resolve(
        self,
        seller_id: int,
        environment: Environment,
        account: Account | None,
        item: DoubtfulItem,
        terms: JobTerms,
    ) -> Search:
        answer = await self._search(account, item)
        found: Sequence[Listing] | None
        if answer is not None and answer.outcome is Outcome.DONE:
            found = answer.listings
        else:
            found = await self._on_record(seller_id, environment, item)
            if found is None and answer is not None and _waits_for_own_rate(answer):
                # Not asked, because our own rate was used up: that says nothing, however long it lasts.
                await self._postpone(seller_id, environment, item, answer.retry_after or UNSENT_SECONDS)
                return Search.AGAIN
        decided = after_search(item, found)
        match decided.step:
            case Search.ADOPT:
                await self._adopt(seller_id, item, terms, decided, account)
            case Search.AGAIN:
                await self._postpone(seller_id, environment, item, decided.delay)
            case Search.REPOST:
                if account is not None:
                    await self._repost(account, item, terms)
                else:
                    await self._postpone(seller_id, environment, item, UNSENT_SECONDS)
            case Search.SKIP | Search.GIVE_UP:
                skip = decided.step is Search.SKIP
                failure = Failure("cancelled" if skip else "outcome_unknown")
                metrics.reconciliations.labels("skipped" if skip else "given_up").inc()
                result = failed(
                    ordinal=item.ordinal,
                    sku=item.sku,
                    fence=item.fence,
                    failure=failure,
                    intent=True,
                    skipped=skip,
                )
                await self._record(seller_id, item, terms, result, state="unknown", late=True)
        return decided.step

    async def _search(self, account: Account | None, item: DoubtfulItem) -> SearchResult | None:
        """The marketplace's answer; None when the account cannot be used now."""
        if account is None or self._accounts.rests(account.seller_id, account.environment) > 0:
            return None
        async with self._slots.of((account.seller_id, account.environment)):
            answer = await self._context.marketplace.find_by_sku(account, item.sku)
        await self._accounts.heard(account, answer)
        return answer

    async def _on_record(
        self, seller_id: int, environment: Environment, item: DoubtfulItem
    ) -> Sequence[Listing] | None:
        """The marketplace cannot be asked about the SKU, but may have been asked for the account's listings since:
        before the send none of this SKU was known. None when there is still none, which says nothing."""

        async def look(connection: Connection) -> Listing | None:
            return await listings.open_listing(connection, seller_id, environment, item.sku)

        known = await self._context.database.read(look)
        return None if known is None else [known]

    async def _postpone(self, seller_id: int, environment: Environment, item: DoubtfulItem, delay: float) -> None:
        async def write(connection: Connection) -> None:
            await intents.postpone(connection, seller_id, environment, item, owner=self._context.owner, delay=delay)

        await self._context.database.read(write)

    async def _adopt(
        self, seller_id: int, item: DoubtfulItem, terms: JobTerms, decided: AfterSearch, account: Account | None
    ) -> None:
        assert decided.adopted is not None  # noqa: S101 - ADOPT carries it
        metrics.reconciliations.labels("adopted").inc()
        log.info("listing_adopted", job_id=item.job_id, ordinal=item.ordinal, searches=item.searches)
        result = success(
            ordinal=item.ordinal, fence=item.fence, stored=item.stored, listing=decided.adopted, attempts=0
        )
        # Looked at again when closing what is surplus may fail, or this process end before it; and when the listing
        # was there before the send, whose own may still come.
        created_at = decided.adopted.created_at
        older = created_at is None or created_at < item.started_at - CREATION_TOLERANCE
        late = item.attempt > 1 or bool(decided.surplus) or older
        await self._record(seller_id, item, terms, result, state="unknown", late=late, account=account)
        if account is not None:
            for surplus in decided.surplus:
                await close_surplus(self._context, account, surplus)

    async def _repost(self, account: Account, item: DoubtfulItem, terms: JobTerms) -> None:
        context = self._context
        seller_id, environment = account.seller_id, account.environment
        await context.point("before_repost")

        async def claim(connection: Connection) -> bool:
            return await intents.repost(
                connection,
                seller_id,
                environment,
                item,
                owner=context.owner,
                marketplace_user_id=account.marketplace_user_id,
                lease=context.lease,
            )

        async with self._slots.of((seller_id, environment)):
            # Committed only when it can leave at once: who dies in between has made it unknown for the second time,
            # which is the end of the item.
            before = time.monotonic()
            if not await context.database.transact(claim):
                # Somebody else was first, or the job was cancelled: the next look decides anew.
                await self._postpone(seller_id, environment, item, 1.0)
                return
            await context.point("after_repost_commit")
            until = before + context.lease
            result = await context.marketplace.create_listing(
                account,
                item.stored.draft,
                lambda: not context.stopping.is_set() and time.monotonic() + context.send_margin < until,
            )
        await context.point("after_repost_send")
        await self._accounts.heard(account, result)
        decided = after_call(result, 0, 0)
        metrics.reconciliations.labels("reposted").inc()
        if decided.next is Next.SUCCESS and result.listing is not None:
            written = success(ordinal=item.ordinal, fence=item.fence, stored=item.stored, listing=result.listing)
            await self._record(seller_id, item, terms, written, state="sending", late=True, account=account)
        elif decided.next is Next.FAILED:
            written = failed(
                ordinal=item.ordinal,
                sku=item.sku,
                fence=item.fence,
                failure=decided.failure or Failure("content_refused"),
                intent=True,
                attempts=1,
            )
            await self._record(seller_id, item, terms, written, state="sending", late=True, account=account)
        elif decided.next is Next.UNKNOWN:
            written = pending(ordinal=item.ordinal, sku=item.sku, fence=item.fence, outcome="unknown", attempts=1)
            await self._record(seller_id, item, terms, written, state="sending", late=False)
        else:

            async def unsent(connection: Connection) -> None:
                await intents.unsent(
                    connection,
                    seller_id,
                    environment,
                    item,
                    owner=context.owner,
                    delay=max(UNSENT_SECONDS * 2.0**item.unsent, result.retry_after or 0.0),
                    counted=not _waits_for_own_rate(result),
                )

            await context.database.read(unsent)

    async def _record(
        self,
        seller_id: int,
        item: DoubtfulItem,
        terms: JobTerms,
        result: ItemResult,
        *,
        state: str,
        late: bool,
        account: Account | None = None,
    ) -> None:
        """Write one outcome; with ``late`` the account is looked at later for a creation that came after
        all."""

        async def write(connection: Connection) -> Recorded | None:
            recorded = await work.record(
                connection,
                seller_id,
                item.job_id,
                [result],
                owner=self._context.owner,
                terms=terms,
                first_ordinal=0,
                settle=self._context.settle,
                first_search=self._context.first_search,
                reconciling=state,
                marketplace_user_id=account.marketplace_user_id if account is not None else None,
            )
            if late and recorded is not None and recorded.accepted:
                await listings.add_follow_up(
                    connection,
                    seller_id,
                    terms.environment,
                    kind="late_creation",
                    skus=[item.sku],
                    delay=min(LATE_CREATION_SECONDS, self._context.settle * 4),
                    since=item.started_at,
                )
            return recorded

        async def read_back(_connection: Connection) -> Recorded | None:
            return None  # Guarded by the intent: writing again changes nothing.

        await self._context.point("before_reconcile_commit")
        recorded = await self._context.database.transact(write, read_back)
        await self._context.point("after_reconcile_commit")
        if recorded is not None:
            count(terms, [result], recorded)


def _waits_for_own_rate(result: Result) -> bool:
    return result.outcome is Outcome.THROTTLED and is_own_doing(result)


async def close_surplus(context: WorkerContext, account: Account, surplus: Listing) -> Result:
    """Close a listing that doubles another one; alarmed about by its counter."""
    metrics.duplicates_closed.inc()
    log.error("duplicate_listing", seller_id=account.seller_id, listing_id=surplus.listing_id)
    return await context.marketplace.close_listing(account, surplus.listing_id)
