"""Runs campaigns and prints what they did: ``python -m tests.faults.run [--tier 1|2] [--only NAME ...] [--seed N]``.

Every campaign is a process of its own; two run side by side, since most of them wait for leases most of the time. The
exit code is 1 when any promise was broken or any fault did not happen. A seed repeats the choices of a campaign; what
two processes do at the same instant stays the scheduler's choice.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from tests.faults.campaign import TIERS, Campaign

LANES = (
    ("lost_replies", "point_deaths", "pauses", "steering_races", "simulation", "model", "seeded_defects"),
    (
        "worker_kills",
        "server_kills",
        "database_faults",
        "marketplace_faults",
        "equal_posts",
        "credits_at_the_edge",
        "event_readers",
    ),
)
"""Two lanes, worked side by side; within a lane the campaigns follow one another."""
NAMES = tuple(name for lane in LANES for name in lane)
CAMPAIGN_SECONDS = {0: 200.0, 1: 900.0, 2: 6 * 3600.0}
"""A campaign that takes longer has hung."""


def run_one(name: str, tier: int, seed: int, keep: bool) -> dict[str, Any]:
    """One campaign in this process; what it did, for the table and for programs."""
    folder = Path(tempfile.mkdtemp(prefix=f"listings-faults-{name}-"))
    campaign = Campaign(name, seed, TIERS[tier], folder)
    outcome = campaign.outcome
    began = time.monotonic()
    try:
        module = importlib.import_module(f"tests.faults.{name}")
        asyncio.run(asyncio.wait_for(module.run(campaign), CAMPAIGN_SECONDS[tier]))
    except BaseException as error:
        traceback.print_exc()
        outcome.violations.append(f"the campaign itself failed: {type(error).__name__}: {error}")
    outcome.close()
    if outcome.violations and keep:
        print(f"{name}: everything is kept in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "campaign": name,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "counts": dict(sorted(outcome.counts.items())),
        "wanted": outcome.wanted,
        "figures": outcome.figures,
        "violations": outcome.violations,
    }


def end_with_parent() -> None:
    """Ask this process to stop in order when whoever started it is gone: a database must not be left behind."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


async def run_lane(names: list[str], arguments: argparse.Namespace, seed: int) -> list[dict[str, Any]]:
    """Campaigns one after another, each in a process."""
    results = []
    for name in names:
        command = [sys.executable, "-m", "tests.faults.run", "--one", name, "--tier", str(arguments.tier)]
        command += ["--seed", str(seed), *(["--keep"] if arguments.keep else [])]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        output = await process.stdout.read()
        await process.wait()
        try:
            result = json.loads(output.splitlines()[-1])
        except (ValueError, IndexError):
            result = {
                "campaign": name,
                "seed": seed,
                "seconds": 0,
                "counts": {},
                "wanted": {},
                "figures": {},
                "violations": [f"the campaign ended with code {process.returncode}"],
            }
        show(result)
        results.append(result)
    return results


def show(result: dict[str, Any]) -> None:
    """One campaign's part of the table."""
    state = "FAILED" if result["violations"] else "passed"
    print(f"\n== {result['campaign']}: {state} in {result['seconds']:.0f} s (seed {result['seed']})")
    for name, number in result["counts"].items():
        wanted = result["wanted"].get(name)
        print(f"  {number:>9,}  {name}" + (f" (at least {wanted:,})" if wanted is not None else ""))
    for name, seconds in result["figures"].items():
        print(f"  {seconds:>7.1f} s  {name}")
    for line in result["violations"]:
        print(f"  VIOLATION {line}")
    sys.stdout.flush()


def summary(results: list[dict[str, Any]]) -> None:
    """The last words."""
    print("\ncampaign           seconds  wanted counts                                             violations")
    for result in results:
        reached = ", ".join(f"{result['counts'].get(name, 0):,} {name}" for name in result["wanted"])
        print(f"{result['campaign']:<18} {result['seconds']:>7.0f}  {reached or '-'}  {len(result['violations'])}")


async def run_all(arguments: argparse.Namespace, seed: int) -> list[dict[str, Any]]:
    """All lanes, or those parts of them that were asked for."""
    chosen = [[name for name in lane if not arguments.only or name in arguments.only] for lane in LANES]
    parts = await asyncio.gather(*(run_lane(names, arguments, seed) for names in chosen))
    return [result for part in parts for result in part]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("--tier", type=int, choices=sorted(TIERS), default=1, help="0: seconds, 1: minutes, 2: hours")
    names = ", ".join(NAMES)
    parser.add_argument("--only", action="append", choices=NAMES, metavar="NAME", help=f"one of {names}; repeatable")
    parser.add_argument("--seed", type=int, help="default: a new one, printed")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a campaign that failed")
    parser.add_argument("--json", type=Path, help="write everything there as well")
    parser.add_argument("--one", choices=NAMES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else secrets.randbelow(10**6)
    if arguments.one:
        end_with_parent()
        print(json.dumps(run_one(arguments.one, arguments.tier, seed, arguments.keep)))
        return 0
    began = time.monotonic()
    print(f"tier {arguments.tier}, seed {seed}")
    results = asyncio.run(run_all(arguments, seed))
    summary(results)
    violations = sum(len(result["violations"]) for result in results)
    print(f"\n{len(results)} campaigns in {time.monotonic() - began:.0f} s, {violations} violations, seed {seed}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"tier": arguments.tier, "seed": seed, "results": results}, indent=1))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
