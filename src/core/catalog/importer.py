"""``catalog import``: a product file taken into the catalogue in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from core.catalog.files import CatalogFileError, open_text, read_rows
from core.catalog.rows import Finding, RowError, judge
from core.domain.product import Product
from core.storage import catalog
from core.storage.database import Connection, Database

MAX_FINDINGS = 1_000
"""Findings kept of one file; all are counted."""


@dataclass(slots=True)
class ImportReport:
    """What became of a file. read = inserted + changed + unchanged + repeated + refused, unless ``strict_refusal``:
    then nothing was taken and the three first are 0.

    ``repeated``: rows replaced by a later row of the same SKU. ``refusals`` and ``notes`` hold the first
    ``MAX_FINDINGS`` each; a note tells of something passed over in a row that was taken.
    """

    read: int = 0
    inserted: int = 0
    changed: int = 0
    unchanged: int = 0
    repeated: int = 0
    refused: int = 0
    strict_refusal: bool = False
    refusals: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)


def read_products(path: Path) -> tuple[dict[str, Product], ImportReport]:
    """The good rows of a file by SKU (the last row of a SKU wins), and a report without what the database adds.

    The products of the whole file are in memory at once: some 100 MB for 10⁵ rows with descriptions.

    Raises:
        CatalogFileError: the file as a whole cannot be read.
        OSError: it cannot be opened.
    """
    report = ImportReport()
    products: dict[str, Product] = {}
    lines: dict[str, int] = {}

    def note(line: int, column: str, text: str) -> None:
        if len(report.notes) < MAX_FINDINGS:
            report.notes.append(Finding(line, column, text))

    with open_text(path) as stream:
        file = read_rows(path, stream)
        for position in file.unknown:
            note(1, position, "this column is not known and was passed over")
        for raw in file.rows:
            report.read += 1
            try:
                if isinstance(raw.values, RowError):
                    raise raw.values
                product, notes = judge(raw.values)
            except RowError as refusal:
                report.refused += 1
                for column, rule in refusal.places:
                    if len(report.refusals) < MAX_FINDINGS:
                        report.refusals.append(Finding(raw.line, column, rule))
                continue
            for column, text in notes:
                note(raw.line, column, text)
            if product.sku in lines:
                report.repeated += 1
                note(lines[product.sku], "sku", f"replaced by line {raw.line}, which has the same SKU")
            lines[product.sku] = raw.line
            products[product.sku] = product
    return products, report


async def import_file(database: Database, path: Path, *, strict: bool = False) -> ImportReport:
    """Take a product file into the catalogue: all good rows in one transaction.

    Args:
        path: CSV or JSON Lines.
        strict: take nothing when one row is refused.

    Raises:
        CatalogFileError: the file as a whole cannot be read; nothing was taken.
        OSError: it cannot be opened.
        ApiError: E_INTERNAL when the database is away.
    """
    products, report = read_products(path)
    if strict and report.refused:
        report.strict_refusal = True
        return report
    report.inserted, report.changed = await import_products(database, products)
    report.unchanged = len(products) - report.inserted - report.changed
    return report


async def import_products(database: Database, products: dict[str, Product]) -> tuple[int, int]:
    """Take products into the catalogue in one transaction. Returns how many were (inserted, changed)."""

    async def work(connection: Connection) -> tuple[int, int]:
        return await catalog.upsert(connection, products.values())

    return await database.transact(work)


__all__ = ["CatalogFileError", "Finding", "ImportReport", "import_file", "import_products", "read_products"]
