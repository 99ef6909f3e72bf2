"""The documents that repeat facts of the program repeat them correctly."""

from __future__ import annotations

import ast
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase
from pydantic import SecretStr

from core import metrics
from core.domain.states import ITEM_MOVES, JOB_MOVES
from core.settings import Settings
from tests.architecture.sources import ROOT, SOURCES, imports, place, python_files, tracked_files, tree

OPERATING = ROOT / "docs" / "operating.md"
JOB_STATES = ROOT / "docs" / "job-states.md"


def _rows(path: Path, head: str) -> list[list[str]]:
    """The rows of every table of a page whose first column is headed so."""
    rows: list[list[str]] = []
    inside = False
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[0] == head:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            rows.append(cells)
    return rows


def _as_written(value: Any) -> str:
    """A default as one would write it into the environment, in a code span; nothing when there is none."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, datetime):
        return f"`{value:%Y-%m-%dT%H:%M:%SZ}`"
    return f"`{value}`"


def test_the_page_for_operators_lists_every_setting_with_its_default() -> None:
    documented = {row[0].strip("`"): row[1] for row in _rows(OPERATING, "setting")}
    real = {f"LISTINGS_{name.upper()}": _as_written(field.default) for name, field in Settings.model_fields.items()}

    assert documented == real


def test_the_page_for_operators_lists_every_metric_with_its_labels() -> None:
    kinds = {Counter: ("counter", "_total"), Gauge: ("gauge", ""), Histogram: ("histogram", "")}
    documented = {row[0].strip("`"): (row[1], row[2]) for row in _rows(OPERATING, "metric")}
    real = {}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            kind, suffix = kinds[type(metric)]
            real[metric._name + suffix] = (kind, ", ".join(metric._labelnames))

    assert len(real) > 20
    assert documented == real


def test_metrics_are_declared_in_one_module_only() -> None:
    makers = {"Counter", "Gauge", "Histogram", "Summary"}
    strays = [
        place(path, node)
        for path in python_files(SOURCES)
        if path != SOURCES / "core" / "metrics.py"
        and any(name.startswith("prometheus_client") for name, _ in imports(path))
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in makers
    ]

    assert strays == []


def _drawn(section: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^    (\S+) --> (\S+)$", section, re.MULTILINE))


def _listed(section: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^\| (\w+|\(new\)) \| (\w+) \| ", section, re.MULTILINE)) - {("from", "to")}


def _sections() -> tuple[str, str]:
    job, item = re.split(r"^## Item$", JOB_STATES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return job, item


def test_diagram_and_table_of_the_job_show_exactly_the_moves_of_the_program() -> None:
    moves = {
        (str(before), str(after)) for before, afters in JOB_MOVES.items() for after in afters if before is not None
    }
    births = {str(status) for status in JOB_MOVES[None]}
    section = _sections()[0]

    assert _drawn(section) == moves | {("[*]", status) for status in births}
    assert _listed(section) == moves | {("(new)", status) for status in births}


def test_diagram_and_table_of_the_item_show_exactly_the_moves_of_the_program() -> None:
    moves = {(str(before), str(after)) for before, afters in ITEM_MOVES.items() for after in afters}
    section = _sections()[1]

    assert _drawn(section) == moves | {("[*]", "pending"), ("[*]", "skipped")}
    assert _listed(section) == moves | {("(new)", "pending"), ("(new)", "skipped")}


@pytest.mark.parametrize("page", [path for path in tracked_files() if path.suffix == ".md"], ids=place)
def test_every_relative_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    dead = [link for link in links if "://" not in link and not (page.parent / link).exists()]

    assert dead == []


@pytest.mark.parametrize("page", [path for path in tracked_files() if path.suffix == ".md"], ids=place)
def test_every_path_of_the_repository_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:src|tests|docs|proto|bench|deploy)/[\w./-]+)`", page.read_text(encoding="utf-8"))
    missing = [name for name in named if not (ROOT / name).exists() and "NNNN" not in name]

    assert missing == []


def test_every_target_of_the_makefile_is_explained_and_phony() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    explained = set(re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE))
    declared = set(re.findall(r"[a-z-]+", re.findall(r"^\.PHONY:(.*)$", text, re.MULTILINE)[0]))

    assert explained == declared
