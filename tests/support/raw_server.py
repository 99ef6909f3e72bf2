"""A server that speaks as little or as badly of HTTP as a test wants: answers are written by hand.

It records every request that arrived whole, so that a test can tell what was sent from what was meant.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field


@dataclass
class RawRequest:
    """One whole request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    def json(self) -> dict[str, object]:
        decoded = json.loads(self.body)
        assert isinstance(decoded, dict)
        return decoded


class Exchange:
    """What a script may do with one request."""

    def __init__(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._writer = writer

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, status: int, body: bytes | dict[str, object] | list[object] = b"", **headers: str) -> None:
        """A proper answer; header names with underscores for dashes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.write(("\r\n".join(lines) + "\r\n\r\n").encode() + data)

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """End with a TCP reset."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Script = Callable[[Exchange], Awaitable[None]]


@dataclass
class RawServer:
    """Runs ``script`` for every request that arrived whole."""

    script: Script
    url: str = ""
    requests: list[RawRequest] = field(default_factory=list)
    connections: int = 0
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *rest = head.decode("latin-1").strip().split("\r\n")
                method, target, _ = first.split(" ")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = RawRequest(method, target, headers, body, connection)
                self.requests.append(request)
                async with self.arrived:
                    self.arrived.notify_all()
                await self.script(Exchange(request, writer))
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def wait_for(self, count: int) -> None:
        """Until that many requests arrived, at most 5 seconds."""
        async with asyncio.timeout(5), self.arrived:
            await self.arrived.wait_for(lambda: len(self.requests) >= count)


@contextlib.asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[RawServer]:
    """A server on a free port of the loopback address."""
    server = RawServer(script)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await server.serve(reader, writer)
        except asyncio.CancelledError:
            return
        finally:
            tasks.discard(task)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        listener.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tuple(tasks), return_exceptions=True)


def unused_url() -> str:
    """An address of the loopback interface where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
