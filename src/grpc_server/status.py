"""ApiError → canonical status with ``google.rpc`` details.

The gateway reads the same details back, so a refusal crosses the wire intact: code (ErrorInfo.reason), detail (the
status's message), places (BadRequest: a field that begins with a slash is a JSON Pointer, any other a parameter;
``reason`` is the place's own code) and delay (RetryInfo).
"""

from __future__ import annotations

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from core.errors import ERROR_DOMAIN, ApiError

DETAILS_KEY = "grpc-status-details-bin"
DEFAULT_METADATA_BYTES = 6 * 1024
"""What fits a client that keeps gRPC's default limit of 8 KiB of metadata: the value travels in base64."""
MOST_METADATA_BYTES = 48 * 1024
"""100 places never need more."""

_STATUSES = {status.name: status for status in grpc.StatusCode}


def status_code(error: ApiError) -> grpc.StatusCode:
    """The canonical status of the error's row in the catalogue."""
    return _STATUSES[error.kind.grpc_status]


def _packed(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def status_details(error: ApiError, most_bytes: int = DEFAULT_METADATA_BYTES) -> bytes:
    """The value of ``grpc-status-details-bin``.

    Args:
        most_bytes: the caller's limit; places that do not fit are left out from the end, never the rest.
    """
    status = status_pb2.Status(code=status_code(error).value[0], message=error.detail)
    status.details.append(_packed(error_details_pb2.ErrorInfo(reason=error.code, domain=ERROR_DOMAIN)))
    if error.retry_after is not None:
        delay = duration_pb2.Duration(seconds=error.retry_after)
        status.details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    if error.violations:
        room = most_bytes - status.ByteSize() - 100
        places = error_details_pb2.BadRequest()
        for violation in error.violations:
            place = error_details_pb2.BadRequest.FieldViolation(
                field=violation.pointer or violation.parameter,
                description=violation.detail,
                reason=violation.code,
            )
            room -= place.ByteSize() + 4
            if room < 0:
                break
            places.field_violations.append(place)
        status.details.append(_packed(places))
    serialized: bytes = status.SerializeToString()
    return serialized
