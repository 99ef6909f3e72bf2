"""Fixtures of REST v1 in front of a real core server.

rest_client   a client of a gateway before ``core_server``; one per module
seller        a fresh seller (credits, both accounts connected) with a caller for each key
new_seller    makes such sellers; arguments as for ``service.new_tenant``
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.support.gateway import Client, gateway
from tests.support.rest import Seller, seller_of
from tests.support.service import new_tenant

if TYPE_CHECKING:
    from core.app import Application
    from grpc_server.server import CoreServer

NewSeller = Callable[..., Awaitable[Seller]]


@pytest_asyncio.fixture(scope="module")
async def rest_client(core_server: CoreServer) -> AsyncIterator[Client]:
    """A client of a gateway before the module's core server."""
    async with gateway(core_server.target) as client:
        yield client


@pytest.fixture
def new_seller(application: Application, rest_client: Client) -> NewSeller:
    """Makes sellers on the module's application."""

    async def make(**arguments: Any) -> Seller:
        return seller_of(rest_client, await new_tenant(application, **arguments))

    return make


@pytest_asyncio.fixture
async def seller(new_seller: NewSeller) -> Seller:
    """A fresh seller with both accounts connected and 100,000 credits."""
    return await new_seller()
