"""The processes of a cluster: started, killed, paused, started again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

READY_SECONDS = 60.0


class Killable(Protocol):
    """What a scenario does to a process."""

    name: str

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""

    @property
    def is_ready(self) -> bool:
        """Whether it runs and has said that it is ready."""

    async def start(self) -> None:
        """Start it and wait until it is ready."""

    async def kill(self) -> None:
        """SIGKILL, and wait for its end."""

    async def stop(self, seconds: float = 15.0) -> None:
        """SIGTERM, and wait for its end; killed when it takes longer."""

    async def wait(self) -> int:
        """Its exit code, once it has ended."""


def send(process: Killable, number: signal.Signals) -> None:
    """Send a signal, for example SIGSTOP and SIGCONT."""
    if process.pid is not None:
        os.kill(process.pid, number)


class Command:
    """A program of the command ``listings``, ended by itself when this process dies.

    Args:
        name: of its log file.
        arguments: of ``listings``.
        environment: its whole environment.
        folder: where it runs and logs.
    """

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.environment = dict(environment)
        self._arguments = arguments
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[bytes] | None = None
        self._ready = False

    @property
    def pid(self) -> int | None:
        """See ``Killable``."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def is_ready(self) -> bool:
        """See ``Killable``."""
        return self._ready and self.pid is not None

    async def start(self) -> None:
        """See ``Killable``."""
        self._ready = False
        with (self._folder / f"{self.name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "listings",
                *self._arguments,
                "--supervised",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self.environment,
                cwd=self._folder,
                start_new_session=True,
            )
        self._process = process
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), READY_SECONDS)
        if b" ready" not in line:
            # Killed before it was ready is no failure of its start.
            if await process.wait() != -signal.SIGKILL:
                raise RuntimeError(f"{self.name} did not start, see {self._folder / self.name}.log")
            return
        self._drain = asyncio.create_task(process.stdout.read())
        self._ready = True

    async def kill(self) -> None:
        """See ``Killable``."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def stop(self, seconds: float = 15.0) -> None:
        """See ``Killable``."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            await self.kill()

    async def wait(self) -> int:
        """See ``Killable``."""
        assert self._process is not None
        return await self._process.wait()


class Launcher:
    """The process that forks workers (``worker_process.py``)."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = dict(environment)
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._orders = itertools.count(1)
        self._started: dict[int, asyncio.Future[int]] = {}
        self._ready: dict[int, asyncio.Future[str]] = {}
        self._exited: dict[int, asyncio.Future[int]] = {}
        self._up: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Start it and wait until it takes orders."""
        with (self._folder / "workers.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.faults.worker_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
            )
        self._up = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read())
        await asyncio.wait_for(self._up, READY_SECONDS)

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._up is not None
        while line := await self._process.stdout.readline():
            message = json.loads(line)
            if "started" in message:
                self._started.pop(message["order"]).set_result(message["started"])
            elif "exited" in message:
                self._of(self._exited, message["exited"]).set_result(message["code"])
                ready = self._of(self._ready, message["exited"])
                if not ready.done():
                    ready.set_result("")
            elif message["ready"] == 0:
                self._up.set_result(None)
            else:
                self._of(self._ready, message["ready"]).set_result(message["owner"])
        if not self._up.done():
            self._up.set_exception(RuntimeError(f"the launcher did not start, see {self._folder}/workers.log"))

    @staticmethod
    def _of(futures: dict[int, asyncio.Future[int]] | dict[int, asyncio.Future[str]], order: int) -> asyncio.Future:  # type: ignore[type-arg]
        return futures.setdefault(order, asyncio.get_running_loop().create_future())

    async def fork(self, environment: Mapping[str, str]) -> tuple[int, int, asyncio.Future[int]]:
        """A new worker with this environment: its order, its process id, and its exit code to be awaited."""
        assert self._process is not None
        assert self._process.stdin is not None
        order = next(self._orders)
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._started[order] = started
        line = json.dumps({"order": order, "environment": dict(environment)}) + "\n"
        self._process.stdin.write(line.encode())
        pid = await asyncio.wait_for(started, READY_SECONDS)
        return order, pid, self._of(self._exited, order)

    async def owner(self, order: int) -> str:
        """The owner id of the worker of this order, once it is ready; empty when it died before."""
        return str(await asyncio.wait_for(asyncio.shield(self._of(self._ready, order)), READY_SECONDS))

    async def stop(self) -> None:
        """End it, and with it every worker that is left."""
        if self._process is not None and self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            await self._process.wait()
        if self._reader is not None:
            await self._reader


class ForkedWorker:
    """A worker of the launcher, under one name through all of its lives."""

    def __init__(self, name: str, launcher: Launcher, environment: Mapping[str, str]) -> None:
        self.name = name
        self.environment = dict(environment)
        self._launcher = launcher
        self._pid: int | None = None
        self._exited: asyncio.Future[int] | None = None
        self.owner = ""

    @property
    def pid(self) -> int | None:
        """See ``Killable``."""
        return self._pid if self._exited is not None and not self._exited.done() else None

    @property
    def is_ready(self) -> bool:
        """See ``Killable``."""
        return bool(self.owner) and self.pid is not None

    async def start(self, **more: str) -> None:
        """See ``Killable``; ``more`` is added to the environment of this life."""
        self.owner = ""
        order, self._pid, self._exited = await self._launcher.fork({**self.environment, **more})
        self.owner = await self._launcher.owner(order)

    async def kill(self) -> None:
        """See ``Killable``."""
        await self._end(signal.SIGKILL)

    async def stop(self, seconds: float = 15.0) -> None:
        """See ``Killable``."""
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(self._end(signal.SIGTERM))), seconds)
        except TimeoutError:
            await self.kill()

    async def _end(self, number: signal.Signals) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            await self.wait()

    async def wait(self) -> int:
        """See ``Killable``."""
        assert self._exited is not None
        return await asyncio.shield(self._exited)
