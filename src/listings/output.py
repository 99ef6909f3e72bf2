"""What a command prints: for people, or one JSON document; and how it ends when it is refused.

Exit codes (decisions, section 8): 0 done, 1 refused, 2 usage (a wrong argument or setting, a port in use, a folder
that cannot be written, no database to work on).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from types import TracebackType
from typing import Annotated, Any, Final, Self

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from core.domain.text import is_control
from core.errors import ApiError
from core.settings import SettingsError
from listings.option_names import by_option

EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

_WIDTH_WHEN_PIPED = 10_000
"""So that no line of a table is folded or cut when a program reads it."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]


class UsageError(Exception):
    """Something that only whoever typed the command can change; one line, without secrets. Ends with exit code 2."""


class Output:
    """Standard output and standard error of one command.

    As a context manager it turns refusals (``ApiError``), wrong settings and usage errors into their line (with
    ``--json``: ``{"error": {...}}`` on standard output) and exit code.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = _console()
        self.err = _console(stderr=True)

    @property
    def live(self) -> bool:
        """Whether a person watches: standard output is a terminal and no JSON was asked for."""
        return self.out.is_terminal and not self.as_json

    def document(self, value: Any) -> None:
        """Print a value as the one JSON document; nothing unless JSON was asked for."""
        if self.as_json:
            self.out.file.write(json.dumps(value, ensure_ascii=False, default=_plain) + "\n")

    def say(self, text: str, *, style: str | None = None) -> None:
        """A line for people on standard output. The text is printed as it is."""
        if not self.as_json:
            self.out.print(escape(harmless(text)), style=style, soft_wrap=True, highlight=False)

    def warn(self, text: str, *, style: str | None = "yellow") -> None:
        """A line for people on standard error, with ``--json`` too."""
        self.err.print(escape(harmless(text)), style=style, soft_wrap=True, highlight=False)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Sequence[str] = ()) -> None:
        """A table for people; ``numbers`` names the columns to align to the right."""
        if not self.as_json:
            self.out.print(table(columns, rows, numbers=numbers))

    def facts(self, facts: Iterable[tuple[str, Any]]) -> None:
        """Names and values for people, one a line; empty values are left out."""
        if self.as_json:
            return
        given = [(name, value) for name, value in facts if value is not None and value != ""]
        shown = [(name, harmless(cell(value), lines=False)) for name, value in given]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self.out.print(f"[dim]{escape(name.ljust(width))}[/dim]  {escape(value)}", soft_wrap=True, highlight=False)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Go on only when the person says so, or has said so by ``--yes``.

        Raises:
            UsageError: nobody is there to be asked.
            typer.Exit: the answer is no.
        """
        if yes:
            return
        if not (self.live and _keyboard()):
            raise UsageError(f"{question} Nobody can be asked here: say --yes.")
        if not typer.confirm(question):
            self.warn("Nothing was done.")
            raise typer.Exit(EXIT_REFUSED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, ApiError):
            self._refused(by_option(error))
            raise typer.Exit(EXIT_REFUSED) from None
        if isinstance(error, UsageError | SettingsError):
            self.fail(str(error))
            raise typer.Exit(EXIT_USAGE) from None
        if isinstance(error, KeyboardInterrupt):
            raise typer.Exit(EXIT_INTERRUPTED) from None

    def fail(self, line: str) -> None:
        """The one line of a usage error."""
        if self.as_json:
            self.document({"error": {"code": "E_USAGE", "detail": line}})
        else:
            self.warn(f"listings: {line}", style="red")

    def _refused(self, error: ApiError) -> None:
        if self.as_json:
            problem: dict[str, Any] = {"code": error.code, "detail": error.detail}
            if error.violations:
                problem["errors"] = [
                    {"place": each.pointer or each.parameter, "code": each.code, "detail": each.detail}
                    for each in error.violations
                ]
            if error.retry_after is not None:
                problem["retry_after"] = error.retry_after
            self.document({"error": problem})
            return
        self.warn(f"refused: {error.detail} ({error.code})", style="red")
        for each in error.violations[1:]:
            self.warn(f"  {each.pointer or each.parameter}: {each.detail}", style=None)
        if error.retry_after is not None:
            self.warn(f"  try again in {error.retry_after} s", style=None)


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=stderr, highlight=False, width=_WIDTH_WHEN_PIPED)
    return console


def _keyboard() -> bool:
    return typer.get_text_stream("stdin").isatty()


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Sequence[str] = ()) -> Table:
    """A plain table that reads well on a terminal and in a file."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(escape(harmless(cell(value), lines=False)) for value in row))
    return made


def harmless(text: str, *, lines: bool = True) -> str:
    """The text without control characters: a terminal would do what they say. Line feeds stay if ``lines``."""
    if text.isprintable():
        return text
    return "".join("\ufffd" if is_control(each) and not (lines and each == "\n") else each for each in text)


def cell(value: Any) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    return "" if value is None else str(value)


def decimal_text(value: Decimal) -> str:
    """A decimal number without trailing zeros and without an exponent."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def timestamp(value: datetime) -> str:
    """RFC 3339, UTC, Z."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, Decimal):
        return decimal_text(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
