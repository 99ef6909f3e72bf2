"""A model of jobs, leases, intents, credits and idempotency, held against the real database step by step.

Hypothesis chooses the steps: requests of an integrator, moves of two workers (one of which may be a zombie whose lease
has ended), searches, grants. The model says what each step must answer; after every step jobs, items, sequences and
balances of the database are those of the model. A failing history is shrunk to its shortest form and printed.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.domain.api_key import Principal, Scope
from core.domain.failures import Failure
from core.domain.publication import Item, PublicationRequest
from core.domain.states import Environment
from core.errors import ApiError
from core.ports.marketplace import Listing, ListingDraft
from core.ports.work import DoubtfulItem, JobTerms, Run, StoredDraft
from core.storage import intents, work
from core.storage.database import Connection
from core.use_cases import administration
from core.use_cases.create_job import create_job
from core.use_cases.steer_jobs import cancel_job, retry_job
from core.worker.recorder import failed, pending, success
from tests.faults.campaign import TIERS, Campaign
from tests.support import service
from tests.support.postgres import start_test_postgres
from tests.support.service import Tenant

T = TypeVar("T")

GRANTED = 14
MAX_ACTIVE = 6
TERMINAL = ("completed", "failed", "cancelled")
SKUS = [f"MODEL{number:05d}" for number in range(8)]
KEYS = [str(uuid.UUID(int=number + 1)) for number in range(3)]
OUTCOMES = ("success", "retryable", "refused", "deferred", "unknown")
THEN = ("nothing", "send", "send", "send", "success", "mixed", "mixed", "unknown")
"""What follows a claim at once: nothing, the sends, or the whole run with its results. Mixed: every other item is
refused, and can be retried or not."""
ENVIRONMENTS = st.sampled_from(("live", "test"))


@dataclass
class ModelItem:
    """``error``: the code of a failed or skipped item."""

    sku: str
    status: str = "pending"
    retryable: bool = False
    listing: str | None = None


@dataclass
class ModelJob:
    """A job as it must stand."""

    job_id: str
    environment: str
    status: str
    items: list[ModelItem]
    results: int
    stopped: bool = False
    run: str = "free"
    """free, held, or gone."""
    fence: int = 0

    def count(self, status: str) -> int:
        """Items of a status."""
        return sum(item.status == status for item in self.items)


@dataclass
class ModelIntent:
    """The one unresolved intent of (environment, SKU)."""

    job_id: str
    ordinal: int
    owner: str
    fence: int
    update: bool
    state: str = "sending"
    attempt: int = 1


@dataclass(eq=False)
class Claimed:
    """A run in the hands of a worker, or of one whose lease has ended."""

    run: Run
    owner: str
    terms: JobTerms
    sent: list[int] = field(default_factory=list)


class Surroundings:
    """The database that all histories of one campaign share, each with a seller of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.url = service.new_database()
        self.application = service.new_application(self.url)
        self.counts: Counter[str] = Counter()
        self.runner.run(self.application.open())

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await something."""
        return self.runner.run(coroutine)

    def close(self) -> None:
        """Leave nothing behind."""
        self.runner.run(self.application.close())
        self.runner.close()
        start_test_postgres().drop_database(self.url)


def machine(surroundings: Surroundings) -> type[RuleBasedStateMachine]:
    """The state machine on this database."""
    database = surroundings.application.database
    counts = surroundings.counts
    numbers = itertools.count(1)

    class Service(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            counts["histories"] += 1
            self.tenant: Tenant = surroundings.do(service.new_tenant(surroundings.application, balance=GRANTED))
            self.jobs: dict[str, ModelJob] = {}
            self.intents: dict[tuple[str, str], ModelIntent] = {}
            self.listings: dict[tuple[str, str], str] = {}
            self.keys: dict[tuple[str, str], tuple[Any, str]] = {}
            self.holding: list[Claimed] = []
            """Runs in the hands of workers and of zombies."""
            self.granted = self.available = GRANTED
            self.held = self.used = self.used_test = 0

        # What the steps are made of.

        @property
        def seller_id(self) -> int:
            return self.tenant.seller_id

        def principal(self, environment: str) -> Principal:
            return Principal(
                seller_id=self.seller_id,
                environment=Environment(environment),
                scopes=frozenset(Scope),
                key_id="model",
            )

        def refused(self, coroutine: Coroutine[Any, Any, Any], code: str) -> None:
            try:
                surroundings.do(coroutine)
            except ApiError as error:
                assert error.code == code, f"refused with {error.code}, expected {code}"
                counts[f"refused {code}"] += 1
            else:
                raise AssertionError(f"accepted, expected {code}")

        def transact(self, do: Any) -> Any:
            return surroundings.do(database.transact(do))

        def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
            async def run(connection: Connection) -> list[tuple[Any, ...]]:
                cursor = await connection.execute(statement, parameters)
                return await cursor.fetchall() if cursor.description else []

            return surroundings.do(database.read(run))

        def active(self) -> int:
            return sum(job.status not in TERMINAL for job in self.jobs.values())

        def finish(self, job: ModelJob, item: ModelItem, status: str, *, retryable: bool = False) -> None:
            """An item gets a result, and its credit follows."""
            assert item.status == "pending"
            item.status, item.retryable = status, retryable
            job.results += 1
            if job.environment == "test":
                self.used_test += status == "success"
                return
            self.held -= 1
            if status == "success":
                self.used += 1
            else:
                self.available += 1

        def end_if_done(self, job: ModelJob) -> None:
            if job.count("pending") == 0 and job.status in ("queued", "processing"):
                job.status = "failed" if not job.count("success") and job.count("failed") else "completed"
            if job.status in TERMINAL and job.run == "free":
                job.run = "gone"

        def skip_untried(self, job: ModelJob) -> None:
            for ordinal, item in enumerate(job.items):
                intent = self.intents.get((job.environment, item.sku))
                on_the_wire = intent is not None and (intent.job_id, intent.ordinal) == (job.job_id, ordinal)
                if item.status == "pending" and not on_the_wire:
                    self.finish(job, item, "skipped")

        def own_untried(self, job: ModelJob) -> bool:
            return any(
                item.status == "pending"
                and not ((intent := self.intents.get((job.environment, item.sku))) and intent.job_id == job.job_id)
                for item in job.items
            )

        # Requests.

        @rule(
            environment=ENVIRONMENTS,
            skus=st.lists(st.sampled_from(SKUS), min_size=1, max_size=5),
            key=st.sampled_from([None, None, *KEYS]),
            again=st.booleans(),
        )
        def create(self, environment: str, skus: list[str], key: str | None, again: bool) -> None:
            if again and key and (environment, key) in self.keys:
                skus = self.keys[environment, key][0]
            request = PublicationRequest(items=[Item(sku, None, True) for sku in skus], idempotency_key=key)
            asked = create_job(database, self.principal(environment), request)
            remembered = self.keys.get((environment, key)) if key else None
            if remembered is not None:
                if remembered[0] != skus:
                    self.refused(asked, "E_IDEMPOTENCY_CONFLICT")
                    return
                answer = surroundings.do(asked)
                assert answer.replayed
                assert answer.result.job_id == remembered[1]
                counts["replays"] += 1
                return
            taken = len(set(skus))
            if self.active() >= MAX_ACTIVE:
                self.refused(asked, "E_PRODUCT_MAX_CONCURRENT_JOBS")
                return
            if environment == "live" and taken > self.available:
                self.refused(asked, "E_PRODUCT_CREDIT_EXHAUSTED")
                return
            answer = surroundings.do(asked)
            assert not answer.replayed
            assert (answer.result.accepted, answer.result.rejected) == (taken, len(skus) - taken)
            job = ModelJob(answer.result.job_id, environment, "queued", [], 0)
            for ordinal, sku in enumerate(skus):
                repeated = sku in skus[:ordinal]
                job.items.append(ModelItem(sku, "skipped" if repeated else "pending"))
                job.results += repeated
            self.jobs[job.job_id] = job
            if environment == "live":
                self.available -= taken
                self.held += taken
            if key is not None:
                self.keys[environment, key] = (skus, job.job_id)
            counts["jobs"] += 1

        @precondition(lambda self: self.jobs)
        @rule(sure=st.integers(0, 2), data=st.data())
        def cancel(self, sure: int, data: st.DataObject) -> None:
            if sure:
                return
            on_the_wire = {each.job_id for each in self.intents.values()} if data.draw(st.booleans()) else set()
            chosen = [each for each in self.jobs if each in on_the_wire] or list(self.jobs)
            job = self.jobs[data.draw(st.sampled_from(chosen))]
            asked = cancel_job(database, self.seller_id, job.job_id)
            if job.status in TERMINAL:
                self.refused(asked, "E_JOB_ALREADY_TERMINAL")
                return
            surroundings.do(asked)
            self.skip_untried(job)
            job.status = "cancelled"
            if job.run == "free":
                job.run = "gone"
            counts["cancels"] += 1

        @precondition(lambda self: self.jobs)
        @rule(data=st.data())
        def retry(self, data: st.DataObject) -> None:
            failed_jobs = [each.job_id for each in self.jobs.values() if each.count("failed")]
            job = self.jobs[data.draw(st.sampled_from(failed_jobs or list(self.jobs)))]
            asked = retry_job(database, self.seller_id, job.job_id, environment=Environment(job.environment))
            again = [item for item in job.items if item.status == "failed" and item.retryable]
            if job.status not in TERMINAL or not again:
                self.refused(asked, "E_JOB_NOT_RETRYABLE")
                return
            if job.environment == "live" and len(again) > self.available:
                self.refused(asked, "E_PRODUCT_CREDIT_EXHAUSTED")
                return
            retried = surroundings.do(asked)
            assert retried.items == len(again)
            for item in again:
                item.status, item.retryable = "pending", False
            if job.environment == "live":
                self.available -= len(again)
                self.held += len(again)
            job.status = "queued"
            if job.run == "gone":
                job.run = "free"
            counts["retries"] += 1

        @rule(amount=st.integers(1, 3))
        def grant(self, amount: int) -> None:
            surroundings.do(administration.grant_credits(database, self.seller_id, amount))
            self.granted += amount
            self.available += amount

        # Workers.

        @precondition(lambda self: self.jobs)
        @rule(owner=st.integers(1, 2), then=st.sampled_from(THEN), data=st.data())
        def claim(self, owner: int, then: str, data: st.DataObject) -> None:
            """One run is due, whichever the service would choose among several."""
            free = [
                each for each in self.jobs.values() if each.run == "free" and each.status in ("queued", "processing")
            ]
            job = data.draw(st.sampled_from(free or list(self.jobs.values())))
            environment = job.environment
            self.sql(
                """
                UPDATE work_runs SET due_at = CASE WHEN job_id = %s THEN now() ELSE now() + interval '1 hour' END
                WHERE seller_id = %s AND owner IS NULL
                """,
                job.job_id,
                self.seller_id,
            )
            name = str(uuid.UUID(int=owner))

            async def take(connection: Connection) -> list[Run]:
                return await work.claim(
                    connection, self.seller_id, Environment(environment), owner=name, lease=600, limit=1
                )

            runs = surroundings.do(database.read(take))
            if job.run != "free" or job.status not in ("queued", "processing"):
                assert runs == []
                return
            (run,) = runs
            assert run.job_id == job.job_id
            assert run.fence > max((each.fence for each in self.jobs.values()), default=0)
            job.run, job.fence = "held", run.fence

            async def start(connection: Connection) -> JobTerms | None:
                await work.start_jobs(connection, self.seller_id, {run.job_id})
                return await work.job_terms(connection, self.seller_id, run.job_id)

            terms = surroundings.do(database.read(start))
            assert terms is not None
            job.status = "processing"
            counts["claims"] += 1
            held = Claimed(run, name, terms)
            self.holding = [*self.holding[-7:], held]
            if then != "nothing":
                self.write_intents(held, list(range(len(job.items))))
            if then in ("success", "mixed", "unknown"):
                if held.sent:
                    mixed = ("retryable", "refused")
                    outcomes = {number: mixed[number % 2] if then == "mixed" else then for number in held.sent}
                    self.write_results(held, outcomes)
                self.end(held)

        @precondition(lambda self: self.holding)
        @rule(data=st.data())
        def send(self, data: st.DataObject) -> None:
            held = data.draw(st.sampled_from(self.holding))
            numbers = range(len(self.jobs[held.run.job_id].items))
            self.write_intents(held, data.draw(st.lists(st.sampled_from(numbers), min_size=1, unique=True)))

        def write_intents(self, held: Claimed, wanted: list[int]) -> None:
            job = self.jobs[held.run.job_id]
            # One SKU twice in a job is skipped at its acceptance: the first of them is meant.
            wanted = [number for number in wanted if job.items[number].status != "skipped"]

            async def write(connection: Connection) -> Any:
                return await work.insert_intents(
                    connection,
                    held.run,
                    owner=held.owner,
                    marketplace_user_id=self.tenant.marketplace_users[held.run.environment],
                    intents=[(number, job.items[number].sku, _draft(job.items[number].sku)) for number in wanted],
                )

            granted = self.transact(write)
            expected: dict[str, bool] = {}
            if job.status in ("queued", "processing") and job.run == "held" and job.fence == held.run.fence:
                for number in wanted:
                    item, place = job.items[number], (job.environment, job.items[number].sku)
                    if item.status == "pending" and place not in self.intents:
                        update = place in self.listings
                        self.intents[place] = ModelIntent(job.job_id, number, held.owner, held.run.fence, update)
                        expected[item.sku] = update
                        held.sent.append(number)
            assert {sku: listing is not None for sku, listing in granted.items()} == expected
            counts["intents"] += len(expected)
            counts["intents refused"] += len(wanted) - len(expected)

        @precondition(lambda self: any(held.sent for held in self.holding))
        @rule(data=st.data())
        def record(self, data: st.DataObject) -> None:
            """Results of a holder or of a zombie; those that are not its own any more count for nothing."""
            held = data.draw(st.sampled_from([each for each in self.holding if each.sent]))
            chosen = data.draw(st.lists(st.sampled_from(held.sent), min_size=1, unique=True))
            self.write_results(held, {number: data.draw(st.sampled_from(OUTCOMES)) for number in chosen})

        def write_results(self, held: Claimed, outcomes: dict[int, str]) -> None:
            job = self.jobs[held.run.job_id]
            results, own = [], {}
            for number in sorted(outcomes):
                item = job.items[number]
                place = (job.environment, item.sku)
                intent = self.intents.get(place)
                listing = self.listings.get(place) or f"MCO{next(numbers)}"
                results.append(_result(outcomes[number], number, item.sku, held.run.fence, listing))
                if (
                    intent is not None
                    and (intent.job_id, intent.ordinal, intent.owner, intent.fence, intent.state)
                    == (job.job_id, number, held.owner, held.run.fence, "sending")
                ):  # fmt: skip
                    own[number] = listing

            async def write(connection: Connection) -> Any:
                return await work.record(
                    connection,
                    self.seller_id,
                    job.job_id,
                    results,
                    owner=held.owner,
                    terms=held.terms,
                    first_ordinal=0,
                    settle=600,
                    first_search=1,
                )

            recorded = self.transact(write)
            for number, listing in own.items():
                self.resolve(job, number, outcomes[number], listing)
            unknown = sum(outcomes[number] == "unknown" for number in own)
            assert (recorded.accepted, recorded.doubted) == (len(own) - unknown, unknown)
            counts["results"] += len(own)
            counts["fenced results"] += len(outcomes) - len(own)
            self.end_if_done(job)

        def resolve(self, job: ModelJob, number: int, outcome: str, listing: str) -> None:
            item = job.items[number]
            place = (job.environment, item.sku)
            if outcome == "unknown":
                self.intents[place].state = "unknown"
                return
            del self.intents[place]
            if outcome == "success":
                self.listings[place] = item.listing = listing
                self.finish(job, item, "success")
            elif outcome in ("retryable", "refused"):
                self.finish(job, item, "failed", retryable=outcome == "retryable")

        @precondition(lambda self: self.holding)
        @rule(data=st.data())
        def give_back(self, data: st.DataObject) -> None:
            """The end of a run, of a zombie's too. Sends without a result are not left behind by a holder."""
            self.end(data.draw(st.sampled_from(self.holding)))

        def end(self, held: Claimed) -> None:
            self.holding.remove(held)
            job = self.jobs[held.run.job_id]
            mine = job.run == "held" and job.fence == held.run.fence
            open_sends = any(
                (each.job_id, each.fence, each.state) == (job.job_id, held.run.fence, "sending")
                for each in self.intents.values()
            )
            if mine and open_sends:
                self.take_back(held)
                return

            async def give(connection: Connection) -> None:
                await work.end_run(connection, held.run, owner=held.owner, delay=0, returns=0)

            self.transact(give)
            self.close_leftovers(job)
            if mine:
                job.run = "free" if self.own_untried(job) else "gone"

        def close_leftovers(self, job: ModelJob) -> None:
            if job.status == "cancelled":
                self.skip_untried(job)

        @precondition(lambda self: self.holding)
        @rule(data=st.data())
        def lease_ends(self, data: st.DataObject) -> None:
            """The holder becomes a zombie: another worker takes the run back."""
            self.take_back(data.draw(st.sampled_from(self.holding)))

        def take_back(self, held: Claimed) -> None:
            job = self.jobs[held.run.job_id]
            mine = job.run == "held" and job.fence == held.run.fence
            self.sql(
                """
                UPDATE work_runs SET leased_until = now() - interval '1 second'
                WHERE seller_id = %s AND fence = %s AND owner IS NOT NULL
                """,
                self.seller_id,
                held.run.fence,
            )
            key = (self.seller_id, job.job_id, held.run.first_ordinal, held.run.fence)

            async def rescue(connection: Connection) -> int | None:
                return await work.rescue(connection, key, owner=str(uuid.UUID(int=9)), settle=600, spread=0)

            doubted = self.transact(rescue)
            if not mine:
                assert doubted is None
                return
            left = 0
            for place, intent in list(self.intents.items()):
                if (intent.job_id, intent.fence, intent.state) == (job.job_id, held.run.fence, "sending"):
                    if intent.update:
                        del self.intents[place]
                    else:
                        intent.state = "unknown"
                        left += 1
            assert doubted == left
            job.run = "free"
            self.close_leftovers(job)
            if job.status in TERMINAL:
                job.run = "gone"
            counts["rescues"] += 1

        # Searches.

        @precondition(lambda self: any(intent.state == "unknown" for intent in self.intents.values()))
        @rule(environment=ENVIRONMENTS, owner=st.integers(1, 2), settled=st.booleans(), data=st.data())
        def search(self, environment: str, owner: int, settled: bool, data: st.DataObject) -> None:
            """One sweep over what is unknown: found, not found yet, reposted, or given up."""
            self.sql(
                """
                UPDATE intents SET due_at = now(), leased_until = NULL, settle_until = now() + make_interval(secs => %s)
                WHERE seller_id = %s AND state = 'unknown'
                """,
                -1 if settled else 600,
                self.seller_id,
            )
            name = str(uuid.UUID(int=owner))

            async def take(connection: Connection) -> list[DoubtfulItem]:
                return await intents.claim(
                    connection,
                    self.seller_id,
                    Environment(environment),
                    owner=name,
                    lease=600,
                    hopeless_after=3600,
                    limit=50,
                )

            doubtful = surroundings.do(database.read(take))
            unknown = {
                sku for (where, sku), each in self.intents.items() if where == environment and each.state == "unknown"
            }
            assert {item.sku for item in doubtful} == unknown
            for item in sorted(doubtful, key=lambda each: each.sku):
                intent = self.intents[environment, item.sku]
                intent.owner, intent.fence = name, item.fence
                assert item.attempt == intent.attempt
                assert item.settled == settled
                self.one_search(environment, item, intent, name, data)

        def one_search(
            self, environment: str, item: DoubtfulItem, intent: ModelIntent, name: str, data: st.DataObject
        ) -> None:
            job = self.jobs[item.job_id]
            steps = ["found", "again", "given up"]
            if intent.attempt == 1 and job.status != "cancelled":
                steps += ["repost", "repost"]
            step = data.draw(st.sampled_from(steps))
            counts[f"search {step}"] += 1
            if step == "again":

                async def postpone(connection: Connection) -> None:
                    await intents.postpone(
                        connection, self.seller_id, Environment(environment), item, owner=name, delay=1
                    )

                self.transact(postpone)
                return
            if step == "repost":

                async def repost(connection: Connection) -> bool:
                    return await intents.repost(
                        connection,
                        self.seller_id,
                        Environment(environment),
                        item,
                        owner=name,
                        marketplace_user_id=self.tenant.marketplace_users[Environment(environment)],
                        lease=600,
                    )

                assert self.transact(repost)
                assert not self.transact(repost), "reposted twice"
                intent.attempt, intent.state = 2, "sending"
                outcome = data.draw(st.sampled_from(("success", "retryable", "unknown")))
                self.record_search(job, item, name, outcome, "sending")
                return
            self.record_search(job, item, name, "success" if step == "found" else "retryable", "unknown")

        def record_search(self, job: ModelJob, item: DoubtfulItem, name: str, outcome: str, state: str) -> None:
            place = (job.environment, item.sku)
            listing = self.listings.get(place) or f"MCO{next(numbers)}"
            result = _result(outcome, item.ordinal, item.sku, item.fence, listing)

            async def terms(connection: Connection) -> JobTerms | None:
                return await work.job_terms(connection, self.seller_id, job.job_id)

            known = surroundings.do(database.read(terms))
            assert known is not None

            async def write(connection: Connection) -> Any:
                return await work.record(
                    connection,
                    self.seller_id,
                    job.job_id,
                    [result],
                    owner=name,
                    terms=known,
                    first_ordinal=0,
                    settle=600,
                    first_search=1,
                    reconciling=state,
                )

            recorded = self.transact(write)
            assert recorded.accepted + recorded.doubted == 1
            self.resolve(job, item.ordinal, outcome, listing)
            self.end_if_done(job)

        # What must hold after every step.

        @invariant()
        def the_database_is_as_the_model_says(self) -> None:
            counts["steps"] += 1
            balance = self.sql(
                "SELECT granted, available, held, used, used_test FROM credit_balances WHERE seller_id = %s",
                self.seller_id,
            )
            assert balance == [(self.granted, self.available, self.held, self.used, self.used_test)]
            assert self.granted == self.available + self.held + self.used
            rows = self.sql(
                """
                SELECT j.job_id::text, j.status::text, j.pending, j.successful, j.failed, j.skipped, j.reconciling,
                    j.last_sequence, j.completed_at IS NOT NULL,
                    array_agg(i.status::text ORDER BY i.ordinal), array_agg(i.listing_id ORDER BY i.ordinal),
                    (SELECT array_agg(n ORDER BY n) FROM (
                        SELECT sequence AS n FROM job_items x
                        WHERE x.seller_id = j.seller_id AND x.job_id = j.job_id AND sequence IS NOT NULL
                        UNION ALL
                        SELECT (unnest(results)).sequence FROM replaced_results r
                        WHERE r.seller_id = j.seller_id AND r.job_id = j.job_id
                    ) numbers),
                    (SELECT CASE WHEN count(*) = 0 THEN 'gone' WHEN count(r.owner) = 0 THEN 'free' ELSE 'held' END
                        FROM work_runs r WHERE r.seller_id = j.seller_id AND r.job_id = j.job_id)
                FROM jobs j JOIN job_items i USING (seller_id, job_id) WHERE j.seller_id = %s
                GROUP BY j.seller_id, j.job_id
                """,
                self.seller_id,
            )
            assert {row[0] for row in rows} == set(self.jobs)
            for row in rows:
                job = self.jobs[row[0]]
                searched = sum(
                    each.job_id == job.job_id and (each.state == "unknown" or each.attempt == 2)
                    for each in self.intents.values()
                )
                assert row[1:9] == (
                    job.status,
                    job.count("pending"),
                    job.count("success"),
                    job.count("failed"),
                    job.count("skipped"),
                    searched,
                    job.results,
                    job.status in TERMINAL,
                )
                assert row[9] == [item.status for item in job.items]
                assert row[10] == [item.listing if item.status == "success" else None for item in job.items]
                assert (row[11] or []) == list(range(1, job.results + 1)), "a sequence has a hole"
                assert row[12] == job.run, f"the run of job {job.job_id} is {row[12]}, expected {job.run}"

    return Service


