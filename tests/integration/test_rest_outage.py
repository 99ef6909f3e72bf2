"""The gateway while core or its database is away, and after."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from core.app import Application
from grpc_server.server import CoreServer
from tests.support import service
from tests.support.gateway import Client, gateway, open_streams, until_watched
from tests.support.postgres import start_test_postgres

BODY = {"items": [{"sku": "B000000001", "category_id": "MCO1055"}]}


@contextmanager
def database_away(url: str) -> Iterator[None]:
    """Ends all connections to the database and lets nobody in, for the length of the block."""
    name = sql.Identifier(urlsplit(url).path.removeprefix("/"))
    with psycopg.connect(start_test_postgres().url, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false").format(name))
        try:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [urlsplit(url).path.removeprefix("/")],
            )
            yield
        finally:
            connection.execute(sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS true").format(name))


async def _ready(client: Client) -> tuple[int, str, str]:
    answer = await client.call("GET", "//readyz", key=None)
    return answer.status, answer.json["core"], answer.json["database"]


async def _until_ready(client: Client, expected: tuple[int, str, str], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while await _ready(client) != expected:
            await asyncio.sleep(0.1)


async def test_a_database_away_is_told_and_heals_without_a_restart(
    own_database_url: str, own_application: Application
) -> None:
    tenant = await service.new_tenant(own_application)
    server = CoreServer(own_application)
    await server.start()
    try:
        async with gateway(server.target) as client:
            assert await _ready(client) == (200, "ok", "ok")
            with database_away(own_database_url):
                await _until_ready(client, (503, "ok", "unavailable"), 10)
                assert (await client.call("GET", "//healthz", key=None)).status == 200
                for method, path, value in (("GET", "/account", None), ("POST", "/products", BODY)):
                    answer = await client.call(method, path, key=tenant.live_key, value=value)
                    assert (answer.status, answer.json["code"]) == (503, "E_INTERNAL")
                    assert int(answer.headers["retry-after"]) >= 1
                    assert answer.headers["x-request-id"] == answer.json["request_id"]
                    text = answer.body.decode().lower()
                    assert not any(word in text for word in ("psycopg", "postgres", "database", "connection", "sql"))
            await _until_ready(client, (200, "ok", "ok"), 10)
            assert (await client.call("POST", "/products", key=tenant.live_key, value=BODY)).status == 202
    finally:
        await server.drain()


async def test_core_away_is_told_and_found_again(own_application: Application) -> None:
    tenant = await service.new_tenant(own_application)
    server = CoreServer(own_application)
    await server.start()
    target = server.target
    async with gateway(target) as client:
        assert (await client.call("GET", "/ping", key=tenant.live_key)).status == 200
        await server.drain()
        assert await _ready(client) == (503, "unavailable", "unavailable")
        answer = await client.call("GET", "/ping", key=tenant.live_key)
        assert (answer.status, answer.json["code"]) == (503, "E_INTERNAL")
        again = CoreServer(own_application, address=target)
        await again.start()
        try:
            await _until_ready(client, (200, "ok", "ok"), 10)
            assert (await client.call("GET", "/ping", key=tenant.live_key)).status == 200
        finally:
            await again.drain()


async def test_a_draining_core_ends_event_streams_so_that_clients_resume(own_application: Application) -> None:
    tenant = await service.new_tenant(own_application)
    server = CoreServer(own_application)
    await server.start()
    async with gateway(server.target) as client:
        made = (await client.call("POST", "/products", key=tenant.test_key, value=BODY)).json
        path = f"/products/jobs/{made['job_id']}/events"
        before = open_streams()
        watching = asyncio.create_task(client.call("GET", path, key=tenant.test_key))
        await until_watched(before)
        await server.drain()
        async with asyncio.timeout(5):
            answer = await watching
        assert answer.status == 200
        assert b"retry: " in answer.body
        assert b"event: problem" not in answer.body
