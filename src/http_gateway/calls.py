"""Calls to core: credentials, deadlines, cancellation and errors in one place.

The channel may be a real one or any object with the same surface (a loopback inside one process): only
``stub.Method(request, metadata=..., timeout=...)`` is used, awaiting or iterating its result, and
``cancel``, ``initial_metadata`` and ``trailing_metadata``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar

import grpc
from starlette.requests import Request

from core import tracing
from core.errors import ApiError, Violation
from http_gateway.config import GatewayConfig
from http_gateway.decode import violation
from http_gateway.problems import Problem, from_api_error, from_rpc_error, malformed
from http_gateway.query import header_values
from listing_publication.v1 import (
    account_pb2,
    account_pb2_grpc,
    jobs_pb2_grpc,
    promotion_pb2_grpc,
    publishing_pb2_grpc,
)

RATE_LIMIT_HEADERS = "rate_limit_headers"
"""Where a call leaves the rate-limit headers of its answer in the request's state."""
REQUEST_ID = "request_id"
"""Where the request's id stands in its state."""

MAX_METADATA_BYTES = 64 * 1024
"""What the gateway takes of one answer's metadata: a hundred offending places travel there."""

_SERVICE = "/listing_publication.v1."
_WATCH_AFTER_SECONDS = 0.1
# A value that is no key, sent on for header values that could not travel as metadata or are absurdly
# long: core refuses it as it refuses every other bad key, its rate limit included.
_NO_KEY = "unreadable"
# Tells core that all offending places fit, see the channel's options.
_MOST_METADATA = ("x-max-metadata-bytes", str(MAX_METADATA_BYTES))
_SENDABLE_KEY = re.compile(rb"[\x21-\x7e]{1,256}")
_END: Any = getattr(grpc.aio, "EOF")  # noqa: B009 - the type stubs do not know it
_ADDRESS = re.compile(r"[0-9a-fA-F:.]{2,45}", re.ASCII)

Reply = TypeVar("Reply")


class ClientDisconnected(Exception):  # noqa: N818 - an event, no error of ours
    """The client left before its answer; nothing can be told to anybody."""


Method = Callable[..., grpc.aio.UnaryUnaryCall[Any, Reply]]
"""A unary method of a generated stub, called with the message and ``metadata`` and ``timeout``."""


def method_name(service: str, method: str) -> str:
    """The full name of a method of ours, as CheckAccess takes it."""
    return f"{_SERVICE}{service}/{method}"


class Core:
    """The service's core as the endpoints see it.

    Args:
        channel: to core; owned by the caller.
        config: deadlines.
    """

    def __init__(self, channel: grpc.aio.Channel, config: GatewayConfig) -> None:
        self.config = config
        self.publishing = publishing_pb2_grpc.PublishingServiceStub(channel)
        self.promotion = promotion_pb2_grpc.PromotionServiceStub(channel)
        self.jobs = jobs_pb2_grpc.JobServiceStub(channel)
        self.account = account_pb2_grpc.AccountServiceStub(channel)

    async def read(self, request: Request, method: Method[Reply], message: Any) -> Reply:
        """Calls a method that changes nothing. Raises ``Problem`` or ``ClientDisconnected``."""
        return await _unary(request, method, message, self.config.read_deadline)

    async def write(self, request: Request, method: Method[Reply], message: Any) -> Reply:
        """Calls a method that changes something. Raises ``Problem`` or ``ClientDisconnected``.

        When the client leaves the call is cancelled: core then has either committed or stores nothing.
        """
        return await _unary(request, method, message, self.config.write_deadline)

    async def refuse(self, request: Request, method: str, violations: Sequence[Violation]) -> NoReturn:
        """Refuses a request that cannot be read, once core has said that the key would be let in.

        A bad key, a missing scope, a rate limit or a key of the wrong environment is told first
        (decisions, section 2 "Order of checks").

        Args:
            method: full name of the method that the request would have called.
        """
        await self.read(request, self.account.CheckAccess, account_pb2.CheckAccessRequest(method=method))
        raise malformed(violations)

    @asynccontextmanager
    async def stream(self, request: Request, method: Any, message: Any) -> AsyncIterator[Any]:
        """An open stream from core, for the length of the block; cancelled whatever ends the block.

        The stream's errors are left to the reader (``grpc.aio.AioRpcError``). The client's leaving
        cancels the stream, which the reader sees as ``asyncio.CancelledError`` with ``left`` set.
        """
        call = method(message, metadata=_metadata(request), timeout=self.config.stream_deadline)
        stream = Stream(call, request)
        try:
            yield stream
        finally:
            await stream.close()


