"""Event streams of a few sellers must not take the service from all the others."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from tests.integration.test_watch import create, serving
from tests.support import service
from tests.support.gateway import gateway


async def test_two_sellers_within_their_limits_leave_room_for_a_third(own_database_url: str) -> None:
    """The defaults are 2,000 and 1,200; a hundredth of them here."""
    limits = {"max_concurrent_calls": 20, "max_streams_per_seller": 12}
    async with serving(own_database_url, **limits) as (application, server, stubs):
        first, second, third = [await service.new_tenant(application) for _ in range(3)]
        async with gateway(server.target, read_deadline=5.0) as client:
            opened: list[Any] = []
            for tenant in (first, second):
                job_id = await create(stubs, tenant.test_key)
                for _ in range(12):
                    opened.append(
                        asyncio.create_task(
                            client.session.get(
                                f"{client.address}/api/v1/products/jobs/{job_id}/events",
                                headers={"X-API-Key": tenant.test_key},
                                timeout=aiohttp.ClientTimeout(60),
                            )
                        )
                    )
            await asyncio.wait(opened, timeout=2)
            try:
                answer = await client.call("GET", "/ping", key=third.test_key)
                assert answer.status == 200, answer.body
            finally:
                for task in opened:
                    task.cancel()
                for found in await asyncio.gather(*opened, return_exceptions=True):
                    if isinstance(found, aiohttp.ClientResponse):
                        found.close()
