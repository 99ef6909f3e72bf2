"""Refusals become statuses; everything unexpected becomes E_INTERNAL and a line in the log."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import structlog

from core.errors import ApiError, internal
from grpc_server.call import Behaviour, Call, current_call
from grpc_server.status import (
    DEFAULT_METADATA_BYTES,
    DETAILS_KEY,
    MOST_METADATA_BYTES,
    status_code,
    status_details,
)

log = structlog.get_logger("grpc_server")

LIMIT_KEY = "x-max-metadata-bytes"
"""Request metadata by which a caller says that it takes more metadata than gRPC's default."""


def answering_errors(behaviour: Behaviour) -> Behaviour:
    """The behaviour, with its failures told to the caller in the documented form."""

    async def run(request: Any, context: Any) -> Any:
        call = current_call()
        try:
            response = await behaviour(request, context)
        except ApiError as error:
            refusal = error
        except (asyncio.CancelledError, grpc.aio.AbortError):
            raise
        except Exception as error:
            # The text stays here: it may hold SQL, an address or what the caller sent.
            log.exception("call_failed", method=call.method, error=type(error).__name__)
            refusal = internal()
        else:
            if call.trailing:
                context.set_trailing_metadata(tuple(call.trailing))
            return response
        return await _refuse(context, call, refusal)

    return run


async def _refuse(context: Any, call: Call, error: ApiError) -> Any:
    status = status_code(error)
    call.status, call.code = status.name, error.code
    details = status_details(error, _limit(call))
    return await call.abort(context, status, error.detail, [*call.trailing, (DETAILS_KEY, details)])


def _limit(call: Call) -> int:
    said = call.metadata.get(LIMIT_KEY)
    if isinstance(said, str) and said.isascii() and said.isdigit() and len(said) < 8:
        return max(DEFAULT_METADATA_BYTES, min(int(said) * 3 // 4, MOST_METADATA_BYTES))
    return DEFAULT_METADATA_BYTES
