"""The defects: what is replaced by what, and which check has to notice it.

A replacement names its text exactly. When the program changes and the text is gone, the mutant fails loudly: then the
defect is to be written anew against the new text, not dropped.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One replacement below ``src``; ``count`` is how often the text stands there."""

    path: str
    old: str
    new: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect. ``check`` is the name of a campaign, or a test as pytest names it; ``red`` is a regular expression
    that must be found in what the check then says."""

    name: str
    changes: tuple[Change, ...]
    check: str
    red: str


GUARD = "\n        AND n.owner = %(owner)s AND n.fence = r.fence AND n.state = %(state)s"
WORK = "core/storage/sql/work.sql"
JOBS = "core/storage/sql/jobs.sql"
CREDITS = "core/storage/sql/credits.sql"
CLIENT = "core/marketplace/client.py"
DECIDE = "core/worker/decide.py"
SCHEMA = "core/storage/migrations/0001_first_schema.sql"

DEFECTS = (
    Defect(
        "results are recorded without looking at owner and fence",
        (
            Change(
                WORK,
                "n.job_id = %(job_id)s AND n.ordinal = r.ordinal AND n.owner = %(owner)s AND n.fence = r.fence\n"
                "        AND n.state = %(state)s",
                "n.job_id = %(job_id)s AND n.ordinal = r.ordinal",
            ),
            Change(
                WORK, "\n        AND n.owner = %(owner)s AND n.fence = r.fence AND n.state = %(state)s", "", count=2
            ),
        ),
        "model",
        "AssertionError",
    ),
    Defect(
        "an unknown outcome is reposted before the whole window was searched",
        (Change(DECIDE, "    if not item.settled:", "    if not item.settled and found is None:"),),
        "simulation",
        "reposted without a search",
    ),
    Defect(
        "a timeout is taken for a request that never left",
        (
            Change(
                CLIENT,
                "            return NoAnswer(attempt.sent, _reason(error))",
                "            return NoAnswer(attempt.sent and _reason(error) != 'timeout', _reason(error))",
            ),
        ),
        "lost_replies",
        "doubled listing",
    ),
    Defect(
        "the HTTP client repeats a creation that was not answered",
        (
            Change(
                "core/marketplace/connector.py",
                "            answer = await self._http.send(method, target, grant.headers, body, may_send)\n",
                "            answer = await self._http.send(method, target, grant.headers, body, may_send)\n"
                "            if type(answer) is not Answer:\n"
                "                answer = await self._http.send(method, target, grant.headers, body, may_send)\n",
            ),
        ),
        "lost_replies",
        "doubled listing",
    ),
    Defect(
        "an idempotency key counts for the seller's other environment as well",
        (
            Change(
                "core/storage/sql/acceptance.sql",
                "LEFT JOIN idempotency_keys k ON k.seller_id = s.seller_id AND k.environment = %(environment)s\n",
                "LEFT JOIN idempotency_keys k ON k.seller_id = s.seller_id\n",
            ),
        ),
        "model",
        "E_IDEMPOTENCY_CONFLICT|AssertionError",
    ),
    Defect(
        "credits are held without looking whether there are enough",
        (Change(CREDITS, " AND available >= %(amount)s", ""),),
        "credits_at_the_edge",
        "CheckViolation",
    ),
    Defect(
        "one result can be settled twice",
        (Change(SCHEMA, "CREATE UNIQUE INDEX credit_ledger_settles_once", "CREATE INDEX credit_ledger_settles_once"),),
        "credits_at_the_edge",
        "books",
    ),
    Defect(
        "a success captures its credit and gives it back too",
        (
            Change(
                "core/storage/work.py",
                "            released=failed + skipped,\n",
                "            released=failed + skipped + successful,\n",
            ),
        ),
        "model",
        "RuntimeError|AssertionError|CheckViolation",
    ),
    Defect(
        "results are numbered by a sequence of the database",
        (
            Change(
                WORK,
                "sequence = (SELECT last_sequence FROM jobs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s)"
                " + f.place,",
                "sequence = nextval('fences')::int,",
            ),
        ),
        "model",
        "a sequence has a hole",
    ),
    Defect(
        "runs are rescued by their age",
        (
            Change(
                WORK,
                "SELECT seller_id, job_id::text, first_ordinal, fence FROM work_runs\nWHERE leased_until < now()",
                "SELECT seller_id, job_id::text, first_ordinal, fence FROM work_runs\n"
                "WHERE leased_until < now() + interval '8 seconds'",
            ),
            Change(
                WORK,
                "(r.leased_until < now() OR r.owner = %(owner)s)",
                "(r.leased_until < now() + interval '8 seconds' OR r.owner = %(owner)s)",
            ),
        ),
        "lost_replies",
        "not a calm day",
    ),
    Defect(
        "the sends of a dead worker are forgotten instead of searched for",
        (
            Change(
                WORK,
                "AND n.state = 'sending' AND n.kind = 'create' AND n.attempt = 1\n    RETURNING 1\n), forgotten AS (",
                "AND false\n    RETURNING 1\n), forgotten AS (",
            ),
            Change(
                WORK,
                "AND n.fence = run.fence AND n.state = 'sending' AND n.kind = 'update'",
                "AND n.fence = run.fence AND n.state = 'sending'",
            ),
        ),
        "model",
        "AssertionError",
    ),
    Defect(
        "a cancellation skips items that are on the wire",
        (
            Change(
                JOBS,
                "AND status = 'pending'\n"
                "    AND ordinal NOT IN (\n"
                "        SELECT n.ordinal FROM intents n WHERE n.seller_id = %(seller_id)s AND n.job_id = %(job_id)s);",
                "AND status = 'pending';",
            ),
        ),
        "model",
        "AssertionError|CheckViolation",
    ),
    Defect(
        "limits are judged without the seller's lock",
        (
            Change(
                "core/use_cases/create_job.py",
                "    await sellers.lock(connection, principal.seller_id)\n    return",
                "    return",
            ),
        ),
        "equal_posts",
        "sixth slot|equal posts|unexpected answer",
    ),
    Defect(
        "a retry sends what the marketplace refused again",
        (
            # In counting, keeping and reopening alike: where they differ, the use case notices by itself.
            Change(JOBS, "AND status = 'failed' AND retryable", "AND status = 'failed'", count=3),
        ),
        "model",
        "AssertionError|CheckViolation",
    ),
    Defect(
        "a reader that resumes is given the last result it saw once more",
        (
            Change(
                "core/use_cases/watch_job.py",
                "        with hub.job(job, asked_at, time.monotonic()) as feed:\n",
                "        after_sequence = max(0, after_sequence - 1)\n"
                "        with hub.job(job, asked_at, time.monotonic()) as feed:\n",
            ),
        ),
        "event_readers",
        "after [0-9]+ came",
    ),
    Defect(
        "a send begins although its lease has ended",
        (
            Change(
                "core/worker/run.py",
                "        return not self.lost and time.monotonic() + margin < self.until",
                "        return margin > 0",
            ),
        ),
        "tests/integration/test_worker_leases.py::test_a_worker_that_lost_its_lease_begins_no_send",
        "1 failed",
    ),
    Defect(
        "an item is ended while its send is being written down",
        (
            Change(
                JOBS,
                "job_id = %(job_id)s FOR UPDATE;",
                "job_id = %(job_id)s FOR NO KEY UPDATE;",
            ),
        ),
        "tests/integration/test_worker_races.py::test_while_intents_are_written_results_are_recorded_but_no_item_is_ended",
        "1 failed",
    ),
    Defect(
        "an unknown outcome goes straight back to a send",
        (
            Change(
                DECIDE,
                "            return AfterCall(Next.UNKNOWN, attempts=1)",
                "            return AfterCall(Next.DEFERRED, attempts=1)",
            ),
        ),
        "simulation",
        "open are",
    ),
    Defect(
        "a marketplace that cannot be asked is taken for one that has nothing",
        (
            Change(
                DECIDE, "    if found is None:\n        if item.hopeless:", "    if False:\n        if item.hopeless:"
            ),
        ),
        "simulation",
        "reposted without a search",
    ),
)
