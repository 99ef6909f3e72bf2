"""One run of items: load, price, categorise, write intents, send, record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from core import metrics, tracing
from core.domain.failures import Failure
from core.ports.marketplace import Account, Listing, ListingResult, Outcome, Prediction, PredictionResult, Result
from core.ports.work import JobTerms, Run, StoredDraft, WorkItem
from core.slots import Slots
from core.storage import catalog, listings, work
from core.storage.database import Connection
from core.worker.accounts import Accounts, NotReady
from core.worker.context import WorkerContext, log
from core.worker.decide import (
    MAX_RETURNS,
    AfterCall,
    Next,
    Predict,
    Refuse,
    Send,
    after_call,
    delay_after,
    first_step,
    is_own_doing,
)
from core.worker.recorder import Recorder, failed, pending, success

SCANNED_ITEMS = 400
"""Items of a job for which the account is looked through once."""
CONFLICT_SECONDS = 2.0
"""When another job's unfinished send of the same SKU stands in the way, look again after this."""


@dataclass(slots=True)
class Held:
    """A leased run in this process. ``until`` is on the monotonic clock and never later than the
    database's end of the lease: it counts from before the statement that took it."""

    run: Run
    until: float
    lost: bool = False
    left: int = 0
    """Items whose call is still to be made or answered; at least one until the run ends."""

    def may_send(self, margin: float) -> bool:
        """Whether a call begun now ends before the lease does (rule 22)."""
        return not self.lost and time.monotonic() + margin < self.until

    def seconds_left(self) -> float:
        """Until a call begun now must have ended, as far as the lease is known to last."""
        return 0.0 if self.lost else max(0.0, self.until - time.monotonic())


_AGAIN = ListingResult(outcome=Outcome.RETRY, failure=Failure("marketplace_conflict"), retry_after=0.0)


@dataclass(slots=True)
class _Sending:
    item: WorkItem
    send: Send
    listing_id: str | None = None
    permalink: str = ""
    listing_category_id: str | None = None
    category_name: str | None = None


@dataclass(slots=True)
class _Progress:
    """How the run goes: ``stopped`` by an account-wide failure, ``delay`` until it is due again. ``done`` counts
    results, ``waited`` calls that the marketplace did not take, each since the claim."""

    stopped: Failure | None = None
    delay: float = 0.0
    deferred: int = 0
    done: int = 0
    waited: int = 0
    halted: bool = field(default=False)


