"""Faults: rules that an operator adds at run time, and what each kind of fault does to a request.

A rule says which requests it looks at (operation, or method and path; sku; user; listing), which of those
it strikes (all, the nth, every kth, with a probability, at most so many times) and with what. The first
rule that strikes decides the fate of the request.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Literal, TypeVar

import msgspec

from sandbox.messages import Answer, Refusal, Request, bad_request, problem

Handler = Callable[[], Answer]
Strike = Callable[["Rule", Request, Handler, "Circumstances"], Answer]


class RuleBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of ``POST /sandbox/faults``. See docs/sandbox.md for the meaning of each field."""

    fault: str
    operation: str | None = None
    method: str | None = None
    path: str | None = None
    sku: str | None = None
    user_id: int | None = None
    listing_id: str | None = None
    skip: int = 0
    nth: int | list[int] | None = None
    every: int | None = None
    probability: float | None = None
    seed: int | None = None
    per: Literal["call", "sku"] = "call"
    times: int | None = None
    status: int | None = None
    seconds: float | None = None
    retry_after: str | int | None = None
    size: int | None = None
    message: str | None = None
    causes: list[Any] | None = None
    then: Literal["silence", "reset", "error"] = "silence"
    value: str | None = None


@dataclass(slots=True)
class Rule:
    """One active rule and its counts."""

    id: int
    body: RuleBody
    kind: Kind
    pattern: re.Pattern[str] | None
    seed: int
    matched: int = 0
    fired: int = 0
    first_fired: float | None = None
    seen: Counter[str] = field(default_factory=Counter)

    def shown(self) -> dict[str, Any]:
        """The rule as ``GET /sandbox/faults`` tells of it."""
        body = {key: value for key, value in msgspec.structs.asdict(self.body).items() if value is not None}
        return {"id": self.id, **body, "matched": self.matched, "fired": self.fired}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a fault may touch besides the answer."""

    now: float
    later: Callable[[float, Callable[[float], None]], None]
    revoke_token: Callable[[Request, str], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault. operation: what it strikes when the rule names neither operation nor path."""

    name: str
    operation: str
    description: str
    strike: Strike


KINDS: dict[str, Kind] = {}
_S = TypeVar("_S", bound=Strike)


def _kind(name: str, description: str, operation: str = "*") -> Callable[[_S], _S]:
    def add(strike: _S) -> _S:
        KINDS[name] = Kind(name, operation, description, strike)
        return strike

    return add


def _error(status: int, error: str, message: str) -> Answer:
    return problem(status, message, error, [])


_SERVER_ERRORS = {
    500: ("internal_server_error", "Internal server error"),
    502: ("bad_gateway", "Bad gateway"),
    503: ("service_not_available", "Service not available"),
    504: ("gateway_timeout", "Gateway timeout"),
}
_HTML = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


def _server_error(status: int) -> Answer:
    error, message = _SERVER_ERRORS.get(status, ("internal_server_error", "Internal server error"))
    return _error(status, error, message)


def _html(status: int) -> Answer:
    title = {502: "502 Bad Gateway", 503: "503 Service Unavailable", 504: "504 Gateway Time-out"}.get(
        status, str(status)
    )
    return Answer(status, _HTML.format(title).encode(), content_type="text/html")


# Before the request is handled: nothing happens in the market.


