"""What is known about the call that is being answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import grpc

from core.domain.api_key import Principal
from core.use_cases.authorize import RateState

Metadata = list[tuple[str, str | bytes]]
Behaviour = Callable[[Any, Any], Awaitable[Any]]
"""Answers one call: takes the request and the context. A stream is written to the context, and None returned."""


@dataclass(slots=True)
class Call:
    """One call. ``initial`` and ``trailing`` are the metadata of its answer."""

    method: str
    request_id: str
    address: str
    """The caller's network address, for counting bad keys."""
    metadata: dict[str, str | bytes]
    """What the caller sent, by name; of a name sent twice the last."""
    repeated: frozenset[str]
    """Names that were sent more than once."""
    principal: Principal | None = None
    key_digest: bytes = b""
    initial: Metadata = field(default_factory=list)
    initial_sent: bool = False
    trailing: Metadata = field(default_factory=list)
    status: str = "OK"
    code: str = ""

    def note_rate(self, rate: RateState) -> None:
        """Tell the caller what it has left of its rate."""
        self.initial += (("ratelimit-policy", rate.policy), ("ratelimit", rate.state))

    async def abort(self, context: Any, status: grpc.StatusCode, words: str, trailing: Metadata) -> Any:
        """End the call with an error, told in ``words``. Always raises.

        When gRPC has no more use for it, because the caller's deadline has passed or it has left, the call ends as
        cancelled: nobody hears the error, and it is none of this server's.
        """
        try:
            await self.send_initial(context)
            await context.abort(status, words, tuple(trailing))
        except grpc.aio.InternalError:
            self.status, self.code = "CANCELLED", ""
            raise asyncio.CancelledError from None

    async def send_initial(self, context: Any) -> None:
        """Send the initial metadata, once."""
        if not self.initial_sent:
            self.initial_sent = True
            await context.send_initial_metadata(tuple(self.initial))


_current: ContextVar[Call] = ContextVar("grpc_call")


def current_call() -> Call:
    """The call that this task answers. Raises LookupError outside of one."""
    return _current.get()


def current_principal() -> Principal:
    """Who is calling; only for methods that demand a key."""
    principal = _current.get().principal
    if principal is None:
        raise LookupError("this method admits callers without a key")
    return principal


enter = _current.set
