"""``GET /missed_feeds`` (reference section 8)."""

from __future__ import annotations

from sandbox.items import timestamp
from sandbox.market import Market, notice_body
from sandbox.messages import Answer, Request, bad_request, ok

_KEPT_SECONDS = 2 * 24 * 3600.0
_LIMIT_DEFAULT = 10


def missed_feeds(market: Market, request: Request) -> Answer:
    """The item changes of the last two days of the calling user, newest first."""
    application = request.integer("app_id", 0)
    if application == 0:
        return bad_request("The parameter app_id is required")
    limit = request.integer("limit", _LIMIT_DEFAULT)
    offset = request.integer("offset", 0)
    topic = request.parameter("topic", "items")
    since = market.clock() - _KEPT_SECONDS
    notices = [notice for notice in reversed(request.caller.notices) if notice.sent >= since]
    if topic != "items":
        notices = []
    return ok(
        {
            "messages": [
                {
                    **notice_body(notice, application),
                    "request": {"url": "", "headers": {}, "data": ""},
                    "response": {"http_code": 500, "req_time": 500, "date": timestamp(notice.sent)},
                }
                for notice in notices[offset : offset + limit]
            ]
        }
    )
