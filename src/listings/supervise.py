"""Child processes of ``serve`` and of ``--processes N``: started, watched, started again, stopped.

A child runs in a session of its own, so that Ctrl-C reaches the parent alone, which stops its children in order. A
child holds the reading end of a pipe to its parent as standard input: when the parent dies, however it dies, the pipe
ends and the child stops by itself. Its first line on standard output says that it is ready; the last word of that
line is its address.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from listings.output import UsageError

_log = structlog.get_logger("listings.supervise")

SUPERVISED: Final = "--supervised"
"""Given to every child: stop when standard input ends."""
SHARE_PORT: Final = "--share-port"
"""Given to children that listen on one address together."""
_FIRST_DELAY: Final = 0.5
_LONGEST_DELAY: Final = 30.0
_STEADY_SECONDS: Final = 30.0
"""A child that ran this long is started again without delay."""


class ChildProcess:
    """One child, kept alive until it is stopped.

    Args:
        name: for people and the log.
        arguments: of the command ``listings``; never a secret, which others could read.
        environment: the child's whole environment; secrets go here.
        ready_seconds: how long it may take until its ready line.
    """

    def __init__(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], *, ready_seconds: float = 60.0
    ) -> None:
        self.name = name
        # -P: a folder of that name where we happen to be started is not meant.
        self._arguments = [sys.executable, "-P", "-m", "listings", *arguments, SUPERVISED]
        self.environment = dict(environment)
        self._ready_seconds = ready_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping = False
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> str:
        """Start it, wait until it is ready, and keep it alive from then on. Returns the address it told.

        Raises:
            UsageError: it ended, or did not become ready in time; its own line stands on standard error.
        """
        address = await self._launch()
        if address is None:
            await self.stop(0)
            raise UsageError(f"{self.name} did not start")
        self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.name}")
        return address

    def begin_stop(self) -> None:
        """Ask it to stop, and wait for nothing."""
        self._stopping = True
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    async def stop(self, seconds: float) -> None:
        """Stop it in order; after ``seconds`` it is killed, and what it held is recovered by the others."""
        self.begin_stop()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        process = self._process
        if process is not None and process.returncode is None:
            self.begin_stop()  # the keeper may just have started another one
            try:
                await asyncio.wait_for(process.wait(), max(seconds, 0.01))
            except TimeoutError:
                _log.warning("child_killed", child=self.name)
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _launch(self) -> str | None:
        """Start the process once. None when it ended or was not ready in time."""
        process = await asyncio.create_subprocess_exec(
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
        )
        self._process = process
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            line = await asyncio.wait_for(process.stdout.readline(), self._ready_seconds)
        except TimeoutError:
            line = b""
        words = line.decode("utf-8", "replace").split()
        if not words:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            return None
        self._reader = asyncio.create_task(_pass_on(process.stdout), name=f"read {self.name}")
        return words[-1]

    async def _keep(self) -> None:
        delay = 0.0
        while True:
            process = self._process
            assert process is not None  # noqa: S101 - started before it is kept
            began = time.monotonic()
            code = await process.wait()
            if self._stopping:
                return
            if time.monotonic() - began > _STEADY_SECONDS:
                delay = 0.0
            self.restarts += 1
            _log.warning("child_ended", child=self.name, code=code, restart_in=delay)
            await asyncio.sleep(delay)
            delay = min(max(delay * 2, _FIRST_DELAY), _LONGEST_DELAY)
            if self._stopping:
                return
            try:
                await self._launch()
            except OSError as error:
                _log.warning("child_not_started", child=self.name, error=error.strerror)


async def _pass_on(stream: asyncio.StreamReader) -> None:
    """What a child prints after its ready line goes to standard error; a full pipe would stop it."""
    while chunk := await stream.read(65536):
        sys.stderr.buffer.write(chunk)
        sys.stderr.flush()


def watch_parent(stop: asyncio.Event) -> None:
    """In a child: set ``stop`` when standard input ends, which is when the parent has died."""
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            stop.set()

    loop.add_reader(descriptor, readable)


async def keep_running(
    children: Sequence[ChildProcess], stop: asyncio.Event, *, ready: Callable[[], None], stop_seconds: float
) -> None:
    """Start children, tell that they are ready, wait until ``stop`` is set, stop them together.

    Raises:
        UsageError: one did not start; the others are stopped.
    """
    try:
        await asyncio.gather(*(child.start() for child in children))
        ready()
        await stop.wait()
    finally:
        for child in children:
            child.begin_stop()
        await asyncio.gather(*(child.stop(stop_seconds) for child in children))
