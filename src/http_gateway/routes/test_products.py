"""``GET /products/test`` and ``POST /products/test/promote``."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from core.errors import Violation
from http_gateway import convert
from http_gateway.body import read_body
from http_gateway.calls import Core, method_name
from http_gateway.decode import MalformedRequest, PromoteBody, decode_promote
from http_gateway.query import Query, content_type_violations, idempotency_key
from http_gateway.responses import json_response
from http_gateway.routes.products import REPLAY_HEADER
from listing_publication.v1 import promotion_pb2

LIST_TEST_PRODUCTS: Final = method_name("PromotionService", "ListTestProducts")
PROMOTE_TEST_PRODUCTS: Final = method_name("PromotionService", "PromoteTestProducts")
DEFAULT_LIMIT: Final = 50
"""Contract, "Limits"."""
_FILTERS = ("already_published", "status_meli", "app_status", "sku", "limit", "offset")


class TestProducts:
    """What was published with test keys, and its promotion.

    Args:
        core: where calls go.
    """

    __test__ = False  # not a test case, whatever its name says to a test collector

    def __init__(self, core: Core) -> None:
        self._core = core

    async def list(self, request: Request) -> Response:
        """A page of the test account's listings, newest first."""
        core = self._core
        query = Query(request.scope["query_string"], _FILTERS)
        already_published = query.boolean("already_published")
        app_status = query.integer("app_status")
        limit, offset = query.page(DEFAULT_LIMIT)
        if query.violations:
            await core.refuse(request, LIST_TEST_PRODUCTS, query.violations)
        message = promotion_pb2.ListTestProductsRequest(
            already_published=already_published,
            status_meli=query.text("status_meli"),
            app_status=app_status,
            sku=query.text("sku"),
            page_size=limit,
            skip=offset,
        )
        reply = await core.read(request, core.promotion.ListTestProducts, message)
        return json_response(convert.test_product_page(reply, limit, offset))

    async def promote(self, request: Request) -> Response:
        """Publishes test products to the real account: 202 with the job's id."""
        core = self._core
        body = await read_body(request, core.config)
        headers = request.scope["headers"]
        # Without a body there is nothing whose type could be wrong.
        violations: list[Violation] = content_type_violations(headers) if body else []
        decoded: PromoteBody | None = None
        if not violations:
            try:
                decoded = decode_promote(body)
            except MalformedRequest as error:
                violations = error.violations
        key, key_violations = idempotency_key(headers)
        violations += key_violations
        if decoded is None or violations:
            await core.refuse(request, PROMOTE_TEST_PRODUCTS, violations)
        message = convert.promote_request(decoded, key)
        reply = await core.write(request, core.promotion.PromoteTestProducts, message)
        response = json_response(convert.promoted(reply), 202)
        if reply.replayed:
            response.headers[REPLAY_HEADER] = "true"
        return response
