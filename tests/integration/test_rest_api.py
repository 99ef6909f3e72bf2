"""REST v1 over a real core and a real database: the contract's endpoints, codes and order of checks."""

# ruff: noqa: E501 - tables with one case a line

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from core.app import Application
from core.use_cases import administration
from grpc_server.server import CoreServer
from tests.support import service
from tests.support.gateway import Answer, Client, gateway, open_streams, until_watched
from tests.support.service import Tenant, skus

NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest_asyncio.fixture(scope="module")
async def rest(core_server: CoreServer) -> AsyncIterator[Client]:
    """A gateway before the module's core server."""
    async with gateway(core_server.target) as client:
        yield client


def items(count: int = 1, **more: Any) -> dict[str, Any]:
    """A body with that many items."""
    return {"items": [{"sku": sku, "category_id": "MCO1055"} for sku in skus(count)], **more}


def problem(answer: Answer, status: int, code: str | None) -> dict[str, Any]:
    """The problem object, checked for what every problem has."""
    body: dict[str, Any] = answer.json
    assert (answer.status, body.get("code")) == (status, code), body
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["request_id"] == answer.headers["x-request-id"]
    assert {"type", "title", "status", "detail", "instance"} <= set(body)
    assert answer.headers["deprecation"].startswith("@")
    assert answer.headers["sunset"]
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
    return body


