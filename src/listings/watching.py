"""Follow a job over WatchJob, through broken connections, and show it: live on a terminal, line by line elsewhere."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from core.domain.states import TERMINAL, JobStatus
from listing_publication.v1 import common_pb2, jobs_pb2
from listings.channel import Core, refusal
from listings.documents import document
from listings.output import Output, harmless, table

PATIENCE_SECONDS: Final = 300.0
"""How long a watch goes on trying without a single message."""
STREAM_SECONDS: Final = 3_600.0
FIRST_DELAY = 0.2
LONGEST_DELAY = 5.0
"""Seconds between two tries to connect: they double from the first to the longest."""
_FINAL: Final = frozenset(status.value for status in TERMINAL)
_GIVEN_UP: Final = frozenset(
    {
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


@dataclass(slots=True)
class Watched:
    """What a watch has learnt of a job so far. ``outcomes``: (status, reason in words) by ordinal."""

    job_id: str
    job: jobs_pb2.Job | None = None
    progress: jobs_pb2.Progress | None = None
    last_sequence: int = 0
    outcomes: dict[int, tuple[str, str]] = field(default_factory=dict)
    reconnects: int = 0

    @property
    def ended(self) -> bool:
        """Whether the job is over. Every result was seen once the stream has ended by itself as well."""
        return self.job is not None and self.job.status in _FINAL

    @property
    def clean(self) -> bool:
        """Whether the job completed and no item failed."""
        return self.job is not None and self.job.status == JobStatus.COMPLETED and self.job.failed == 0

    def take(self, event: jobs_pb2.WatchJobResponse) -> None:
        """Learn from one message."""
        kind = event.WhichOneof("event")
        if kind == "job":
            self.job, self.progress = event.job, None
        elif kind == "item":
            self._item(event.item)
        elif kind == "progress":
            self.progress = event.progress

    def _item(self, item: jobs_pb2.JobItem) -> None:
        self.last_sequence = max(self.last_sequence, item.sequence)
        reason = item.error.message if item.HasField("error") else ""
        self.outcomes[item.ordinal] = (item.status, reason)

    def failures(self) -> list[tuple[int, str]]:
        """(how many, why), most frequent first."""
        reasons = Counter(reason for status, reason in self.outcomes.values() if status == "failed")
        return [(count, reason) for reason, count in reasons.most_common()]

    def document(self) -> dict[str, Any]:
        """The job as it ended and its failures by reason."""
        return {
            "job": None if self.job is None else document(self.job),
            "failures": [{"message": reason, "items": count} for count, reason in self.failures()],
        }


def follow(
    core: Core,
    job_id: str,
    told: Callable[[Watched, jobs_pb2.WatchJobResponse], None],
    *,
    patience: float = PATIENCE_SECONDS,
) -> Watched:
    """Follow a job to its end. ``told`` gets each message, after it was taken; each item result once, in order.

    A connection that breaks is made anew from the last result seen, for as long as something arrives within
    ``patience`` seconds.

    Raises:
        ApiError: the server refuses (unknown job, key revoked), or cannot be reached for that long.
    """
    watched = Watched(job_id)
    heard, delay = time.monotonic(), FIRST_DELAY
    while True:
        request = jobs_pb2.WatchJobRequest(job_id=job_id, after_sequence=watched.last_sequence)
        try:
            for event in core.jobs.WatchJob(request, timeout=STREAM_SECONDS, metadata=core.metadata):
                heard, delay = time.monotonic(), FIRST_DELAY
                watched.take(event)
                told(watched, event)
        except grpc.RpcError as error:
            code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
            if code in _GIVEN_UP or watched.job is None or time.monotonic() - heard > patience:
                raise refusal(error) from None
        else:
            if watched.ended:
                return watched
        watched.reconnects += 1
        time.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spread, not secrecy
        delay = min(delay * 2, LONGEST_DELAY)


def watch_to_end(output: Output, core: Core, job_id: str) -> Watched:
    """Follow a job and show it while it runs.

    Raises:
        ApiError: as ``follow``.
    """
    with _display(output) as show:
        return follow(core, job_id, show)


@contextmanager
def _display(output: Output) -> Iterator[Callable[[Watched, jobs_pb2.WatchJobResponse], None]]:
    if output.as_json:
        yield lambda watched, event: None
        return
    if not output.live:
        yield _Lines(output).show
        return
    with Live(console=output.out, refresh_per_second=8, transient=True) as live:
        yield lambda watched, event: live.update(picture(watched))


class _Lines:
    """A line per change, at most one a second while only counters change."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._said: str | None = None
        self._said_at = 0.0

    def show(self, watched: Watched, event: jobs_pb2.WatchJobResponse) -> None:
        """Say what is new."""
        kind = event.WhichOneof("event")
        if kind not in {"job", "progress"}:
            return
        line = describe(watched)
        if line == self._said or (kind == "progress" and time.monotonic() - self._said_at < 1):
            return
        self._said, self._said_at = line, time.monotonic()
        self._output.say(line)
        self._output.out.file.flush()


def _counts(watched: Watched) -> jobs_pb2.Job | jobs_pb2.Progress:
    return watched.progress or watched.job or jobs_pb2.Job()


