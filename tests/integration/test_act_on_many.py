"""Acting on many jobs: by status and date, over several sellers, with a result per job whatever the others do."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.app import Application
from listing_publication.v1 import admin_pb2
from listings.jobs import _rounds as rounds
from tests.conftest import NewTenant
from tests.support.finishing import finish
from tests.support.grpc_client import DEADLINE, OPERATOR, Stubs, key, publication, refused
from tests.support.service import Tenant, skus

RETRY, CANCEL = admin_pb2.JOB_ACTION_RETRY, admin_pb2.JOB_ACTION_CANCEL


async def a_job(stubs: Stubs, secret: str, count: int = 2) -> str:
    """The id of a new job."""
    call = stubs.publishing.CreateJob(publication(skus(count)), metadata=key(secret), timeout=DEADLINE)
    return str((await call).job_id)


async def act(stubs: Stubs, action: Any, **filters: Any) -> Any:
    """ActOnJobs as an operator."""
    request = admin_pb2.ActOnJobsRequest(action=action, **filters)
    return await stubs.admin.ActOnJobs(request, metadata=OPERATOR, timeout=DEADLINE)


def told(answer: Any) -> list[tuple[str, str, int, str]]:
    """(job, its status now, items, why not) of each result."""
    return [(each.job.job_id, each.job.status, each.items, each.refused_code) for each in answer.results]


async def test_a_filter_by_status_and_date(stubs: Stubs, tenant: Tenant, application: Application) -> None:
    seller = tenant.seller_id
    done, queued = [await a_job(stubs, tenant.test_key) for _ in range(2)]
    await finish(application.database, seller, done)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"

    assert told(await act(stubs, CANCEL, seller_id=seller, status="completed", validate_only=True)) == []
    assert told(await act(stubs, CANCEL, seller_id=seller, from_date=tomorrow)) == []
    planned = await act(stubs, CANCEL, seller_id=seller, status="queued", from_date=today, validate_only=True)
    assert told(planned) == [(queued, "queued", 2, "")]
    assert told(await act(stubs, CANCEL, seller_id=seller, status="queued", to_date=today)) == [
        (queued, "cancelled", 2, "")
    ]
    assert told(await act(stubs, CANCEL, seller_id=seller)) == []


async def test_all_sellers_at_once_and_one_that_cannot(
    stubs: Stubs, new_tenant: NewTenant, application: Application
) -> None:
    rich, poor = await new_tenant(), await new_tenant(balance=2)
    jobs = {}
    for tenant in (rich, poor):
        jobs[tenant.seller_id] = await a_job(stubs, tenant.live_key)
        await finish(application.database, tenant.seller_id, jobs[tenant.seller_id], failure="application_blocked")
    # The other's credits are held elsewhere meanwhile.
    await a_job(stubs, poor.live_key)

    answer = await act(stubs, RETRY, error_code="application_blocked")
    by_job = {each.job.job_id: each for each in answer.results}
    assert by_job.keys() == set(jobs.values())
    well, refused_one = by_job[jobs[rich.seller_id]], by_job[jobs[poor.seller_id]]
    assert (well.job.status, well.items, well.refused_code) == ("queued", 2, "")
    assert (refused_one.job.status, refused_one.items) == ("failed", 0)
    assert refused_one.refused_code == "E_PRODUCT_CREDIT_EXHAUSTED"
    assert "2 credits are needed, 0 are available" in refused_one.refused_detail
    assert await poor.credits() == (2, 0, 2, 0, 0)


async def test_two_operators_at_once_act_on_each_job_once(stubs: Stubs, tenant: Tenant) -> None:
    jobs = [await a_job(stubs, tenant.test_key) for _ in range(5)]
    answers = await asyncio.gather(*(act(stubs, CANCEL, seller_id=tenant.seller_id) for _ in range(4)))
    cancelled = [job for answer in answers for job, status, items, code in told(answer) if not code and items == 2]
    assert sorted(cancelled) == sorted(jobs)
    codes = {code for answer in answers for _, _, _, code in told(answer)}
    assert codes <= {"", "E_JOB_ALREADY_TERMINAL"}


@pytest.mark.parametrize(
    ("filters", "code"),
    [
        ({"status": "nonsense"}, "E_PRODUCT_INVALID_BODY"),
        ({"from_date": "yesterday"}, "E_PRODUCT_INVALID_BODY"),
        ({"from_date": "2026-02-02", "to_date": "2026-01-01"}, "E_PRODUCT_INVALID_BODY"),
        ({"error_code": "nonsense"}, "E_ADMIN_INVALID"),
    ],
)
async def test_a_filter_that_says_nothing_acts_on_nothing(
    stubs: Stubs, tenant: Tenant, filters: dict[str, str], code: str
) -> None:
    job_id = await a_job(stubs, tenant.test_key)
    error = await refused(act(stubs, CANCEL, seller_id=tenant.seller_id, **filters))
    assert error.code == code
    assert told(await act(stubs, CANCEL, seller_id=tenant.seller_id)) == [(job_id, "cancelled", 2, "")]


async def test_no_api_key_opens_it(stubs: Stubs, tenant: Tenant) -> None:
    request = admin_pb2.ActOnJobsRequest(action=CANCEL)
    error = await refused(stubs.admin.ActOnJobs(request, metadata=key(tenant.live_key), timeout=DEADLINE))
    assert error.code == "E_ADMIN_FORBIDDEN"


async def test_jobs_that_are_refused_do_not_keep_others_from_being_acted_on(
    stubs: Stubs, tenant: Tenant, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of which no failed item can be retried stay for ever, and stand first: after 1,000 of them (here 2) a retry
    of all jobs must still reach the later ones."""
    monkeypatch.setattr("core.use_cases.steer_jobs.MAX_ACTED_ON", 2)
    for _ in range(3):
        await finish(
            application.database, tenant.seller_id, await a_job(stubs, tenant.test_key), failure="title_refused"
        )
    wanted = await a_job(stubs, tenant.test_key)
    await finish(application.database, tenant.seller_id, wanted, failure="marketplace_busy")

    class Core:
        """What the command line calls, without its channel."""

        admin = type("Admin", (), {"ActOnJobs": None})

        def __init__(self) -> None:
            self.asked: list[Any] = []

        def call(self, _method: Any, request: Any, *, seconds: float) -> Any:
            copy = admin_pb2.ActOnJobsRequest()
            copy.CopyFrom(request)
            call = asyncio.run_coroutine_threadsafe(self._act(copy), loop)
            return call.result(seconds)

        async def _act(self, request: Any) -> Any:
            return await stubs.admin.ActOnJobs(request, metadata=OPERATOR, timeout=DEADLINE)

    loop = asyncio.get_running_loop()
    request = admin_pb2.ActOnJobsRequest(action=RETRY, seller_id=tenant.seller_id)
    results = await asyncio.to_thread(lambda: list(rounds(Core(), request)))  # type: ignore[arg-type]
    assert (wanted, "queued") in [(each.job.job_id, each.job.status) for each in results]
