"""What goes in and out of the sandbox, free of any transport: Request, Answer, Refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

import msgspec

if TYPE_CHECKING:
    from sandbox.accounts import User

Delivery = Literal["normal", "reset", "silence", "truncate", "drip"]

_DIGITS = re.compile(r"[0-9]{1,18}")


@dataclass(slots=True)
class Answer:
    """One HTTP answer and the way it reaches the client.

    status, body, headers, content_type: as sent; content_type None sends none.
    delivery: ``normal``; ``reset`` drops the connection with a TCP reset and no byte of an answer;
        ``silence`` never answers; ``truncate`` announces the whole body, sends half and closes;
        ``drip`` sends the body in pieces of chunk_bytes every interval seconds.
    delay_seconds: waited before delivery.
    later: when set, the request is handled only after delay_seconds, by calling this.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str | None = "application/json; charset=utf-8"
    delivery: Delivery = "normal"
    delay_seconds: float = 0.0
    chunk_bytes: int = 16
    interval_seconds: float = 0.05
    later: Callable[[], Answer] | None = None


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not a fault of the sandbox
    """Raised inside an operation to answer at once with `answer`."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


@dataclass(slots=True)
class Overrides:
    """What a fault rule changes inside the handling of one request."""

    index_lag_seconds: float | None = None
    picture_delay_seconds: float | None = None
    price_ignored: bool = False
    drop_custom_field: bool = False


@dataclass(slots=True)
class Request:
    """One request as the operations see it.

    path is percent-decoded; query is the raw query string; body is complete. operation, params and user
    are filled in by the application before an operation runs.
    """

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    authorization: str = ""
    content_type: str = ""
    new_format: bool = False
    operation: str = ""
    params: tuple[str, ...] = ()
    user: User | None = None
    overrides: Overrides = field(default_factory=Overrides)
    _query: dict[str, str] | None = None

    @property
    def caller(self) -> User:
        """The user whose token was sent; only called by operations that require one."""
        if self.user is None:
            raise RuntimeError("operation ran without an authenticated user")
        return self.user

    def parameter(self, name: str, default: str = "") -> str:
        """A query parameter; of a repeated one the first counts (the marketplace does not join them)."""
        if self._query is None:
            parsed: dict[str, str] = {}
            for key, value in parse_qsl(self.query, keep_blank_values=True):
                parsed.setdefault(key, value)
            self._query = parsed
        return self._query.get(name, default)

    def has_parameter(self, name: str) -> bool:
        """Whether the query names `name` at all."""
        self.parameter(name)
        return self._query is not None and name in self._query

    def integer(self, name: str, default: int) -> int:
        """A query parameter that must be a plain ASCII integer >= 0; anything else is a 400."""
        text = self.parameter(name)
        if text == "":
            return default
        if _DIGITS.fullmatch(text) is None:
            raise Refusal(bad_request(f"Invalid {name}"))
        return int(text)

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object; anything else is a 400."""
        try:
            decoded = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refusal(bad_request("Malformed JSON body", "json_parse_error")) from None
        if not isinstance(decoded, dict):
            raise Refusal(bad_request("The body must be a JSON object", "json_parse_error"))
        return decoded


_encode = msgspec.json.Encoder().encode


def ok(value: Any, status: int = 200) -> Answer:
    """A JSON answer of `value`."""
    return Answer(status, _encode(value))


def problem(status: int, message: str, error: str, cause: Any = ()) -> Answer:
    """The marketplace's usual error body (reference section 6)."""
    return Answer(status, _encode({"message": message, "error": error, "status": status, "cause": cause}))


def bad_request(message: str, error: str = "bad_request") -> Answer:
    """A 400 without causes."""
    return problem(400, message, error)


def not_found(message: str) -> Answer:
    """A 404 in the marketplace's form."""
    return problem(404, message, "not_found")


def forbidden(message: str = "The caller is not authorized to access this resource") -> Answer:
    """A 403 for somebody else's resource."""
    return problem(403, message, "forbidden")