@_kind("reset_before", "the connection is reset, nothing was done")
def _reset_before(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(delivery="reset")


@_kind("silence_before", "never answered, nothing was done")
def _silence_before(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(delivery="silence")


@_kind("delay_before", "handled only after `seconds` (default 5), then answered")
def _delay_before(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(delay_seconds=_seconds(rule, 5.0), later=handle)


def _before_error(status: int) -> None:
    @_kind(f"error_{status}", f"{status} with a JSON body, nothing was done")
    def strike(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
        return _server_error(status)


for _status in _SERVER_ERRORS:
    _before_error(_status)


@_kind("html_502", "502 with an HTML page (`status` for another one), nothing was done")
def _html_502(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _html(rule.body.status or 502)


@_kind("account_outage", "503 on every call for `seconds` from the first one struck (default: until deleted)")
def _account_outage(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _server_error(rule.body.status or 503)


def _throttled(retry_after: str | None) -> Answer:
    answer = _error(429, "too_many_requests", "Too Many Requests")
    if retry_after is not None:
        answer.headers = (("retry-after", retry_after),)
    return answer


@_kind("rate_limit", "429 local_rate_limited without Retry-After")
def _rate_limit(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return rate_limited()


@_kind("rate_limit_seconds", "429 with Retry-After in seconds (`seconds`, default 1)")
def _rate_limit_seconds(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _throttled(str(int(_seconds(rule, 1.0))))


@_kind("rate_limit_date", "429 with Retry-After as an HTTP date, `seconds` from now (default 2)")
def _rate_limit_date(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _throttled(formatdate(around.now + _seconds(rule, 2.0), usegmt=True))


@_kind("rate_limit_absurd", "429 with an absurd Retry-After (`retry_after`, default 999999)")
def _rate_limit_absurd(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _throttled(str(rule.body.retry_after if rule.body.retry_after is not None else 999999))


@_kind("conflict_409", "409 item optimistic locking error", "item_update")
def _conflict(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _error(409, "conflict", "item optimistic locking error: conflict")


@_kind("locked_423", "423 Locked")
def _locked(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _error(423, "locked", "The resource is locked")


@_kind("unauthorized_401", "401 invalid access token; the token stays good")
def _unauthorized(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return unauthorized("revoked")


@_kind("token_revoked", "the token that was sent is revoked for good, then 401")
def _token_revoked(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    around.revoke_token(request, "revoked")
    return unauthorized("revoked")


@_kind("token_expired", "the token that was sent expires at once, then 401 expired_token")
def _token_expired(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    around.revoke_token(request, "expired")
    return unauthorized("expired")


@_kind("invalid_grant", "400 invalid_grant; the refresh token stays good", "oauth_token")
def _invalid_grant(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return oauth_error("invalid_grant")


@_kind("oauth_error", "an OAuth error named by `value` (default invalid_client)", "oauth_token")
def _oauth_error(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return oauth_error(rule.body.value or "invalid_client")


@_kind("payment_402", "402 with an empty body", "item_create")
def _payment(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(402, b"", content_type=None)


@_kind("unable_to_list_403", "403 seller.unable_to_list, causes as strings", "item_create")
def _unable_to_list(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return unable_to_list(["address_pending", "phone_pending"])


@_kind("forbidden_403", "403 access_denied with code FORBIDDEN")
def _forbidden(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(
        403,
        msgspec.json.encode(
            {
                "status": 403,
                "error": "access_denied",
                "message": "access to the requested resource is forbidden",
                "code": "FORBIDDEN",
            }
        ),
    )


@_kind("not_found_404", "404 although it exists")
def _not_found(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _error(404, "not_found", "resource not found")


@_kind("redirect_302", "302 to `value` (default another path of this server)")
def _redirect(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(302, b"", (("location", rule.body.value or "/sandbox/redirected"),), content_type=None)


@_kind("refuse_400", "400 validation_error with the given `causes` (default 3706, the retryable one)", "item_create")
def _refuse(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    causes = rule.body.causes
    if causes is None:
        causes = [
            {
                "department": "items",
                "cause_id": 3706,
                "type": "error",
                "code": "item.pictures.unavailable",
                "references": ["item.pictures"],
                "message": "The picture could not be processed, send it again",
            }
        ]
    return problem(rule.body.status or 400, rule.body.message or "Validation error", "validation_error", causes)


@_kind("picture_quota_400", "400 bad_request with a picture quota message (retryable although 400)", "item_create")
def _picture_quota(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return bad_request("You have exceeded the quota of pictures per minute, please try again later")


@_kind("cause_as_string", "400 whose cause is a string (seen on descriptions)", "description_create")
def _cause_as_string(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return problem(
        400,
        "Description plain text is not allowed",
        "DESCRIPTION_PLAIN_TEXT_NOT_ALLOWED",
        "item.description.type.invalid",
    )


@_kind("http_200_not_json", "200 with a text that is no JSON, nothing was done")
def _not_json(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(200, b"OK - maintenance", content_type="text/plain")


@_kind("search_empty", "a search that finds nothing although there is something", "item_search")
def _search_empty(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    def change(body: dict[str, Any]) -> None:
        body["results"] = []
        body.get("paging", {})["total"] = 0

    return _changed(handle(), change)


# After the request was handled: what it does has happened (an item was created, a token rotated).


@_kind("reset_after", "handled, then the connection is reset without an answer", "item_create")
def _reset_after(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    handle()
    return Answer(delivery="reset")


@_kind("silence_after", "handled, never answered", "item_create")
def _silence_after(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    handle()
    return Answer(delivery="silence")


@_kind("delay_after", "handled at once, answered after `seconds` (default 5)")
def _delay_after(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    answer.delay_seconds = _seconds(rule, 5.0)
    return answer


@_kind(
    "created_late", "handled only after `seconds` (default 5); meanwhile `then`: silence, reset or error", "item_create"
)
def _created_late(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    around.later(around.now + _seconds(rule, 5.0), lambda now: _quietly(handle))
    if rule.body.then == "error":
        return _server_error(rule.body.status or 504)
    return Answer(delivery=rule.body.then)


@_kind("error_after", "handled, answered with `status` (default 500) and a JSON error", "item_create")
def _error_after(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    handle()
    return _server_error(rule.body.status or 500)


@_kind("html_after", "handled, answered with `status` (default 502) and an HTML page", "item_create")
def _html_after(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    handle()
    return _html(rule.body.status or 502)


@_kind("truncated_body", "handled; half of the body, then the connection closes", "item_create")
def _truncated(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    answer.delivery = "truncate"
    return answer


@_kind("broken_json", "handled; a well framed answer whose JSON ends in the middle", "item_create")
def _broken_json(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    answer.body = answer.body[: len(answer.body) // 2]
    return answer


@_kind("empty_body", "handled; the success status with an empty body", "item_create")
def _empty_body(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    answer.body = b""
    return answer


@_kind("huge_body", "handled; the body grows to `size` bytes (default 20,000,000)", "item_create")
def _huge_body(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    padding = b" " * max(0, (rule.body.size or 20_000_000) - len(answer.body))
    answer.body = answer.body[:1] + padding + answer.body[1:]
    return answer


@_kind("deep_body", "handled; answered with JSON nested `size` levels deep (default 100,000)", "item_create")
def _deep_body(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    depth = rule.body.size or 100_000
    answer.body = b'{"id":' + b"[" * depth + b"]" * depth + b"}"
    return answer


@_kind("slow_drip", "handled; the body arrives `size` bytes (default 16) every `seconds` (default 0.05)", "item_create")
def _slow_drip(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    answer.delivery = "drip"
    answer.chunk_bytes = max(1, rule.body.size or 16)
    answer.interval_seconds = _seconds(rule, 0.05)
    return answer


@_kind("wrong_content_type", "handled; the JSON is labelled `value` (default text/html)", "item_create")
def _wrong_content_type(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    answer.content_type = rule.body.value or "text/html; charset=utf-8"
    return answer


@_kind("partial_206", "handled; 206 with X-Content-Missing and without seller_address", "item_create")
def _partial(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = _changed(handle(), lambda body: body.pop("seller_address", None))
    if answer.status in {200, 201}:
        answer.status = 206
        answer.headers = (*answer.headers, ("x-content-missing", "location,geolocation,seller_address"))
    return answer


@_kind("mismatched_sku", "handled; 200 whose SELLER_SKU is another one (`value`)", "item_create")
def _mismatched_sku(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    other = rule.body.value or "OTHERSKU00"

    def change(body: dict[str, Any]) -> None:
        body["seller_custom_field"] = other
        for attribute in body.get("attributes", []):
            if attribute.get("id") == "SELLER_SKU":
                attribute["value_name"] = other

    answer = _changed(handle(), change)
    if answer.status == 201:
        answer.status = 200
    return answer


@_kind("missing_id", "handled; the answer has no id", "item_create")
def _missing_id(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return _changed(handle(), lambda body: body.pop("id", None))


@_kind("odd_types", "handled; id a number, price a string, status unknown, permalink an object", "item_create")
def _odd_types(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    def change(body: dict[str, Any]) -> None:
        body.update(id=17, price="cheap", status="dancing", permalink={"href": 1}, sub_status="none")

    return _changed(handle(), change)


@_kind("created_twice", "two items are made of one request, the first is answered", "item_create")
def _created_twice(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    answer = handle()
    handle()
    return answer


@_kind("price_ignored", "a price change is ignored, with the price automation warning", "item_update")
def _price_ignored(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    request.overrides.price_ignored = True
    return handle()


@_kind("index_lag", "the new item stays invisible to searches for `seconds` (default 60)", "item_create")
def _index_lag(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    request.overrides.index_lag_seconds = _seconds(rule, 60.0)
    return handle()


@_kind("picture_delay", "the new item's pictures take `seconds` (default 60)", "item_create")
def _picture_delay(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    request.overrides.picture_delay_seconds = _seconds(rule, 60.0)
    return handle()


@_kind("custom_field_lost", "seller_custom_field of the new item is dropped", "item_create")
def _custom_field_lost(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    request.overrides.drop_custom_field = True
    return handle()


@_kind("notices_repeated", "/missed_feeds answers every message twice and out of order", "missed_feeds")
def _notices_repeated(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    def change(body: dict[str, Any]) -> None:
        messages = body.get("messages", [])
        body["messages"] = [*reversed(messages), *messages]

    return _changed(handle(), change)


# Struck when a webhook is sent, not by a request.


@_kind("webhook_repeated", "the webhook is delivered three times", "webhook")
def _webhook_repeated(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(status=3)


@_kind("webhook_lost", "the webhook is never delivered", "webhook")
def _webhook_lost(rule: Rule, request: Request, handle: Handler, around: Circumstances) -> Answer:
    return Answer(status=0)


def _seconds(rule: Rule, default: float) -> float:
    return default if rule.body.seconds is None else rule.body.seconds


def _quietly(handle: Handler) -> None:
    try:
        handle()
    except Refusal:
        return  # nobody waits for this answer


def _changed(answer: Answer, change: Callable[[dict[str, Any]], object]) -> Answer:
    """Applies `change` to a successful JSON object answer."""
    if answer.status >= 400:
        return answer
    body = msgspec.json.decode(answer.body)
    if isinstance(body, dict):
        change(body)
        answer.body = msgspec.json.encode(body)
    return answer


# Answers that rules and ordinary operations share.


def rate_limited() -> Answer:
    """429 in the form most often seen, without Retry-After."""
    return Answer(429, b'{"message":"local_rate_limited","status":429}')


def unauthorized(reason: str) -> Answer:
    """401 for a token that is missing, invalid, revoked, rotated or expired."""
    if reason == "expired":
        return problem(401, "expired_token", "not_found", [])
    if reason == "invalid":
        return problem(401, "invalid_token", "not_found", [])
    if reason == "missing":
        return Answer(401, b'{"code":"unauthorized","message":"authorization value not present"}')
    return Answer(401, b'{"code":"unauthorized","message":"invalid access token"}')


def unable_to_list(codes: list[str]) -> Answer:
    """403 for a user that may not list; the causes are plain strings."""
    return problem(403, "seller.unable_to_list", "User is unable to list.", codes)


_OAUTH_TEXTS = {
    "invalid_grant": "Error validating grant. Your authorization code or refresh token may be expired or it was "
    "already used",
    "invalid_client": "Invalid client_id or client_secret",
    "invalid_request": "The request is missing a required parameter",
    "unsupported_grant_type": "Unsupported grant_type",
}
_OAUTH_STATUS = {"forbidden": 403, "local_rate_limited": 429}


def oauth_error(error: str) -> Answer:
    """An error of ``/oauth/token``."""
    status = _OAUTH_STATUS.get(error, 400)
    return Answer(
        status,
        msgspec.json.encode(
            {
                "error": error,
                "error_description": _OAUTH_TEXTS.get(error, error),
                "status": status,
                "cause": [],
            }
        ),
    )


class FaultRules:
    """The active rules, in the order in which they were added."""

    def __init__(self, seed: int) -> None:
        self.rules: list[Rule] = []
        self.fired_by_kind: Counter[str] = Counter()
        self._seed = seed
        self._next_id = 1

    def add(self, body: RuleBody) -> Rule:
        """Adds a rule. Raises ValueError, naming the field, when it cannot mean anything."""
        kind = KINDS.get(body.fault)
        if kind is None:
            raise ValueError("fault: unknown kind")
        if body.nth is not None and body.every is not None:
            raise ValueError("nth and every exclude each other")
        if body.every is not None and body.every < 1:
            raise ValueError("every: at least 1")
        if body.probability is not None and not 0 <= body.probability <= 1:
            raise ValueError("probability: between 0 and 1")
        if body.status is not None and not 200 <= body.status <= 599:
            raise ValueError("status: between 200 and 599")
        try:
            pattern = None if body.path is None else re.compile(body.path)
        except re.error:
            raise ValueError("path: not a regular expression") from None
        seed = self._seed + self._next_id if body.seed is None else body.seed
        rule = Rule(self._next_id, body, kind, pattern, seed)
        self._next_id += 1
        self.rules.append(rule)
        return rule

    def remove(self, rule_id: int | None) -> int:
        """Removes one rule, or all for None; returns how many. Counts by kind stay."""
        before = len(self.rules)
        self.rules = [] if rule_id is None else [rule for rule in self.rules if rule.id != rule_id]
        return before - len(self.rules)

    def striking(self, request: Request, sku: str | None, listing_id: str | None, now: float) -> Rule | None:
        """The rule that strikes this request, counted as fired; None for an undisturbed request."""
        for rule in self.rules:
            if _looks_at(rule, request, sku, listing_id) and _strikes(rule, sku, now):
                rule.fired += 1
                if rule.first_fired is None:
                    rule.first_fired = now
                self.fired_by_kind[rule.kind.name] += 1
                return rule
        return None


def _looks_at(rule: Rule, request: Request, sku: str | None, listing_id: str | None) -> bool:
    body = rule.body
    operation = body.operation
    if operation is None and body.path is None and body.method is None:
        operation = rule.kind.operation
    if request.operation == "webhook" and operation != "webhook":
        return False
    return (
        operation in {None, "*", request.operation}
        and (body.method is None or body.method.upper() == request.method)
        and (rule.pattern is None or rule.pattern.search(request.path) is not None)
        and (body.sku is None or body.sku == sku)
        and (body.listing_id is None or body.listing_id == listing_id)
        and (body.user_id is None or (request.user is not None and request.user.id == body.user_id))
    )


def _strikes(rule: Rule, sku: str | None, now: float) -> bool:
    body = rule.body
    rule.matched += 1
    key = sku or ""
    rule.seen[key] += 1
    number = (rule.seen[key] if body.per == "sku" else rule.matched) - body.skip
    if number < 1 or (body.times is not None and rule.fired >= body.times):
        return False
    if rule.kind.name == "account_outage" and body.seconds is not None and rule.first_fired is not None:
        return now < rule.first_fired + body.seconds
    if body.nth is not None:
        return number in (body.nth if isinstance(body.nth, list) else [body.nth])
    if body.every is not None and number % body.every != 0:
        return False
    return body.probability is None or _draw(rule.seed, key, rule.seen[key]) < body.probability


def _draw(seed: int, key: str, number: int) -> float:
    # By SKU and count rather than by a shared generator: the same requests are struck whatever order
    # concurrent ones arrive in.
    digest = hashlib.blake2b(f"{seed}:{key}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


__all__ = [
    "KINDS",
    "Circumstances",
    "FaultRules",
    "Kind",
    "Rule",
    "RuleBody",
    "oauth_error",
    "rate_limited",
    "unable_to_list",
    "unauthorized",
]
