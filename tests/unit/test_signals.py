"""What asks a process to stop."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, signal
from listings.signals import run_until_stopped

async def work(stop):
    heard = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
    signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGUSR1)
    await heard.wait()
    print("stops" if stop.is_set() else "goes on")

run_until_stopped(work)
"""


@pytest.mark.parametrize(("before", "what"), [([], "stops"), (["nohup"], "goes on")])
def test_the_end_of_the_terminal_stops_a_process_unless_it_was_started_by_nohup(before: list[str], what: str) -> None:
    done = subprocess.run(
        [*before, sys.executable, "-c", PROGRAM],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == what
