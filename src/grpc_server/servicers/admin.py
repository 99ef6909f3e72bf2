"""AdminService."""

from __future__ import annotations

from typing import Any

from core.app import Application
from core.use_cases import administration, steer_jobs
from grpc_server import convert
from grpc_server.convert import given
from listing_publication.v1 import admin_pb2, admin_pb2_grpc


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """Administration for whoever runs the service. Contracts: admin.proto."""

    def __init__(self, application: Application) -> None:
        self._database = application.database
        self._cipher = application.cipher

    async def CreateSeller(  # noqa: N802
        self, request: admin_pb2.CreateSellerRequest, context: Any
    ) -> admin_pb2.CreateSellerResponse:
        """See admin.proto."""
        places = {name: getattr(request, name) for name in ("site_id", "currency") if request.HasField(name)}
        made = await administration.create_seller(
            self._database,
            name=request.name,
            first_credits=request.credits,
            settings=convert.from_settings(request.settings),
            **places,
        )
        return admin_pb2.CreateSellerResponse(seller=convert.to_seller(made))

    async def ListSellers(  # noqa: N802
        self, request: admin_pb2.ListSellersRequest, context: Any
    ) -> admin_pb2.ListSellersResponse:
        """See admin.proto."""
        found = await administration.list_sellers(self._database)
        return admin_pb2.ListSellersResponse(sellers=[convert.to_seller(seller) for seller in found])

    async def GetSeller(  # noqa: N802
        self, request: admin_pb2.GetSellerRequest, context: Any
    ) -> admin_pb2.GetSellerResponse:
        """See admin.proto."""
        found = await administration.get_seller(self._database, request.seller_id)
        return admin_pb2.GetSellerResponse(seller=convert.to_seller(found))

    async def UpdateSeller(  # noqa: N802
        self, request: admin_pb2.UpdateSellerRequest, context: Any
    ) -> admin_pb2.UpdateSellerResponse:
        """See admin.proto."""
        settings = convert.from_settings(request.settings)
        changed = await administration.update_seller(self._database, request.seller_id, settings)
        return admin_pb2.UpdateSellerResponse(seller=convert.to_seller(changed))

    async def CreateKey(  # noqa: N802
        self, request: admin_pb2.CreateKeyRequest, context: Any
    ) -> admin_pb2.CreateKeyResponse:
        """See admin.proto."""
        record, secret = await administration.create_key(
            self._database,
            request.seller_id,
            environment=convert.from_environment(request),
            scopes=list(request.scopes),
            expires_at=convert.from_timestamp(request, "expires_at"),
        )
        return admin_pb2.CreateKeyResponse(key=convert.to_key(record), secret=secret)

    async def ListKeys(  # noqa: N802
        self, request: admin_pb2.ListKeysRequest, context: Any
    ) -> admin_pb2.ListKeysResponse:
        """See admin.proto."""
        found = await administration.list_keys(self._database, request.seller_id)
        return admin_pb2.ListKeysResponse(keys=[convert.to_key(record) for record in found])

    async def RevokeKey(  # noqa: N802
        self, request: admin_pb2.RevokeKeyRequest, context: Any
    ) -> admin_pb2.RevokeKeyResponse:
        """See admin.proto."""
        record = await administration.revoke_key(self._database, request.key_id)
        return admin_pb2.RevokeKeyResponse(key=convert.to_key(record))

    async def GrantCredits(  # noqa: N802
        self, request: admin_pb2.GrantCreditsRequest, context: Any
    ) -> admin_pb2.GrantCreditsResponse:
        """See admin.proto."""
        balance = await administration.grant_credits(self._database, request.seller_id, request.amount)
        return admin_pb2.GrantCreditsResponse(balance=convert.to_balance(balance))

    async def GetCredits(  # noqa: N802
        self, request: admin_pb2.GetCreditsRequest, context: Any
    ) -> admin_pb2.GetCreditsResponse:
        """See admin.proto."""
        balance, entries = await administration.get_credits(self._database, request.seller_id)
        return admin_pb2.GetCreditsResponse(
            balance=convert.to_balance(balance),
            latest_entries=[convert.to_ledger_entry(entry) for entry in entries],
        )

    async def ConnectAccount(  # noqa: N802
        self, request: admin_pb2.ConnectAccountRequest, context: Any
    ) -> admin_pb2.ConnectAccountResponse:
        """See admin.proto."""
        state = await administration.connect_account(
            self._database,
            self._cipher,
            request.seller_id,
            convert.from_environment(request),
            marketplace_user_id=request.marketplace_user_id,
            access_token=request.access_token,
            refresh_token=given(request, "refresh_token"),
        )
        return admin_pb2.ConnectAccountResponse(account=convert.to_account(state))

    async def DisconnectAccount(  # noqa: N802
        self, request: admin_pb2.DisconnectAccountRequest, context: Any
    ) -> admin_pb2.DisconnectAccountResponse:
        """See admin.proto."""
        environment = convert.from_environment(request)
        state = await administration.disconnect_account(self._database, request.seller_id, environment)
        return admin_pb2.DisconnectAccountResponse(account=convert.to_account(state))

    async def SetTaxCategory(  # noqa: N802
        self, request: admin_pb2.SetTaxCategoryRequest, context: Any
    ) -> admin_pb2.SetTaxCategoryResponse:
        """See admin.proto."""
        found = await administration.set_tax_category(
            self._database,
            request.seller_id,
            index=request.index,
            name=request.name,
            rate_percent=request.rate_percent,
        )
        return admin_pb2.SetTaxCategoryResponse(names=[each.name for each in found])

    async def ActOnJobs(  # noqa: N802
        self, request: admin_pb2.ActOnJobsRequest, context: Any
    ) -> admin_pb2.ActOnJobsResponse:
        """See admin.proto."""
        results, more = await steer_jobs.act_on_jobs(
            self._database,
            retry=convert.from_action(request),
            seller_id=given(request, "seller_id"),
            status=given(request, "status"),
            from_date=given(request, "from_date"),
            to_date=given(request, "to_date"),
            error_code=given(request, "error_code"),
            validate_only=request.validate_only,
            after=(request.after_seller_id, request.after_job_id) if request.HasField("after_job_id") else None,
        )
        return admin_pb2.ActOnJobsResponse(results=[convert.to_acted_on(each) for each in results], more=more)
