"""Answers in JSON."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from http_gateway.schemas import to_json

_JSON_HEADERS = {"content-type": "application/json", "cache-control": "no-store"}


def json_response(value: msgspec.Struct, status: int = 200) -> Response:
    """The value as JSON. Answers hold a seller's own data, so no cache may keep them."""
    return Response(to_json(value), status, _JSON_HEADERS)