def describe(watched: Watched) -> str:
    """Where the job stands, in one line."""
    job, counts = watched.job or jobs_pb2.Job(), _counts(watched)
    done = job.total_items - counts.pending
    parts = [
        f"{counts.status} {done:,}/{job.total_items:,}",
        f"ok {counts.successful:,}",
        f"failed {counts.failed:,}",
    ]
    if counts.skipped:
        parts.append(f"skipped {counts.skipped:,}")
    parts += _pace(watched)
    if counts.HasField("waiting_reason"):
        parts.append(f"waiting: {counts.waiting_reason}")
    if job.HasField("error_message"):
        parts.append(job.error_message)
    return "  ".join(parts)


def _pace(watched: Watched) -> list[str]:
    progress = watched.progress
    if progress is None or progress.items_per_second <= 0:
        return []
    parts = [f"{progress.items_per_second:,.1f}/s"]
    if progress.HasField("eta_seconds"):
        minutes, seconds = divmod(round(progress.eta_seconds), 60)
        hours, minutes = divmod(minutes, 60)
        parts.append(f"ETA {f'{hours}:' if hours else ''}{minutes:02}:{seconds:02}")
    return parts


def picture(watched: Watched) -> RenderableType:
    """Where the job stands, as a terminal shows it: environment, bar, rate, ETA, failures by reason."""
    job, counts = watched.job or jobs_pb2.Job(), _counts(watched)
    live = job.environment == common_pb2.ENVIRONMENT_LIVE
    badge = "[bold white on red] LIVE [/]" if live else "[bold black on green] TEST [/]"
    title = Text.from_markup(
        f"{badge} job {escape(harmless(watched.job_id, lines=False))}  [bold]{escape(counts.status)}[/]"
    )
    total = max(job.total_items, 1)
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(total=total, completed=total - counts.pending, width=40),
        f"{job.total_items - counts.pending:,}/{job.total_items:,}",
        f"[green]ok {counts.successful:,}[/]",
        f"[red]failed {counts.failed:,}[/]" if counts.failed else "failed 0",
        f"skipped {counts.skipped:,}" if counts.skipped else "",
        *_pace(watched),
    )
    parts: list[RenderableType] = [title, line]
    if counts.HasField("waiting_reason"):
        parts.append(Text(harmless(f"waiting: {counts.waiting_reason}", lines=False), style="yellow"))
    failures = watched.failures()
    if failures:
        parts.append(table(["FAILED", "BECAUSE"], failures[:8], numbers=["FAILED"]))
    return Group(*parts)


def show_outcome(output: Output, watched: Watched) -> None:
    """How the job ended, for people."""
    if output.as_json:
        return
    if output.live:
        output.out.print(picture(watched))
    elif watched.failures():
        output.table(["FAILED", "BECAUSE"], watched.failures(), numbers=["FAILED"])
    job = watched.job
    if job is not None and job.HasField("error_message"):
        output.warn(job.error_message, style="red")
    if watched.failures():
        output.say(f"The failed ones, ready to be corrected: listings job failures {watched.job_id} --csv")


def watch_all(output: Output, core: Core) -> None:
    """Show the seller's active jobs as they come and go, until interrupted.

    Raises:
        ApiError: as ``follow``.
    """
    jobs: dict[str, jobs_pb2.Job] = {}
    heard, delay = time.monotonic(), FIRST_DELAY
    connected = False
    with _job_display(output) as show:
        while True:
            try:
                for event in core.jobs.WatchJobs(
                    jobs_pb2.WatchJobsRequest(), timeout=STREAM_SECONDS, metadata=core.metadata
                ):
                    heard, delay, connected = time.monotonic(), FIRST_DELAY, True
                    if event.WhichOneof("event") == "job":
                        jobs[event.job.job_id] = event.job
                        show(jobs, event.job)
            except grpc.RpcError as error:
                code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
                if code in _GIVEN_UP or not connected or time.monotonic() - heard > PATIENCE_SECONDS:
                    raise refusal(error) from None
            time.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - spread, not secrecy
            delay = min(delay * 2, LONGEST_DELAY)


@contextmanager
def _job_display(output: Output) -> Iterator[Callable[[dict[str, jobs_pb2.Job], jobs_pb2.Job], None]]:
    if not output.live:

        def line(_jobs: dict[str, jobs_pb2.Job], job: jobs_pb2.Job) -> None:
            output.say(f"{job.job_id}  {describe(Watched(job.job_id, job))}")
            output.out.file.flush()

        yield line
        return
    with Live(console=output.out, refresh_per_second=4) as live:
        yield lambda jobs, _job: live.update(job_table(list(jobs.values())[-30:]))


def job_table(jobs: list[jobs_pb2.Job]) -> Table:
    """Jobs as a table, one a line."""
    return table(
        ["JOB", "STATUS", "ENVIRONMENT", "KIND", "ITEMS", "OK", "FAILED", "SKIPPED", "PENDING", "REMARK"],
        [
            (
                job.job_id,
                job.status,
                "LIVE" if job.environment == common_pb2.ENVIRONMENT_LIVE else "test",
                job.kind,
                job.total_items,
                job.successful,
                job.failed,
                job.skipped,
                job.pending,
                job.error_message or job.waiting_reason,
            )
            for job in jobs
        ],
        numbers=["ITEMS", "OK", "FAILED", "SKIPPED", "PENDING"],
    )


__all__ = ["Watched", "describe", "follow", "job_table", "picture", "show_outcome", "watch_all", "watch_to_end"]
