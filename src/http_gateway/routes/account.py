"""``GET /account`` and ``GET /account/tax-categories``."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from http_gateway import convert
from http_gateway.calls import Core
from http_gateway.responses import json_response
from listing_publication.v1 import account_pb2


class AccountRoutes:
    """What the seller has and how it publishes.

    Args:
        core: where calls go.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def get(self, request: Request) -> Response:
        """Credits and the effective publishing configuration."""
        reply = await self._core.read(request, self._core.account.GetAccount, account_pb2.GetAccountRequest())
        return json_response(convert.account(reply))

    async def tax_categories(self, request: Request) -> Response:
        """The tariff categories whose indices ``tax_category_id`` takes."""
        reply = await self._core.read(
            request, self._core.account.ListTaxCategories, account_pb2.ListTaxCategoriesRequest()
        )
        return json_response(convert.tax_categories(reply))
