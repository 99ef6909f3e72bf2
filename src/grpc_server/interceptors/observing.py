"""Request id, access log and metrics of a call."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import Counter as Tally
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import structlog
from structlog.contextvars import bind_contextvars

from core import metrics
from core.settings import is_loopback
from grpc_server.call import Behaviour, Call, enter

log = structlog.get_logger("grpc_server.call")

SLOW_SECONDS = 1.0
"""A call that took longer is always logged."""

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)
_PEER = re.compile(r"ipv[46]:\[?([0-9a-fA-F:.]+)(?:%[^\]]*)?\]?:[0-9]+", re.ASCII)
_NONE: frozenset[str] = frozenset()
_ADDRESS = re.compile(r"[0-9a-fA-F:.]{2,45}", re.ASCII)


def observed(method: str, behaviour: Behaviour, proxies: frozenset[str], *, reads: bool) -> Behaviour:
    """The behaviour, with its call made known, logged and counted.

    Args:
        method: full name.
        reads: its successes are logged at DEBUG only: a line costs more than the rest of such a call, and
            the metrics count it all the same.
        proxies: peers that are believed about whom they speak for, beside those of this machine.
    """
    name = method.rpartition(".")[2]
    seconds = metrics.grpc_seconds.labels(name)
    # Nearly every call ends so; a series costs more to find than to count.
    successes = metrics.grpc_calls.labels(name, "OK")

    async def run(request: Any, context: Any) -> Any:
        began = time.monotonic()
        call = _call(method, context, proxies)
        call.initial.append(("x-request-id", call.request_id))
        # Nothing of this is undone: every call is answered in a task, and so in a context, of its own.
        enter(call)
        bind_contextvars(request_id=call.request_id)
        try:
            return await behaviour(request, context)
        except asyncio.CancelledError:
            call.status = "CANCELLED"
            raise
        finally:
            took = time.monotonic() - began
            seconds.observe(took)
            (successes if call.status == "OK" else metrics.grpc_calls.labels(name, call.status)).inc()
            if call.code:
                metrics.refusals.labels(call.code).inc()
            _write_line(name, call, took, quiet=reads)

    return run


def _write_line(name: str, call: Call, took: float, *, quiet: bool) -> None:
    quiet = quiet and call.status == "OK" and took < SLOW_SECONDS
    if quiet and not log.is_enabled_for(logging.DEBUG):
        return
    fields: dict[str, Any] = {"method": name, "status": call.status, "milliseconds": round(took * 1000, 2)}
    if call.code:
        fields["code"] = call.code
    if call.principal is not None:
        fields["seller_id"] = call.principal.seller_id
        fields["key_id"] = call.principal.key_id
    if quiet:
        log.debug("call", **fields)
    else:
        log.info("call", **fields)


def _call(method: str, context: Any, proxies: frozenset[str]) -> Call:
    sent = context.invocation_metadata() or ()
    metadata = {str(key): value for key, value in sent}
    repeated = _NONE
    if len(metadata) != len(sent):
        repeated = frozenset(key for key, count in Tally(str(key) for key, _ in sent).items() if count > 1)
    request_id = metadata.get("x-request-id")
    if not isinstance(request_id, str) or not _REQUEST_ID.fullmatch(request_id):
        request_id = secrets.token_hex(16)
    return Call(
        method=method,
        request_id=request_id,
        address=client_address(context.peer(), metadata.get("x-client-address"), proxies),
        metadata=metadata,
        repeated=repeated,
    )


@lru_cache(4096)
def client_address(peer: str, claimed: str | bytes | None, proxies: frozenset[str]) -> str:
    """The address bad keys are counted by: the peer's, or what a peer that may speak for others claims."""
    match = _PEER.fullmatch(unquote(peer))
    address = match.group(1) if match else ""
    # A peer without a network address (a Unix socket, an in-process channel) is on this machine.
    trusted = not address or is_loopback(address) or address in proxies
    if trusted and isinstance(claimed, str) and _ADDRESS.fullmatch(claimed):
        return claimed
    return address or "local"
