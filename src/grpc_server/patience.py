"""Ends a stream whose reader has stopped reading (rule 43): it would keep its place for ever otherwise."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from core.errors import ApiError
from grpc_server.call import Behaviour

PATIENCE_SECONDS = 60.0
"""Time for a reader to make room for one message."""


class Patience:
    """One timer for all streams of a process: a message costs an entry in a dictionary and no timer of its own."""

    def __init__(self) -> None:
        self._writing: dict[asyncio.Task[Any], float] = {}
        """The tasks that wait for room and since when; the one that waits longest stands first."""
        self._ended: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def watch(self, stream: Behaviour, request: Any, context: Any) -> None:
        """Run a stream, which writes to the context it is given as fast as the reader takes it.

        Raises:
            ApiError: E_INTERNAL when the reader has not made room for one message within PATIENCE_SECONDS.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        try:
            await stream(request, PatientContext(self, task, context))
        except asyncio.CancelledError:
            if task not in self._ended or task.uncancel():
                raise
            words = "This stream was not read for too long. Watch again from the last sequence seen."
            raise ApiError("E_INTERNAL", words, retry_after=1) from None
        finally:
            self._writing.pop(task, None)
            self._ended.discard(task)

    def begin(self, task: asyncio.Task[Any]) -> None:
        """The task waits for room from now on."""
        self._writing[task] = time.monotonic()
        if self._timer is None:
            self._set(PATIENCE_SECONDS)

    def end(self, task: asyncio.Task[Any]) -> None:
        """It has got it."""
        self._writing.pop(task, None)

    def _set(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        now = time.monotonic()
        for task, since in list(self._writing.items()):
            left = since + PATIENCE_SECONDS - now
            if left > 0:
                self._set(left)
                return
            del self._writing[task]
            self._ended.add(task)
            task.cancel()


class PatientContext:
    """As much of a context as a stream needs."""

    __slots__ = ("_context", "_patience", "_task")

    def __init__(self, patience: Patience, task: asyncio.Task[Any], context: Any) -> None:
        self._patience = patience
        self._task = task
        self._context = context

    async def write(self, message: Any) -> None:
        """Send a message; waits until the reader has made room."""
        self._patience.begin(self._task)
        await self._context.write(message)
        self._patience.end(self._task)