def in_minutes(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M")


async def create(rest: Client, key: str, body: Any = None, **more: Any) -> dict[str, Any]:
    answer = await rest.call("POST", "/products", key=key, value=body or items(), **more)
    assert answer.status == 202, answer.body
    made: dict[str, Any] = answer.json
    return made


async def test_ping_tells_the_key(rest: Client, tenant: Tenant) -> None:
    for key, key_id, environment in (
        (tenant.live_key, tenant.live_key_id, "live"),
        (tenant.test_key, tenant.test_key_id, "test"),
    ):
        answer = await rest.call("GET", "/ping", key=key)
        assert answer.json == {
            "status": "ok",
            "seller_id": tenant.seller_id,
            "environment": environment,
            "scopes": answer.json["scopes"],
            "key_id": key_id,
        }
        assert sorted(answer.json["scopes"]) == sorted(service.ALL_SCOPES)


async def test_account_has_the_contracts_fields(rest: Client, tenant: Tenant) -> None:
    await create(rest, tenant.live_key, items(3))
    live = (await rest.call("GET", "/account", key=tenant.live_key)).json
    assert live["seller_id"] == tenant.seller_id
    assert (live["site_id"], live["currency"], live["ml_connected"]) == ("MCO", "COP", True)
    assert live["credits"] == {"total": 100_000, "available": 99_997, "used_live": 3, "used_test": 0}
    config = live["publishing_config"]
    for name in ("trm", "manufacturing_time_days", "stock_quantity"):
        assert type(config[name]) is int
    assert isinstance(config["warranty_time"], str)
    test = (await rest.call("GET", "/account", key=tenant.test_key)).json
    assert test["credits"] == {"total": 100_000, "available": 100_000, "used_live": 3, "used_test": 0}


async def test_a_new_seller_has_the_general_tariff(rest: Client, tenant: Tenant) -> None:
    answer = await rest.call("GET", "/account/tax-categories", key=tenant.live_key)
    assert answer.json == {"tax_categories": [{"index": 0, "name": "General", "rate_percent": 0}]}


async def test_a_job_is_accepted_read_listed_and_cancelled(rest: Client, tenant: Tenant) -> None:
    body = items(3)
    body["items"].append(body["items"][0])
    made = await create(rest, tenant.test_key, body)
    assert (made["status"], made["accepted"], made["rejected"], made["total_items"]) == ("queued", 3, 1, 4)
    (rejection,) = made["rejections"]
    assert (rejection["index"], rejection["sku"]) == (3, body["items"][0]["sku"])
    path = f"/products/jobs/{made['job_id']}"

    detail = (await rest.call("GET", path, key=tenant.test_key)).json
    job = detail["job"]
    assert (job["job_id"], job["status"], job["kind"], job["environment"]) == (
        made["job_id"],
        "queued",
        "publication",
        "test",
    )
    assert (job["total_items"], job["pending"], job["skipped"], job["successful"], job["failed"]) == (4, 3, 1, 0, 0)
    assert job["completed_at"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", job["created_at"])
    assert detail["pagination"] == {"limit": 100, "offset": 0, "returned": 4, "total": 4}
    assert [item["sku"] for item in detail["items"]] == [item["sku"] for item in body["items"]]
    assert [item["status"] for item in detail["items"]] == ["pending"] * 3 + ["skipped"]
    for item in detail["items"]:
        assert {"sku", "status", "listing_id", "permalink", "price", "currency", "category_id", "environment"} <= set(
            item
        )
    assert detail["items"][3]["error"]["who"] == "nobody"
    assert detail["items"][3]["retryable"] is False

    page = (await rest.call("GET", f"{path}?limit=1&offset=2&status=pending", key=tenant.live_key)).json
    assert [item["sku"] for item in page["items"]] == [body["items"][2]["sku"]]
    assert page["pagination"] == {"limit": 1, "offset": 2, "returned": 1, "total": 3}
    beyond = (await rest.call("GET", f"{path}?offset=9007199254740992", key=tenant.live_key)).json
    assert beyond["items"] == []

    listed = (await rest.call("GET", "/products/jobs", key=tenant.live_key)).json
    assert listed == {"jobs": [job], "pagination": {"limit": 50, "offset": 0, "returned": 1, "total": 1}}

    problem(await rest.call("POST", f"{path}/retry", key=tenant.test_key), 400, "E_JOB_NOT_RETRYABLE")
    cancelled = await rest.call("POST", f"{path}/cancel", key=tenant.live_key)
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    assert (cancelled.json["cancelled_items"], cancelled.json["in_flight"]) == (3, 0)
    assert (cancelled.json["pending"], cancelled.json["skipped"]) == (0, 4)
    problem(await rest.call("POST", f"{path}/cancel", key=tenant.live_key), 400, "E_JOB_ALREADY_TERMINAL")
    problem(await rest.call("POST", f"{path}/retry", key=tenant.test_key), 400, "E_JOB_NOT_RETRYABLE")


async def test_jobs_are_listed_by_status_and_day(rest: Client, tenant: Tenant) -> None:
    ids = [(await create(rest, tenant.test_key))["job_id"] for _ in range(3)]
    later = await create(rest, tenant.test_key, items(scheduled_for=in_minutes(60)))
    today = datetime.now(UTC).date()

    async def found(query: str) -> list[str]:
        answer = await rest.call("GET", "/products/jobs" + query, key=tenant.live_key)
        assert answer.status == 200, answer.body
        return [job["job_id"] for job in answer.json["jobs"]]

    assert await found("") == [later["job_id"], *reversed(ids)]
    assert await found("?status=scheduled") == [later["job_id"]]
    assert await found("?status=completed") == []
    assert (
        await found(f"?from={today - timedelta(days=1)}&to={today + timedelta(days=1)}&limit=2&offset=1") == ids[:0:-1]
    )
    assert await found(f"?from={today + timedelta(days=2)}") == []
    assert await found(f"?to={today - timedelta(days=2)}") == []
    scheduled = (await rest.call("GET", f"/products/jobs/{later['job_id']}", key=tenant.live_key)).json["job"]
    assert scheduled["status"] == "scheduled"
    assert scheduled["scheduled_for"].endswith(":00.000Z")


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("/products/jobs?status=done", ["status"]),
        ("/products/jobs?status=", ["status"]),
        ("/products/jobs?from=2026-02-30", ["from"]),
        ("/products/jobs?from=20260228", ["from"]),
        ("/products/jobs?from=2026-2-1&to=x", ["from", "to"]),
        ("/products/jobs?from=2026-02-02&to=2026-02-01", ["from"]),
        ("/products/jobs?from=2026-02-01T00:00", ["from"]),
        ("/products/jobs?from=%D9%A2%D9%A0%D9%A2%D9%A6-01-01", ["from"]),
        ("/products/jobs?limit=0", ["limit"]),
        ("/products/jobs?limit=1001", ["limit"]),
        ("/products/jobs?offset=-1", ["offset"]),
        ("/products/jobs?limit=1&limit=1", ["limit"]),
        (f"/products/jobs/{NOWHERE}?status=queued", ["status"]),
        (f"/products/jobs/{NOWHERE}?limit=x", ["limit"]),
        ("/products/jobs/no-uuid?status=queued", ["status"]),
        ("/products/test?status_meli=x", ["status_meli"]),
        ("/products/test?app_status=2", ["app_status"]),
        ("/products/test?app_status=true", ["app_status"]),
        ("/products/test?already_published=yes", ["already_published"]),
    ],
)
async def test_a_bad_query_is_told_by_parameter(rest: Client, tenant: Tenant, path: str, places: list[str]) -> None:
    body = problem(await rest.call("GET", path, key=tenant.live_key), 422, "E_PRODUCT_INVALID_BODY")
    assert [entry["parameter"] for entry in body["errors"]] == places


