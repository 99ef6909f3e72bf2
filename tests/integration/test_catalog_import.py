"""A product file into the catalogue's table, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from core.app import Application
from core.catalog.importer import CatalogFileError, ImportReport, import_file
from core.domain.product import Product
from core.storage import catalog
from core.storage.database import Connection, Database

SHARED_PRODUCTS = Path(__file__).parents[3] / "shared" / "data" / "products.csv"
HEADER = "sku,title,category,cost_usd,image_url,description\n"


def numbers(report: ImportReport) -> tuple[int, int, int, int, int, int]:
    return report.read, report.inserted, report.changed, report.unchanged, report.repeated, report.refused


async def known(database: Database, *skus: str) -> dict[str, Product]:
    async def work(connection: Connection) -> dict[str, Product]:
        return await catalog.products(connection, skus)

    return await database.read(work)


async def count(database: Database) -> int:
    return await database.read(catalog.count)


async def test_a_second_import_changes_only_what_differs(own_application: Application, tmp_path: Path) -> None:
    database = own_application.database
    path = tmp_path / "products.csv"
    path.write_text(
        HEADER + 'AAAAAAAAA1,One,c,1.50,https://x/a.jpg|https://x/b.jpg,"Line\nline"\nAAAAAAAAA2,Two,c,,,\n'
    )
    assert numbers(await import_file(database, path)) == (2, 2, 0, 0, 0, 0)
    assert numbers(await import_file(database, path)) == (2, 0, 0, 2, 0, 0)
    path.write_text(HEADER + "AAAAAAAAA1,One,c,1.75,https://x/a.jpg,\nAAAAAAAAA2,Two,c,,,\nAAAAAAAAA3,Three,c,2,,\n")
    assert numbers(await import_file(database, path)) == (3, 1, 1, 1, 0, 0)
    products = await known(database, "AAAAAAAAA1", "AAAAAAAAA2", "AAAAAAAAA3", "AAAAAAAAA4")
    assert sorted(products) == ["AAAAAAAAA1", "AAAAAAAAA2", "AAAAAAAAA3"]
    assert products["AAAAAAAAA1"].cost_usd == Decimal("1.75")
    assert products["AAAAAAAAA1"].image_urls == ("https://x/a.jpg",)
    assert products["AAAAAAAAA2"].cost_usd is None


async def test_good_rows_are_kept_and_strict_keeps_none(own_application: Application, tmp_path: Path) -> None:
    database = own_application.database
    path = tmp_path / "products.csv"
    path.write_text(HEADER + "AAAAAAAAA1,One,c,1,,\nbad,One,c,1,,\nAAAAAAAAA1,One again,c,2,,\n")
    report = await import_file(database, path, strict=True)
    assert (report.strict_refusal, report.inserted, report.refused) == (True, 0, 1)
    assert await count(database) == 0
    report = await import_file(database, path)
    assert numbers(report) == (3, 1, 0, 0, 1, 1)
    assert report.read == report.inserted + report.changed + report.unchanged + report.repeated + report.refused
    assert (await known(database, "AAAAAAAAA1"))["AAAAAAAAA1"].title == "One again"


async def test_a_file_that_does_not_fit_changes_nothing(own_application: Application, tmp_path: Path) -> None:
    path = tmp_path / "products.csv"
    path.write_text("sku,title\nAAAAAAAAA1,One\n")
    with pytest.raises(CatalogFileError):
        await import_file(own_application.database, path)
    with pytest.raises(FileNotFoundError):
        await import_file(own_application.database, tmp_path / "absent.csv")
    assert await count(own_application.database) == 0


async def test_two_imports_at_once_leave_one_of_the_two(own_application: Application, tmp_path: Path) -> None:
    database = own_application.database
    paths = []
    for turn in range(2):
        paths.append(tmp_path / f"{turn}.csv")
        order = range(2_000) if turn else reversed(range(2_000))
        paths[-1].write_text(HEADER + "".join(f"SKU{number:07},title {turn},c,1,,\n" for number in order))
    reports = await asyncio.gather(*(import_file(database, path) for path in paths))
    assert sum(report.inserted for report in reports) == 2_000
    assert sum(report.changed for report in reports) == 2_000
    products = await known(database, *(f"SKU{number:07}" for number in range(2_000)))
    assert len({product.title for product in products.values()}) == 1


async def test_a_large_file(own_application: Application, tmp_path: Path) -> None:
    path = tmp_path / "products.csv"
    with path.open("w") as file:
        file.write(HEADER)
        for number in range(100_000):
            file.write(f"SKU{number:07},A title of usual length for a product {number},c,9.99,https://x/a.jpg,\n")
    assert numbers(await import_file(own_application.database, path)) == (100_000, 100_000, 0, 0, 0, 0)
    assert await count(own_application.database) == 100_000


async def test_a_catalogue_of_real_products(own_application: Application, tmp_path: Path) -> None:
    """The 2,480 products that lie beside the project where it is developed; elsewhere the demo catalogue stands in."""
    present = SHARED_PRODUCTS.exists()
    path = SHARED_PRODUCTS if present else Path(__file__).parents[2] / "src" / "listings" / "demo_catalog.csv"
    report = await import_file(own_application.database, path)
    assert report.read == (2_480 if present else 77)
    assert numbers(report)[1:] == (report.read, 0, 0, 0, 0)
    assert await count(own_application.database) == report.read
