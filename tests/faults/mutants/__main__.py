"""``python -m tests.faults.mutants``: seeds every defect and prints which check noticed it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from tests.faults.mutants.defects import DEFECTS
from tests.faults.mutants.seeding import try_all


def main() -> int:
    """The command line; 1 when a defect went unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants", description=__doc__)
    parser.add_argument("--only", type=int, action="append", metavar="N", help="the Nth defect alone; repeatable")
    arguments = parser.parse_args()
    chosen = [defect for number, defect in enumerate(DEFECTS, 1) if not arguments.only or number in arguments.only]
    began = time.monotonic()
    unnoticed = asyncio.run(try_all(chosen, print))
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} defects noticed in {time.monotonic() - began:.0f} s")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