class Stream:
    """A server stream with a watch on the client's connection."""

    def __init__(self, call: Any, request: Request) -> None:
        self._call = call
        self._request = request
        self.left = False
        """Whether the client has disconnected."""
        self._drained = False
        self._watch = asyncio.create_task(self._cancel_when_gone())

    async def _cancel_when_gone(self) -> None:
        await _gone(self._request)
        self.left = True
        self._call.cancel()

    def drain(self) -> None:
        """Ends the stream as if core had ended it, because this process stops."""
        self._drained = True
        self._call.cancel()

    async def read(self) -> Any | None:
        """The next message, or ``None`` at the regular end.

        Raises:
            ClientDisconnected: the client has left.
            grpc.aio.AioRpcError: core ended the stream with an error.
        """
        try:
            message = await self._call.read()
        except asyncio.CancelledError:
            if self.left:
                raise ClientDisconnected from None
            if self._drained:
                return None
            raise
        return None if message is _END else message

    async def note_rate_limit(self) -> None:
        """Keeps the rate-limit headers for the answer that is about to begin."""
        _keep_rate_limit(self._request, await self._call.initial_metadata())

    async def close(self) -> None:
        """Ends the call and the watch."""
        self._call.cancel()
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)


def rpc_problem(request: Request, error: grpc.aio.AioRpcError) -> Problem:
    """The problem for a failed call, with the call's rate-limit headers kept for the answer."""
    _keep_rate_limit(request, error.initial_metadata(), error.trailing_metadata())
    return from_rpc_error(error)


async def _unary(request: Request, method: Method[Reply], message: Any, deadline: float) -> Reply:
    call = method(message, metadata=_metadata(request), timeout=deadline)
    watch = _Watch(request, call)
    try:
        reply = await call
        _keep_rate_limit(request, await call.initial_metadata(), await call.trailing_metadata())
    except grpc.aio.AioRpcError as error:
        raise rpc_problem(request, error) from error
    except asyncio.CancelledError:
        if watch.left:
            raise ClientDisconnected from None
        raise
    finally:
        watch.stop()
        # An abandoned call is not collected by itself; on a finished one this does nothing.
        call.cancel()
    return reply


class _Watch:
    """Cancels a call when the client goes away.

    Begins only when the call has taken a while, because nearly all calls are over before a watch would
    pay for itself.
    """

    def __init__(self, request: Request, call: Any) -> None:
        self._request = request
        self._call = call
        self._task: asyncio.Task[None] | None = None
        self.left = False
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        await _gone(self._request)
        self.left = True
        self._call.cancel()

    def stop(self) -> None:
        """Ends the watch."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()


async def _gone(request: Request) -> None:
    """Returns when the client has disconnected. A body that nobody wants is passed over."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _metadata(request: Request) -> list[tuple[str, str]]:
    """Key, request id and client address, as metadata.

    Raises:
        Problem: X-API-Key or Idempotency-Key was sent more than once, so that a proxy and we could
            understand different things (failure rules, 52).
    """
    metadata = [("x-request-id", request.scope["state"][REQUEST_ID]), _MOST_METADATA]
    headers = request.scope["headers"]
    keys = header_values(headers, b"x-api-key")
    if len(keys) > 1:
        raise from_api_error(ApiError("E_AUTH_INVALID_KEY", "X-API-Key must be sent exactly once."))
    if len(header_values(headers, b"idempotency-key")) > 1:
        raise malformed([violation("must be given at most once", parameter="Idempotency-Key")])
    if keys and keys[0]:
        sendable = _SENDABLE_KEY.fullmatch(keys[0]) is not None
        metadata.append(("x-api-key", keys[0].decode("ascii") if sendable else _NO_KEY))
    client = request.scope.get("client")
    if client is not None and _ADDRESS.fullmatch(client[0]) is not None:
        metadata.append(("x-client-address", client[0]))
    if (context := tracing.current()) is not None:
        metadata.append((tracing.HEADER, context))
    return metadata


def _keep_rate_limit(request: Request, *metadata: Any) -> None:
    """Takes core's rate-limit texts over as headers of the answer."""
    found: dict[bytes, bytes] = {}
    for entries in metadata:
        for key, value in entries or ():
            if key in ("ratelimit-policy", "ratelimit") and isinstance(value, str):
                found[key.encode()] = value.encode("latin-1", "replace")
    if found:
        request.scope["state"][RATE_LIMIT_HEADERS] = list(found.items())
