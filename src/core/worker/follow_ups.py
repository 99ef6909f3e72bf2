"""What happens to a listing after its publication: description, slow pictures, moderation, late doubles.

None of these steps ever posts an item.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from core.domain.listing import UNSETTLED
from core.ports.marketplace import MULTIGET_LIMIT, Account, Listing, Outcome
from core.ports.work import FollowUp
from core.slots import Slots
from core.storage import catalog, listings
from core.storage.database import Connection
from core.worker.accounts import Accounts
from core.worker.context import WorkerContext, log
from core.worker.decide import CREATION_TOLERANCE
from core.worker.reconcile import close_surplus

BATCH = 20
CHECK_DELAYS = (5.0, 60.0, 600.0, 3600.0, 6 * 3600.0)
"""Seconds between looks at listings that have not settled; pictures take seconds, moderation hours."""
SETTLED_SECONDS = 24 * 3600.0
"""Between looks at listings that have."""
DESCRIPTION_DELAYS = (2.0, 10.0, 60.0, 600.0, 3600.0)
MAX_DESCRIPTION_TRIES = 20
ABSENT_SECONDS = 3600.0
"""Until an account that cannot be used is asked after again."""
SENDING_SECONDS = 15.0
"""While a send of the SKU is not answered, nothing of it can be told to be a late creation."""
LATE_DELAYS = (600.0, 3600.0, 6 * 3600.0, 17 * 3600.0)
"""Looks for a creation that came late: for a day after a repost (failure rule 27)."""
LATE_RETRY_SECONDS = 60.0
"""Until such a look is tried again when the marketplace did not answer."""


class FollowUps:
    """Carries out what is due."""

    def __init__(self, context: WorkerContext, accounts: Accounts, slots: Slots) -> None:
        self._context = context
        self._accounts = accounts
        self._slots = slots

    async def sweep(self) -> int:
        """Claim and carry out what is due, until there is no more; returns how many."""
        done = 0
        while True:
            claimed = await self._some()
            done += claimed
            if claimed < BATCH or self._context.stopping.is_set():
                return done

    async def _some(self) -> int:
        async def claim(connection: Connection) -> list[FollowUp]:
            return await listings.claim_follow_ups(connection, lease=self._context.lease, limit=BATCH)

        until = time.monotonic() + self._context.lease - self._context.send_margin
        claimed = await self._context.database.read(claim)
        ended = await asyncio.gather(*(self._one(each, until) for each in claimed), return_exceptions=True)
        for trouble in ended:
            if isinstance(trouble, Exception):
                log.error("follow_up_broke", exc_info=trouble)
        return len(claimed)

    async def _one(self, follow_up: FollowUp, until: float) -> None:
        """Carry one out. No call begins after ``until`` (monotonic): by the lease's end others may take it."""
        account = await self._accounts.account(follow_up.seller_id, follow_up.environment)
        if account is None:
            await self._again(follow_up, ABSENT_SECONDS)
            return
        match follow_up.kind:
            case "check":
                await self._check(account, follow_up, until)
            case "description":
                await self._describe(account, follow_up, until)
            case "late_creation":
                await self._late_creation(account, follow_up)

    def _must_rest(self, account: Account, until: float) -> bool:
        return (
            self._context.stopping.is_set()
            or time.monotonic() > until
            or self._accounts.rests(account.seller_id, account.environment) > 0
        )

    async def _again(self, follow_up: FollowUp, delay: float, tries: int | None = None) -> None:
        async def write(connection: Connection) -> None:
            await listings.return_follow_up(
                connection,
                follow_up,
                delay=delay * (1 + 0.2 * self._context.random.random()),
                tries=follow_up.tries if tries is None else tries,
            )

        await self._context.database.read(write)

    async def _check(self, account: Account, follow_up: FollowUp, until: float) -> None:
        """Look at the listings again; those that settled are looked at once a day from then on. What was published
        again since has a check of its own."""

        async def known(connection: Connection) -> dict[str, str]:
            return await listings.listing_ids(
                connection, account.seller_id, account.environment, follow_up.skus, since=follow_up.since
            )

        ids = await self._context.database.read(known)
        sku_of = {listing_id: sku for sku, listing_id in ids.items()}
        wanted = list(sku_of)
        unsettled: list[str] = []
        settled: list[str] = []
        for start in range(0, len(wanted), MULTIGET_LIMIT):
            batch = wanted[start : start + MULTIGET_LIMIT]
            async with self._slots.of((account.seller_id, account.environment)):
                if self._must_rest(account, until):
                    await self._again(follow_up, 1.0)
                    return
                states = await self._context.marketplace.get_listings(account, batch)
            await self._accounts.heard(account, states)
            if states.outcome is not Outcome.DONE:
                await self._again(follow_up, max(30.0, states.retry_after or 0.0))
                return
            found: list[Listing] = []
            moved: dict[str, str] = {}
            gone: dict[str, str] = {}
            for listing_id in batch:
                sku, told = sku_of[listing_id], states.listings.get(listing_id)
                if told is not None and told.sku == sku:
                    found.append(told)
                    if told.status in UNSETTLED:
                        unsettled.append(sku)
                    elif told.is_open:
                        settled.append(sku)
                elif told is not None and told.sku:
                    # Given to another product by the seller: to change it again would change that one.
                    moved[sku] = listing_id
                elif listing_id in states.missing:
                    gone[sku] = listing_id
                else:
                    # Not told this time: asked for again, like what has not settled.
                    unsettled.append(sku)

            async def take_over(connection: Connection, found: list[Listing] = found) -> None:
                await listings.refresh(
                    connection,
                    account.seller_id,
                    account.environment,
                    marketplace_user_id=account.marketplace_user_id,
                    found=found,
                )

            await self._context.database.read(take_over)
            await self._close(account, moved, missing=False)
            # Right after a creation an unknown id may only be slow to appear (reference, section 6.2).
            unsettled.extend(set(gone) - await self._close(account, gone, missing=True))
        await self._plan_checks(follow_up, unsettled, settled)

    async def _close(self, account: Account, listing_ids: dict[str, str], *, missing: bool) -> set[str]:
        """Let these listings count as closed, by SKU; returns the SKUs of those that do now."""
        if not listing_ids:
            return set()

        async def close(connection: Connection) -> set[str]:
            return await listings.mark_closed(
                connection, account.seller_id, account.environment, listing_ids, missing=missing
            )

        return await self._context.database.read(close)

    async def _plan_checks(self, follow_up: FollowUp, unsettled: list[str], settled: list[str]) -> None:
        async def write(connection: Connection) -> None:
            if not await listings.delete_follow_up(connection, follow_up):
                return
            delay = CHECK_DELAYS[min(follow_up.tries + 1, len(CHECK_DELAYS) - 1)]
            for skus, wait, tries in (
                (unsettled, delay, follow_up.tries + 1),
                (settled, SETTLED_SECONDS if follow_up.tries else CHECK_DELAYS[2], follow_up.tries + 1),
            ):
                if skus:
                    await listings.add_follow_up(
                        connection,
                        follow_up.seller_id,
                        follow_up.environment,
                        kind="check",
                        skus=skus,
                        delay=wait,
                        tries=min(tries, 1000),
                        since=follow_up.since,
                    )

        await self._context.database.transact(write)

    async def _describe(self, account: Account, follow_up: FollowUp, until: float) -> None:
        """Write descriptions; a failed one is tried again by itself and never touches the item."""

        async def load(connection: Connection) -> tuple[dict[str, str], dict[str, str]]:
            ids = await listings.listing_ids(
                connection, account.seller_id, account.environment, follow_up.skus, since=follow_up.since
            )
            products = await catalog.products(connection, follow_up.skus)
            texts = {sku: product.description for sku, product in products.items() if product.description}
            return ids, texts

        ids, texts = await self._context.database.read(load)
        untried: list[str] = []
        left: list[str] = []

        async def describe(sku: str) -> None:
            async with self._slots.of((account.seller_id, account.environment)):
                if self._must_rest(account, until):
                    untried.append(sku)
                    return
                result = await self._context.marketplace.set_description(account, ids[sku], texts[sku])
            await self._accounts.heard(account, result)
            if result.outcome is Outcome.REFUSED and not (result.failure and result.failure.account_wide):
                log.warning("description_refused", seller_id=account.seller_id, listing_id=ids[sku])
            elif result.outcome is not Outcome.DONE:
                # A refusal of the account is not one of the text: it is written when the account is well again.
                left.append(sku)

        await asyncio.gather(*(describe(sku) for sku in follow_up.skus if sku in ids and sku in texts))
        tries = follow_up.tries + 1
        if left and tries > MAX_DESCRIPTION_TRIES:
            log.error("description_given_up", seller_id=account.seller_id, count=len(left))
            left = []

        async def write(connection: Connection) -> None:
            if not await listings.delete_follow_up(connection, follow_up):
                return
            again = DESCRIPTION_DELAYS[min(follow_up.tries, len(DESCRIPTION_DELAYS) - 1)]
            for skus, delay, tried in ((untried, 0.0, follow_up.tries), (left, again, tries)):
                if skus:
                    await listings.add_follow_up(
                        connection,
                        account.seller_id,
                        account.environment,
                        kind="description",
                        skus=sorted(skus),
                        delay=delay,
                        tries=tried,
                        since=follow_up.since,
                    )

        await self._context.database.transact(write)

    async def _late_creation(self, account: Account, follow_up: FollowUp) -> None:
        """Close listings of the SKU, made since the doubtful send, that are not the one on record; and that one too if
        a look through the account has put it there: of an item that failed nothing stays listed."""
        (sku,) = follow_up.skus
        async with self._slots.of((account.seller_id, account.environment)):
            answer = await self._context.marketplace.find_by_sku(account, sku)
        await self._accounts.heard(account, answer)
        if answer.outcome is not Outcome.DONE:
            await self._again(follow_up, LATE_RETRY_SECONDS)
            return

        async def known(connection: Connection) -> tuple[str | None, bool]:
            return await listings.on_record(connection, account.seller_id, account.environment, sku)

        listing_id, sending = await self._context.database.read(known)
        if sending:
            # What was found may be a listing just made that is not on record yet.
            await self._again(follow_up, SENDING_SECONDS)
            return
        earliest = follow_up.since - CREATION_TOLERANCE
        latest = follow_up.since + timedelta(days=2)
        left_open = False
        for each in answer.listings:
            if each.created_at is None or not earliest <= each.created_at <= latest:
                continue
            if each.listing_id != listing_id or await self._disowned(account, follow_up, each.listing_id):
                closed = await close_surplus(self._context, account, each)
                await self._accounts.heard(account, closed)
                left_open = left_open or closed.outcome not in (Outcome.DONE, Outcome.REFUSED)
        if left_open:
            await self._again(follow_up, LATE_RETRY_SECONDS)
            return
        if follow_up.tries + 1 < len(LATE_DELAYS):
            await self._again(follow_up, LATE_DELAYS[follow_up.tries + 1], follow_up.tries + 1)
            return

        async def delete(connection: Connection) -> None:
            await listings.delete_follow_up(connection, follow_up)

        await self._context.database.read(delete)

    async def _disowned(self, account: Account, follow_up: FollowUp, listing_id: str) -> bool:
        (sku,) = follow_up.skus

        async def disown(connection: Connection) -> bool:
            return await listings.disown(
                connection, account.seller_id, account.environment, sku, listing_id, since=follow_up.since
            )

        return await self._context.database.transact(disown)
