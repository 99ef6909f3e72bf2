"""Every call has a deadline (rule 47)."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from grpc_server.call import Behaviour, current_call


def with_deadline(behaviour: Behaviour, seconds: float) -> Behaviour:
    """The behaviour, ended after so many seconds when its caller set no deadline.

    A caller's own deadline is kept by gRPC itself, which cancels the behaviour.
    """

    async def run(request: Any, context: Any) -> Any:
        if context.time_remaining() is not None:
            return await behaviour(request, context)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await behaviour(request, context)
        except TimeoutError:
            if not limit.expired():
                raise
        call = current_call()
        call.status = "DEADLINE_EXCEEDED"
        await call.send_initial(context)
        return await context.abort(
            grpc.StatusCode.DEADLINE_EXCEEDED, "The call took longer than the deadline it was given by this server."
        )

    return run
