"""PromotionService."""

from __future__ import annotations

from typing import Any

from core.app import Application
from core.use_cases import read_jobs
from core.use_cases.promote import promote
from grpc_server import convert
from grpc_server.call import current_call, current_principal
from grpc_server.convert import given
from grpc_server.servicers.publishing import REPLAY
from listing_publication.v1 import promotion_pb2, promotion_pb2_grpc


class PromotionServicer(promotion_pb2_grpc.PromotionServiceServicer):
    """Test products and their promotion. Contracts: promotion.proto."""

    def __init__(self, application: Application) -> None:
        self._database = application.database

    async def ListTestProducts(  # noqa: N802
        self, request: promotion_pb2.ListTestProductsRequest, context: Any
    ) -> promotion_pb2.ListTestProductsResponse:
        """See promotion.proto."""
        principal = current_principal()
        skip, after = convert.from_products_page(request, principal.seller_id)
        found = await read_jobs.list_test_products(
            self._database,
            principal,
            already_published=given(request, "already_published"),
            status_meli=given(request, "status_meli"),
            app_status=given(request, "app_status"),
            sku=given(request, "sku"),
            limit=given(request, "page_size"),
            offset=skip,
            after=after,
        )
        return convert.to_list_test_products(found, request, principal.seller_id)

    async def PromoteTestProducts(  # noqa: N802
        self, request: promotion_pb2.PromoteTestProductsRequest, context: Any
    ) -> promotion_pb2.PromoteTestProductsResponse:
        """See promotion.proto."""
        asked = convert.from_promote(request)
        answer = await promote(self._database, current_principal(), asked)
        if answer.replayed:
            current_call().trailing.append(REPLAY)
        return convert.to_promote(answer)
