"""The sandbox without a transport: a request goes in, an answer and the way to deliver it come out."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from sandbox.accounts import AccessGrant, digest_of
from sandbox.config import SandboxConfig
from sandbox.faults import Circumstances, FaultRules, rate_limited, unauthorized
from sandbox.market import Market
from sandbox.messages import Answer, Refusal, Request, not_found, problem
from sandbox.operations import descriptions, feeds, items, oauth, pictures, search, site, users

Operation = Callable[[Market, Request], Answer]

_log = logging.getLogger("sandbox")

_BEARER = "Bearer "
_PUBLIC = frozenset({"oauth_token"})


@dataclass(slots=True)
class Node:
    """One path segment of the routing tree. `any` matches every segment and captures it."""

    literal: dict[str, Node] = field(default_factory=dict)
    any: Node | None = None
    methods: dict[str, tuple[str, Operation]] = field(default_factory=dict)


class Sandbox:
    """One marketplace. Not thread-safe: everything runs on the event loop's thread.

    Raises OSError or ValueError when the data folder of `config` cannot be used.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self.market = Market(config)
        self.settings = self.market.settings
        self.faults = FaultRules(config.seed)
        self.requests: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.throttled = 0
        self._scrolls = search.Scrolls()
        self._allowance = 0.0
        self._allowance_at = 0.0
        self._root = Node()
        self._add_routes()

    # Routing

    def route(self, method: str, pattern: str, name: str, operation: Operation) -> None:
        """Adds an operation; ``{}`` in the pattern captures one path segment."""
        node = self._root
        for segment in pattern.strip("/").split("/"):
            if segment == "{}":
                node.any = node.any or Node()
                node = node.any
            else:
                node = node.literal.setdefault(segment, Node())
        node.methods[method] = (name, operation)

    def routes(self) -> Node:
        """The routing tree."""
        return self._root

    def _find(self, path: str) -> tuple[Node | None, tuple[str, ...]]:
        node = self._root
        params: tuple[str, ...] = ()
        for segment in path.strip("/").split("/"):
            following = node.literal.get(segment)
            if following is None:
                if node.any is None:
                    return None, ()
                following = node.any
                params = (*params, segment)
            node = following
        return node, params

    def _add_routes(self) -> None:
        from sandbox import admin  # noqa: PLC0415 - admin needs the class defined here

        route = self.route
        route("POST", "/oauth/token", "oauth_token", oauth.exchange)
        route("GET", "/users/me", "users_me", users.me)
        route("POST", "/users/test_user", "test_user", users.test_user)
        route("GET", "/users/{}", "user_get", users.user)
        route("GET", "/users/{}/items/search", "item_search", partial(search.search, scrolls=self._scrolls))
        route("GET", "/users/{}/items/search/restrictions", "search_restrictions", search.restrictions)
        route("GET", "/users/{}/available_listing_types", "available_listing_types", users.available_listing_types)
        route("GET", "/users/{}/available_listing_type/{}", "available_listing_type", users.available_listing_type)
        route("POST", "/items", "item_create", items.create)
        route("GET", "/items", "item_multiget", items.multiget)
        route("POST", "/items/validate", "item_validate", items.validate)
        route("GET", "/items/{}", "item_get", items.read)
        route("PUT", "/items/{}", "item_update", items.update)
        route("POST", "/items/{}/listing_type", "item_listing_type", items.change_listing_type)
        route("POST", "/items/{}/pictures", "item_pictures", items.add_picture)
        route("GET", "/items/{}/prices", "item_prices", items.prices)
        route("GET", "/items/{}/sale_price", "item_sale_price", items.sale_price)
        route("POST", "/items/{}/description", "description_create", descriptions.create)
        route("PUT", "/items/{}/description", "description_update", descriptions.update)
        route("GET", "/items/{}/description", "description_get", descriptions.read)
        route("GET", "/sites/{}/domain_discovery/search", "domain_discovery", site.domain_discovery)
        route("GET", "/sites/{}/categories", "site_categories", site.site_categories)
        route("GET", "/sites/{}/search", "site_search", site.site_search)
        route("GET", "/sites/{}/listing_types", "site_listing_types", site.site_listing_types)
        route("GET", "/sites/{}/listing_types/{}", "listing_type", site.listing_type)
        route("GET", "/listing_types/{}", "listing_type", site.listing_type)
        route("GET", "/sites/{}/listing_prices", "listing_prices", site.listing_prices)
        route("GET", "/categories/{}", "category", site.one_category)
        route("GET", "/categories/{}/attributes", "category_attributes", site.category_attributes)
        route("POST", "/categories/{}/attributes/conditional", "category_conditional", site.category_conditional)
        route("GET", "/categories/{}/sale_terms", "category_sale_terms", site.category_sale_terms)
        route("GET", "/currencies/{}", "currency", site.currency)
        route("GET", "/currency_conversions/search", "currency_conversion", site.currency_conversion)
        route("POST", "/pictures/items/upload", "picture_upload", pictures.upload)
        route("GET", "/pictures/{}/errors", "picture_errors", pictures.errors)
        route("GET", "/missed_feeds", "missed_feeds", feeds.missed_feeds)
        admin.add_routes(self)

    # Requests

    def handle(self, request: Request) -> Answer:
        """Answers one request; never raises for anything a client can send.

        The answer may only be delivered once the effects log is durable (`market.effects.when_durable`).
        """
        try:
            answer = self._handle(request)
        except Refusal as refusal:
            answer = refusal.answer
        except Exception:
            # A fault of the sandbox itself must look like one, and must not take the connection down unseen.
            _log.exception("sandbox failed on %s", request.operation)
            answer = problem(500, "The sandbox failed", "internal_server_error", [])
        outcome = answer.delivery if answer.delivery in {"reset", "silence"} else str(answer.status)
        self.statuses[f"{request.operation or 'unknown'} {outcome}"] += 1
        return answer

    def _handle(self, request: Request) -> Answer:
        node, request.params = self._find(request.path)
        if node is None or not node.methods:
            return not_found("resource not found")
        found = node.methods.get(request.method)
        if found is None:
            answer = problem(405, "Method not allowed", "method_not_allowed")
            answer.headers = (("allow", ", ".join(sorted(node.methods))),)
            return answer
        request.operation, operation = found
        now = self.market.clock()
        self.market.advance(now)
        if request.operation.startswith("sandbox_"):
            return operation(self.market, request)
        return self._serve(request, operation, now)

    def _serve(self, request: Request, operation: Operation, now: float) -> Answer:
        self.requests[request.operation] += 1
        if self.market.effects.failed:
            return problem(503, "The effects log cannot be written", "service_not_available", [])
        if self.settings.requests_per_second is not None and not self._admit(now):
            self.throttled += 1
            return rate_limited()
        if request.operation not in _PUBLIC:
            self._authenticate(request, now)
        if self.faults.rules:
            return self._with_faults(request, operation, now)
        return operation(self.market, request)

    def _admit(self, now: float) -> bool:
        # A token bucket of one second's worth over the whole application, as the real limit is shared.
        rate = self.settings.requests_per_second or 0.0
        self._allowance = min(max(rate, 1.0), self._allowance + max(0.0, now - self._allowance_at) * rate)
        self._allowance_at = now
        if self._allowance < 1.0:
            return False
        self._allowance -= 1.0
        return True

    def _authenticate(self, request: Request, now: float) -> None:
        if not request.authorization.startswith(_BEARER):
            raise Refusal(unauthorized("missing"))
        token = request.authorization[len(_BEARER) :]
        grant = self.market.tokens.access(token, now)
        if not isinstance(grant, AccessGrant):
            raise Refusal(unauthorized(grant))
        user = self.market.user(grant.user_id)
        if user.grant_revoked or (not user.adopts_tokens and grant.expires_at is None):
            raise Refusal(unauthorized("revoked"))
        request.user = user

    def _with_faults(self, request: Request, operation: Operation, now: float) -> Answer:
        sku, listing_id = self._subject(request)
        rule = self.faults.striking(request, sku, listing_id, now)
        if rule is None:
            return operation(self.market, request)
        around = Circumstances(now, self.market.at, self._revoke_sent_token)
        return rule.kind.strike(rule, request, partial(self._operate, operation, request), around)

    def _operate(self, operation: Operation, request: Request) -> Answer:
        try:
            return operation(self.market, request)
        except Refusal as refusal:
            return refusal.answer

    def _subject(self, request: Request) -> tuple[str | None, str | None]:
        """SKU and listing id that the request is about, as far as it says."""
        if request.operation in {"item_create", "item_validate"}:
            return _sku_in(request), None
        if request.operation == "item_search":
            return request.parameter("seller_sku") or request.parameter("sku") or None, None
        if request.path.startswith("/items/") and request.params:
            item = self.market.items.get(request.params[0])
            return (None if item is None else item.sku), request.params[0]
        return None, None

    def _revoke_sent_token(self, request: Request, reason: str) -> None:
        token = request.authorization[len(_BEARER) :]
        if token and request.user is not None:
            self.refuse_tokens(request.user.id, [digest_of(token)], reason)

    def refuse_tokens(self, user_id: int, digests: list[str], reason: str) -> None:
        """Refuses these access tokens of a user from now on, and records it."""
        self.market.tokens.refuse(digests, reason)
        data = {"refused": digests, "reason": reason}
        self.market.effects.append("tokens_revoked", self.market.clock(), user_id, msgspec.json.encode(data))


def _sku_in(request: Request) -> str | None:
    try:
        body = request.json_object()
    except Refusal:
        return None
    attributes = body.get("attributes")
    for attribute in attributes if isinstance(attributes, list) else []:
        if isinstance(attribute, dict) and attribute.get("id") == "SELLER_SKU":
            value = attribute.get("value_name")
            return value if isinstance(value, str) else None
    return None


def create_app(config: SandboxConfig | None = None) -> Sandbox:
    """A sandbox of this configuration, to be served by `sandbox.server` or called directly in tests."""
    return Sandbox(config or SandboxConfig())
