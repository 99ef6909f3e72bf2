"""Test products as readers see them."""

from __future__ import annotations

from core.domain.jobs import TestProduct, TestProductList
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("listings")


async def test_products(
    connection: Connection,
    seller_id: int,
    *,
    published_to_live: bool | None,
    status_meli: str | None,
    app_status: int | None,
    sku: str | None,
    limit: int,
    offset: int,
) -> TestProductList:
    """Some of the seller's test products, newest first, then by SKU; None in a filter matches all."""
    filters = {
        "seller_id": seller_id,
        "published_to_live": published_to_live,
        "status_meli": status_meli,
        "app_status": app_status,
        "sku": sku,
    }
    cursor = await connection.execute(_SQL["count_test_products"], filters)
    count = await cursor.fetchone()
    cursor = await connection.execute(_SQL["select_test_products"], {**filters, "limit": limit, "offset": offset})
    products = [
        TestProduct(
            sku=row[0],
            listing_id=row[1],
            title=row[2],
            image=row[3],
            permalink=row[4],
            listing_type_id=row[5],
            price=row[6],
            currency=row[7],
            category_id=row[8],
            category_name=row[9],
            tax_category_id=row[10],
            status_meli=row[11],
            app_status=row[12],
            published_to_live=row[13],
            published_at=row[14],
        )
        for row in await cursor.fetchall()
    ]
    return TestProductList(products=products, total=count[0] if count else 0)
