"""Picture upload and errors (reference section 3.7)."""

from __future__ import annotations

from email.message import Message
from typing import Any

import msgspec

from sandbox.items import picture_urls
from sandbox.market import Market
from sandbox.messages import Answer, Request, bad_request, not_found, ok

MAX_PICTURE_BYTES = 10 * 1024 * 1024

_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")


def upload(market: Market, request: Request) -> Answer:
    """``POST /pictures/items/upload``: multipart field ``file``, JPEG or PNG, at most 10 MB."""
    content = _file_part(request.content_type, request.body)
    if content is None:
        return bad_request("The multipart field file is required")
    if len(content) > MAX_PICTURE_BYTES:
        return bad_request("The picture is larger than 10 MB")
    if not content.startswith(_MAGIC):
        return bad_request("The picture must be JPG or PNG")
    now = market.clock()
    picture_id = f"{100_000 + len(market.pictures)}-MCO{int(now * 1000)}_112025"
    market.pictures[picture_id] = b""
    market.effects.append("picture_uploaded", now, request.caller.id, msgspec.json.encode({"id": picture_id}))
    variations: list[dict[str, Any]] = []
    for size in ("1200x1200", "500x500"):
        urls = picture_urls(picture_id, size)
        variations.append({"size": size, "url": urls["url"], "secure_url": urls["secure_url"]})
    return ok({"id": picture_id, "variations": variations}, 201)


def _file_part(content_type: str, body: bytes) -> bytes | None:
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_param("boundary")
    if header.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        return None
    delimiter = b"--" + boundary.encode("latin-1", "replace")
    for part in body.split(delimiter)[1:]:
        head, separator, content = part.partition(b"\r\n\r\n")
        if separator and b'name="file"' in head:
            return content.removesuffix(b"\r\n")
    return None


def errors(market: Market, request: Request) -> Answer:
    """``GET /pictures/{id}/errors``: why a picture could not be downloaded."""
    picture_id = request.params[0]
    for item in market.items.values():
        for picture in item.record["pictures"]:
            if picture["id"] == picture_id and item.life in {"closed", "under_review"}:
                return ok(
                    {
                        "id": picture_id,
                        "source": "",
                        "error": {
                            "message": "{error_code=response_code, meta={responseCode=403}}",
                            "items": item.id,
                        },
                    }
                )
    return not_found(f"Errors of picture {picture_id[:60]} not found")
