"""Product files as rows: CSV with a header, or JSON Lines. UTF-8, a byte order mark is passed over."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TextIO

from core.catalog.rows import COLUMNS, REQUIRED, RowError

JSON_SUFFIXES: Final = frozenset({".jsonl", ".ndjson", ".json"})
_LONGEST_FIELD = 131_072
"""Of one CSV value, in characters; the longest legal one is a description."""
_LONGEST_LINE = 1_000_000
_MORE_VALUES = "more values than columns"


class CatalogFileError(Exception):
    """A file that cannot be read as a whole; the text says why, without quoting it."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row as it stands in the file, beginning at ``line`` (from 1): its values, or why it cannot be told apart."""

    line: int
    values: dict[str, Any] | RowError


@dataclass(frozen=True, slots=True)
class RowFile:
    """An open product file. ``unknown`` columns are passed over; for JSON Lines they are not known beforehand."""

    rows: Iterator[RawRow]
    unknown: tuple[str, ...] = ()


def is_json_lines(path: Path, opening: str) -> bool:
    """Whether a file is JSON Lines: by its suffix, else by the first character that is not blank."""
    if path.suffix.lower() in JSON_SUFFIXES:
        return True
    return path.suffix.lower() != ".csv" and opening.lstrip("\ufeff \t\r\n").startswith("{")


def read_rows(path: Path, stream: TextIO) -> RowFile:
    """The rows of a file opened by ``open_text``. They are read as they are taken.

    Raises:
        CatalogFileError: at once, when the header does not fit or the file is no text.
    """
    opening = stream.read(4096)
    if "\0" in opening[:4]:
        raise CatalogFileError("the file must be text in UTF-8 (this looks like UTF-16)")
    stream.seek(0)
    if is_json_lines(path, opening):
        return RowFile(_json_rows(stream))
    return _csv_rows(stream)


def open_text(path: Path) -> TextIO:
    """Open for reading; ``-`` is standard input. Bytes that are no UTF-8 become lone surrogates, so that the row that
    has them can be named and the others kept.

    Raises:
        OSError: the file cannot be read.
    """
    if str(path) == "-" or path.is_fifo():
        # As a whole: the reader goes back to the beginning, which a pipe cannot.
        given = io.BytesIO(sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes())
        return io.TextIOWrapper(given, encoding="utf-8-sig", errors="surrogateescape", newline="")
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def _csv_rows(stream: TextIO) -> RowFile:
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(stream, strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
    except csv.Error as error:
        raise CatalogFileError(f"the header cannot be read: {error}") from None
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        raise CatalogFileError(f"the header lacks {', '.join(missing)} (columns are separated by commas)")
    repeated = sorted({name for name in COLUMNS if header.count(name) > 1})
    if repeated:
        raise CatalogFileError(f"the header names {', '.join(repeated)} more than once")
    unknown = tuple(str(index + 1) for index, name in enumerate(header) if name not in COLUMNS)
    return RowFile(_each_csv_row(reader, header), unknown)


def _each_csv_row(reader: Any, header: list[str]) -> Iterator[RawRow]:
    while True:
        line = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield RawRow(line, RowError(("", _csv_rule(error))))
            continue
        if not values:
            continue
        if len(values) != len(header):
            rule = _MORE_VALUES if len(values) > len(header) else "fewer values than columns"
            yield RawRow(line, RowError(("", f"{rule} ({len(values)} for {len(header)})")))
            continue
        yield RawRow(line, {name: value for name, value in zip(header, values, strict=True) if name in COLUMNS})


def _csv_rule(error: csv.Error) -> str:
    text = str(error)
    if "end of data" in text:
        return "a quote that opens here is never closed"
    if "field limit" in text:
        return f"a value is longer than {_LONGEST_FIELD} characters; is a quote not closed?"
    return 'quotes inside a quoted value must be doubled ("")'


def _json_rows(stream: TextIO) -> Iterator[RawRow]:
    for line, text in enumerate(_lines(stream), 1):
        if not text.strip():
            continue
        yield RawRow(line, _json_row(text))


def _lines(stream: TextIO) -> Iterator[str]:
    """Lines, a longer one cut to just above the limit, so that no line can fill the memory."""
    while text := stream.readline(_LONGEST_LINE + 1):
        while not text.endswith("\n") and (more := stream.readline(_LONGEST_LINE)):
            if more.endswith("\n") or len(more) < _LONGEST_LINE:
                break
        yield text


def _json_row(text: str) -> dict[str, Any] | RowError:
    if len(text) > _LONGEST_LINE:
        return RowError(("", f"must have at most {_LONGEST_LINE} characters"))
    try:
        found = json.loads(text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_members)
    except (ValueError, ArithmeticError, RecursionError):
        return RowError(("", "must be one JSON object on one line, without repeated members"))
    if not isinstance(found, dict):
        return RowError(("", "must be a JSON object"))
    return {name: value for name, value in found.items() if name in COLUMNS}


def _no_constant(_name: str) -> Any:
    raise ValueError("not JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("repeated member")
    return found
