"""validate_only tells what the worker would do."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from core.app import Application
from core.use_cases import administration
from listing_publication.v1 import publishing_pb2
from tests.support.grpc_client import Stubs, key
from tests.support.service import Tenant, new_tenant


@pytest.mark.parametrize(
    ("settings", "tariff"), [({"trm": 4000}, "0"), ({"trm": 1_000_000_000, "margin_percent": "1000"}, "1000")]
)
async def test_a_price_that_the_marketplace_refuses_is_told_in_the_plan(
    stubs: Stubs, application: Application, settings: dict[str, Any], tariff: str
) -> None:
    async def add_product(connection: Any) -> None:
        await connection.execute(
            "INSERT INTO products (sku, title, category, cost_usd, image_urls)"
            " VALUES ('PRICEY0001', 'Mesa', '', 99999999, '{}') ON CONFLICT DO NOTHING"
        )

    await application.database.transact(add_product)
    tenant: Tenant = await new_tenant(application, settings=settings)
    await administration.set_tax_category(
        application.database, tenant.seller_id, index=0, name="General", rate_percent=tariff
    )
    item = publishing_pb2.PublicationItem(sku="PRICEY0001", auto_categorize=True)
    request = publishing_pb2.CreateJobRequest(items=[item], validate_only=True)
    answer = await stubs.publishing.CreateJob(request, metadata=key(tenant.live_key), timeout=10)
    (planned,) = answer.plan
    assert (planned.problem.code, planned.HasField("price")) == ("price_out_of_range", False)


async def test_a_plan_is_told_for_a_key_that_was_used(stubs: Stubs, tenant: Tenant) -> None:
    """``validate_only`` says what the request would come to; it is no replay of the job that was made."""
    item = publishing_pb2.PublicationItem(sku="PRICEY0001", auto_categorize=True)
    request = publishing_pb2.CreateJobRequest(items=[item], idempotency_key=str(uuid.uuid4()))
    made = await stubs.publishing.CreateJob(request, metadata=key(tenant.live_key), timeout=10)
    assert made.job_id
    request.validate_only = True
    answer = await stubs.publishing.CreateJob(request, metadata=key(tenant.live_key), timeout=10)
    assert (answer.job_id, answer.replayed, len(answer.plan)) == ("", False, 1)