def _draft(sku: str) -> StoredDraft:
    return StoredDraft(
        draft=ListingDraft(
            sku=sku,
            title="Silla plegable",
            category_id="MCO1234",
            price=1000,
            listing_type_id="gold_special",
            quantity=1,
            image_urls=(),
            warranty_time="90 días",
        )
    )


def _result(outcome: str, ordinal: int, sku: str, fence: int, listing_id: str) -> Any:
    match outcome:
        case "success":
            listing = Listing(listing_id=listing_id, sku=sku, status="active")
            return success(ordinal=ordinal, fence=fence, stored=_draft(sku), listing=listing)
        case "retryable" | "refused":
            failure = Failure("outcome_unknown" if outcome == "retryable" else "content_refused")
            return failed(ordinal=ordinal, sku=sku, fence=fence, failure=failure, intent=True)
        case _:
            return pending(ordinal=ordinal, sku=sku, fence=fence, outcome=outcome, attempts=1)


async def run(campaign: Campaign) -> None:
    """So many histories of so many steps."""
    await asyncio.to_thread(play, campaign)


def play(campaign: Campaign) -> None:
    """The same, outside of an event loop."""
    volumes, outcome = campaign.volumes, campaign.outcome
    surroundings = Surroundings()
    chosen = settings(
        max_examples=volumes.model_runs,
        stateful_step_count=volumes.model_steps,
        deadline=None,
        database=None,
        # A seeded defect need only be noticed, and its first failure is told as it is, not as one of a group.
        phases=(Phase.generate, Phase.shrink) if volumes.model_runs >= TIERS[1].model_runs else (Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    try:
        run_state_machine_as_test(seed(campaign.seed)(machine(surroundings)), settings=chosen)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        outcome.violations.append(f"{type(error).__name__}: {error}\n{notes}")
    finally:
        outcome.counts.update(surroundings.counts)
        surroundings.close()
    outcome.want("histories", volumes.model_runs)
    outcome.want("steps", volumes.model_runs * volumes.model_steps * 3 // 4)
    for name in ("replays", "fenced results", "rescues", "search found", "search repost", "cancels", "retries"):
        outcome.want(name, volumes.model_runs // 30)
