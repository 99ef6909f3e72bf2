"""What must not be in any file that a clone holds. The patterns are written in pieces so as not to find themselves."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import GENERATED, ROOT, SOURCES, place, tracked_files

REGISTRY_HOSTS = r"py" r"pi\.org|python" r"hosted\.org|npm" r"js\.org|deb" r"ian\.org|crates\." r"io|proxy\.go" r"lang"
MACHINE_PATHS = r"(?:^|[^A-Za-z0-9_.-])/(?:wo" r"rk|fa" r"rm|op" r"t)/"
UNFINISHED = r"\bTO" r"DO\b|FIX" r"ME|\bXX" r"X\b|NotImplemented" r"Error|mark\.sk" r"ip\b|mark\.sk" r"ipif\b"
KEYS = r"svc_(?:li" r"ve|te" r"st)_[0-9A-Za-z]{49}\b"


def _found(pattern: str) -> list[str]:
    expression = re.compile(pattern)
    return [
        f"{place(path)}:{number} {line.strip()[:80]}"
        for path in tracked_files()
        if GENERATED not in path.parents
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if expression.search(line)
    ]


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("the host of a package registry", REGISTRY_HOSTS),
        ("a path of one machine", MACHINE_PATHS),
        ("an unfinished place", UNFINISHED),
        ("an API key", KEYS),
    ],
)
def test_no_file_names(what: str, pattern: str) -> None:
    assert _found(pattern) == [], what


def test_the_files_are_found_at_all() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in tracked_files()}

    assert {"Makefile", "pyproject.toml", "proto/listing_publication/v1/jobs.proto"} <= names
    assert len(names) > 100


def test_every_package_folder_is_in_the_wheel() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packages = {path.name for path in SOURCES.iterdir() if any(path.rglob("*.py"))}

    assert all(f'"src/{package}"' in settings for package in packages)
