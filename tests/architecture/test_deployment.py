"""What stands in deploy/, and what the page for operators says about it, about alarms and about events."""

from __future__ import annotations

import ast
import configparser
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prometheus_client.metrics import MetricWrapperBase

from core import metrics
from tests.architecture.sources import GENERATED, ROOT, SOURCES, python_files, tree

DEPLOY = ROOT / "deploy"
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
HARDENING = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelTunables": "yes",
    "RestrictNamespaces": "yes",
    "CapabilityBoundingSet": "",
    "SystemCallFilter": "@system-service",
    "UMask": "0077",
    "User": "listings",
}
OF_EVERY_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}

DASHBOARD = {
    "type": "object",
    "required": ["title", "uid", "schemaVersion", "panels", "templating", "time"],
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "uid": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,40}$"},
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["id", "type", "title", "gridPos"],
                "properties": {
                    "id": {"type": "integer", "minimum": 1},
                    "type": {"enum": ["row", "timeseries", "stat"]},
                    "gridPos": {
                        "type": "object",
                        "required": ["h", "w", "x", "y"],
                        "properties": {
                            "w": {"type": "integer", "minimum": 1, "maximum": 24},
                            "x": {"type": "integer", "minimum": 0, "maximum": 23},
                        },
                    },
                },
                "if": {"properties": {"type": {"not": {"const": "row"}}}},
                "then": {
                    "required": ["targets", "datasource", "fieldConfig", "options"],
                    "properties": {
                        "targets": {
                            "type": "array",
                            "minItems": 1,
                            "items": {
                                "type": "object",
                                "required": ["refId", "expr", "datasource"],
                                "properties": {"expr": {"type": "string", "minLength": 1}},
                            },
                        }
                    },
                },
            },
        },
    },
}


def _table(head: str) -> list[list[str]]:
    rows: list[list[str]] = []
    inside = False
    for line in OPERATING.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[0] == head:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            rows.append(cells)
    return rows


def _series() -> set[str]:
    """Every name that a scrape can show."""
    names = set(OF_EVERY_PROCESS)
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            ends = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}[str(metric._type)]
            names |= {metric._name + end for end in ends}
    return names


def _named(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:listings|process|python)_[a-z_]+\b", expression))


def _rules() -> list[dict[str, Any]]:
    yaml: Any = importlib.import_module("yaml")
    loaded = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    rules: list[dict[str, Any]] = [rule for group in loaded["groups"] for rule in group["rules"]]
    return rules


def test_every_alarm_is_whole_and_speaks_of_metrics_that_exist() -> None:
    for rule in _rules():
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}, rule
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert _named(rule["expr"])
        assert _named(rule["expr"]) <= _series(), rule["alert"]
        assert rule["expr"].count("(") == rule["expr"].count(")")


def test_the_page_for_operators_explains_every_alarm_and_no_other() -> None:
    rules = {rule["alert"]: rule["labels"]["severity"] for rule in _rules()}

    assert {row[0]: row[1] for row in _table("alarm")} == rules
    assert re.findall(r"^### (Listings\w+)$", OPERATING, re.MULTILINE) == list(rules)


def test_the_page_for_operators_explains_every_event_of_the_log_and_no_other() -> None:
    logged: set[str] = {"request"}  # the access line is put together without the logging library
    for path in python_files(SOURCES):
        if GENERATED in path.parents or SOURCES / "sandbox" in path.parents:
            continue
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if re.search(r"(?:^|[^\w])_?log\.(?:debug|info|warning|error|exception)\b", ast.unparse(node.func), re.I):
                logged |= {
                    each.value
                    for each in ast.walk(node.args[0])
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
    documented = [name for row in _table("event") for name in re.findall(r"`(\w+)`", row[0])]

    assert len(logged) > 50
    assert sorted(documented) == sorted(logged)
    assert all(re.fullmatch(r"[a-z]+(?:_[a-z]+)*", name) for name in logged)


def test_the_dashboard_loads_and_shows_metrics_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "listings.json").read_text(encoding="utf-8"))
    jsonschema.validate(dashboard, DASHBOARD)
    panels = dashboard["panels"]
    ids = [panel["id"] for panel in panels]
    shown = {name for panel in panels for target in panel.get("targets", []) for name in _named(target["expr"])}

    assert len(set(ids)) == len(ids)
    assert shown <= _series()
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert len(shown & {name for name in _series() if name.startswith("listings_")}) >= 30


def test_every_metric_is_on_the_dashboard() -> None:
    text = (DEPLOY / "grafana" / "listings.json").read_text(encoding="utf-8")
    absent = [
        metric._name
        for metric in vars(metrics).values()
        if isinstance(metric, MetricWrapperBase) and metric._name not in text
    ]

    assert absent == []


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_hardened_and_starts_a_command_of_ours(unit: Path) -> None:
    parser = configparser.RawConfigParser(strict=True, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.read_text(encoding="utf-8"))
    service = dict(parser["Service"])

    assert parser["Unit"]["Description"]
    assert {name: service.get(name) for name in HARDENING} == HARDENING
    program, command, *_ = service["ExecStart"].split()
    assert program == "/usr/local/lib/listings/bin/listings"
    assert command in {"serve", "grpc", "gateway", "worker", "migrate"}
    assert service["EnvironmentFile"].startswith("/etc/listings/")
    assert "Environment" not in service  # secrets and settings are the machine's, in its own file
    if command != "migrate":
        assert parser["Install"]["WantedBy"] == "multi-user.target"
        assert (service["Restart"], service["KillMode"]) == ("always", "mixed")
        assert int(service["TimeoutStopSec"]) > 10


def test_the_units_pass_the_verifier_where_systemd_is_installed(tmp_path: Path) -> None:
    # Without systemd the test above is what holds; the program and the user are not on this machine.
    copies = []
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace("/usr/local/lib/listings/bin/listings", sys.executable)
        copies.append(tmp_path / unit.name)
        copies[-1].write_text(text, encoding="utf-8")
    assert len(copies) == 5
    verifier = shutil.which("systemd-analyze")
    if verifier is not None:
        done = subprocess.run(
            [verifier, "verify", "--man=no", *map(str, copies)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_container_file_passes_its_linter() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run(
        [str(linter), "--no-color", str(DEPLOY / "Containerfile")], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_is_small_pinned_and_runs_as_nobody_important() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    sources = [line.split()[1] for line in lines if line.startswith("FROM ")]
    last_stage = lines[max(index for index, line in enumerate(lines) if line.startswith("FROM ")) :]
    users = [line.split()[1] for line in last_stage if line.startswith("USER ")]

    assert set(sources) == {"python:3.11-slim"}
    assert users == ["10001:10001"]
    assert any(line.startswith("HEALTHCHECK ") for line in last_stage)
    assert all("--require-hashes" in line or "--no-deps" in line for line in lines if "pip install" in line)
    assert not re.search(r"(?i)secret|password|token", text)
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[1] == "*"
    copied = {
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    }
    assert {word.removeprefix("!") for word in ignored if word.startswith("!")} == copied
