"""Every public thing says what it is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.sources import SOURCES, Function, place, python_files, tree


def _public(body: list[ast.stmt]) -> Iterator[Function | ast.ClassDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def _overrides(method: Function) -> bool:
    """A method whose meaning its interface documents: marked as an override, or a setter or overload."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in method.decorator_list}
    return bool(names & {"override", "setter", "overload"})


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        place(path)
        for path in python_files(SOURCES)
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(tree(path))
    ]

    assert silent == []


def test_every_public_class_and_function_has_a_docstring() -> None:
    silent = [
        f"{place(path, node)} {node.name}"
        for path in python_files(SOURCES)
        for node in _public(tree(path).body)
        if not ast.get_docstring(node)
    ]

    assert silent == []


def test_every_public_method_has_a_docstring() -> None:
    silent = [
        f"{place(path, method)} {owner.name}.{method.name}"
        for path in python_files(SOURCES)
        for owner in _public(tree(path).body)
        if isinstance(owner, ast.ClassDef)
        for method in _public(owner.body)
        if not isinstance(method, ast.ClassDef) and not _overrides(method) and not ast.get_docstring(method)
    ]

    assert silent == []
