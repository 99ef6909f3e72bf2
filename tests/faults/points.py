"""The named points at which a process is made to die, and how a worker dies at one of them.

A worker of the launcher (``worker_process.py``) is armed through its environment: ``LISTINGS_FAULT_POINT`` holds
``NAME:N``, and the process kills itself with SIGKILL at the Nth pass of that point. Without the variable nothing dies.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "LISTINGS_FAULT_POINT"
DEATHS = "LISTINGS_FAULT_DEATHS"
"""The file to which a death is written before it happens, a JSON object a line."""

WORKER_POINTS = (
    "before_claim_commit",
    "after_claim_commit",
    "before_intent_commit",
    "after_intent_commit",
    "before_send",
    "after_send",
    "before_result_commit",
    "after_result_commit",
    "before_renewal",
    "before_rescue",
    "after_rescue",
    "before_repost",
    "after_repost_commit",
    "after_repost_send",
    "before_reconcile_commit",
    "after_reconcile_commit",
)
"""Passed by the worker itself; each name stands in ``core.worker`` as ``context.point(...)``."""

REQUEST_POINTS = ("first_request_byte", "full_request", "reply_headers", "reply_body")
"""Inside the creation of a listing: one byte left, all bytes left, the reply's headers read, its body read."""

SERVER_POINTS = ("cancel_before_commit", "cancel_after_commit", "accept_before_commit", "accept_after_commit")
"""The core server killed around the commit of a cancellation and of an acceptance; the harness holds a row's lock
to be there before the commit, and listens for the job's notice to be there after it."""

ALL = (*WORKER_POINTS, *REQUEST_POINTS, *SERVER_POINTS)


@dataclass
class Fate:
    """Where this process dies: at pass number ``nth`` of ``point``."""

    point: str
    nth: int
    deaths: Path
    passes: int = 0

    @classmethod
    def from_environment(cls) -> Fate | None:
        """What the environment asks for; None when it asks for nothing."""
        text = os.environ.get(VARIABLE)
        if not text:
            return None
        point, _, nth = text.partition(":")
        if point not in ALL:
            raise ValueError(f"{VARIABLE}: no such point: {point}")
        return cls(point, int(nth or 1), Path(os.environ[DEATHS]))

    def is_due(self, point: str) -> bool:
        """Count a pass of ``point``; True when the process has to die now."""
        if point != self.point:
            return False
        self.passes += 1
        return self.passes >= self.nth

    def die(self) -> None:
        """Write the death down, then end without any clean-up."""
        line = json.dumps({"point": self.point, "pid": os.getpid(), "pass": self.passes}) + "\n"
        file = os.open(self.deaths, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, line.encode())
        os.kill(os.getpid(), signal.SIGKILL)

    async def reached(self, point: str) -> None:
        """The hook of ``WorkerContext``."""
        if self.is_due(point):
            self.die()

    def arm_requests(self) -> None:
        """Let the process die inside the creation of a listing, when that is its fate: wraps two functions of the
        connector's HTTP client."""
        if self.point in REQUEST_POINTS:
            _wrap_sending(self)
            _wrap_reading(self)


def _is_creation(request: Any) -> bool:
    return bool(request.method == "POST" and request.url.path == "/items")


def _wrap_sending(fate: Fate) -> None:
    from core.marketplace import client

    original = client._OnceRequest.send

    async def send(self: Any, conn: Any) -> Any:
        if not _is_creation(self):
            return await original(self, conn)
        if fate.is_due("first_request_byte"):
            os.write(conn.transport.get_extra_info("socket").fileno(), b"P")
            fate.die()
        response = await original(self, conn)
        if fate.is_due("full_request"):
            if self._writer is not None:
                await self._writer
            # The loop hands what was written to the kernel at the end of its turn.
            for _ in range(3):
                await asyncio.sleep(0)
            fate.die()
        return response

    client._OnceRequest.send = send  # type: ignore[method-assign]


def _wrap_reading(fate: Fate) -> None:
    from core.marketplace import client

    original = client._read

    async def read(response: Any) -> bytes | None:
        if _is_creation(response) and fate.is_due("reply_headers"):
            fate.die()
        content = await original(response)
        if _is_creation(response) and fate.is_due("reply_body"):
            fate.die()
        return content

    client._read = read
