"""Ends a stream whose reader has stopped reading (rule 43): it would keep its place for ever otherwise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from core.errors import ApiError

PATIENCE_SECONDS = 60.0
"""Time for a reader to make room for one message."""


class Patience:
    """One timer a stream, so that a message costs two assignments and no timer of its own.

    Made in the task that writes; that task is cancelled when the patience ends.
    """

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._task = task
        self._loop = asyncio.get_running_loop()
        self.writing_since: float | None = None
        self.ended = False
        self._timer = self._loop.call_later(PATIENCE_SECONDS, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        waited = 0.0 if self.writing_since is None else now - self.writing_since
        if waited >= PATIENCE_SECONDS:
            self.ended = True
            self._task.cancel()
        else:
            self._timer = self._loop.call_later(PATIENCE_SECONDS - waited, self._look)

    def close(self) -> None:
        """Stop looking."""
        self._timer.cancel()


async def write_all(messages: AsyncIterator[Any], context: Any) -> None:
    """Write each message as fast as the reader takes them; nothing is kept but the one being written.

    Raises:
        ApiError: E_INTERNAL when the reader has not made room for one message within PATIENCE_SECONDS.
    """
    patience = Patience()
    closing: Any = messages
    try:
        async with aclosing(closing):
            async for message in messages:
                patience.writing_since = time.monotonic()
                await context.write(message)
                patience.writing_since = None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if not patience.ended or task is None or task.uncancel():
            raise
        words = "This stream was not read for too long. Watch again from the last sequence seen."
        raise ApiError("E_INTERNAL", words, retry_after=1) from None
    finally:
        patience.close()
