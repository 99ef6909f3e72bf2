"""A copy of the sources with one defect in it, and a check that is run on the copy."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults.cluster import ROOT, SOURCES
from tests.faults.mutants.defects import Change, Defect

SEED = 20_261
CHECK_SECONDS = 240.0
TIER = "0"


class StaleDefectError(Exception):
    """The text that a defect replaces is not there: write the defect anew."""


def copy_tree(folder: Path) -> None:
    """Sources and tests; no environment, no history."""
    ignore = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(SOURCES, folder / "src", ignore=ignore)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)


def apply(change: Change, folder: Path) -> None:
    """Replace the text in the copy.

    Raises:
        StaleDefectError: it does not stand there exactly ``count`` times.
    """
    path = folder / "src" / change.path
    text = path.read_text(encoding="utf-8")
    if text.count(change.old) != change.count:
        raise StaleDefectError(f"{change.path}: found {text.count(change.old)} times: {change.old!r}")
    path.write_text(text.replace(change.old, change.new), encoding="utf-8")


async def run_check(check: str, folder: Path) -> tuple[bool, str]:
    """Run a check on the copy: whether it is red, and what it says."""
    if "::" in check:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", check]
    else:
        command = [sys.executable, "-m", "tests.faults.run", "--one", check, "--tier", TIER, "--seed", str(SEED)]
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}:{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        output = await asyncio.wait_for(process.stdout.read(), CHECK_SECONDS)
    except TimeoutError:
        process.stdin.close()
        await process.wait()
        return True, f"not done after {CHECK_SECONDS:.0f} s"
    process.stdin.close()
    code = await process.wait()
    text = output.decode(errors="replace")
    if "::" in check:
        return code != 0, text[-2000:]
    found = json.loads(text.splitlines()[-1])["violations"]
    # In seconds not every fault comes about; that is asked of the campaigns themselves.
    violations = [each for each in found if not each.startswith(("vacuous", "too slow"))]
    return bool(violations), "\n".join(violations)


async def try_one(defect: Defect) -> tuple[bool, str]:
    """Whether the defect is noticed as it should be, and a line about it."""
    folder = Path(tempfile.mkdtemp(prefix="listings-mutant-"))
    try:
        copy_tree(folder)
        for change in defect.changes:
            apply(change, folder)
        red, words = await run_check(defect.check, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    match = re.search(defect.red, words)
    if red and match:
        line = next((each for each in words.splitlines() if re.search(defect.red, each)), "")
        return True, f"noticed by {defect.check}: {line[:150]}"
    return False, f"NOT NOTICED by {defect.check}, which is {'red: ' + words[:600] if red else 'green'}"


async def try_sound(check: str) -> tuple[bool, str]:
    """Whether the check is green on sources without a defect; a check that is always red notices nothing."""
    folder = Path(tempfile.mkdtemp(prefix="listings-sound-"))
    try:
        copy_tree(folder)
        red, words = await run_check(check, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return not red, f"{check} is {'RED: ' + words[:1000] if red else 'green'} without a defect"


async def try_all(defects: Sequence[Defect], say: Callable[[str], object]) -> list[str]:
    """Every check without a defect, then every defect; the names of those that failed."""
    failed = []
    for check in sorted({defect.check for defect in defects}):
        sound, line = await try_sound(check)
        say(line)
        if not sound:
            failed.append(line)
    for number, defect in enumerate(defects, 1):
        try:
            noticed, line = await try_one(defect)
        except StaleDefectError as stale:
            noticed, line = False, f"STALE {stale}"
        say(f"{number:>2} {defect.name}\n   {line}")
        if not noticed:
            failed.append(f"{defect.name}: {line}")
    return failed
