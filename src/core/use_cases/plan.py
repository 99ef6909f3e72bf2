"""What a request would come to, from what is known without asking the marketplace."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from core.domain.api_key import Principal
from core.domain.price import MAX_PRICE, listing_price
from core.domain.product import Product
from core.domain.publication import Item, PlannedItem
from core.domain.seller import PublishingSettings
from core.domain.states import Environment
from core.storage import catalog, work
from core.storage.acceptance import Standing
from core.storage.database import Connection


async def plan_publication(
    connection: Connection, principal: Principal, standing: Standing, items: Sequence[Item], tax_category_id: int
) -> list[PlannedItem]:
    """Price and category of each item, in order, by the rules the worker goes by."""
    skus = [item.sku for item in items]
    products = await catalog.products(connection, skus)
    titles = sorted({product.title for product in products.values()})
    predictions = await catalog.predictions(connection, standing.site_id, titles)
    reusable = {}
    if principal.environment is Environment.LIVE:
        reusable = await work.promotable(
            connection, principal.seller_id, [item.sku for item in items if item.category_id is None]
        )
    tariff = standing.tariffs.get(tax_category_id, Decimal(0))
    plan = []
    for item in items:
        product = products.get(item.sku)
        resolved = reusable.get(item.sku)
        if resolved is not None and product is not None:
            plan.append(PlannedItem(sku=item.sku, category_id=resolved[0], price=resolved[1]))
            continue
        problem, price = price_of(product, standing.settings, tariff)
        predicted = predictions.get(product.title) if product else None
        category = item.category_id or (predicted.category_id if predicted else None)
        if problem is None and category is None and product is not None and product.title in predictions:
            problem = "category_not_found"
        plan.append(PlannedItem(sku=item.sku, category_id=category, price=price, problem=problem))
    return plan


def price_of(
    product: Product | None, settings: PublishingSettings, tariff_percent: Decimal
) -> tuple[str | None, int | None]:
    """(failure code, price): exactly one of them is set."""
    if product is None:
        return "product_unknown", None
    if product.cost_usd is None or product.cost_usd <= 0:
        return "price_missing", None
    price = listing_price(
        product.cost_usd,
        trm=settings.trm,
        tariff_percent=tariff_percent,
        margin_percent=settings.margin_percent,
        price_step=settings.price_step,
    )
    return (None, price) if price <= MAX_PRICE else ("price_out_of_range", None)
