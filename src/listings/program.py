"""The command ``listings``: its commands put together, and run."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Annotated

import typer

from listings import processes
from listings.output import EXIT_REFUSED, Output

_HELP = """Publish products as Mercado Libre listings in background jobs: test, look, promote, live.

Settings come from LISTINGS_* variables and a .env file. Exit codes: 0 done, 1 refused, 2 usage.

Examples:

    listings serve

    listings publish products.csv --demo test --watch

    listings promote --demo live
"""


def _show_version(asked: bool) -> None:
    if asked:
        print(f"listings {importlib.metadata.version('listing-publication')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Holds the options of the command itself."""


def command_line(*, processes_only: bool = False) -> typer.Typer:
    """The command with all its subcommands, or with the processes alone, which start faster and smaller so."""
    # Tracebacks with local variables would show keys and tokens.
    app = typer.Typer(
        name="listings", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="markdown"
    )
    app.callback(help=_HELP)(_root)
    processes.register(app)
    if not processes_only:
        from listings.commands import register  # noqa: PLC0415 - see above

        register(app)
    return app


def run(arguments: list[str] | None = None) -> int:
    """Run a command. Returns its exit code: 0 done, 1 refused, 2 usage, 130 interrupted."""
    given = sys.argv[1:] if arguments is None else arguments
    app = command_line(processes_only=given[:1] != [] and given[0] in processes.NAMES)
    try:
        if "--json" in given:
            return _run_for_program(app, given)
        app(args=given, prog_name="listings")
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): nothing is wrong. The interpreter must not flush into it again.
        sys.stdout = None
        return 0
    return 0


def _run_for_program(app: typer.Typer, given: list[str]) -> int:
    """As typer runs it, but what is wrong with the arguments is told as the one JSON document."""
    try:
        code = app(args=given, prog_name="listings", standalone_mode=False)
    except typer.Abort:
        return EXIT_REFUSED
    except Exception as error:
        # typer shows neither its own class for these nor that of click.
        told = getattr(error, "format_message", None)
        code = getattr(error, "exit_code", None)
        if told is None or not isinstance(code, int):
            raise
        Output(as_json=True).fail(" ".join(told().split()))
    return code if isinstance(code, int) else 0
