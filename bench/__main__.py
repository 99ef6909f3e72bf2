"""``python -m bench [--quick] [--only GROUP,…]``: run the cases, print the table, write bench/results/."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
import warnings

import uvloop

from bench import report
from bench.measure import Row, skipped
from bench.setting import RESULTS, Bench, prepared, server_facts
from core import log

GROUPS = ("submit", "read", "work", "watch", "steer", "footprint", "growth")
LONG_GROUPS = ("watchers",)
"""Run only when they are named."""


async def _run(bench: Bench, groups: list[str]) -> list[Row]:
    rows: list[Row] = []
    for group in groups:
        began = time.perf_counter()
        case = importlib.import_module(f"bench.cases.{group}")
        try:
            found = await case.run(bench)
        except Exception as error:
            # One case that cannot be measured must not take the others with it; it stands in the table.
            print(f"{group} failed: {error!r}", file=sys.stderr, flush=True)
            bench.stop(*list(bench.children))
            found = [skipped(group, "", f"failed: {type(error).__name__}")]
        print(f"{group}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        print(report.table(found), file=sys.stderr, flush=True)
        rows += found
    return rows


def main() -> int:
    """Exit code 0 when every case could be measured, whatever the figures."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller cases, under six minutes")
    parser.add_argument(
        "--only", default=",".join(GROUPS), help="groups, comma separated: " + ", ".join(GROUPS + LONG_GROUPS)
    )
    arguments = parser.parse_args()
    groups = [group for group in arguments.only.split(",") if group]
    unknown = set(groups) - set(GROUPS + LONG_GROUPS)
    if unknown:
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    # Ended from outside it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    warnings.simplefilter("ignore", DeprecationWarning)
    log.configure(level="ERROR")
    began = time.perf_counter()
    with prepared(quick=arguments.quick) as bench:
        facts = server_facts(bench.server_url)
        if (facts["fsync"], facts["synchronous_commit"]) != ("on", "on"):
            raise SystemExit("the bench needs a durable database")
        rows = uvloop.run(_run(bench, groups))
    took = time.perf_counter() - began
    report.write(rows, {"quick": arguments.quick, "seconds": round(took), "database": facts}, RESULTS)
    print(report.table(rows))
    print(f"\n{took:.0f} s; {RESULTS / 'latest.json'}, {RESULTS / 'latest.png'}")
    return int(any(row.note.startswith("failed") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
