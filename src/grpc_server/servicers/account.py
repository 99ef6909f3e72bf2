"""AccountService."""

from __future__ import annotations

from typing import Any

from core.app import Application
from core.use_cases import account
from grpc_server import convert
from grpc_server.call import current_principal
from listing_publication.v1 import account_pb2, account_pb2_grpc


class AccountServicer(account_pb2_grpc.AccountServiceServicer):
    """What a seller has, and whether a key works. Contracts: account.proto."""

    def __init__(self, application: Application) -> None:
        self._database = application.database

    async def GetAccount(  # noqa: N802
        self, request: account_pb2.GetAccountRequest, context: Any
    ) -> account_pb2.GetAccountResponse:
        """See account.proto."""
        return convert.to_get_account(await account.get_account(self._database, current_principal()))

    async def ListTaxCategories(  # noqa: N802
        self, request: account_pb2.ListTaxCategoriesRequest, context: Any
    ) -> account_pb2.ListTaxCategoriesResponse:
        """See account.proto."""
        return convert.to_tax_categories(await account.list_tax_categories(self._database, current_principal()))

    async def Ping(self, request: account_pb2.PingRequest, context: Any) -> account_pb2.PingResponse:  # noqa: N802
        """See account.proto."""
        return convert.to_ping(current_principal())

    async def CheckAccess(  # noqa: N802
        self, request: account_pb2.CheckAccessRequest, context: Any
    ) -> account_pb2.CheckAccessResponse:
        """See account.proto. Whoever comes here was let in as the method named demands."""
        return account_pb2.CheckAccessResponse()
