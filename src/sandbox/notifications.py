"""Webhooks: one POST for each item change (reference section 8), repeated or lost when a rule says so."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import msgspec

from sandbox.accounts import Notice
from sandbox.app import Sandbox
from sandbox.faults import Circumstances
from sandbox.market import notice_body
from sandbox.messages import Answer, Request

APPLICATION_ID = 1
ANSWER_SECONDS = 0.5
ATTEMPTS = 5
RETRY_SECONDS = 1.0
QUEUE_MAX = 10_000


class Notifier:
    """Sends the notices of one sandbox to one plain http address, in order, unsigned as the real ones."""

    def __init__(self, sandbox: Sandbox, url: str) -> None:
        """Raises ValueError for an address that is not http://host[:port]/path."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("notification address: http://HOST[:PORT]/PATH is needed")
        self._host, self._port = parts.hostname, parts.port or 80
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._sandbox = sandbox
        self._queue: asyncio.Queue[Notice] = asyncio.Queue(QUEUE_MAX)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to listen to the market."""
        self._sandbox.market.on_notice = self._take
        self._task = asyncio.get_running_loop().create_task(self._run())

    def _take(self, notice: Notice) -> None:
        if not self._queue.full():  # persistent slowness loses events on the real platform too
            self._queue.put_nowait(notice)

    async def stop(self) -> None:
        """Drops what is still to be sent."""
        self._sandbox.market.on_notice = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            notice = await self._queue.get()
            for _ in range(self._copies(notice)):
                await self._deliver(notice)

    def _copies(self, notice: Notice) -> int:
        market = self._sandbox.market
        item = market.items[notice.item_id]
        request = Request("POST", self._path, operation="webhook", user=market.user(notice.user_id))
        rule = self._sandbox.faults.striking(request, item.sku, item.id, notice.sent)
        if rule is None:
            return 1
        around = Circumstances(notice.sent, market.at, lambda _request, _reason: None)
        # For the webhook kinds the status of the answer is the number of deliveries.
        return rule.kind.strike(rule, request, Answer, around).status

    async def _deliver(self, notice: Notice) -> None:
        body = notice_body(notice, APPLICATION_ID)
        for attempt in range(1, ATTEMPTS + 1):
            body["attempts"] = attempt
            if await self._post(msgspec.json.encode(body)):
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _post(self, body: bytes) -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                try:
                    head = (
                        f"POST {self._path} HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n"
                        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
                        "connection: close\r\n\r\n"
                    )
                    writer.write(head.encode("ascii", "replace") + body)
                    status_line = await reader.readline()
                    return b" 200 " in status_line
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False
