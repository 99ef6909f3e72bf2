"""What tests promise: they wait for events, they assert, none is left out in silence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.sources import ROOT, Function, place, python_files, tree

TESTS = ROOT / "tests"
CHECKS = {"raises", "fail", "validate"}
"""Calls that check something by themselves."""

TIME_ITSELF = {
    "test_a_revoked_and_an_expired_key_are_refused",
}
"""Tests of what the mere passing of time does."""


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _test_files() -> list[Path]:
    return [path for path in python_files(TESTS) if path.name.startswith("test_")]


def _tests(path: Path) -> list[Function]:
    return [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


def _calls(function: Function) -> set[str]:
    return {_name(node) for node in ast.walk(function) if isinstance(node, ast.Call)}


def _checking_functions() -> set[str]:
    """Names of the functions under tests/ that check something, themselves or through another of them."""
    functions = [
        node
        for path in python_files(TESTS)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    checking = CHECKS | {
        each.name for each in functions if any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(each))
    }
    # Waiting until something holds fails when it never does.
    checking |= {each.name for each in functions if "timeout" in _calls(each)}
    while more := {each.name for each in functions if _calls(each) & checking} - checking:
        checking |= more
    return checking


def _bare_sleeps(node: ast.AST) -> Iterator[ast.Call]:
    """Sleeps in a test's own body. One in a loop is the pause of a poll, one in a function inside of the test is the
    slowness of a double.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.While | ast.For | ast.AsyncFor | ast.Lambda | Function):
            continue
        if isinstance(child, ast.Call) and _name(child) == "sleep" and ast.unparse(child.args[0]) != "0":
            yield child
        yield from _bare_sleeps(child)


def test_no_test_sleeps_instead_of_waiting() -> None:
    # A sleep is too short on a busy machine and too long on every other: wait for what is meant to happen.
    sleeping = {test.name for path in _test_files() for test in _tests(path) if any(_bare_sleeps(test))}

    assert sleeping == TIME_ITSELF


def test_every_test_asserts_something() -> None:
    checking = _checking_functions()
    toothless = [
        f"{place(path, test)} {test.name}"
        for path in _test_files()
        for test in _tests(path)
        if test.name not in checking
    ]

    assert toothless == []


def test_every_tree_of_tests_says_what_belongs_there() -> None:
    silent = [
        folder.name
        for folder in TESTS.iterdir()
        if folder.is_dir() and not folder.name.startswith((".", "_")) and not (folder / "README.md").is_file()
    ]

    assert silent == []


def test_test_files_have_names_of_their_own() -> None:
    # Without packages pytest tells modules apart by their file's name alone.
    names = [path.name for path in _test_files()]

    assert sorted(names) == sorted(set(names))
