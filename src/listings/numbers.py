"""How large the numbers are that a command takes: beyond 64 bits neither gRPC nor the database could hold them."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

MOST: Final = 2**63 - 1


def number_option(name: str, *, help: str, min: int | None = None) -> Any:  # noqa: A002 - typer's words
    """A ``typer.Option`` for a whole number."""
    return typer.Option(name, help=help, min=-MOST - 1 if min is None else min, max=MOST, metavar="INTEGER")


def number_argument(*, help: str, min: int) -> Any:  # noqa: A002 - typer's words
    """A ``typer.Argument`` for a whole number."""
    return typer.Argument(help=help, min=min, max=MOST)


SellerId = Annotated[int, number_argument(help="The seller's id.", min=1)]
SellerOption = Annotated[int, number_option("--seller", help="The seller's id.", min=1)]
