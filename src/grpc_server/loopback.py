"""A channel to a core server in the same process: the same methods, interceptors, deadlines and errors, without HTTP/2
and without serialisation.

It has as much of ``grpc.aio.Channel`` as generated stubs and the gateway use: awaiting or reading a call, ``cancel``,
``initial_metadata`` and ``trailing_metadata``. What differs from the wire: messages are handed over as they are, so
neither side may change one that it has sent; the size limits of the wire do not apply (the gateway's own do).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from typing import Any

import grpc

from grpc_server.handlers import Handlers

Metadata = Sequence[tuple[str, str | bytes]]
Behaviour = Callable[[Any, Any], Awaitable[Any]]

_END: Any = getattr(grpc.aio, "EOF")  # noqa: B009 - the type stubs do not know it


class LoopbackChannel:
    """Calls the handlers of a core server on this process's event loop.

    Args:
        handlers: by service and method, as ``grpc_server.handlers.build_handlers`` makes them.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = {
            f"/{service}/{name}": handler for service, methods in handlers.items() for name, handler in methods.items()
        }

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Callable[..., UnaryCall]:
        """A callable that begins a call of ``method``; serializers are not used."""
        behaviour = self._behaviour(method, "unary_unary")

        def begin(request: Any, *, timeout: float | None = None, metadata: Metadata = (), **_: Any) -> UnaryCall:
            return UnaryCall(behaviour, request, _Context(metadata, timeout))

        return begin

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Callable[..., StreamCall]:
        """A callable that begins a stream of ``method``."""
        behaviour = self._behaviour(method, "unary_stream")

        def begin(request: Any, *, timeout: float | None = None, metadata: Metadata = (), **_: Any) -> StreamCall:
            return StreamCall(behaviour, request, _StreamContext(metadata, timeout))

        return begin

    async def close(self, grace: float | None = None) -> None:
        """Nothing to close: calls end with the tasks that make them."""

    def _behaviour(self, method: str, kind: str) -> Behaviour:
        handler = self._handlers.get(method)
        behaviour: Behaviour | None = getattr(handler, kind, None)
        return behaviour if behaviour is not None else _unimplemented


async def _unimplemented(_request: Any, context: Any) -> Any:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "There is no such method.")


class _Aborted(grpc.aio.AbortError):
    """Raised by ``abort``: the servicer must not go on."""


class _Context:
    """The servicer's side of a call."""

    def __init__(self, metadata: Metadata, timeout: float | None) -> None:
        self._metadata = metadata
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self.timeout = timeout
        self.initial: Metadata = ()
        self.trailing: Metadata = ()
        self.code = grpc.StatusCode.OK
        self.details = ""

    def invocation_metadata(self) -> Metadata:
        """What the caller sent."""
        return self._metadata

    def peer(self) -> str:
        """A caller in this process has no network address."""
        return "loopback"

    def time_remaining(self) -> float | None:
        """Seconds until the caller's deadline; None without one."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        """Metadata that precedes the answer."""
        self.initial = metadata

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """Metadata that follows the answer."""
        self.trailing = metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        """The status the call ends with."""
        self.code = code

    def set_details(self, details: str) -> None:
        """The status's text."""
        self.details = details

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> None:
        """End the call with an error."""
        self.code, self.details, self.trailing = code, details, trailing_metadata
        raise _Aborted

    def fail(self, code: grpc.StatusCode, details: str) -> None:
        """End the call with an error of the channel's own."""
        self.code, self.details, self.trailing = code, details, ()

    def error(self) -> grpc.aio.AioRpcError:
        """The error the caller sees."""
        return grpc.aio.AioRpcError(
            self.code,
            grpc.aio.Metadata(*self.initial),
            grpc.aio.Metadata(*self.trailing),
            details=self.details,
            debug_error_string=None,
        )


class _Call:
    """The caller's side of a call: a task of its own, which the deadline or ``cancel`` ends."""

    def __init__(self, behaviour: Behaviour, request: Any, context: _Context) -> None:
        self._context = context
        loop = asyncio.get_running_loop()
        self._timer = None if context.timeout is None else loop.call_later(context.timeout, self._expire)
        self._task = loop.create_task(self._run(behaviour, request))

    def _expire(self) -> None:
        if not self._task.done():
            self._context.fail(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            self._task.cancel()

    async def _run(self, behaviour: Behaviour, request: Any) -> Any:
        context = self._context
        try:
            return await behaviour(request, context)
        except _Aborted:
            return None
        except asyncio.CancelledError:
            if context.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            return None
        except Exception as error:  # as on the wire: the text of a bug stays inside
            context.fail(grpc.StatusCode.UNKNOWN, type(error).__name__)
            return None
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def cancel(self) -> bool:
        """End the call; False when it is over already."""
        return self._task.cancel()

    def done(self) -> bool:
        """Whether the call is over."""
        return self._task.done()

    async def initial_metadata(self) -> Metadata:
        """Metadata that preceded the answer."""
        return self._context.initial

    async def trailing_metadata(self) -> Metadata:
        """Metadata that followed the answer."""
        return self._context.trailing

    async def code(self) -> grpc.StatusCode:
        """The status, when the call is over."""
        await asyncio.wait([self._task])
        return grpc.StatusCode.CANCELLED if self._task.cancelled() else self._context.code


class UnaryCall(_Call):
    """A call with one answer: await it."""

    def __await__(self) -> Generator[Any, None, Any]:
        """The answer, or ``grpc.aio.AioRpcError``."""
        return self._answer().__await__()

    async def _answer(self) -> Any:
        response = await self._task
        if self._context.code is not grpc.StatusCode.OK:
            raise self._context.error()
        return response


class _StreamContext(_Context):
    """The servicer's side of a stream: one message at a time, handed over when the reader asks."""

    def __init__(self, metadata: Metadata, timeout: float | None) -> None:
        super().__init__(metadata, timeout)
        # One place: a slow reader holds the writer, as a full window does on the wire.
        self.messages: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)

    async def write(self, message: Any) -> None:
        """Send a message; waits until the reader has taken the one before."""
        await self.messages.put(message)


class StreamCall(_Call):
    """A call with many answers: ``read`` them, or iterate."""

    def __init__(self, behaviour: Behaviour, request: Any, context: _StreamContext) -> None:
        self._messages = context.messages
        super().__init__(behaviour, request, context)

    async def read(self) -> Any:
        """The next message, or ``grpc.aio.EOF`` at the regular end. Raises ``grpc.aio.AioRpcError``."""
        if self._messages.empty() and not self._task.done():
            waiting = asyncio.ensure_future(self._messages.get())
            try:
                await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
            except BaseException:
                waiting.cancel()
                raise
            if waiting.done():
                return waiting.result()
            waiting.cancel()
        if not self._messages.empty():
            return self._messages.get_nowait()
        if self._task.cancelled():
            raise asyncio.CancelledError
        if self._context.code is not grpc.StatusCode.OK:
            raise self._context.error()
        return _END

    async def __aiter__(self) -> AsyncIterator[Any]:
        """Every message until the end."""
        while (message := await self.read()) is not _END:
            yield message
