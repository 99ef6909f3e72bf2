"""What must hold after everything: three independent records compared.

The records are the sandbox's log of effects (what really exists at the marketplace), the clients' log (what was
asked and answered) and the database (what the service believes). The checker is called when nothing is left to be
done, and speaks of each disagreement in one line.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.faults.load import Sent

MOST_LINES = 12
"""Lines told of one invariant; the rest is counted."""


@dataclass
class Report:
    """Violations, and what was counted on the way."""

    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def say(self, invariant: str, lines: Iterable[str]) -> None:
        """Note the violations of one invariant."""
        found = list(lines)
        self.violations += [f"{invariant}: {line}" for line in found[:MOST_LINES]]
        if len(found) > MOST_LINES:
            self.violations.append(f"{invariant}: and {len(found) - MOST_LINES} more")


@dataclass
class Market:
    """What the log of effects says. Keyed by (user, SKU)."""

    open: dict[tuple[int, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    ever: dict[tuple[int, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    effects: Counter[str] = field(default_factory=Counter)


def read_effects(path: Path) -> Market:
    """The log of effects, replayed."""
    market = Market()
    number = 0
    for line in path.read_bytes().splitlines():
        effect = json.loads(line)
        number += 1
        assert effect["sequence"] == number, f"the log of effects has a hole at {number}"
        market.effects[effect["effect"]] += 1
        if effect["listing_id"] is None or effect["seller_sku"] is None:
            continue
        place = (effect["user_id"], effect["seller_sku"])
        if effect["effect"] == "item_created":
            market.ever[place].append(effect["listing_id"])
        if effect["status"] == "closed" or effect["effect"] in ("item_closed", "item_deleted"):
            market.open[place].discard(effect["listing_id"])
        elif effect["effect"] == "item_created":
            market.open[place].add(effect["listing_id"])
    return market


def check(
    database_url: str, *, effects: Path | None = None, log: Sequence[Sent] = (), complete_log: bool = False
) -> Report:
    """Compare the records.

    Args:
        database_url: of the service.
        effects: the sandbox's log; None where no marketplace took part.
        log: the clients'.
        complete_log: whether every job of the database must have been asked for in ``log``.
    """
    report = Report()
    connect = psycopg.connect(database_url, row_factory=dict_row, autocommit=True)
    with connect as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if effects is not None:
            _check_listings(report, connection, read_effects(effects))
        _check_requests(report, connection, log, complete_log=complete_log)
        _check_jobs(report, connection)
        _check_books(report, connection)
        _check_sequences(report, connection)
    return report


Rows = psycopg.Connection[dict[str, Any]]


def _check_listings(report: Report, connection: Rows, market: Market) -> None:
    """An item succeeded if and only if exactly one open listing has its SKU, and the ids agree."""
    users = {
        (row["seller_id"], row["environment"]): row["marketplace_user_id"]
        for row in connection.execute("SELECT seller_id, environment, marketplace_user_id FROM marketplace_accounts")
    }
    known = {
        (row["seller_id"], row["environment"], row["sku"]): row["listing_id"]
        for row in connection.execute(
            "SELECT seller_id, environment, sku, listing_id FROM listings WHERE status_meli <> 'closed'"
        )
    }
    claimed: dict[tuple[int, str], set[str]] = defaultdict(set)
    wanted: set[tuple[int, str]] = set()
    lost, doubled, differing, invented = [], [], [], []
    rows = connection.execute(
        """
        SELECT i.seller_id, j.environment, i.job_id::text, i.sku, i.status, i.listing_id, i.error ->> 'code' AS code
        FROM job_items i JOIN jobs j USING (seller_id, job_id)
        """
    ).fetchall()
    for row in rows:
        report.counts[f"items {row['status']}"] += 1
        if row["code"]:
            report.counts[f"item error {row['code']}"] += 1
        user = users.get((row["seller_id"], row["environment"]))
        if user is None:
            continue
        place = (user, row["sku"])
        wanted.add(place)
        if row["status"] != "success":
            continue
        claimed[place].add(row["listing_id"])
        present = market.open.get(place, set())
        if row["listing_id"] not in present:
            lost.append(
                f"job {row['job_id']} {row['sku']}: {row['listing_id']} is not open, open are {sorted(present)}"
            )
        if known.get((row["seller_id"], row["environment"], row["sku"])) != row["listing_id"]:
            differing.append(f"job {row['job_id']} {row['sku']}: another listing is on record than {row['listing_id']}")
    for place, present in market.open.items():
        if len(present) > 1:
            doubled.append(f"user {place[0]} {place[1]}: {sorted(present)}")
        if place not in wanted:
            invented.append(f"user {place[0]} {place[1]}: nobody asked for it")
        elif present and not claimed.get(place):
            invented.append(f"user {place[0]} {place[1]}: {sorted(present)} is open, but no item succeeded")
    report.say("lost listing", lost)
    report.say("doubled listing", doubled)
    report.say("listing on record", differing)
    report.say("failed or skipped, yet listed", invented)
    report.counts["listings made"] += sum(len(ids) for ids in market.ever.values())
    report.counts["listings open"] += sum(len(ids) for ids in market.open.values())
    report.counts["late doubles closed"] += sum(
        len(ids) - len(market.open.get(place, ())) for place, ids in market.ever.items() if len(ids) > 1
    )


def _check_requests(report: Report, connection: Rows, log: Sequence[Sent], *, complete_log: bool) -> None:
    """Every 202 exists, every job belongs to a 202 or to a request whose answer was lost."""
    jobs = {
        row["job_id"]: row
        for row in connection.execute(
            """
            SELECT j.job_id::text, j.seller_id, j.environment, array_agg(i.sku ORDER BY i.ordinal) AS skus
            FROM jobs j JOIN job_items i USING (seller_id, job_id) GROUP BY j.seller_id, j.job_id
            """
        )
    }
    asked = [sent for sent in log if sent.operation in ("create", "promote")]
    answered = {job_id: sent for sent in asked if (job_id := sent.job_id) is not None}
    report.say(
        "acknowledged, yet gone", (line for job_id, sent in answered.items() for line in _gone(jobs, job_id, sent))
    )
    report.say("idempotency", _repeated(asked))
    if complete_log:
        unclaimed = {job_id: job for job_id, job in jobs.items() if job_id not in answered}
        report.counts["jobs of unanswered requests"] += len(unclaimed)
        report.say("a job nobody asked for", _foreign(unclaimed, asked))
    report.counts["jobs"] += len(jobs)
    report.counts["acknowledged"] += sum(1 for sent in log if sent.outcome == "acknowledged")
    report.counts["unanswered"] += sum(1 for sent in log if sent.outcome == "unknown")
    report.counts["replays"] += sum(1 for sent in log if sent.replayed)


def _gone(jobs: dict[str, dict[str, Any]], job_id: str, sent: Sent) -> Iterable[str]:
    job = jobs.get(job_id)
    if job is None:
        yield f"job {job_id} of an acknowledged {sent.operation}"
    elif (job["seller_id"], job["environment"]) != (sent.seller_id, sent.environment):
        yield f"job {job_id} belongs to somebody else"
    elif sent.operation == "create" and tuple(job["skus"]) != sent.skus:
        yield f"job {job_id} has other items than were asked for"


def _repeated(asked: Sequence[Sent]) -> Iterable[str]:
    """Answers of one key that differ."""
    bodies: dict[tuple[int, str, str], set[bytes]] = defaultdict(set)
    for sent in asked:
        if sent.key is not None and sent.outcome == "acknowledged":
            bodies[sent.seller_id, sent.environment, sent.key].add(sent.body)
    for (seller_id, _, _), different in bodies.items():
        if len(different) > 1:
            yield f"one key of seller {seller_id} was answered in {len(different)} ways: {sorted(different)[:2]}"


def _foreign(unclaimed: dict[str, dict[str, Any]], asked: Sequence[Sent]) -> Iterable[str]:
    """Jobs that no unanswered request explains; one request explains one job, one key explains one job."""
    unknown: dict[tuple[int, str, tuple[str, ...]], set[str]] = defaultdict(set)
    resolved = {(sent.seller_id, sent.key) for sent in asked if sent.key and sent.outcome == "acknowledged"}
    for number, sent in enumerate(asked):
        if sent.outcome == "unknown" and (sent.seller_id, sent.key) not in resolved:
            unknown[sent.seller_id, sent.environment, sent.skus].add(sent.key or str(number))
    for job_id, job in unclaimed.items():
        explanations = unknown[job["seller_id"], job["environment"], tuple(job["skus"])]
        if not explanations:
            yield f"job {job_id} of seller {job['seller_id']}"
        else:
            explanations.pop()


def _check_jobs(report: Report, connection: Rows) -> None:
    """Counters are those of the items, terminal means completed_at, and nothing is left over."""
    rows = connection.execute(
        """
        SELECT j.job_id::text, j.status, j.completed_at, j.error_message, j.total_items, j.pending, j.successful,
            j.failed, j.skipped, j.reconciling, count(i.*) AS items,
            count(*) FILTER (WHERE i.status = 'pending') AS pending_items,
            count(*) FILTER (WHERE i.status = 'success') AS successful_items,
            count(*) FILTER (WHERE i.status = 'failed') AS failed_items,
            count(*) FILTER (WHERE i.status = 'skipped') AS skipped_items
        FROM jobs j LEFT JOIN job_items i USING (seller_id, job_id) GROUP BY j.seller_id, j.job_id
        """
    ).fetchall()
    counters, ends, stuck = [], [], []
    for row in rows:
        report.counts[f"jobs {row['status']}"] += 1
        kept = (row["total_items"], row["pending"], row["successful"], row["failed"], row["skipped"])
        real = tuple(
            row[name] for name in ("items", *(f"{n}_items" for n in ("pending", "successful", "failed", "skipped")))
        )
        if kept != real:
            counters.append(f"job {row['job_id']}: kept {kept}, real {real}")
        terminal = row["status"] in ("completed", "failed", "cancelled")
        if terminal != (row["completed_at"] is not None):
            ends.append(f"job {row['job_id']}: {row['status']} and completed_at {row['completed_at']}")
        if row["status"] == "failed" and not row["error_message"]:
            ends.append(f"job {row['job_id']}: failed without a word")
        if row["status"] == "completed" and row["successful"] == 0 and row["failed"] > 0:
            ends.append(f"job {row['job_id']}: completed, though nothing succeeded")
        if row["status"] != "scheduled" and (not terminal or row["pending"] or row["reconciling"]):
            stuck.append(
                f"job {row['job_id']}: {row['status']}, {row['pending']} pending, {row['reconciling']} searched"
            )
    for table in ("intents", "work_runs"):
        left = connection.execute(
            f"SELECT count(*) AS n FROM {table} t JOIN jobs j USING (seller_id, job_id) WHERE j.status <> 'scheduled'"
        ).fetchone()
        assert left is not None
        if left["n"]:
            stuck.append(f"{left['n']} rows left in {table}")
    report.say("counters", counters)
    report.say("end of a job", ends)
    report.say("stuck", stuck)


def _check_books(report: Report, connection: Rows) -> None:
    """granted = available + held + used, the ledger says the same, and each hold was resolved once."""
    lines = []
    for row in connection.execute(
        """
        SELECT b.seller_id, b.granted, b.available, b.held, b.used, b.used_test,
            coalesce(sum(l.amount) FILTER (WHERE l.kind = 'grant'), 0)::bigint AS grants,
            coalesce(sum(l.amount) FILTER (WHERE l.kind = 'hold'), 0)::bigint AS holds,
            coalesce(sum(l.amount) FILTER (WHERE l.kind = 'capture'), 0)::bigint AS captures,
            coalesce(sum(l.amount) FILTER (WHERE l.kind = 'release'), 0)::bigint AS releases,
            count(l.*) AS entries, b.entry_count
        FROM credit_balances b LEFT JOIN credit_ledger l USING (seller_id) GROUP BY b.seller_id
        """
    ):
        report.counts["ledger entries"] += row["entries"]
        kept = (row["granted"], row["held"], row["used"], row["available"])
        real = (
            row["grants"],
            row["holds"] - row["captures"] - row["releases"],
            row["captures"],
            row["grants"] - row["holds"] + row["releases"],
        )
        if kept != real or row["granted"] != row["available"] + row["held"] + row["used"]:
            lines.append(f"seller {row['seller_id']}: balances {kept}, ledger {real}")
        if row["entries"] != row["entry_count"]:
            lines.append(f"seller {row['seller_id']}: {row['entries']} entries, {row['entry_count']} counted")
    for row in connection.execute(
        """
        WITH entries AS (
            SELECT seller_id, job_id, coalesce(sum(amount) FILTER (WHERE kind = 'hold'), 0) AS held,
                coalesce(sum(amount) FILTER (WHERE kind = 'capture'), 0) AS captured,
                coalesce(sum(amount) FILTER (WHERE kind = 'release'), 0) AS released
            FROM credit_ledger WHERE job_id IS NOT NULL GROUP BY seller_id, job_id
        ), replaced AS (
            SELECT seller_id, job_id, sum(cardinality(results))::bigint AS n
            FROM replaced_results GROUP BY seller_id, job_id
        ), free AS (
            SELECT seller_id, job_id, count(*) AS n FROM job_items
            WHERE status = 'skipped' AND error ->> 'code' = 'duplicate_sku' GROUP BY seller_id, job_id
        )
        SELECT j.job_id::text, j.environment, j.total_items, j.pending, j.successful, j.failed, j.skipped,
            coalesce(e.held, 0)::bigint AS held, coalesce(e.captured, 0)::bigint AS captured,
            coalesce(e.released, 0)::bigint AS released, coalesce(r.n, 0) AS replaced, coalesce(f.n, 0) AS free
        FROM jobs j LEFT JOIN entries e USING (seller_id, job_id) LEFT JOIN replaced r USING (seller_id, job_id)
        LEFT JOIN free f USING (seller_id, job_id)
        """
    ):
        if row["environment"] == "test":
            if row["held"] or row["captured"] or row["released"]:
                lines.append(f"job {row['job_id']}: a test job in the ledger")
            continue
        if row["captured"] != row["successful"]:
            lines.append(f"job {row['job_id']}: {row['captured']} captured, {row['successful']} succeeded")
        ended = row["failed"] + row["skipped"] - row["free"] + row["replaced"]
        if row["released"] != ended:
            lines.append(f"job {row['job_id']}: {row['released']} released, {ended} failed or skipped")
        if row["held"] != row["captured"] + row["released"] + row["pending"]:
            lines.append(f"job {row['job_id']}: {row['held']} held, not resolved once each")
    for row in connection.execute(
        """
        SELECT b.seller_id, b.used_test,
            coalesce(sum(j.successful) FILTER (WHERE j.environment = 'test'), 0)::bigint AS n
        FROM credit_balances b LEFT JOIN jobs j USING (seller_id) GROUP BY b.seller_id, b.used_test
        """
    ):
        if row["used_test"] != row["n"]:
            lines.append(f"seller {row['seller_id']}: {row['used_test']} metered for test keys, {row['n']} succeeded")
    for row in connection.execute("SELECT seller_id, what FROM audit_findings"):
        lines.append(f"the audit found seller {row['seller_id']}: {row['what']}")
    report.say("books", lines)


def _check_sequences(report: Report, connection: Rows) -> None:
    """The results of a job are numbered 1 to n without holes, and replaying them gives the state that is stored."""
    results: dict[tuple[int, str], list[tuple[int, int, str, bool]]] = defaultdict(list)
    for row in connection.execute(
        """
        SELECT seller_id, job_id::text, sequence, ordinal, status, false AS replaced FROM job_items
        WHERE sequence IS NOT NULL
        UNION ALL
        SELECT seller_id, job_id::text, r.sequence, r.ordinal, 'failed', true
        FROM replaced_results CROSS JOIN LATERAL unnest(results) r
        """
    ):
        results[row["seller_id"], row["job_id"]].append(
            (row["sequence"], row["ordinal"], row["status"], row["replaced"])
        )
    lines = []
    for row in connection.execute(
        "SELECT seller_id, job_id::text, last_sequence, pending, successful, failed, skipped, total_items FROM jobs"
    ):
        found = sorted(results[row["seller_id"], row["job_id"]])
        report.counts["results"] += len(found)
        numbers = [each[0] for each in found]
        if numbers != list(range(1, row["last_sequence"] + 1)):
            lines.append(f"job {row['job_id']}: {len(numbers)} results, last sequence {row['last_sequence']}")
        state: dict[int, str] = {}
        for _, ordinal, status, replaced in found:
            if replaced:
                state.pop(ordinal, None)
            else:
                state[ordinal] = status
        told = Counter(state.values())
        kept = (row["successful"], row["failed"], row["skipped"])
        if (told["success"], told["failed"], told["skipped"]) != kept:
            lines.append(f"job {row['job_id']}: replay gives {dict(told)}, kept {kept}")
    report.say("sequences", lines)
