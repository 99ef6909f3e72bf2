"""The durable, append-only record of what really happened in the sandbox.

It serves two readers: the sandbox itself, which rebuilds its state from it at start, and a fault-test
checker, which compares it with the client's log and the service's database. A change is written before
the answer that tells of it leaves, so a client never knows of a change that the log lacks.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import msgspec

LOG_NAME = "effects.jsonl"


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log, without the data used to rebuild the state.

    sequence: 1, 2, 3 ... without gaps. time: RFC 3339, UTC, microseconds.
    effect: item_created, item_updated, item_closed, item_deleted, operator_changed, description_written,
        token_rotated, tokens_revoked, user_changed or picture_uploaded.
    price: whole COP. status: the item's status after the effect.
    """

    sequence: int
    time: str
    effect: str
    user_id: int
    listing_id: str | None = None
    seller_sku: str | None = None
    price: int | None = None
    status: str | None = None


class RecordedEffect(Effect, frozen=True, kw_only=True):
    """One line as read back, with its data."""

    data: msgspec.Raw = msgspec.Raw(b"null")


class EffectLog:
    """Appends effects and says when they are durable. Belongs to one event loop."""

    def __init__(self, folder: Path | None, fsync: bool) -> None:
        """folder None: in memory only. Raises OSError when the folder cannot be written."""
        self._fsync = fsync
        self._encoder = msgspec.json.Encoder()
        self._effects: list[Effect] = []
        self._lines: list[bytes] = []
        self._waiting: list[Callable[[bool], None]] = []
        self._in_flight: list[Callable[[bool], None]] = []
        self._flushing = False
        self._scheduled = False
        self.failed = False
        self._file = -1
        self._path: Path | None = None
        self._executor: ThreadPoolExecutor | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._path = folder / LOG_NAME
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._file)
                raise OSError(f"another sandbox uses {folder}") from None
            if fsync:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="effects-log")

    def replay(self) -> Iterator[RecordedEffect]:
        """Every complete line of the file, in order; a torn last line (killed mid-write) is cut off.

        Raises ValueError, naming the line, when a line in the middle cannot be read.
        """
        if self._path is None:
            return
        content = self._path.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete != len(content):
            os.ftruncate(self._file, complete)
        decoder = msgspec.json.Decoder(RecordedEffect)
        for number, line in enumerate(content[:complete].splitlines(), start=1):
            try:
                recorded = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise ValueError(f"{LOG_NAME} line {number}: {error}") from None
            if recorded.sequence != number:
                raise ValueError(f"{LOG_NAME} line {number}: sequence {recorded.sequence}, expected {number}")
            self._effects.append(_without_data(recorded))
            yield recorded

    def append(
        self,
        effect: str,
        now: float,
        user_id: int,
        data: bytes,
        *,
        listing_id: str | None = None,
        seller_sku: str | None = None,
        price: int | None = None,
        status: str | None = None,
    ) -> None:
        """Adds one effect that happened at `now` (seconds since the epoch). data: JSON for the rebuild."""
        entry = Effect(
            sequence=len(self._effects) + 1,
            time=datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")[:-6] + "Z",
            effect=effect,
            user_id=user_id,
            listing_id=listing_id,
            seller_sku=seller_sku,
            price=price,
            status=status,
        )
        self._effects.append(entry)
        if self._file >= 0:
            self._lines.append(self._encoder.encode(entry)[:-1] + b',"data":' + data + b"}\n")

    def after(self, sequence: int, limit: int) -> list[Effect]:
        """Up to `limit` effects whose sequence is greater than `sequence`, oldest first."""
        return self._effects[sequence : sequence + limit]

    def __len__(self) -> int:
        return len(self._effects)

    @property
    def dirty(self) -> bool:
        """Whether an appended effect is not durable yet."""
        return bool(self._lines) or self._flushing

    def when_durable(self, callback: Callable[[bool], None]) -> None:
        """Calls back with True once everything appended so far is durable, with False if writing failed."""
        if self._lines:
            self._waiting.append(callback)
            self.flush()
        elif self._flushing:
            self._in_flight.append(callback)
        else:
            callback(not self.failed)

    def flush(self) -> None:
        """Starts writing what waits; all appends of this turn of the event loop share one write."""
        if self._lines and not self._flushing and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        content = b"".join(self._lines)
        self._lines.clear()
        self._in_flight, self._waiting = self._waiting, []
        self._flushing = True
        if self._executor is None:
            self._done(self._write(content))
            return
        task = asyncio.get_running_loop().run_in_executor(self._executor, self._write, content)
        task.add_done_callback(lambda finished: self._done(finished.result()))

    def _write(self, content: bytes) -> bool:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(self._file, view) :]
            if self._fsync:
                os.fdatasync(self._file)
        except OSError as error:
            # A change that cannot be recorded must not be reported as done: from here on nobody is answered.
            sys.stderr.write(f"sandbox: effects log cannot be written: {error.strerror}\n")
            return False
        return True

    def _done(self, written: bool) -> None:
        self._flushing = False
        self.failed = self.failed or not written
        callbacks, self._in_flight = self._in_flight, []
        for callback in callbacks:
            callback(not self.failed)
        self.flush()

    async def close(self) -> None:
        """Makes everything durable and closes the file."""
        if self.dirty:
            finished: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

            def settle(written: bool) -> None:
                if not finished.done():
                    finished.set_result(written)

            self.when_durable(settle)
            await finished
        if self._executor is not None:
            self._executor.shutdown()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _without_data(recorded: RecordedEffect) -> Effect:
    return Effect(
        sequence=recorded.sequence,
        time=recorded.time,
        effect=recorded.effect,
        user_id=recorded.user_id,
        listing_id=recorded.listing_id,
        seller_sku=recorded.seller_sku,
        price=recorded.price,
        status=recorded.status,
    )
