"""What import-linter's contracts cannot say: that they name every module, and what stands inside functions.

The contracts themselves are in pyproject.toml and run by ``make check``. They list core's parts by name, so a new
part would be outside of them; and they see no import made inside a function by ``importlib``.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable

import pytest

from tests.architecture.sources import ROOT, SOURCES, imports, module_name, place, python_files

HTTP_CLIENTS = ("aiohttp", "httpx", "requests", "urllib3")


def _contracts() -> dict[str, dict[str, list[str]]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["name"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}


def _parts_of_core() -> set[str]:
    return {
        f"core.{path.stem}"
        for path in (SOURCES / "core").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    } - {"core.__init__"}


def _inside(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize(
    ("contract", "exempt"),
    [
        ("SQL only in core.storage", {"core.storage"}),
        ("the HTTP client only in core.marketplace and core.catalog", {"core.marketplace", "core.catalog"}),
    ],
)
def test_a_contract_of_where_a_library_may_be_used_names_every_part(contract: str, exempt: set[str]) -> None:
    named = set(_contracts()[contract]["source_modules"])

    assert _parts_of_core() | {"grpc_server", "http_gateway", "listings", "sandbox"} == named | exempt


def test_the_gateway_may_import_exactly_five_modules_of_core() -> None:
    forbidden = set(
        _contracts()["the gateway sees generated code and core's errors, settings, log, metrics and tracing only"][
            "forbidden_modules"
        ]
    )
    allowed = {"core.errors", "core.settings", "core.log", "core.metrics", "core.tracing"}

    assert _parts_of_core() - forbidden == allowed


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        (("psycopg", "psycopg_pool"), ("core.storage",)),
        (HTTP_CLIENTS, ("core.marketplace", "core.catalog")),
        (
            ("grpc", "grpc_health", "grpc_reflection"),
            ("grpc_server", "http_gateway", "listings", "listing_publication"),
        ),
        (("starlette", "uvicorn"), ("http_gateway", "sandbox", "listings")),
        (("listing_publication",), ("grpc_server", "http_gateway", "listings")),
    ],
)
def test_a_library_is_imported_only_where_it_belongs(library: tuple[str, ...], homes: tuple[str, ...]) -> None:
    strays = {
        f"{place(path, node)} imports {name}"
        for path in python_files(SOURCES)
        for name, node in imports(path)
        if _inside(name, library) and not _inside(module_name(path), homes)
    }

    assert strays == set()


def test_no_process_forks() -> None:
    """A fork in the middle of a loop copies gRPC's locks and the connections to the database (rule 45)."""
    forking = ("multiprocessing", "concurrent.futures.process", "pty")
    imported = {
        f"{place(path, node)} imports {name}"
        for path in python_files(SOURCES)
        for name, node in imports(path)
        if _inside(name, forking)
    }
    called = {
        place(path, node)
        for path in python_files(SOURCES)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("fork", "forkpty", "ProcessPoolExecutor")
    }

    assert imported | called == set()
