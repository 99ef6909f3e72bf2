"""What ``serve`` does about its PostgreSQL, played by a process that only sleeps."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import cast

import pytest

from core.storage.embedded import EmbeddedPostgres
from listings import serve


class RecoveringPostgres:
    """It died, and the start after that recovers for longer than any test takes, until it is interrupted."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.recovering = threading.Event()
        self.ended = threading.Event()

    def start(self) -> str:
        """Until the process has ended."""
        command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            process.stdout.readline()
            self.pid = process.pid
            self.recovering.set()
            process.wait()
            self.pid = None
        self.ended.set()
        return ""


async def test_a_stop_ends_the_recovery_of_a_postgres_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_LOOK_AT_POSTGRES", 0.01)
    server = RecoveringPostgres()
    keeping = asyncio.create_task(serve._keep_alive(cast(EmbeddedPostgres, server)))
    async with asyncio.timeout(20):
        await asyncio.to_thread(server.recovering.wait)
        keeping.cancel()
        await asyncio.wait([keeping])
    assert keeping.cancelled()
    assert server.ended.is_set()
