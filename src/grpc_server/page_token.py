"""Page tokens: opaque to callers, an offset with a checksum to us."""

from __future__ import annotations

import base64
import binascii
import re
import zlib

from core.errors import Violation, invalid

_FORM = re.compile(rb"skip=([0-9]{1,15});([0-9a-f]{8})")


def page_token(skip: int) -> str:
    """The token of the page that begins after so many rows."""
    body = b"skip=%d" % skip
    return base64.urlsafe_b64encode(b"%s;%08x" % (body, zlib.crc32(body))).decode().rstrip("=")


def read_page_token(token: str) -> int:
    """Rows to pass over.

    Raises:
        ApiError: E_PRODUCT_INVALID_BODY for a token that was not made here.
    """
    try:
        text = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        text = b""
    match = _FORM.fullmatch(text)
    if match is None or page_token(int(match.group(1))) != token:
        rule = "must be a next_page_token of an earlier answer"
        raise invalid([Violation("E_PRODUCT_INVALID_BODY", rule, parameter="page_token")])
    return int(match.group(1))


def next_page_token(skip: int, returned: int, total: int) -> str:
    """The token of the page after this one; empty on the last."""
    return page_token(skip + returned) if returned and skip + returned < total else ""
