"""The products that ``publish`` is given: CSV, JSON Lines, or a list of SKUs; from a file or standard input."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.catalog.files import is_json_lines
from core.errors import ApiError, Violation
from listing_publication.v1 import publishing_pb2
from listings.output import UsageError

MAX_FILE_BYTES = 64 * 1024 * 1024
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character, which no message can carry."""
_ITEM_RULE = "each line must be a JSON object with sku and category_id or auto_categorize"


@dataclass(frozen=True, slots=True)
class AskedFor:
    """One product to publish and the line it stands on. Neither category nor automatic: automatic."""

    line: int
    sku: str
    category_id: str | None = None
    auto_categorize: bool | None = None

    def item(self) -> publishing_pb2.PublicationItem:
        """The request's item."""
        auto = self.auto_categorize or (self.category_id is None) or None
        return publishing_pb2.PublicationItem(sku=self.sku, category_id=self.category_id, auto_categorize=auto)


def read_asked_for(path: Path) -> list[AskedFor]:
    """All products of a file; ``-`` is standard input. What a SKU looks like is judged by the server.

    CSV needs a header with ``sku`` and may have ``category_id``; other columns are passed over, so a catalogue file
    and the output of ``job failures --csv`` are taken as they are.

    Raises:
        UsageError: it cannot be read, or holds nothing.
    """
    text = _read(path)
    if is_json_lines(path, text):
        found = list(_json_lines(text))
    elif path.suffix.lower() == ".csv" or _has_header(text):
        found = list(_csv(text))
    else:
        lines = enumerate(text.splitlines(), 1)
        found = [AskedFor(line, sku.strip()) for line, sku in lines if sku.strip() and not sku.lstrip().startswith("#")]
    if not found:
        raise UsageError(f"{path}: there is nothing to publish")
    return found


def at_lines(error: ApiError, asked: list[AskedFor]) -> ApiError:
    """The refusal with places in the file instead of places in the request."""
    if not error.violations:
        return error
    places = [Violation(each.code, each.detail, _line(each.pointer, asked)) for each in error.violations]
    first = places[0]
    return ApiError(error.code, f"{first.pointer}: {first.detail}", violations=places, retry_after=error.retry_after)


def _line(pointer: str, asked: list[AskedFor]) -> str:
    parts = pointer.split("/")
    if len(parts) > 2 and parts[1] == "items" and parts[2].isdecimal() and int(parts[2]) < len(asked):
        return " ".join([f"line {asked[int(parts[2])].line}", *parts[3:]])
    return pointer


def _read(path: Path) -> str:
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path} must be text in UTF-8") from None


def _has_header(text: str) -> bool:
    first = text.lstrip().partition("\n")[0]
    return "sku" in [name.strip().strip('"').lower() for name in first.split(",")]


def _csv(text: str) -> Iterator[AskedFor]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if header.count("sku") != 1 or header.count("category_id") > 1:
            raise UsageError("the CSV header must name sku once (and may name category_id once)")
        while True:
            line = reader.line_num + 1
            values = next(reader, None)
            if values is None:
                return
            row = dict(zip(header, values, strict=False))
            if values:
                yield AskedFor(line, row.get("sku", "").strip(), row.get("category_id", "").strip() or None)
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num}: the CSV cannot be read ({error})") from None


def _json_lines(text: str) -> Iterator[AskedFor]:
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        try:
            found: Any = json.loads(row)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not _typed(found):
            raise UsageError(f"line {line}: {_ITEM_RULE}")
        yield AskedFor(line, found["sku"], found.get("category_id"), found.get("auto_categorize"))


def _typed(row: dict[str, Any]) -> bool:
    sku, category_id = row.get("sku"), row.get("category_id")
    return (
        isinstance(sku, str)
        and isinstance(category_id, str | None)
        and isinstance(row.get("auto_categorize"), bool | None)
        and _SURROGATE.search(sku + (category_id or "")) is None
    )
