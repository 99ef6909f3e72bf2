"""What tests stand on: one real PostgreSQL for the run, a migrated database, an application, a core server.

    application      an open Application on a database of its test module
    new_tenant       makes a seller with keys, credits and connected accounts: ``tenant = await new_tenant()``
    tenant           one such seller
    core_server      a running core server on ``application``: ``core_server.target`` is ``127.0.0.1:PORT``
    channel, stubs   a grpc.aio channel to it, and all stubs of that channel
    own_application  as ``application``, with a database of the one test, for tests that must not be disturbed
    own_database_url the URL of that database

Tests of one module share a database and are kept apart by their sellers; all share one event loop. For other settings
build what is needed with ``tests.support.service`` (``new_database``, ``new_application``, ``settings_for``).
"""

from __future__ import annotations

import listings  # isort: skip  # noqa: F401 - first: it keeps gRPC from hooking the forks that start PostgreSQL

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import grpc
import pytest
import pytest_asyncio

from core.app import Application
from tests.support import service
from tests.support.grpc_client import Stubs
from tests.support.postgres import start_test_postgres
from tests.support.service import Tenant

if TYPE_CHECKING:
    from grpc_server.server import CoreServer

NewTenant = Callable[..., Awaitable[Tenant]]


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """The URL of the module's migrated database."""
    url = service.new_database()
    yield url
    start_test_postgres().drop_database(url)


@pytest_asyncio.fixture(scope="module")
async def application(database_url: str) -> AsyncIterator[Application]:
    """An open application on the module's database."""
    made = service.new_application(database_url)
    await made.open()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module")
async def core_server(application: Application) -> AsyncIterator[CoreServer]:
    """A running core server on the module's application, at a free port."""
    from grpc_server.server import CoreServer

    server = CoreServer(application)
    await server.start()
    yield server
    await server.drain()


@pytest_asyncio.fixture(scope="module")
async def channel(core_server: CoreServer) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the core server."""
    async with grpc.aio.insecure_channel(core_server.target) as opened:
        yield opened


@pytest.fixture
def new_tenant(application: Application) -> NewTenant:
    """Makes sellers on the module's application; arguments as for ``service.new_tenant``."""

    async def make(**arguments: object) -> Tenant:
        return await service.new_tenant(application, **arguments)  # type: ignore[arg-type]

    return make


@pytest_asyncio.fixture
async def tenant(application: Application) -> Tenant:
    """A fresh seller with both accounts connected and 100,000 credits."""
    return await service.new_tenant(application)


@pytest.fixture
def own_database_url() -> Iterator[str]:
    """The URL of a migrated database for this test alone."""
    url = service.new_database()
    yield url
    start_test_postgres().drop_database(url)


@pytest_asyncio.fixture
async def own_application(own_database_url: str) -> AsyncIterator[Application]:
    """An open application on a database for this test alone."""
    made = service.new_application(own_database_url)
    await made.open()
    yield made
    await made.close()


@pytest.fixture(scope="module")
def stubs(channel: grpc.aio.Channel) -> Stubs:
    """All stubs of the channel to the core server."""
    return Stubs(channel)
