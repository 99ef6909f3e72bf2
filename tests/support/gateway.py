"""A running gateway and the plainest possible clients for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from core import metrics
from http_gateway.config import GatewayConfig
from http_gateway.server import open_channel, running_gateway

KEY = "svc_live_0123456789"


@dataclass
class Answer:
    """A response, read completely."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Client:
    """Calls one gateway over one session."""

    address: str
    session: aiohttp.ClientSession

    async def call(
        self,
        method: str,
        path: str,
        *,
        key: str | None = KEY,
        headers: Any = None,
        body: bytes | None = None,
        value: Any = None,
    ) -> Answer:
        """One request below ``/api/v1`` (or at the path itself when it begins with two slashes)."""
        sent = [*(headers.items() if isinstance(headers, dict) else headers or [])]
        if key is not None:
            sent.append(("X-API-Key", key))
        if value is not None:
            body = json.dumps(value).encode()
        if body is not None and not any(name.lower() == "content-type" for name, _ in sent):
            sent.append(("Content-Type", "application/json"))
        url = self.address + (path[1:] if path.startswith("//") else "/api/v1" + path)
        async with self.session.request(
            method, url, headers=sent, data=body, skip_auto_headers=["Content-Type"], allow_redirects=False
        ) as response:
            return Answer(response.status, response.headers, await response.read())


@asynccontextmanager
async def gateway(core_address: str, **changes: Any) -> AsyncIterator[Client]:
    """A gateway on a free port before the core at this address, with a client."""
    config = GatewayConfig(port=0, grpc_target=core_address, **{"deprecation": 1_769_817_600, **changes})
    channel = open_channel(config)
    try:
        async with running_gateway(config, channel) as address, aiohttp.ClientSession() as session:
            yield Client(address, session)
    finally:
        await channel.close(None)


async def raw(address: str, *parts: bytes, pause: float = 0.0, timeout: float = 10.0) -> bytes:
    """Sends bytes as they are and returns everything that comes back until the server closes."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            if pause:
                await asyncio.sleep(pause)
        async with asyncio.timeout(timeout):
            return await reader.read()
    finally:
        writer.close()


def split(response: bytes) -> Answer:
    """A raw response as status, headers (names in lower case) and body."""
    head, _, body = response.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Answer(int(first.split()[1]), headers, body)


async def until(condition: Any, seconds: float = 5.0) -> None:
    """Returns when the condition holds; fails when it does not within the time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def until_async(look: Any, seconds: float = 5.0) -> Any:
    """Returns the first true value that awaiting ``look()`` gives; fails when none comes within the time."""
    async with asyncio.timeout(seconds):
        while not (value := await look()):
            await asyncio.sleep(0.05)
    return value


async def until_watched(before: float, seconds: float = 5.0) -> None:
    """Returns when a watch stream more than ``before`` (see ``open_streams``) is open in this process."""
    await until(lambda: open_streams() > before, seconds)


def open_streams() -> float:
    """Watch streams open in this process."""
    return next(sample.value for metric in metrics.watchers.collect() for sample in metric.samples)
