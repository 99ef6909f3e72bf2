"""Every service, method, message, field and value of the protocol says what it means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

FILES = sorted((ROOT / "proto").rglob("*.proto"))
_DECLARATION = re.compile(
    r"^\s*(?:(?:service|rpc|message|enum|oneof)\s+\w+"
    r"|(?:optional |repeated )?[\w.<>, ]+\s+\w+\s*=\s*\d+\s*[;\[]"
    r"|[A-Z_0-9]+\s*=\s*\d+\s*[;\[])"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_declaration_has_a_comment_above_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    declared = [number for number, line in enumerate(lines) if _DECLARATION.match(line)]
    silent = [
        f"{path.name}:{number + 1} {lines[number].strip()}"
        for number in declared
        if not lines[number - 1].lstrip().startswith("//") and "//" not in lines[number]
    ]

    assert len(declared) > 5
    assert silent == []
