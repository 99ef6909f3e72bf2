"""A core server whose answers a test writes: for the gateway's own tests of errors, headers and order.

Real sockets and real gRPC; only what stands behind the methods is scripted.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import any_pb2, descriptor_pool, duration_pb2, message_factory
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from core.errors import ERROR_DOMAIN, ApiError

PACKAGE = "listing_publication.v1."


@dataclass
class Call:
    """One call that reached the scripted core."""

    method: str
    request: Any
    metadata: dict[str, str]
    seconds_left: float | None
    cancelled: bool = False


@dataclass
class ScriptedCore:
    """Answers by method (``Service/Method``) and keeps what was called.

    An answer is a message, an ``ApiError``, a ``grpc.StatusCode`` (a bare status without details), a
    list of messages (a stream), or a function of request and context returning any of these.
    """

    address: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    initial_metadata: tuple[tuple[str, str], ...] = ()
    trailing_metadata: tuple[tuple[str, str], ...] = ()
    health: Any = None

    @property
    def methods(self) -> list[str]:
        """The methods called, in order."""
        return [call.method for call in self.calls]

    async def serving(self, service: str, serving: bool) -> None:
        """Sets what the health service says of one name."""
        status = health_pb2.HealthCheckResponse
        await self.health.set(service, status.SERVING if serving else status.NOT_SERVING)


def status_details(error: ApiError) -> bytes:
    """The packed ``google.rpc.Status`` of a refusal, as a core server sends it."""
    status = status_pb2.Status(code=code_pb2.Code.Value(error.kind.grpc_status), message=error.detail)
    details: list[Any] = [error_details_pb2.ErrorInfo(reason=error.code, domain=ERROR_DOMAIN)]
    if error.violations:
        details.append(
            error_details_pb2.BadRequest(
                field_violations=[
                    error_details_pb2.BadRequest.FieldViolation(
                        field=entry.parameter or entry.pointer, description=entry.detail, reason=entry.code
                    )
                    for entry in error.violations
                ]
            )
        )
    if error.retry_after is not None:
        delay = duration_pb2.Duration(seconds=error.retry_after)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    packed_status: bytes = status.SerializeToString()
    return packed_status


async def _fail(context: Any, core: ScriptedCore, answer: ApiError | grpc.StatusCode) -> None:
    if isinstance(answer, ApiError):
        packed = ("grpc-status-details-bin", status_details(answer))
        context.set_trailing_metadata((*core.trailing_metadata, packed))
        await context.abort(grpc.StatusCode[answer.kind.grpc_status], answer.detail)
    await context.abort(answer, "text from inside")


class _Methods(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def __init__(self, core: ScriptedCore) -> None:
        self._core = core

    def service(self, handler_call_details: Any) -> Any:
        service, _, name = handler_call_details.method.strip("/").rpartition("/")
        if not service.startswith(PACKAGE):
            return None
        method = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
        key = f"{service.removeprefix(PACKAGE)}/{name}"
        kind = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        return kind(
            self._stream(key) if method.server_streaming else self._unary(key),
            request_deserializer=message_factory.GetMessageClass(method.input_type).FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    async def _answer(self, key: str, request: Any, context: Any) -> tuple[Any, Call]:
        metadata = {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}
        call = Call(key, request, metadata, context.time_remaining())
        self._core.calls.append(call)
        if self._core.initial_metadata:
            await context.send_initial_metadata(self._core.initial_metadata)
        if self._core.trailing_metadata:
            context.set_trailing_metadata(self._core.trailing_metadata)
        answer = self._core.answers.get(key, grpc.StatusCode.UNIMPLEMENTED)
        try:
            if inspect.isfunction(answer) or inspect.ismethod(answer):
                answer = answer(request, context)
                if inspect.isawaitable(answer):
                    answer = await answer
        except BaseException:
            call.cancelled = True
            raise
        return answer, call

    def _unary(self, key: str) -> Callable[..., Any]:
        async def handle(request: Any, context: Any) -> Any:
            answer, _ = await self._answer(key, request, context)
            if isinstance(answer, ApiError | grpc.StatusCode):
                await _fail(context, self._core, answer)
            return answer

        return handle

    def _stream(self, key: str) -> Callable[..., Any]:
        async def handle(request: Any, context: Any) -> AsyncIterator[Any]:
            answer, call = await self._answer(key, request, context)
            try:
                if inspect.isasyncgen(answer):
                    async for message in answer:
                        if isinstance(message, ApiError | grpc.StatusCode):
                            await _fail(context, self._core, message)
                        yield message
                    return
                for message in answer if isinstance(answer, list) else [answer]:
                    if isinstance(message, ApiError | grpc.StatusCode):
                        await _fail(context, self._core, message)
                    yield message
            except BaseException:
                call.cancelled = True
                raise

        return handle


@asynccontextmanager
async def scripted_core() -> AsyncIterator[ScriptedCore]:
    """A scripted core on a free port for the length of the block."""
    core = ScriptedCore()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Methods(core),))
    core.health = health.aio.HealthServicer()  # type: ignore[attr-defined]
    health_pb2_grpc.add_HealthServicer_to_server(core.health, server)
    port = server.add_insecure_port("127.0.0.1:0")
    core.address = f"127.0.0.1:{port}"
    await server.start()
    await core.serving("", True)
    await core.serving("readiness", True)
    try:
        yield core
    finally:
        await server.stop(0)
