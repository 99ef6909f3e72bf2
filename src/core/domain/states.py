"""States of jobs and items, and the one table of moves between them.

The table is drawn in ``docs/job-states.md``; a test holds drawing, table and SQL together. Terminal
states never change except by the retry operation, which is a move of its own here.
"""

from __future__ import annotations

from enum import StrEnum


class Environment(StrEnum):
    """Where a key publishes to (contract, "Authentication" 3)."""

    LIVE = "live"
    TEST = "test"


class JobKind(StrEnum):
    """How a job came to be."""

    PUBLICATION = "publication"
    PROMOTION = "promotion"


class JobStatus(StrEnum):
    """Contract, "States and transitions"."""

    QUEUED = "queued"
    PROCESSING = "processing"
    SCHEDULED = "scheduled"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ItemStatus(StrEnum):
    """Contract, "States and transitions"."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"


TERMINAL = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})
ACTIVE = frozenset({JobStatus.QUEUED, JobStatus.PROCESSING, JobStatus.SCHEDULED})

JOB_MOVES: dict[JobStatus | None, frozenset[JobStatus]] = {
    None: frozenset({JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.FAILED}),
    JobStatus.SCHEDULED: frozenset({JobStatus.QUEUED, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.QUEUED: frozenset({JobStatus.PROCESSING, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.PROCESSING: frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED}),
    # Only the retry operation leaves a terminal state.
    JobStatus.COMPLETED: frozenset({JobStatus.QUEUED}),
    JobStatus.FAILED: frozenset({JobStatus.QUEUED}),
    JobStatus.CANCELLED: frozenset({JobStatus.QUEUED}),
}
"""From (None: not yet made) to. A job that can never run (no account) is made failed in two moves of
one transaction, so that its items carry their reasons."""

ITEM_MOVES: dict[ItemStatus, frozenset[ItemStatus]] = {
    ItemStatus.PENDING: frozenset({ItemStatus.SUCCESS, ItemStatus.FAILED, ItemStatus.SKIPPED}),
    ItemStatus.FAILED: frozenset({ItemStatus.PENDING}),
    ItemStatus.SUCCESS: frozenset(),
    ItemStatus.SKIPPED: frozenset(),
}


def end_status(*, successful: int, failed: int) -> JobStatus:
    """What a job becomes when no item is pending: failed only if not one succeeded and one failed."""
    return JobStatus.FAILED if failed and not successful else JobStatus.COMPLETED
