"""Requests whose bytes are no message of their method.

gRPC itself would answer them before anybody asked for a key, with a status of its own and a traceback in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from core.errors import ApiError, Violation

UNREADABLE: Final = object()
"""Stands for such a request until its caller has been looked at."""

RULE: Final = "The request must be a protobuf message of the method's request type."


def reading(deserializer: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """The deserializer, with ``UNREADABLE`` for what it cannot read."""

    def read(sent: bytes) -> Any:
        try:
            return deserializer(sent)
        except DecodeError:
            return UNREADABLE

    return read


def refuse_unreadable(request: Any, code: str = "E_PRODUCT_INVALID_BODY") -> None:
    """Let readable requests pass.

    Raises:
        ApiError: this code, when it is ``UNREADABLE``.
    """
    if request is UNREADABLE:
        raise ApiError(code, RULE, violations=[Violation(code, RULE)])
