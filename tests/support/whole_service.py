"""The whole service in one process: sandbox marketplace, core server, gateway and worker over real sockets.

What a test needs of the world is at hand: ``market(...)`` speaks to the sandbox's operator side (faults, items,
tokens), ``stock(...)`` fills the catalogue, ``new_seller(...)`` makes sellers.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from core.app import Application
from core.catalog.importer import import_products
from core.domain.product import Product
from listings.demo import demo_products, is_clean
from sandbox.config import SandboxConfig
from sandbox.server import SandboxServer
from tests.support import service
from tests.support.gateway import Answer, Client, gateway
from tests.support.rest import Seller, seller_of

UNPRICED, UNKNOWN = "UNPRICED01", "UNKNOWN001"
"""A product of the stock without a cost, and a SKU that no catalogue has."""


@dataclass
class WholeService:
    """A running service with its sandbox."""

    application: Application
    client: Client
    sandbox: SandboxServer
    costs: dict[str, Decimal] = field(default_factory=dict)

    async def new_seller(self, **arguments: Any) -> Seller:
        """A seller; arguments as for ``service.new_tenant``."""
        return seller_of(self.client, await service.new_tenant(self.application, **arguments))

    async def stock(self, count: int, prefix: str = "STOCK") -> list[str]:
        """Puts that many products that publish cleanly into the catalogue; their SKUs."""
        made = {sku: dataclasses.replace(clean_product(number), sku=sku) for number, sku in _numbered(count, prefix)}
        made[UNPRICED] = dataclasses.replace(clean_product(0), sku=UNPRICED, cost_usd=None)
        await import_products(self.application.database, made)
        self.costs |= {sku: product.cost_usd for sku, product in made.items() if product.cost_usd is not None}
        return [sku for sku in made if sku != UNPRICED]

    async def market(self, method: str, path: str, value: Any = None) -> Any:
        """The sandbox's operator side, ``/sandbox`` before the path; its answer's body."""
        address = self.client.address
        client = Client(self.sandbox.url, self.client.session)
        answer: Answer = await client.call(method, f"//sandbox{path}", key=None, value=value)
        assert answer.status < 300, (address, answer.status, answer.body)
        return answer.json if answer.body else None

    async def fault(self, **rule: Any) -> None:
        """Adds a fault rule to the sandbox."""
        await self.market("POST", "/faults", rule)


def _numbered(count: int, prefix: str) -> list[tuple[int, str]]:
    return list(enumerate(service.skus(count, prefix)))


@functools.cache
def _clean() -> tuple[Product, ...]:
    return tuple(product for product in demo_products().values() if is_clean(product))


def clean_product(number: int) -> Product:
    """One of the demo catalogue's products that publish cleanly, in turn."""
    return _clean()[number % len(_clean())]


@asynccontextmanager
async def whole_service(database_url: str, **changes: Any) -> AsyncIterator[WholeService]:
    """A running service on this database; ``changes`` are settings. Everything stops at the end of the block."""
    from grpc_server.server import CoreServer

    sandbox = SandboxServer(SandboxConfig(port=0, picture_delay_seconds=0, index_lag_seconds=0))
    await sandbox.start()
    quick = {"marketplace_timeout_seconds": 5, "marketplace_settle_seconds": 4, "lease_seconds": 20}
    application = service.new_application(database_url, marketplace_url=sandbox.url, **(quick | changes))
    await application.open()
    server = CoreServer(application)
    await server.start()
    marketplace = application.marketplace()
    worker = application.worker(marketplace)
    working = asyncio.create_task(worker.run())
    try:
        async with gateway(server.target) as client:
            yield WholeService(application, client, sandbox)
    finally:
        worker.context.stopping.set()
        await working
        await marketplace.aclose()
        await server.drain()
        await application.close()
        await sandbox.stop()
