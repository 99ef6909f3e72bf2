"""What a campaign is given and what it hands back."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.checker import Report, check
from tests.faults.cluster import RESUME_MARGIN, Cluster
from tests.faults.load import Clients


@dataclass(frozen=True, slots=True)
class Volumes:
    """How much of each thing happens."""

    point_deaths: int
    worker_kills: int
    worker_kill_items: int
    core_kills: int
    gateway_kills: int
    database_stops: int
    terminated_backends: int
    read_only_periods: int
    pauses: int
    marketplace_calls: int
    equal_post_rounds: int
    equal_posts: int
    slot_rounds: int
    credit_operations: int
    events: int
    model_runs: int
    model_steps: int
    simulations: int
    steering_rounds: int


TIERS = {
    # Seconds: enough to notice a seeded defect.
    0: Volumes(
        point_deaths=24,
        worker_kills=4,
        worker_kill_items=200,
        core_kills=2,
        gateway_kills=2,
        database_stops=1,
        terminated_backends=10,
        read_only_periods=1,
        pauses=5,
        marketplace_calls=500,
        equal_post_rounds=3,
        equal_posts=40,
        slot_rounds=6,
        credit_operations=1_500,
        events=1_250,
        model_runs=120,
        model_steps=40,
        simulations=600,
        steering_rounds=5,
    ),
    1: Volumes(
        point_deaths=240,
        worker_kills=60,
        worker_kill_items=3_000,
        core_kills=20,
        gateway_kills=20,
        database_stops=8,
        terminated_backends=100,
        read_only_periods=1,
        pauses=10,
        marketplace_calls=5_000,
        equal_post_rounds=20,
        equal_posts=100,
        slot_rounds=40,
        credit_operations=20_000,
        events=20_000,
        model_runs=300,
        model_steps=40,
        simulations=3_000,
        steering_rounds=30,
    ),
    2: Volumes(
        point_deaths=4_000,
        worker_kills=600,
        worker_kill_items=60_000,
        core_kills=150,
        gateway_kills=150,
        database_stops=60,
        terminated_backends=2_000,
        read_only_periods=10,
        pauses=100,
        marketplace_calls=100_000,
        equal_post_rounds=500,
        equal_posts=100,
        slot_rounds=1_000,
        credit_operations=500_000,
        events=500_000,
        model_runs=5_000,
        model_steps=60,
        simulations=200_000,
        steering_rounds=600,
    ),
}


COUNTED = (
    "reconciliations",
    "fenced_writes",
    "runs_rescued",
    "leases_lost",
    "intents_unknown",
    "duplicates_closed",
    "idempotent_replays",
    "account_pauses",
)
"""Counters of the service that are shown, with their labels."""


@dataclass
class Outcome:
    """What a campaign did and found. ``wanted`` names counts that must be reached, or the campaign fails: a fault
    that did not happen proves nothing."""

    counts: Counter[str] = field(default_factory=Counter)
    wanted: dict[str, int] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    """Measured times in seconds; shown, and bounded where ``bounds`` says so."""
    bounds: dict[str, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def want(self, name: str, at_least: int = 1) -> None:
        """This count must be at least so much."""
        self.wanted[name] = at_least
        self.counts.setdefault(name, 0)

    def measure(self, name: str, seconds: float, bound: float | None = None) -> None:
        """Keep the longest of these times; longer than ``bound`` is a violation."""
        self.figures[name] = round(max(seconds, self.figures.get(name, 0.0)), 2)
        if bound is not None:
            self.bounds[name] = bound

    def close(self) -> None:
        """Judge what was wanted and bounded."""
        for name, at_least in self.wanted.items():
            if self.counts[name] < at_least:
                self.violations.append(f"vacuous: {name} happened {self.counts[name]} times, wanted {at_least}")
        for name, bound in self.bounds.items():
            if self.figures.get(name, 0.0) > bound:
                self.violations.append(f"too slow: {name} took {self.figures[name]:.1f} s, at most {bound:.1f} s")

    def take(self, report: Report) -> None:
        """Add what the checker found."""
        self.violations += report.violations
        self.counts.update(report.counts)


@dataclass
class Campaign:
    """The surroundings of one campaign."""

    name: str
    seed: int
    volumes: Volumes
    folder: Path
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.name} {self.seed}")

    def finish(
        self,
        cluster: Cluster,
        clients: Clients | None = None,
        *,
        complete_log: bool = True,
        market: bool = True,
        rescuers: bool = True,
    ) -> None:
        """Check the records of a cluster that has come to rest.

        Args:
            cluster: with nothing left to be done.
            clients: who asked; their log is compared.
            complete_log: whether nobody else asked for jobs.
            market: whether a marketplace took part.
            rescuers: whether a worker lived all the time, so that ended leases are taken back in time.
        """
        outcome = self.outcome
        report = check(
            cluster.database_url,
            effects=cluster.effects_file if market else None,
            log=clients.log if clients is not None else (),
            complete_log=complete_log and clients is not None,
        )
        outcome.take(report)
        outcome.violations += cluster.troubles
        if clients is not None:
            outcome.violations += [f"unexpected answer: {each}" for each in clients.unexpected[:12]]
            outcome.counts["unexpected 5xx"] += len(clients.unexpected)
        for name, number in cluster.metrics().items():
            if name.startswith(COUNTED):
                outcome.counts[name.replace("_", " ")] += number
        outcome.violations += [f"traceback: {each}" for each in cluster.tracebacks()[:12]]
        if deadlocks := cluster.deadlocks():
            outcome.violations.append(f"locks: the database broke {deadlocks} deadlocks")
        outcome.violations += [
            f"alarm: {name} {number} times"
            for name, number in cluster.log_events(
                ("stranded_job_restored", "books_do_not_add_up", "sequence_gap")
            ).items()
        ]
        outcome.measure("an ended lease waited", cluster.longest_overdue, RESUME_MARGIN if rescuers else None)
