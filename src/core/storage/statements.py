"""Named SQL statements, read once from ``sql/*.sql``.

A statement starts with ``-- name: what it does`` at the line's start and ends where the next begins.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import LiteralString, cast

_FOLDER = Path(__file__).with_name("sql")
_HEAD = re.compile(r"^-- ([a-z_0-9]+): .*$", re.MULTILINE)


def load(group: str) -> dict[str, LiteralString]:
    """The statements of ``sql/<group>.sql`` by name.

    Raises:
        ValueError: a name stands twice.
    """
    parts = _HEAD.split((_FOLDER / f"{group}.sql").read_text(encoding="utf-8"))[1:]
    names, bodies = parts[0::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"sql/{group}.sql names a statement twice")
    # The files ship with the package: they are as literal as a string in a module.
    return {name: cast(LiteralString, body.strip().rstrip(";")) for name, body in zip(names, bodies, strict=True)}


def groups() -> list[str]:
    """The groups there are."""
    return sorted(path.stem for path in _FOLDER.glob("*.sql"))
