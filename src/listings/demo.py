"""The demo seller: made at the first ``serve``, so that the service can be tried before anything is set up."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core.app import Application
from core.catalog.importer import import_products, read_products
from core.domain.api_key import Scope
from core.domain.product import Product
from core.domain.states import Environment
from core.use_cases import administration
from listings.installation import demo_path, read_demo, write_private

CATALOG: Final = Path(__file__).with_name("demo_catalog.csv")
CREDITS: Final = 100_000
TARIFFS: Final = ((1, "Electrónica", "5"), (2, "Moda y calzado", "15"))
"""Beside category 0 (General, 0 %), which every seller has."""
LONGEST_CLEAN_TITLE: Final = 60
"""Longer titles are shortened for the marketplace (reference, section 3.2)."""


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo seller. ``created``: by this start, so that its keys are to be shown. Holds secrets."""

    document: dict[str, Any]
    created: bool


def demo_products() -> dict[str, Product]:
    """The demo catalogue by SKU; some of its products have the faults that real ones have."""
    products, report = read_products(CATALOG)
    if report.refused:
        raise RuntimeError("the demo catalogue has rows that cannot be read")
    return products


def is_clean(product: Product) -> bool:
    """Whether the product has everything that publishing it needs."""
    has_price = product.cost_usd is not None and product.cost_usd > 0
    return has_price and bool(product.image_urls) and len(product.title) <= LONGEST_CLEAN_TITLE


async def ensure_demo(application: Application, *, base_url: str, grpc_target: str, connect: bool) -> Demo:
    """The demo seller of the data folder; made if the database has none. Its file always tells the present addresses.

    Args:
        application: open.
        base_url: of REST v1, version prefix included.
        grpc_target: of the core server.
        connect: whether both accounts are connected, to made-up users that the sandbox takes.
    """
    path = demo_path(application.settings)
    found = read_demo(application.settings)
    if found is not None and not await _is_of(application, found):
        found = None
    document = found if found is not None else await _make(application, connect=connect)
    document |= {"base_url": base_url, "grpc_target": grpc_target}
    write_private(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return Demo(document, created=found is None)


async def _is_of(application: Application, found: dict[str, Any]) -> bool:
    """Whether this database has that seller with these keys: the file may be of another database, used with this
    folder before, or since replaced by a backup. A key that was revoked is one of its keys still."""
    seller_id = found.get("seller_id")
    sellers = await administration.list_sellers(application.database)
    if not any(seller.seller_id == seller_id for seller in sellers):
        return False
    known = {key.last_four for key in await administration.list_keys(application.database, int(seller_id or 0))}
    return {str(found.get(f"{environment.value}_key"))[-4:] for environment in Environment} <= known


async def _make(application: Application, *, connect: bool) -> dict[str, Any]:
    database = application.database
    products = demo_products()
    await import_products(database, products)
    seller = await administration.create_seller(database, name="Demo", first_credits=CREDITS)
    for index, name, rate in TARIFFS:
        await administration.set_tax_category(database, seller.seller_id, index=index, name=name, rate_percent=rate)
    document: dict[str, Any] = {"seller_id": seller.seller_id}
    for environment in Environment:
        if connect:
            user = 100_000_000 + secrets.randbelow(900_000_000)
            await administration.connect_account(
                database,
                application.cipher,
                seller.seller_id,
                environment,
                marketplace_user_id=user,
                access_token=f"APP_USR-demo-{secrets.token_hex(16)}-{user}",
                refresh_token=f"TG-{secrets.token_hex(16)}-{user}",
            )
        _, secret = await administration.create_key(
            database, seller.seller_id, environment=environment, scopes=[scope.value for scope in Scope]
        )
        document[f"{environment.value}_key"] = secret
    document["skus"] = [product.sku for product in products.values() if is_clean(product)]
    return document
