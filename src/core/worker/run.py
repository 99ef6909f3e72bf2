"""One run of items: load, price, categorise, write intents, send, record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from core import metrics, tracing
from core.domain.failures import Failure
from core.domain.states import JobStatus
from core.ports.marketplace import Account, ListingResult, Outcome, Prediction
from core.ports.work import JobTerms, Run, WorkItem
from core.storage import catalog, jobs, listings, work
from core.storage.database import Connection
from core.worker.accounts import Accounts, NotReady
from core.worker.context import WorkerContext, log
from core.worker.decide import Next, Predict, Refuse, Send, after_call, delay_after, first_step
from core.worker.recorder import Recorder, failed, pending, success

CONFLICT_SECONDS = 2.0
"""When another job's unfinished send of the same SKU stands in the way, look again after this."""


@dataclass(slots=True)
class Held:
    """A leased run in this process. ``until`` is on the monotonic clock and never later than the
    database's end of the lease: it counts from before the statement that took it."""

    run: Run
    until: float
    lost: bool = False

    def may_send(self, margin: float) -> bool:
        """Whether a call begun now ends before the lease does (rule 22)."""
        return not self.lost and time.monotonic() + margin < self.until


@dataclass(slots=True)
class _Sending:
    item: WorkItem
    send: Send
    listing_id: str | None = None
    permalink: str = ""


@dataclass(slots=True)
class _Progress:
    """How the run goes: ``stopped`` by an account-wide failure, ``delay`` until it is due again."""

    stopped: Failure | None = None
    delay: float = 0.0
    deferred: int = 0
    halted: bool = field(default=False)


