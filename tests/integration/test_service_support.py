"""The test wiring itself: tenants work on a migrated database."""

from core.app import Application
from core.domain.publication import Item, PublicationRequest
from core.use_cases.create_job import create_job
from tests.support.service import Tenant, skus


async def test_a_tenant_can_publish(application: Application, tenant: Tenant) -> None:
    principal = await application.authorizer.authenticate(tenant.live_key, "127.0.0.1")
    assert principal.seller_id == tenant.seller_id
    answer = await create_job(
        application.database,
        principal,
        PublicationRequest(items=[Item(sku, None, True) for sku in skus(3)]),
    )
    assert answer.result.accepted == 3
    assert await tenant.credits() == (100_000, 99_997, 3, 0, 0)


async def test_databases_are_apart(own_application: Application, application: Application) -> None:
    assert own_application.database.url != application.database.url
