"""Paired measurements: every round runs each contender once, in turn, so that a slow minute hits all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import psutil

Contender = Callable[[], Awaitable[float]]
"""Runs once and tells its value: seconds, or a rate."""


@dataclass(slots=True)
class Row:
    """One line of the table.

    ``ratio`` is ours divided by theirs; ``bar`` is what it must not exceed, or with ``at_least`` must reach.
    Without a bar the row is reported only.
    """

    operation: str
    against: str
    ours: float | None
    theirs: float | None
    unit: str
    ratio: float | None = None
    bar: float | None = None
    at_least: bool = False
    note: str = ""
    samples: dict[str, list[float]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """met, not met, reported, or skipped."""
        if self.ours is None:
            return "skipped"
        if self.bar is None or self.ratio is None:
            return "reported"
        met = self.ratio >= self.bar if self.at_least else self.ratio <= self.bar
        return "met" if met else "not met"


async def paired(rounds: int, contenders: dict[str, Contender], *, warm: bool = True) -> dict[str, list[float]]:
    """Values by contender, one a round; a first round that warms up is thrown away."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(-1 if warm else 0, rounds):
        for name, contender in contenders.items():
            gc.collect()
            value = await contender()
            if turn >= 0:
                found[name].append(value)
    return found


def compare(
    operation: str,
    against: str,
    ours: list[float],
    theirs: list[float],
    unit: str,
    *,
    bar: float | None = None,
    at_least: bool = False,
    note: str = "",
    scale: float = 1.0,
) -> Row:
    """A row from paired values; the ratio is the median of the rounds' ratios."""
    return Row(
        operation=operation,
        against=against,
        ours=statistics.median(ours) * scale,
        theirs=statistics.median(theirs) * scale,
        unit=unit,
        ratio=statistics.median(a / b for a, b in zip(ours, theirs, strict=True)),
        bar=bar,
        at_least=at_least,
        note=note,
        samples={"ours": [value * scale for value in ours], "theirs": [value * scale for value in theirs]},
    )


def skipped(operation: str, against: str, reason: str) -> Row:
    """A row that could not be measured here."""
    return Row(operation, against, None, None, "", note=reason)


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def cpu_seconds(*pids: int) -> float:
    """User and system time of these processes and their children so far."""
    total = 0.0
    for pid in pids:
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            spent = each.cpu_times()
            total += spent.user + spent.system
    return total


def memory_bytes(pid: int) -> int:
    """Memory of a process and its children: proportional set size, so that pages they share count once."""
    process = psutil.Process(pid)
    return sum(each.memory_full_info().pss for each in (process, *process.children(recursive=True)))


def seconds_of(function: Callable[[], object]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began
