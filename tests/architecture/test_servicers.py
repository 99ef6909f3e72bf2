"""A servicer translates and calls; what is decided is decided in a use case. And no method is without a scope."""

from __future__ import annotations

import ast

from grpc_server.methods import METHODS
from listing_publication.v1 import account_pb2, admin_pb2, jobs_pb2, promotion_pb2, publishing_pb2
from tests.architecture.sources import SOURCES, place, python_files, tree

LONGEST = 15
"""Lines of a servicer's method, its docstring not counted."""


def _length(method: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = method.body[1:] if ast.get_docstring(method) else method.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_a_servicer_method_has_at_most_fifteen_lines() -> None:
    long = [
        f"{place(path, method)} {method.name}: {_length(method)} lines"
        for path in python_files(SOURCES / "grpc_server" / "servicers")
        for owner in tree(path).body
        if isinstance(owner, ast.ClassDef)
        for method in owner.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and _length(method) > LONGEST
    ]

    assert long == []


def test_the_table_of_methods_holds_every_method_of_the_protocol_and_no_other() -> None:
    protocol = {
        f"/{service.full_name}/{method.name}"
        for module in (account_pb2, admin_pb2, jobs_pb2, promotion_pb2, publishing_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }

    assert len(protocol) > 20
    assert {name for name in METHODS if name.startswith("/listing_publication.")} == protocol
