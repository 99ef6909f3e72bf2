"""Page tokens: opaque to callers. To us the last row of a page, bound to method, seller and filters.

A row and not a number of rows, so that what is added or removed before it shifts nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any

import msgspec

from core.errors import ApiError, Violation, invalid

Place = tuple[Any, ...]
"""The values by which the rows are ordered: whole numbers and texts."""

_TAG_BYTES = 12
_LARGEST = 2**53
_LONGEST = 64


def page_token(request: Any, seller_id: int, place: Place) -> str:
    """The token of the page that follows the row at ``place`` in the answer to ``request``."""
    body = msgspec.json.encode(place)
    return base64.urlsafe_b64encode(_tag(request, seller_id, body) + body).decode().rstrip("=")


def read_page_token(request: Any, seller_id: int, *kinds: type) -> Place:
    """The place after which the page asked for begins.

    Args:
        request: a list request with a ``page_token``.
        kinds: of the place's values, int or str.

    Raises:
        ApiError: E_PRODUCT_INVALID_BODY for a token that was not made here for this list of this seller.
    """
    try:
        made = base64.b64decode(request.page_token + "=" * (-len(request.page_token) % 4), altchars="-_", validate=True)
        place = json.loads(made[_TAG_BYTES:])
    except (ValueError, binascii.Error, RecursionError):
        raise _foreign() from None
    fits = isinstance(place, list) and [type(each) for each in place] == list(kinds) and all(map(_sane, place))
    if not fits or page_token(request, seller_id, tuple(place)) != request.page_token:
        raise _foreign()
    return tuple(place)


def _tag(request: Any, seller_id: int, body: bytes) -> bytes:
    filters = type(request)()
    filters.CopyFrom(request)
    for name in ("page_size", "page_token", "skip"):
        filters.ClearField(name)
    parts = [
        request.DESCRIPTOR.full_name.encode(),
        str(seller_id).encode(),
        filters.SerializeToString(deterministic=True),
        body,
    ]
    return hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in parts)).digest()[:_TAG_BYTES]


def _sane(value: int | str) -> bool:
    """Whether the database can take it: the tag tells of mistakes, not of forgery, which would gain nobody anything."""
    if isinstance(value, str):
        return len(value) <= _LONGEST and value.isascii() and value.isprintable()
    return 0 <= value <= _LARGEST


def _foreign() -> ApiError:
    rule = "must be the next_page_token of an earlier answer to the same request"
    return invalid([Violation("E_PRODUCT_INVALID_BODY", rule, parameter="page_token")])
