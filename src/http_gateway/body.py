"""Reading a request's body within the byte limit and the time allowed (failure rules, 51)."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from http_gateway.calls import ClientDisconnected
from http_gateway.config import GatewayConfig
from http_gateway.problems import body_too_large, receive_timeout


async def read_body(request: Request, config: GatewayConfig) -> bytes:
    """The whole body.

    The limit is enforced while reading, so that a chunked body without end costs no memory.

    Raises:
        Problem: 413 above the limit, 408 when it does not arrive in time.
        ClientDisconnected: the client left in the middle.
    """
    try:
        async with asyncio.timeout(config.body_timeout):
            return await _read(request, config.max_body_bytes)
    except TimeoutError:
        raise receive_timeout() from None


async def _read(request: Request, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise body_too_large(limit)
        if chunk:
            chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
