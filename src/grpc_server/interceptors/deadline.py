"""Every call has a deadline (rule 47)."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from grpc_server.call import Behaviour, current_call

MARGIN_SECONDS = 0.25
"""So much before the caller's own deadline the work ends, for the answer to arrive in time: a caller whose deadline
passes first learns nothing. Of a short deadline it is a tenth."""


def with_deadline(behaviour: Behaviour, seconds: float) -> Behaviour:
    """The behaviour, ended a margin before its caller's deadline, or after so many seconds when it set none."""

    async def run(request: Any, context: Any) -> Any:
        remaining = context.time_remaining()
        limit = asyncio.timeout(seconds if remaining is None else remaining - min(MARGIN_SECONDS, remaining / 10))
        try:
            async with limit:
                return await behaviour(request, context)
        except TimeoutError:
            if not limit.expired():
                raise
        call = current_call()
        call.status = "DEADLINE_EXCEEDED"
        words = "The call was not done before its deadline."
        return await call.abort(context, grpc.StatusCode.DEADLINE_EXCEEDED, words, [])

    return run