class RunWork:
    """Works one run to its end. The slots bound the calls in flight of the whole process."""

    def __init__(self, context: WorkerContext, accounts: Accounts, slots: asyncio.Semaphore, held: Held) -> None:
        self._context = context
        self._accounts = accounts
        self._slots = slots
        self._held = held
        self._run = held.run
        self._progress = _Progress()

    async def work(self) -> None:
        """Do it. Whatever happens, the run is given back, or rescued when its lease ends."""
        run = self._run

        async def look(connection: Connection) -> JobTerms | None:
            return await work.job_terms(connection, run.seller_id, run.job_id)

        terms = await self._context.database.read(look)
        if terms is None:
            return
        with tracing.span(
            "publish run",
            parent=terms.trace_context,
            kind="consumer",
            job_id=run.job_id,
            seller_id=run.seller_id,
            first_ordinal=run.first_ordinal,
            items=run.size,
        ):
            await self._work(terms)

    async def _work(self, terms: JobTerms) -> None:
        run = self._run
        recorder = Recorder(self._context, run, terms)
        if terms.status not in (JobStatus.QUEUED, JobStatus.PROCESSING):
            await recorder.finish(0.0)  # Cancelled or failed since the claim.
            return
        ready = await self._accounts.prepare(run.seller_id, run.environment, run.job_id)
        if isinstance(ready, NotReady):
            if ready.failure is not None:
                await self._stop_job(ready.failure)
                await recorder.finish(0.0)
            else:
                await recorder.finish(ready.delay + self._context.random.random())
            return
        await self._work_items(ready.account, terms, recorder, search_first=ready.search_first)
        if self._progress.stopped is not None:
            await recorder.finish(0.0)
            await self._stop_job(self._progress.stopped)
        else:
            await recorder.finish(self._delay())

    def _delay(self) -> float:
        rest = self._accounts.rests(self._run.seller_id, self._run.environment)
        if self._context.stopping.is_set():
            return 0.0
        if self._progress.deferred:
            rest = max(rest, delay_after(self._run.returns, self._context.random.random()))
        return max(rest, self._progress.delay)

    async def _work_items(self, account: Account, terms: JobTerms, recorder: Recorder, *, search_first: bool) -> None:
        run = self._run

        async def load(connection: Connection) -> list[WorkItem]:
            return await work.run_items(connection, run, terms)

        items = await self._context.database.read(load)
        sends = []
        for item, step in await self._categorise(account, terms, [(item, first_step(item, terms)) for item in items]):
            if isinstance(step, Refuse):
                recorder.put(
                    failed(ordinal=item.ordinal, sku=item.sku, fence=run.fence, failure=step.failure, intent=False)
                )
            elif isinstance(step, Send):
                sends.append(_Sending(item, step, step.listing_id, item.permalink or ""))
        ahead = self._context.intents_ahead
        for start in range(0, len(sends), ahead):
            if self._halted():
                break
            granted = await self._write_intents(sends[start : start + ahead])
            await asyncio.gather(*(self._send(account, each, recorder, search_first=search_first) for each in granted))

    def _halted(self) -> bool:
        """Whether no further call of this run may begin."""
        progress = self._progress
        if not progress.halted:
            progress.halted = (
                progress.stopped is not None
                or self._context.stopping.is_set()
                or self._accounts.rests(self._run.seller_id, self._run.environment) > 0
                or not self._held.may_send(self._context.send_margin)
            )
        return progress.halted

    async def _categorise(
        self, account: Account, terms: JobTerms, steps: list[tuple[WorkItem, Refuse | Predict | Send]]
    ) -> list[tuple[WorkItem, Refuse | Predict | Send]]:
        """Ask for the categories that are not known yet, each title once, and decide again."""
        titles = list(dict.fromkeys(step.title for _, step in steps if isinstance(step, Predict)))
        if not titles:
            return steps
        found: dict[str, Prediction | None] = {}
        refusals: dict[str, Failure] = {}

        async def ask(title: str) -> None:
            async with self._slots:
                if self._halted():
                    return
                answer = await self._context.marketplace.predict_category(account, title)
            await self._accounts.heard(account, answer)
            if answer.outcome is Outcome.DONE:
                found[title] = answer.prediction
            elif answer.failure is not None and answer.failure.account_wide:
                self._progress.stopped = answer.failure
            elif answer.outcome is Outcome.REFUSED and answer.failure is not None:
                refusals[title] = answer.failure
            else:
                self._progress.deferred += 1

        await asyncio.gather(*(ask(title) for title in titles))
        if found:

            async def remember(connection: Connection) -> None:
                await catalog.remember_predictions(connection, terms.site_id, found)

            await self._context.database.read(remember)
        decided: list[tuple[WorkItem, Refuse | Predict | Send]] = []
        for item, step in steps:
            if not isinstance(step, Predict):
                decided.append((item, step))
            elif step.title in found:
                prediction = found[step.title]
                known = replace(
                    item,
                    predicted=True,
                    predicted_category_id=prediction.category_id if prediction else None,
                    predicted_category_name=prediction.category_name if prediction else None,
                )
                decided.append((known, first_step(known, terms)))
            elif step.title in refusals:
                decided.append((item, Refuse(refusals[step.title])))
        return decided

    async def _write_intents(self, sends: Sequence[_Sending]) -> list[_Sending]:
        """Commit what is about to be sent; returns what may be."""
        run = self._run

        async def write(connection: Connection) -> tuple[set[str], dict[str, tuple[str, str]]]:
            return await work.insert_intents(
                connection,
                run,
                owner=self._context.owner,
                intents=[
                    (each.item.ordinal, each.item.sku, "update" if each.listing_id else "create", each.send.stored)
                    for each in sends
                ],
            )

        await self._context.point("before_intent_commit")
        granted, open_listings = await self._context.database.transact(write)
        await self._context.point("after_intent_commit")
        if len(granted) < len(sends):
            # Another job is sending the same SKU, or the job was cancelled: look again soon.
            self._progress.delay = max(self._progress.delay, CONFLICT_SECONDS)
        chosen = []
        for each in sends:
            if each.item.sku in granted:
                # A listing that another job made a moment ago is updated, never made again.
                each.listing_id, each.permalink = open_listings.get(each.item.sku, (None, ""))
                chosen.append(each)
        return chosen

    async def _send(self, account: Account, sending: _Sending, recorder: Recorder, *, search_first: bool) -> None:
        item, run = sending.item, self._run
        async with self._slots:
            if self._halted():
                recorder.put(
                    pending(ordinal=item.ordinal, sku=item.sku, fence=run.fence, outcome="deferred", attempts=0)
                )
                return
            result = await self._call(account, sending, search_first=search_first)
        await self._accounts.heard(account, result)
        decided = after_call(result, item.attempts)
        if decided.next is Next.SUCCESS and result.listing is not None:
            recorder.put(
                success(
                    ordinal=item.ordinal,
                    fence=run.fence,
                    stored=sending.send.stored,
                    listing=result.listing,
                    known_permalink=sending.permalink,
                )
            )
        elif decided.next is Next.FAILED:
            failure = decided.failure or Failure("content_refused")
            if failure.account_wide:
                self._progress.stopped = failure
            recorder.put(
                failed(
                    ordinal=item.ordinal,
                    sku=item.sku,
                    fence=run.fence,
                    failure=failure,
                    intent=True,
                    attempts=decided.attempts,
                )
            )
        else:
            if decided.next is Next.UNKNOWN:
                metrics.intents_unknown.labels(result.failure.code if result.failure else "unreadable").inc()
            else:
                self._progress.deferred += 1
                self._progress.delay = max(self._progress.delay, result.retry_after or 0.0)
            recorder.put(
                pending(
                    ordinal=item.ordinal,
                    sku=item.sku,
                    fence=run.fence,
                    outcome=decided.next.value,
                    attempts=decided.attempts,
                )
            )

    async def _call(self, account: Account, sending: _Sending, *, search_first: bool) -> ListingResult:
        market = self._context.marketplace
        draft = sending.send.stored.draft
        if sending.listing_id is None and search_first:
            known = await market.find_by_sku(account, draft.sku)
            if known.outcome is not Outcome.DONE:
                # Nothing was sent that could have made a listing, so nothing is unknown.
                outcome = Outcome.NOT_SENT if known.outcome is Outcome.UNKNOWN else known.outcome
                return ListingResult(outcome=outcome, failure=known.failure, retry_after=known.retry_after)
            if known.listings:
                sending.listing_id, sending.permalink = known.listings[0].listing_id, known.listings[0].permalink
        if sending.listing_id is None:
            await self._context.point("before_send")
            result = await market.create_listing(account, draft, lambda: self._held.may_send(self._context.send_margin))
            await self._context.point("after_send")
            return result
        result = await market.update_listing(account, sending.listing_id, draft)
        if result.outcome is Outcome.UNKNOWN:
            # An update is safe to repeat: no search, just another try.
            return replace(result, outcome=Outcome.RETRY)
        if result.outcome is Outcome.REFUSED and not (result.failure and result.failure.account_wide):
            return await self._look_closer(account, sending, result)
        return result

    async def _look_closer(self, account: Account, sending: _Sending, refused: ListingResult) -> ListingResult:
        """A refused update may mean that the listing was closed at the marketplace: then it is forgotten,
        and the item is tried again as a creation."""
        listing_id = sending.listing_id or ""
        states = await self._context.marketplace.get_listings(account, [listing_id])
        if states.outcome is not Outcome.DONE:
            return ListingResult(outcome=Outcome.RETRY, failure=refused.failure, retry_after=states.retry_after)
        present = states.listings.get(listing_id)
        if present is not None and present.is_open:
            return refused

        async def work(connection: Connection) -> None:
            await listings.mark_closed(
                connection, account.seller_id, account.environment, {sending.item.sku: listing_id}
            )

        await self._context.database.read(work)
        return ListingResult(outcome=Outcome.RETRY, failure=Failure("marketplace_conflict"), retry_after=0.0)

    async def _stop_job(self, failure: Failure) -> None:
        """The account stops: the job fails at once, with it every item that is not on the wire."""
        run = self._run
        metrics.jobs_stopped.labels(failure.code).inc()
        log.warning("job_stopped", job_id=run.job_id, seller_id=run.seller_id, reason=failure.code)

        async def close(connection: Connection) -> int | None:
            locked = await jobs.lock(connection, run.seller_id, run.job_id)
            if locked is None or locked.status not in (JobStatus.QUEUED, JobStatus.PROCESSING):
                return None
            return await jobs.close_pending(connection, run.seller_id, run.job_id, failure=failure, cancel=False)

        await self._context.database.transact(close)
        self._accounts.forget(run.seller_id, run.environment)
