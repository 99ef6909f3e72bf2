"""The catalogue's table, its import, and remembered category predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.domain.product import Product
from core.ports.marketplace import Prediction
from core.storage.database import Connection
from core.storage.statements import load

_SQL = load("catalog")


async def products(connection: Connection, skus: Sequence[str]) -> dict[str, Product]:
    """The known ones among these SKUs."""
    cursor = await connection.execute(_SQL["select_products"], {"skus": list(skus)})
    return {row[0]: Product(row[0], row[1], row[2], row[3], tuple(row[4]), *row[5:]) for row in await cursor.fetchall()}


async def upsert(connection: Connection, rows: Iterable[Product]) -> tuple[int, int]:
    """Insert or change products by COPY, inside the caller's transaction. SKUs must differ among the rows.

    Returns:
        (inserted, changed); rows that are the same already count as neither.
    """
    await connection.execute(_SQL["create_staging"])
    async with connection.cursor().copy(_SQL["copy_staging"]) as copy:
        for product in rows:
            await copy.write_row(
                (
                    product.sku,
                    product.title,
                    product.category,
                    product.cost_usd,
                    list(product.image_urls),
                    product.brand,
                    product.model,
                    product.gtin,
                    product.weight_grams,
                    product.description,
                )
            )
    cursor = await connection.execute(_SQL["upsert_staged"])
    outcomes = [row[0] for row in await cursor.fetchall()]
    inserted = sum(outcomes)
    return inserted, len(outcomes) - inserted


async def count(connection: Connection) -> int:
    """How many products there are."""
    cursor = await connection.execute(_SQL["count_products"])
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def predictions(connection: Connection, site_id: str, titles: Sequence[str]) -> dict[str, Prediction | None]:
    """Remembered predictions by title; a title that is absent was not asked for yet, None means that the
    marketplace suggested nothing."""
    cursor = await connection.execute(_SQL["select_predictions"], {"site_id": site_id, "titles": list(titles)})
    return {
        row[0]: Prediction(category_id=row[1], category_name=row[2] or "") if row[1] else None
        for row in await cursor.fetchall()
    }


async def remember_predictions(connection: Connection, site_id: str, found: dict[str, Prediction | None]) -> None:
    """Keep what the marketplace suggested."""
    await connection.execute(
        _SQL["upsert_predictions"],
        {
            "site_id": site_id,
            "titles": list(found),
            "category_ids": [each.category_id if each else None for each in found.values()],
            "category_names": [each.category_name if each else None for each in found.values()],
        },
    )
