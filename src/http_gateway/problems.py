"""Failures to RFC 9457 problems (decisions, section 3).

There is no table here: a code's HTTP status, title and type come from ``core.errors.CATALOGUE``. A gRPC
error is believed only as far as it carries ``google.rpc.ErrorInfo`` of our domain with a code of the
contract; everything else is an unexpected failure, which callers know as 503 ``E_INTERNAL``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from msgspec import UNSET

from core.errors import CATALOGUE, ERROR_DOMAIN, ApiError, Violation, internal, invalid
from http_gateway.schemas import Place, ProblemObject, to_json

MEDIA_TYPE = b"application/problem+json"
_CHALLENGE = (b"www-authenticate", b'ApiKey realm="listings"')
"""RFC 9110, 15.5.2, demands one with every 401. No registered scheme names a key in a header of its own."""
_DETAILS_KEY = "grpc-status-details-bin"
_OWN_PARAMETERS = {
    "page_size": "limit",
    "skip": "offset",
    "from_date": "from",
    "to_date": "to",
    "idempotency_key": "Idempotency-Key",
    "after_sequence": "Last-Event-ID",
}
"""What REST v1 calls the request fields that have another name in the proto."""


class Problem(Exception):  # noqa: N818 - the standard's name
    """A request that ends with a problem object.

    Args:
        status: HTTP status, 400 or above.
        detail: words for the caller; never input, never text from inside.
        code: a code of the catalogue; ``None`` for failures that the contract has no code for.
        title: short text; by default the catalogue's or the status's own.
        violations: offending places, in the documented order.
        retry_after: whole seconds; required for 429 and 503.
        allow: methods the path has; makes the ``Allow`` header of a 405.
        close: true ends the connection after the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        title: str | None = None,
        violations: Sequence[Violation] = (),
        retry_after: int | None = None,
        allow: str | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(f"{status} {code or ''}".strip())
        self.status = status
        self.detail = detail
        self.code = code
        self.title = title or (CATALOGUE[code].title if code else HTTPStatus(status).phrase)
        self.violations = tuple(violations)
        self.retry_after = retry_after
        self.allow = allow
        self.close = close

    def body(self, instance: str, request_id: str) -> bytes:
        """The problem object for one request: its path (as sent, still percent-encoded) and its id."""
        return to_json(
            ProblemObject(
                type=CATALOGUE[self.code].type_uri if self.code else "about:blank",
                title=self.title,
                status=self.status,
                detail=self.detail,
                instance=instance,
                request_id=request_id,
                code=self.code or UNSET,
                errors=[_place(entry) for entry in self.violations] or UNSET,
                retry_after=UNSET if self.retry_after is None else self.retry_after,
            )
        )

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that belong to this problem, its media type included."""
        headers = [(b"content-type", MEDIA_TYPE), (b"cache-control", b"no-store")]
        if self.status == 401:
            headers.append(_CHALLENGE)
        if self.retry_after is not None:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        if self.allow is not None:
            headers.append((b"allow", self.allow.encode()))
        if self.close:
            headers.append((b"connection", b"close"))
        return headers


def _place(entry: Violation) -> Place:
    if entry.parameter:
        return Place(entry.code, entry.detail, parameter=entry.parameter)
    return Place(entry.code, entry.detail, pointer=entry.pointer)


def from_api_error(error: ApiError) -> Problem:
    """The problem for a refusal of our own catalogue."""
    return Problem(
        error.kind.http_status,
        error.detail,
        code=error.code,
        violations=error.violations,
        retry_after=error.retry_after,
    )


def malformed(violations: Sequence[Violation]) -> Problem:
    """The 422 for a request that is not of the agreed shape."""
    return from_api_error(invalid(violations))


def unavailable() -> Problem:
    """The one face of every unexpected failure: 503 ``E_INTERNAL`` with a delay, no text from inside."""
    return from_api_error(internal())


def body_too_large(limit: int) -> Problem:
    """413 for a body above the byte limit; same code as any other bad body (decisions, section 2)."""
    code = "E_PRODUCT_INVALID_BODY"
    detail = f"the body must not be larger than {limit} bytes"
    place = Violation(code=code, detail=detail)
    return Problem(413, detail, code=code, title="Request body too large", violations=[place])


def not_found() -> Problem:
    """404 for a path that does not exist."""
    return Problem(404, "There is nothing at this path.")


def method_not_allowed(allow: str) -> Problem:
    """405 for a path that exists but not with this method."""
    return Problem(405, f"This path takes {allow} only.", allow=allow)


def gone() -> Problem:
    """410 for all of v1 once the operator has shut it down."""
    return Problem(410, "Version v1 of this API has been shut down. Use its successor.")


def bad_request(detail: str) -> Problem:
    """400 for a request whose framing cannot be trusted; the connection is closed."""
    return Problem(400, detail, close=True)


def unknown_transfer_coding() -> Problem:
    """501 for a body in a transfer coding that is not understood (RFC 9112, 6.1); the connection is closed."""
    return Problem(501, "The only transfer coding understood is chunked.", close=True)


def receive_timeout() -> Problem:
    """408 for a request that did not arrive in time; the connection is closed."""
    return Problem(408, "The request did not arrive completely in time.", close=True)


def from_rpc_error(error: grpc.aio.AioRpcError) -> Problem:
    """The problem for a failed call to core."""
    known = _api_error(error)
    return unavailable() if known is None else from_api_error(known)


def _api_error(error: grpc.aio.AioRpcError) -> ApiError | None:
    """The refusal that the call carries, or ``None`` when it carries none the contract knows."""
    metadata: Any = error.trailing_metadata() or ()
    packed = next((value for key, value in metadata if key == _DETAILS_KEY), None)
    if not isinstance(packed, bytes):
        return None
    status = status_pb2.Status()
    info = error_details_pb2.ErrorInfo()
    bad_request_ = error_details_pb2.BadRequest()
    retry_info = error_details_pb2.RetryInfo()
    try:
        status.ParseFromString(packed)
        for detail in status.details:
            for message in (info, bad_request_, retry_info):
                if detail.Is(message.DESCRIPTOR):
                    detail.Unpack(message)
    except DecodeError:
        return None
    code = info.reason
    if info.domain != ERROR_DOMAIN or code not in CATALOGUE or code.startswith("E_ADMIN_"):
        return None
    delay = retry_info.retry_delay
    seconds = math.ceil(delay.seconds + delay.nanos / 1e9)
    return ApiError(
        code,
        _own_detail(status.message, bad_request_),
        violations=[_violation(entry, code) for entry in bad_request_.field_violations],
        retry_after=max(1, seconds) if delay.ByteSize() else None,
    )


def _own_detail(detail: str, places: error_details_pb2.BadRequest) -> str:
    """The sentence with its place, with which it begins, as REST v1 calls it."""
    place = places.field_violations[0].field if places.field_violations else ""
    if not place or not detail.startswith(f"{place}: "):
        return detail
    return _own_place(place) + detail.removeprefix(place)


def _own_place(field: str) -> str:
    return _OWN_PARAMETERS.get(field, field.removeprefix("/sku_list"))


def _violation(entry: error_details_pb2.BadRequest.FieldViolation, code: str) -> Violation:
    """A field violation; a field that begins with a slash (or is empty) is a JSON Pointer."""
    own_code = entry.reason or code
    place = _own_place(entry.field)
    if not place or place.startswith("/"):
        return Violation(own_code, entry.description, pointer=place)
    return Violation(own_code, entry.description, parameter=place)