async def test_a_bad_sku_in_a_query_has_its_own_code(rest: Client, tenant: Tenant) -> None:
    for text in ("", "B00000000", "B00000000%0A", "B00000000%EF%BC%91", "B0000000011"):
        body = problem(
            await rest.call("GET", f"/products/test?sku={text}", key=tenant.live_key), 422, "E_PRODUCT_INVALID_SKU"
        )
        assert [entry["parameter"] for entry in body["errors"]] == ["sku"]


async def test_unknown_and_foreign_jobs_have_one_answer(rest: Client, tenant: Tenant, application: Application) -> None:
    other = await service.new_tenant(application)
    foreign = (await create(rest, other.test_key))["job_id"]
    seen = set()
    for job_id in (NOWHERE, foreign, "no-uuid", foreign.replace("-", ""), "00000000-0000-0000-0000-000000000000"):
        for method, action in (("GET", ""), ("POST", "/retry"), ("POST", "/cancel"), ("GET", "/events")):
            body = problem(
                await rest.call(method, f"/products/jobs/{job_id}{action}", key=tenant.live_key), 404, "E_JOB_NOT_FOUND"
            )
            seen.add((body["title"], body["detail"]))
    assert len(seen) == 1


CODES: list[tuple[str, list[tuple[str, str]], Any]] = [
    ("E_PRODUCT_INVALID_SKU", [("/items/0/sku", "E_PRODUCT_INVALID_SKU")], {"items": [{"sku": "B00000000\n", "category_id": "MCO1"}]}),
    ("E_PRODUCT_INVALID_SKU", [("/items/0/sku", "E_PRODUCT_INVALID_SKU")], {"items": [{"sku": "\uff22000000001", "category_id": "MCO1"}]}),
    ("E_CATEGORY_INVALID", [("/items/0/category_id", "E_CATEGORY_INVALID")], {"items": [{"sku": "B000000001", "category_id": "MLA1"}]}),
    ("E_CATEGORY_INVALID", [("/items/0/category_id", "E_CATEGORY_INVALID")], {"items": [{"sku": "B000000001", "category_id": "MCO\u0661"}]}),
    ("E_CATEGORY_AND_AUTO_CONFLICT", [("/items/0/auto_categorize", "E_CATEGORY_AND_AUTO_CONFLICT")], {"items": [{"sku": "B000000001", "category_id": "MCO1", "auto_categorize": True}]}),
    ("E_PRODUCT_INVALID_BODY", [("/items/0", "E_PRODUCT_INVALID_BODY")], {"items": [{"sku": "B000000001", "auto_categorize": False}]}),
    ("E_PRODUCT_INVALID_BODY", [("/listing_type_id", "E_PRODUCT_INVALID_BODY")], items(listing_type_id="gold_pro ")),
    ("E_PRODUCT_INVALID_BODY", [("/tax_category_id", "E_PRODUCT_INVALID_BODY")], items(tax_category_id=1)),
    ("E_PRODUCT_INVALID_BODY", [("/tax_category_id", "E_PRODUCT_INVALID_BODY")], items(tax_category_id=-1)),
    ("E_PRODUCT_INVALID_BODY", [("/tax_category_id", "E_PRODUCT_INVALID_BODY")], items(tax_category_id=2**63 - 1)),
    ("E_PRODUCT_INVALID_BODY", [("/scheduled_for", "E_PRODUCT_INVALID_BODY")], items(scheduled_for="2020-01-01T00:00")),
    ("E_PRODUCT_INVALID_BODY", [("/scheduled_for", "E_PRODUCT_INVALID_BODY")], items(scheduled_for="")),
    (
        "E_PRODUCT_INVALID_SKU",
        [
            ("/items/1/sku", "E_PRODUCT_INVALID_SKU"),
            ("/items/1/category_id", "E_CATEGORY_INVALID"),
            ("/items/2", "E_PRODUCT_INVALID_BODY"),
            ("/listing_type_id", "E_PRODUCT_INVALID_BODY"),
            ("/tax_category_id", "E_PRODUCT_INVALID_BODY"),
            ("/scheduled_for", "E_PRODUCT_INVALID_BODY"),
        ],
        {"items": [{"sku": "B000000001", "category_id": "MCO1"}, {"sku": "x", "category_id": "x"}, {"sku": "B000000002"}],
         "listing_type_id": "x", "tax_category_id": 9, "scheduled_for": "x"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("code", "places", "body"), CODES)
async def test_what_a_body_means_is_judged_by_core_and_nothing_is_made(
    rest: Client, tenant: Tenant, code: str, places: list[tuple[str, str]], body: Any
) -> None:
    found = problem(await rest.call("POST", "/products", key=tenant.live_key, value=body), 422, code)
    assert [(entry["pointer"], entry["code"]) for entry in found["errors"]] == places
    assert (await rest.call("GET", "/products/jobs", key=tenant.live_key)).json["jobs"] == []
    assert (await tenant.credits())[1] == 100_000


async def test_at_most_a_hundred_places_are_listed(rest: Client, tenant: Tenant) -> None:
    body = {"items": [{"sku": "short", "category_id": "MCO1"}] * 300}
    found = problem(await rest.call("POST", "/products", key=tenant.live_key, value=body), 422, "E_PRODUCT_INVALID_SKU")
    assert [entry["pointer"] for entry in found["errors"]] == [f"/items/{index}/sku" for index in range(100)]
    assert found["detail"].endswith("(more than 100 places; the first 100 are listed)")
    wrong = {"items": [{"sku": 1}] * 300}
    found = problem(
        await rest.call("POST", "/products", key=tenant.live_key, value=wrong), 422, "E_PRODUCT_INVALID_BODY"
    )
    assert len(found["errors"]) == 100
    assert found["detail"].endswith("(more than 100 places; the first 100 are listed)")


async def test_errors_of_shape_are_told_alone(rest: Client, tenant: Tenant) -> None:
    body = {"items": [{"sku": "short"}, {"sku": 1}], "listing_type_id": "x"}
    found = problem(
        await rest.call("POST", "/products", key=tenant.live_key, value=body), 422, "E_PRODUCT_INVALID_BODY"
    )
    assert [entry["pointer"] for entry in found["errors"]] == ["/items/1/sku"]


async def test_the_schedule_names_its_window(rest: Client, tenant: Tenant) -> None:
    for text in (in_minutes(3), in_minutes(30 * 24 * 60 + 3), "2027-01-01T00:00:00", "2027-01-01T00:00Z"):
        found = problem(
            await rest.call("POST", "/products", key=tenant.live_key, value=items(scheduled_for=text)),
            422,
            "E_PRODUCT_INVALID_BODY",
        )
        assert found["errors"][0]["pointer"] == "/scheduled_for"
    made = await create(rest, tenant.live_key, items(scheduled_for=in_minutes(7)))
    assert made["status"] == "queued"


async def test_keys_and_scopes_are_told_before_anything_else(rest: Client, tenant: Tenant) -> None:
    job_id = (await create(rest, tenant.test_key))["job_id"]
    _, reader = await tenant.key(scopes=["products:read"])
    _, writer = await tenant.key(scopes=["products:write"])
    _, nobody = await tenant.key(scopes=[])
    writes = [
        ("POST", "/products"),
        ("POST", "/products/test/promote"),
        ("POST", f"/products/jobs/{job_id}/retry"),
        ("POST", f"/products/jobs/{job_id}/cancel"),
    ]
    reads = [
        ("GET", "/products/test?limit=x"),
        ("GET", "/products/jobs?limit=x"),
        ("GET", f"/products/jobs/{job_id}?limit=x"),
        ("GET", f"/products/jobs/{job_id}/events"),
    ]
    account = [("GET", "/account"), ("GET", "/account/tax-categories")]
    bad = [
        (None, "E_AUTH_MISSING_KEY"),
        ("", "E_AUTH_MISSING_KEY"),
        ("svc_live_x", "E_AUTH_INVALID_KEY"),
        (tenant.live_key[:-1], "E_AUTH_INVALID_KEY"),
        (tenant.live_key.swapcase(), "E_AUTH_INVALID_KEY"),
        ("cl\u00e9", "E_AUTH_INVALID_KEY"),
        ("x" * 5000, "E_AUTH_INVALID_KEY"),
    ]
    for method, path in [*writes, *reads, *account, ("GET", "/ping")]:
        body = b"{" if method == "POST" else None
        for key, code in bad:
            problem(await rest.call(method, path, key=key, body=body), 401, code)
        if path != "/ping":
            problem(await rest.call(method, path, key=nobody, body=body), 403, "E_AUTH_FORBIDDEN_SCOPE")
    for method, path in [*writes, *account]:
        problem(await rest.call(method, path, key=reader), 403, "E_AUTH_FORBIDDEN_SCOPE")
    for method, path in [*reads, *account]:
        problem(await rest.call(method, path, key=writer), 403, "E_AUTH_FORBIDDEN_SCOPE")
    assert (await rest.call("GET", "/ping", key=nobody)).status == 200
    # Then a bad body: the key may write, so the body is looked at.
    problem(await rest.call("POST", "/products", key=writer, body=b"{"), 422, "E_PRODUCT_INVALID_BODY")


async def test_a_revoked_and_an_expired_key_are_refused(rest: Client, tenant: Tenant, application: Application) -> None:
    key_id, secret = await tenant.key()
    assert (await rest.call("GET", "/ping", key=secret)).status == 200
    await administration.revoke_key(application.database, key_id)
    await asyncio.sleep(1.0)  # the promise: everywhere within one second
    problem(await rest.call("GET", "/ping", key=secret), 401, "E_AUTH_INVALID_KEY")
    expires = datetime.now(UTC) + timedelta(seconds=4)
    _, secret = await tenant.key(expires_at=expires)
    answer = await rest.call("GET", "/ping", key=secret)
    assert answer.json["expires_at"].startswith(expires.strftime("%Y-%m-%dT%H:%M:%S"))
    await asyncio.sleep((expires - datetime.now(UTC)).total_seconds() + 0.1)
    problem(await rest.call("GET", "/ping", key=secret), 401, "E_AUTH_INVALID_KEY")


async def test_an_idempotency_key_replays_byte_for_byte(rest: Client, tenant: Tenant) -> None:
    key = str(uuid.uuid4())
    first = await rest.call("POST", "/products", key=tenant.live_key, value=items(2), headers={"Idempotency-Key": key})
    assert first.status == 202
    assert "idempotent-replay" not in first.headers
    # White space, member order, unknown members and the header's form do not matter.
    one, two = skus(2)
    other = (
        f'{{ "x" : [1], "items" : [ {{"category_id":"MCO1055", "sku":"{one}", "y":2}},'
        f' {{"category_id":"MCO1055","sku":"{two}"}} ] }}'
    )
    for sent in (key, key.upper(), f'"{key}"'):
        again = await rest.call(
            "POST", "/products", key=tenant.live_key, body=other.encode(), headers={"Idempotency-Key": sent}
        )
        assert (again.status, again.body) == (202, first.body)
        assert again.headers["idempotent-replay"] == "true"
    for body in (items(1), items(2, tax_category_id=0)):
        problem(
            await rest.call("POST", "/products", key=tenant.live_key, value=body, headers={"Idempotency-Key": key}),
            409,
            "E_IDEMPOTENCY_CONFLICT",
        )
    # The other environment has keys of its own.
    elsewhere = await rest.call(
        "POST", "/products", key=tenant.test_key, value=items(2), headers={"Idempotency-Key": key}
    )
    assert elsewhere.status == 202
    assert "idempotent-replay" not in elsewhere.headers
    assert len((await rest.call("GET", "/products/jobs", key=tenant.live_key)).json["jobs"]) == 2


async def test_equal_posts_at_once_make_one_job(rest: Client, tenant: Tenant) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    answers = await asyncio.gather(
        *(rest.call("POST", "/products", key=tenant.test_key, value=items(5), headers=headers) for _ in range(20))
    )
    assert {answer.status for answer in answers} == {202}
    assert len({answer.body for answer in answers}) == 1
    assert sum("idempotent-replay" not in answer.headers for answer in answers) == 1


async def test_an_odd_idempotency_key_is_refused_where_it_counts(rest: Client, tenant: Tenant) -> None:
    for path in ("/products", "/products/test/promote"):
        found = problem(
            await rest.call("POST", path, key=tenant.live_key, value=items(), headers={"Idempotency-Key": "1"}),
            422,
            "E_PRODUCT_INVALID_BODY",
        )
        assert found["errors"][-1]["parameter"] == "Idempotency-Key"
    job_id = (await create(rest, tenant.test_key))["job_id"]
    answer = await rest.call(
        "POST", f"/products/jobs/{job_id}/cancel", key=tenant.test_key, headers={"Idempotency-Key": "1"}
    )
    assert answer.status == 200


async def test_the_seventh_active_job_waits(rest: Client, tenant: Tenant) -> None:
    for _ in range(6):
        await create(rest, tenant.test_key)
    problem(
        await rest.call("POST", "/products", key=tenant.live_key, value=items()), 429, "E_PRODUCT_MAX_CONCURRENT_JOBS"
    )


async def test_credits_are_all_or_nothing(rest: Client, application: Application) -> None:
    poor = await service.new_tenant(application, balance=2)
    found = problem(
        await rest.call("POST", "/products", key=poor.live_key, value=items(3)), 400, "E_PRODUCT_CREDIT_EXHAUSTED"
    )
    assert "3" in found["detail"]
    assert "2" in found["detail"]
    assert (await create(rest, poor.live_key, items(2)))["accepted"] == 2
    assert (await create(rest, poor.test_key, items(3)))["accepted"] == 3


async def test_a_live_key_needs_a_connected_account(rest: Client, application: Application) -> None:
    lonely = await service.new_tenant(application, connected=[])
    problem(await rest.call("POST", "/products", key=lonely.live_key, value=items()), 404, "E_ACCOUNT_NOT_FOUND")
    assert (await create(rest, lonely.test_key))["status"] == "queued"
    assert (await rest.call("GET", "/account", key=lonely.live_key)).json["ml_connected"] is False


async def test_promotion_needs_a_live_key_and_candidates(rest: Client, tenant: Tenant) -> None:
    for body in (b"", b"{", b'{"skus":[]}', b"[]"):
        problem(
            await rest.call("POST", "/products/test/promote", key=tenant.test_key, body=body),
            403,
            "E_PROMOTE_REQUIRES_LIVE_KEY",
        )
    for body in (b"", b"{}", b'{"skus":["B000000001"]}', b'{"skus":null}'):
        problem(
            await rest.call("POST", "/products/test/promote", key=tenant.live_key, body=body),
            400,
            "E_PROMOTE_NO_CANDIDATES",
        )
    found = problem(
        await rest.call("POST", "/products/test/promote", key=tenant.live_key, value={"skus": ["B000000001", "x"]}),
        422,
        "E_PRODUCT_INVALID_SKU",
    )
    assert [entry["pointer"] for entry in found["errors"]] == ["/skus/1"]
    page = await rest.call("GET", "/products/test?limit=5", key=tenant.test_key)
    assert page.json == {"products": [], "pagination": {"limit": 5, "offset": 0, "returned": 0, "total": 0}}


async def test_ten_thousand_items_are_taken_and_one_more_is_not(rest: Client, tenant: Tenant) -> None:
    made = await create(rest, tenant.test_key, items(10_000))
    assert (made["accepted"], made["total_items"]) == (10_000, 10_000)
    path = f"/products/jobs/{made['job_id']}"
    page = (await rest.call("GET", f"{path}?limit=1000&offset=9500", key=tenant.test_key)).json
    assert [item["sku"] for item in page["items"]] == skus(10_000)[9_500:]
    problem(
        await rest.call("POST", "/products", key=tenant.test_key, value=items(10_001)), 422, "E_PRODUCT_INVALID_BODY"
    )


async def test_events_of_a_cancelled_job_end(rest: Client, tenant: Tenant) -> None:
    job_id = (await create(rest, tenant.test_key, items(3)))["job_id"]
    before = open_streams()
    watching = asyncio.create_task(rest.call("GET", f"/products/jobs/{job_id}/events", key=tenant.live_key))
    await until_watched(before)
    await rest.call("POST", f"/products/jobs/{job_id}/cancel", key=tenant.live_key)
    async with asyncio.timeout(20):
        answer = await watching
    assert answer.headers["content-type"].startswith("text/event-stream")
    text = answer.body.decode()
    assert re.findall(r"^id: (\d+)$", text, re.MULTILINE) == ["1", "2", "3"]
    again = await rest.call(
        "GET", f"/products/jobs/{job_id}/events", key=tenant.live_key, headers={"Last-Event-ID": "3"}
    )
    assert again.status == 204
    rest_of = await rest.call(
        "GET", f"/products/jobs/{job_id}/events", key=tenant.live_key, headers={"Last-Event-ID": "1"}
    )
    assert re.findall(r"^id: (\d+)$", rest_of.body.decode(), re.MULTILINE) == ["2", "3"]
    beyond = await rest.call(
        "GET", f"/products/jobs/{job_id}/events", key=tenant.live_key, headers={"Last-Event-ID": "4"}
    )
    told = problem(beyond, 422, "E_PRODUCT_INVALID_BODY")
    assert told["errors"][0]["parameter"] == "Last-Event-ID"
    assert told["detail"].startswith("Last-Event-ID: must be at most 3")


async def test_readiness_of_a_whole_service(rest: Client) -> None:
    answer = await rest.call("GET", "//readyz", key=None)
    assert (answer.status, answer.json["status"]) == (200, "ok")


async def test_rate_limits_are_announced_and_kept(own_database_url: str) -> None:
    application = service.new_application(
        own_database_url, rate_limit_read="5/minute", rate_limit_write="3/minute", rate_limit_bad_keys="4/minute"
    )
    await application.open()
    server = CoreServer(application)
    await server.start()
    try:
        tenant = await service.new_tenant(application)
        async with gateway(server.target) as rest:
            for _ in range(5):
                answer = await rest.call("GET", "/ping", key=tenant.live_key)
                assert answer.status == 200
                assert answer.headers["ratelimit-policy"]
                assert answer.headers["ratelimit"]
            refused = await rest.call("GET", "/ping", key=tenant.live_key)
            problem(refused, 429, "E_RATE_LIMITED")
            assert refused.headers["ratelimit"]
            # Writes are counted apart, and a body that cannot be read counts as well.
            for body in (b"{", b"{}", b"["):
                unread = await rest.call("POST", "/products", key=tenant.live_key, body=body)
                problem(unread, 422, "E_PRODUCT_INVALID_BODY")
                assert unread.headers["ratelimit-policy"]
                assert unread.headers["ratelimit"]
            problem(await rest.call("POST", "/products", key=tenant.live_key, body=b"{"), 429, "E_RATE_LIMITED")
            # Another key of the same seller is not touched.
            assert (await rest.call("GET", "/ping", key=tenant.test_key)).status == 200
            codes = [(await rest.call("GET", "/ping", key="svc_live_bad")).json["code"] for _ in range(6)]
            assert codes == ["E_AUTH_INVALID_KEY"] * 4 + ["E_RATE_LIMITED"] * 2
            assert (await rest.call("GET", "/ping", key=tenant.test_key)).status == 200
    finally:
        await server.drain()
        await application.close()
