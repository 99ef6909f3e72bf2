"""``docs/failure-rules.md`` names every rule, where it lives and what shows it; and what holds by construction.

The page names files, and inside of them functions, statements and tables as ``file::name``.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from core.storage.statements import groups, load
from tests.architecture.sources import ROOT, SOURCES, place, python_files, tracked_files, tree

PAGE = ROOT / "docs" / "failure-rules.md"
SCHEMA = SOURCES / "core" / "storage" / "migrations" / "0001_first_schema.sql"
RULES = 79

STATEMENTS = {f"{group}.{name}": text for group in groups() for name, text in load(group).items()}
SWEEPS = {"listings.claim_follow_ups"}
"""Statements that lock rows of several sellers at once: what is due is chosen over all of them."""


@functools.cache
def _rows() -> tuple[tuple[str, ...], ...]:
    """The cells of every line of a table that begins with a number."""
    lines = re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return tuple((number, *rest.split(" | ")) for number, rest in lines)


@functools.cache
def _defined(path: Path) -> frozenset[str]:
    """What a file defines: functions, classes and their members, constants; statements; tables and their like."""
    if path.suffix == ".sql":
        text = path.read_text(encoding="utf-8")
        made = re.findall(r"^(?:CREATE (?:UNIQUE )?\w+|    CONSTRAINT) (\w+)", text, re.MULTILINE)
        return frozenset([*re.findall(r"^-- ([a-z_0-9]+): ", text, re.MULTILINE), *made])
    names = set()
    owners = [("", tree(path).body)]
    owners += [(f"{node.name}.", node.body) for node in tree(path).body if isinstance(node, ast.ClassDef)]
    for owner, body in owners:
        for each in body:
            if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(owner + each.name)
            elif isinstance(each, ast.AnnAssign):
                names.add(owner + ast.unparse(each.target))
            elif isinstance(each, ast.Assign):
                names |= {owner + ast.unparse(target) for target in each.targets}
    return frozenset(names)


def _missing(column: int) -> list[str]:
    missing = []
    for row in _rows():
        for named in re.findall(r"`([^`]+)`", row[column]):
            path, _, name = named.partition("::")
            if not (ROOT / path).is_file() or (name and name not in _names_in(ROOT / path)):
                missing.append(f"{row[0]}: {named}")
    return missing


def _names_in(path: Path) -> frozenset[str]:
    """As _defined; of a test file its tests, those in classes too."""
    if "tests" not in path.relative_to(ROOT).parts:
        return _defined(path)
    return frozenset(
        node.name
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_every_rule_stands_once_and_in_order() -> None:
    assert [row[0] for row in _rows()] == [str(number) for number in range(1, RULES + 1)]
    assert {len(row) for row in _rows()} == {4}


def test_every_place_that_is_named_exists() -> None:
    assert sum(len(re.findall(r"`[^`]+`", row[2])) for row in _rows()) > 100
    assert _missing(2) == []


def test_every_test_that_is_named_exists() -> None:
    assert sum(len(re.findall(r"`[^`]+`", row[3])) for row in _rows()) > 150
    assert _missing(3) == []


def test_a_rule_without_a_test_is_told_as_such() -> None:
    told = PAGE.read_text(encoding="utf-8").partition("## Not proven by a test")[2]
    numbers = {number for line in re.findall(r"^- ([\d, ]+):", told, re.MULTILINE) for number in line.split(", ")}
    silent = {row[0] for row in _rows() if "`" not in row[3]}

    assert silent <= numbers
    assert numbers <= {row[0] for row in _rows()}


@pytest.mark.parametrize("page", [path for path in tracked_files() if path.suffix == ".md"], ids=place)
def test_no_page_claims_that_a_send_happens_exactly_once(page: Path) -> None:
    words = " ".join(page.read_text(encoding="utf-8").split())

    assert re.findall(r"(?<!not )exactly[- ]once", words, re.IGNORECASE) == []


def test_nothing_is_kept_on_a_connection() -> None:
    kept = [
        name
        for name, text in STATEMENTS.items()
        if re.search(r"pg_(try_)?advisory_lock|^\s*SET (?!LOCAL)|set_config\([^)]*, false\)|^\s*LISTEN", text, re.I)
        or ("TEMPORARY" in text and "ON COMMIT DROP" not in text)
    ]

    assert len(STATEMENTS) > 50
    assert kept == []


def test_hot_tables_leave_room_and_are_vacuumed_early() -> None:
    options = dict(re.findall(r"^CREATE TABLE (\w+) \(.*?^\)([^;]*);", SCHEMA.read_text(), re.MULTILINE | re.DOTALL))

    for table in ("jobs", "job_items", "work_runs", "intents"):
        assert "fillfactor" in options[table]
        assert "autovacuum_vacuum_scale_factor" in options[table]
    assert "using gin" not in SCHEMA.read_text().lower()


def test_no_decision_reads_the_name_of_a_constraint() -> None:
    readers = [
        place(path, node)
        for path in python_files(SOURCES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "constraint_name"
    ]

    assert readers == []


def test_no_upsert_asks_for_the_time_in_its_update() -> None:
    updates = {
        name: part
        for name, text in STATEMENTS.items()
        for part in re.findall(r"DO UPDATE SET(.*?)(?:RETURNING|\n\), |\Z)", text, re.DOTALL)
    }

    assert len(updates) > 3
    assert [
        name for name, part in updates.items() if re.search(r"now\(\)|clock_timestamp|current_timestamp", part)
    ] == []


def test_every_row_lock_names_its_seller() -> None:
    locking = {name for name, text in STATEMENTS.items() if re.search(r"FOR (NO KEY )?UPDATE|FOR SHARE", text)}
    unnamed = {name for name in locking if "seller_id = %(seller_id)s" not in STATEMENTS[name]}

    assert len(locking) > 5
    assert unnamed == SWEEPS
