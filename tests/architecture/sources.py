"""The project's files as the architecture tests read them: by path and, for Python, as a syntax tree."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
GENERATED = SOURCES / "listing_publication"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(folder: Path) -> list[Path]:
    """Our own Python files under ``folder``, by path; generated code is left out."""
    return [path for path in sorted(folder.rglob("*.py")) if GENERATED not in path.parents]


@functools.cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of one file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    """``src/core/domain/sku.py`` as ``core.domain.sku``."""
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place(path: Path, node: ast.AST | None = None) -> str:
    """Where something stands, as a test's message names it."""
    line = f":{node.lineno}" if isinstance(node, ast.stmt | ast.expr) else ""
    return f"{path.relative_to(ROOT)}{line}"


def imports(path: Path) -> Iterator[tuple[str, ast.stmt]]:
    """Every module that a file imports, in functions and under TYPE_CHECKING too.

    ``from core import metrics`` counts as ``core.metrics``: the name may be a module, and is taken for one.
    """
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module, node
            for name in node.names:
                yield f"{node.module}.{name.name}", node


@functools.cache
def tracked_files() -> tuple[Path, ...]:
    """The text files that a clone would hold: tracked, or new and not ignored.

    Without a repository (an unpacked archive) all files but those of hidden folders.
    """
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
        names = [name for name in listing.decode().split("\0") if name]
        found = [ROOT / name for name in dict.fromkeys(names)]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in sorted(ROOT.rglob("*")) if not any(p.startswith(".") for p in path.parts)]
    return tuple(path for path in found if path.is_file() and b"\0" not in path.read_bytes()[:8000])
