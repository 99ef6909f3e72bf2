"""A span for each call that takes a trace context from its caller's metadata."""

from __future__ import annotations

from typing import Any

import grpc

from core import tracing
from grpc_server.call import Behaviour, current_call

_FAULTS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Statuses that are this side's failure; the others are answers."""


def traced(method: str, behaviour: Behaviour) -> Behaviour:
    """The behaviour inside a span of its own, a child of the one whose context the caller sent.

    Stands inside of ``observed``, which makes the call known.
    """
    service, _, name = method.strip("/").rpartition("/")
    title = f"{service.rpartition('.')[2]}/{name}"

    async def run(request: Any, context: Any) -> Any:
        call = current_call()
        sent = call.metadata.get(tracing.HEADER)
        refused: grpc.aio.AbortError | None = None
        response = None
        with tracing.span(
            title,
            parent=sent if isinstance(sent, str) else None,
            kind="server",
            rpc__system="grpc",
            rpc__service=service,
            rpc__method=name,
            request_id=call.request_id,
        ) as span:
            try:
                response = await behaviour(request, context)
            except grpc.aio.AbortError as error:
                # How a refusal leaves the behaviour; it fails the span only when it is a fault.
                refused = error
            finally:
                if call.principal is not None:
                    span.note(key_id=call.principal.key_id, seller_id=call.principal.seller_id)
                span.note(rpc__response__status=call.status, code=call.code or None)
                if call.status in _FAULTS:
                    span.failed(call.code or call.status)
        if refused is not None:
            raise refused
        return response

    return run