class RunWork:
    """Works one run to its end. The slots bound the calls in flight of the whole process; ``answered`` is told how many
    more items need no call any more."""

    def __init__(
        self,
        context: WorkerContext,
        accounts: Accounts,
        slots: Slots,
        held: Held,
        answered: Callable[[Held, int], None],
    ) -> None:
        self._context = context
        self._accounts = accounts
        self._slots = slots
        self._held = held
        self._answered = answered
        self._margin = context.send_margin
        self._account_key = (held.run.seller_id, held.run.environment)
        self._run = held.run
        self._progress = _Progress()

    async def work(self) -> None:
        """Do it. Whatever happens, the run is given back, or rescued when its lease ends."""
        run = self._run
        with tracing.span(
            "publish run",
            parent=run.terms.trace_context,
            kind="consumer",
            job_id=run.job_id,
            seller_id=run.seller_id,
            first_ordinal=run.first_ordinal,
            items=run.size,
        ):
            await self._work(run.terms)

    async def _work(self, terms: JobTerms) -> None:
        run = self._run
        recorder = Recorder(self._context, run, terms)
        # A retry is a job anew, maybe days later; what a long job makes must not push what others make out of reach.
        stretch = f"{run.job_id}:{terms.retries}:{run.first_ordinal // SCANNED_ITEMS}"
        ready = await self._accounts.prepare(run.seller_id, run.environment, stretch)
        if isinstance(ready, NotReady):
            await self._not_ready(ready, terms, recorder)
            return
        recorder.marketplace_user_id = ready.account.marketplace_user_id
        await self._work_items(ready.account, terms, recorder, search_first=ready.search_first)
        stopped = self._progress.stopped
        if stopped is not None:
            log.warning("job_stopped", job_id=run.job_id, seller_id=run.seller_id, reason=stopped.code)
            recorder.stop(stopped)
            await recorder.finish(0.0, returns=run.returns)
            # What the account may do is asked again before the next send, instead of by sixty refused ones.
            await self._accounts.doubt_profile(ready.account)
            self._accounts.stopped(run.seller_id, run.environment)
        else:
            await recorder.finish(self._delay(), returns=self._returns())

    async def _not_ready(self, ready: NotReady, terms: JobTerms, recorder: Recorder) -> None:
        run = self._run
        if ready.failure is not None:
            log.warning("job_stopped", job_id=run.job_id, seller_id=run.seller_id, reason=ready.failure.code)
            recorder.stop(ready.failure)
            await recorder.finish(0.0, returns=run.returns)
            self._accounts.stopped(run.seller_id, run.environment)
            return
        if ready.outage is None:
            await recorder.finish(ready.delay + self._context.random.random(), returns=run.returns)
            return
        if run.returns >= MAX_RETURNS:
            for item in await self._load(terms):
                recorder.put(
                    failed(ordinal=item.ordinal, sku=item.sku, fence=run.fence, failure=ready.outage, intent=False)
                )
        delay = max(ready.delay, delay_after(run.returns, self._context.random.random()))
        await recorder.finish(delay, returns=run.returns + 1)

    def _delay(self) -> float:
        if self._context.stopping.is_set():
            return 0.0
        rest = self._accounts.rests(*self._account_key)
        if self._progress.deferred:
            rest = max(rest, delay_after(self._returns(), self._context.random.random()))
        return max(rest, self._progress.delay)

    def _returns(self) -> int:
        """A run that got anywhere starts counting anew; one that only waited for others keeps its count."""
        if self._progress.done:
            return 0
        return self._run.returns + (1 if self._progress.waited else 0)

    async def _load(self, terms: JobTerms) -> list[WorkItem]:
        async def load(connection: Connection) -> list[WorkItem]:
            return await work.run_items(connection, self._run, terms)

        return await self._context.database.read(load)

    async def _work_items(self, account: Account, terms: JobTerms, recorder: Recorder, *, search_first: bool) -> None:
        run = self._run
        steps = [(item, _first_step(item, terms)) for item in await self._load(terms)]
        sends = []
        for item, step in await self._categorise(account, terms, steps, recorder):
            if isinstance(step, Refuse):
                self._progress.done += 1
                recorder.put(
                    failed(ordinal=item.ordinal, sku=item.sku, fence=run.fence, failure=step.failure, intent=False)
                )
            elif isinstance(step, Send):
                sends.append(_Sending(item, step, step.listing_id, item.permalink or "", item.listing_category_id))
        self._answered(self._held, run.size - len(sends))
        ahead = self._context.intents_ahead
        for start in range(0, len(sends), ahead):
            if self._halted():
                break
            granted = await self._write_intents(account, sends[start : start + ahead])
            await asyncio.gather(*(self._send(account, each, recorder, search_first=search_first) for each in granted))

    def _may_send(self) -> bool:
        return self._held.may_send(self._margin)

    def _halted(self) -> bool:
        """Whether no further call of this run may begin."""
        progress = self._progress
        if not progress.halted:
            progress.halted = (
                progress.stopped is not None
                or self._context.stopping.is_set()
                or self._accounts.holds_back(*self._account_key)
                or not self._held.may_send(self._margin)
            )
        return progress.halted

    async def _categorise(
        self,
        account: Account,
        terms: JobTerms,
        steps: list[tuple[WorkItem, Refuse | Predict | Send]],
        recorder: Recorder,
    ) -> list[tuple[WorkItem, Refuse | Predict | Send]]:
        """Ask for the categories that are not known yet, each title once, and decide again. Items whose category
        could not be asked for are deferred."""
        titles = list(dict.fromkeys(step.title for _, step in steps if isinstance(step, Predict)))
        if not titles:
            return steps
        answers: dict[str, PredictionResult] = {}

        async def ask(title: str) -> None:
            async with self._slots.of(self._account_key):
                if self._halted():
                    return
                try:
                    answer = await self._context.marketplace.predict_category(account, title)
                except Exception:
                    log.exception("prediction_broke")
                    answer = PredictionResult(outcome=Outcome.RETRY, failure=Failure("internal_error"))
            answers[title] = answer
            await self._accounts.heard(account, answer)
            if answer.failure is not None and answer.failure.account_wide:
                self._progress.stopped = answer.failure

        await asyncio.gather(*(ask(title) for title in titles))
        found = {title: each.prediction for title, each in answers.items() if each.outcome is Outcome.DONE}
        if found:

            async def remember(connection: Connection) -> None:
                await catalog.remember_predictions(connection, terms.site_id, found)

            await self._context.database.read(remember)
        decided: list[tuple[WorkItem, Refuse | Predict | Send]] = []
        for item, step in steps:
            if not isinstance(step, Predict):
                decided.append((item, step))
            elif step.title in found:
                known = _predicted(item, found[step.title])
                decided.append((known, _first_step(known, terms)))
            elif step.title in answers and self._progress.stopped is None:
                self._unanswered(item, answers[step.title], recorder)
        return decided

    def _unanswered(self, item: WorkItem, answer: PredictionResult, recorder: Recorder) -> None:
        after = after_call(answer, item.attempts, self._run.returns)
        if after.next is Next.FAILED:
            self._progress.done += 1
            recorder.put(
                failed(
                    ordinal=item.ordinal,
                    sku=item.sku,
                    fence=self._run.fence,
                    failure=after.failure or Failure("marketplace_unavailable"),
                    intent=False,
                    attempts=after.attempts,
                )
            )
            return
        self._defer(item, answer, after)
        if after.attempts:
            recorder.put(
                pending(
                    ordinal=item.ordinal,
                    sku=item.sku,
                    fence=self._run.fence,
                    outcome=Next.DEFERRED.value,
                    attempts=after.attempts,
                    intent=False,
                )
            )

    def _defer(self, item: WorkItem, result: Result, after: AfterCall) -> None:
        """The run comes back for this item when it makes sense to."""
        progress = self._progress
        progress.deferred += 1
        if not is_own_doing(result):
            progress.waited += 1
        wait = result.retry_after or 0.0
        if after.attempts:
            wait = max(wait, delay_after(item.attempts, self._context.random.random()))
        progress.delay = max(progress.delay, wait)

    async def _write_intents(self, account: Account, sends: Sequence[_Sending]) -> list[_Sending]:
        """Commit what is about to be sent; returns what may be."""
        run, owner = self._run, self._context.owner

        async def write(connection: Connection) -> work.Granted:
            intents = [(each.item.ordinal, each.item.sku, each.send.stored) for each in sends]
            return await work.insert_intents(
                connection, run, owner=owner, marketplace_user_id=account.marketplace_user_id, intents=intents
            )

        async def read_back(connection: Connection) -> work.Granted | None:
            skus = [each.item.sku for each in sends]
            return await work.granted_intents(connection, run, owner=owner, skus=skus) or None

        await self._context.point("before_intent_commit")
        granted = await self._context.database.transact(write, read_back)
        await self._context.point("after_intent_commit")
        if len(granted) < len(sends):
            # Another job is sending the same SKU, the job was cancelled, the account has changed: look again soon.
            self._progress.delay = max(self._progress.delay, CONFLICT_SECONDS)
            self._accounts.forget(run.seller_id, run.environment)
        chosen = []
        for each in sends:
            if each.item.sku in granted:
                # A listing that another job made a moment ago is updated, never made again.
                each.listing_id, each.permalink = granted[each.item.sku] or (None, "")
                chosen.append(each)
        return chosen

    async def _send(self, account: Account, sending: _Sending, recorder: Recorder, *, search_first: bool) -> None:
        item, run = sending.item, self._run
        async with self._slots.of(self._account_key):
            if self._halted():
                recorder.put(
                    pending(ordinal=item.ordinal, sku=item.sku, fence=run.fence, outcome="deferred", attempts=0)
                )
                return
            try:
                result = await self._call(account, sending, search_first=search_first)
            except Exception:
                # One item's trouble must not leave the others of the run on the wire with nobody to hear them.
                log.exception("send_broke", ordinal=item.ordinal)
                outcome = Outcome.UNKNOWN if sending.listing_id is None else Outcome.RETRY
                result = ListingResult(outcome=outcome, failure=Failure("internal_error"))
        self._take(sending, result, recorder)
        self._answered(self._held, 1)
        await self._accounts.heard(account, result)

    def _take(self, sending: _Sending, result: ListingResult, recorder: Recorder) -> None:
        """Hand the result on to be recorded."""
        item, run = sending.item, self._run
        decided = after_call(result, item.attempts, run.returns)
        if decided.next is Next.SUCCESS and result.listing is not None:
            self._progress.done += 1
            recorder.put(
                success(
                    ordinal=item.ordinal,
                    fence=run.fence,
                    stored=_named(sending, result.listing),
                    listing=result.listing,
                    known_permalink=sending.permalink,
                )
            )
        elif decided.next is Next.FAILED:
            self._progress.done += 1
            failure = decided.failure or Failure("content_refused")
            if failure.account_wide:
                self._progress.stopped = failure
                recorder.stop(failure)
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
                self._progress.done += 1
                metrics.intents_unknown.labels(result.failure.code if result.failure else "unreadable").inc()
            else:
                self._defer(item, result, decided)
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
        # The seller may have made a closed listing anew since the account was looked through.
        if sending.listing_id is None and (search_first or sending.item.listing_id is not None):
            known = await market.find_by_sku(account, draft.sku)
            if known.outcome is not Outcome.DONE:
                # Nothing was sent that could have made a listing, so nothing is unknown.
                outcome = Outcome.NOT_SENT if known.outcome is Outcome.UNKNOWN else known.outcome
                return ListingResult(outcome=outcome, failure=known.failure, retry_after=known.retry_after)
            if known.listings:
                sending.listing_id, sending.permalink = known.listings[0].listing_id, known.listings[0].permalink
                sending.listing_category_id = known.listings[0].category_id
        if sending.send.stored.category_name is None and sending.item.listing_category_name is None:
            # Before the send, not between its answer and the record. A creation looks the category up anyway.
            sending.category_name = (await market.category_name(account, draft.category_id)).name or None
        if sending.listing_id is None:
            await self._context.point("before_send")
            result = await market.create_listing(account, draft, self._may_send)
            await self._context.point("after_send")
            return result
        try:
            # An update that waited beyond the lease could overwrite what a later job has set since.
            async with asyncio.timeout(self._held.seconds_left()):
                # The limits of the category that it stands in hold, not of the one that a new one would go to.
                present = msgspec.structs.replace(draft, category_id=sending.listing_category_id or draft.category_id)
                result = await market.update_listing(account, sending.listing_id, present)
        except TimeoutError:
            return ListingResult(outcome=Outcome.RETRY, failure=Failure("marketplace_unavailable"))
        if result.outcome is Outcome.UNKNOWN:
            # An update is safe to repeat: no search, just another try.
            return msgspec.structs.replace(result, outcome=Outcome.RETRY)
        if result.outcome is Outcome.REFUSED and not (result.failure and result.failure.account_wide):
            return await self._look_closer(account, sending, result)
        if result.listing is not None and result.listing.sku not in ("", draft.sku):
            # Given to another product by the seller since it was last looked at: it is this one's no more.
            return await self._forget(account, sending, missing=False)
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
        if present is None and listing_id not in states.missing:
            return _AGAIN  # Not told this time: to take it for closed would make a second one.
        return await self._forget(account, sending, missing=present is None)

    async def _forget(self, account: Account, sending: _Sending, *, missing: bool) -> ListingResult:
        """Let the SKU's listing count as closed, and the item be tried again as a creation."""
        closed = {sending.item.sku: sending.listing_id or ""}

        async def work(connection: Connection) -> set[str]:
            return await listings.mark_closed(
                connection, account.seller_id, account.environment, closed, missing=missing
            )

        await self._context.database.read(work)
        return _AGAIN


def _named(sending: _Sending, listing: Listing) -> StoredDraft:
    """The draft with its category's name; without it where the marketplace chose another category."""
    stored = sending.send.stored
    moved = listing.category_id not in ("", stored.draft.category_id)
    name = None if moved else stored.category_name or sending.category_name
    return stored if name == stored.category_name else msgspec.structs.replace(stored, category_name=name)


def _first_step(item: WorkItem, terms: JobTerms) -> Refuse | Predict | Send:
    try:
        return first_step(item, terms)
    except Exception:
        # A product that breaks the decision must not break its whole run, again and again.
        log.exception("item_broke", ordinal=item.ordinal)
        return Refuse(Failure("internal_error"))


def _predicted(item: WorkItem, prediction: Prediction | None) -> WorkItem:
    return msgspec.structs.replace(
        item,
        predicted=True,
        predicted_category_id=prediction.category_id if prediction else None,
        predicted_category_name=prediction.category_name if prediction else None,
    )
