"""The gateway over real sockets before a scripted core: order of checks, headers, problems, streams."""

# ruff: noqa: E501 - tables with one case a line

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.timestamp_pb2 import Timestamp
from prometheus_client.parser import text_string_to_metric_families

from core.errors import ApiError, Violation
from http_gateway.app import create_app
from http_gateway.config import GatewayConfig
from http_gateway.openapi import openapi_document
from http_gateway.server import open_channel
from listing_publication.v1 import account_pb2, common_pb2, jobs_pb2, promotion_pb2, publishing_pb2
from tests.support.gateway import KEY, Answer, Client, gateway, split, until
from tests.support.gateway import raw as send_raw
from tests.support.scripted_core import ScriptedCore, scripted_core

JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
BODY = {"items": [{"sku": "B000000001", "category_id": "MCO1055"}]}
CREATED = publishing_pb2.CreateJobResponse(job_id=JOB_ID, status="queued", accepted=1, total_items=1)
PROMOTED = promotion_pb2.PromoteTestProductsResponse(
    job_id=JOB_ID, status="queued", promoted=1, total_candidates=1, skus=["B000000001"]
)
JOB = jobs_pb2.Job(
    job_id=JOB_ID,
    status="processing",
    environment=common_pb2.ENVIRONMENT_LIVE,
    kind="publication",
    total_items=2,
    pending=2,
    created_at=Timestamp(seconds=1),
)
ENDPOINTS = [
    ("POST", "/products", "PublishingService/CreateJob", 202),
    ("GET", "/products/test", "PromotionService/ListTestProducts", 200),
    ("POST", "/products/test/promote", "PromotionService/PromoteTestProducts", 202),
    ("GET", f"/products/jobs/{JOB_ID}", "JobService/GetJob", 200),
    ("GET", "/products/jobs", "JobService/ListJobs", 200),
    ("POST", f"/products/jobs/{JOB_ID}/retry", "JobService/RetryJob", 202),
    ("POST", f"/products/jobs/{JOB_ID}/cancel", "JobService/CancelJob", 200),
    ("GET", f"/products/jobs/{JOB_ID}/events", "JobService/WatchJob", 200),
    ("GET", "/account", "AccountService/GetAccount", 200),
    ("GET", "/account/tax-categories", "AccountService/ListTaxCategories", 200),
    ("GET", "/ping", "AccountService/Ping", 200),
]
ANSWERS: dict[str, Any] = {
    "PublishingService/CreateJob": CREATED,
    "PromotionService/ListTestProducts": promotion_pb2.ListTestProductsResponse(),
    "PromotionService/PromoteTestProducts": PROMOTED,
    "JobService/GetJob": jobs_pb2.GetJobResponse(job=JOB),
    "JobService/ListJobs": jobs_pb2.ListJobsResponse(),
    "JobService/RetryJob": jobs_pb2.RetryJobResponse(job=JOB, retried=1),
    "JobService/CancelJob": jobs_pb2.CancelJobResponse(job=JOB),
    "JobService/WatchJob": [jobs_pb2.WatchJobResponse(job=JOB)],
    "AccountService/GetAccount": account_pb2.GetAccountResponse(seller_id=1),
    "AccountService/ListTaxCategories": account_pb2.ListTaxCategoriesResponse(),
    "AccountService/Ping": account_pb2.PingResponse(seller_id=1, environment=common_pb2.ENVIRONMENT_LIVE),
    "AccountService/CheckAccess": account_pb2.CheckAccessResponse(),
}


@pytest_asyncio.fixture(loop_scope="session", scope="module", name="pair")
async def _pair() -> AsyncIterator[tuple[Client, ScriptedCore]]:
    async with scripted_core() as core, gateway(core.address) as client:
        yield client, core


@pytest.fixture
def client(pair: tuple[Client, ScriptedCore]) -> Client:
    return pair[0]


@pytest.fixture
def core(pair: tuple[Client, ScriptedCore]) -> ScriptedCore:
    scripted = pair[1]
    scripted.answers = dict(ANSWERS)
    scripted.calls.clear()
    scripted.initial_metadata = scripted.trailing_metadata = ()
    return scripted


def check_problem(answer: Answer, status: int, code: str | None = None) -> dict[str, Any]:
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json
    assert body["status"] == status
    assert body.get("code") == code
    assert body["request_id"] == answer.headers["x-request-id"]
    check_common_headers(answer)
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
        assert body["retry_after"] == int(answer.headers["retry-after"])
    return body


def check_common_headers(answer: Answer) -> None:
    assert answer.headers["x-request-id"]
    assert answer.headers["deprecation"] == "@1769817600"
    assert answer.headers["sunset"] == "Sun, 31 Jan 2027 23:59:59 GMT"
    assert "server" not in answer.headers


@pytest.mark.parametrize(("method", "path", "rpc", "status"), ENDPOINTS)
async def test_each_endpoint_makes_its_one_call(
    client: Client, core: ScriptedCore, method: str, path: str, rpc: str, status: int
) -> None:
    body = json.dumps(BODY).encode() if path == "/products" else None
    answer = await client.call(method, path, body=body, headers={"X-Request-Id": "my-id"})
    assert answer.status == status
    check_common_headers(answer)
    assert answer.headers["x-request-id"] == "my-id"
    (call,) = core.calls
    assert call.method == rpc
    assert call.metadata["x-api-key"] == KEY
    assert call.metadata["x-request-id"] == "my-id"
    assert call.metadata["x-client-address"] == "127.0.0.1"
    assert call.seconds_left is not None
    assert call.seconds_left < 3700  # gRPC rounds long deadlines up


@pytest.mark.parametrize(("method", "path", "rpc", "status"), ENDPOINTS)
@pytest.mark.parametrize("code", ["E_AUTH_INVALID_KEY", "E_AUTH_FORBIDDEN_SCOPE", "E_RATE_LIMITED", "E_INTERNAL"])
async def test_each_endpoint_tells_cores_refusal(
    client: Client, core: ScriptedCore, method: str, path: str, rpc: str, status: int, code: str
) -> None:
    error = ApiError(code, "words", retry_after=7 if code == "E_RATE_LIMITED" else None)
    core.answers[rpc] = error
    core.initial_metadata = (("ratelimit", '"read";r=0;t=7'),)
    core.trailing_metadata = (("ratelimit-policy", '"read";q=200;w=1'),)
    body = json.dumps(BODY).encode() if path == "/products" else None
    answer = await client.call(method, path, body=body)
    problem = check_problem(answer, error.kind.http_status, code)
    assert problem["detail"] == "words"
    assert problem["instance"] == "/api/v1" + path
    assert answer.headers["ratelimit"] == '"read";r=0;t=7'
    assert answer.headers["ratelimit-policy"] == '"read";q=200;w=1'
    if code == "E_RATE_LIMITED":
        assert answer.headers["retry-after"] == "7"
    assert answer.headers.get("www-authenticate") == (
        'ApiKey realm="listings"' if error.kind.http_status == 401 else None
    )


async def test_rate_limit_headers_on_success(client: Client, core: ScriptedCore) -> None:
    core.initial_metadata = (("ratelimit-policy", '"read";q=200;w=1'), ("ratelimit", '"read";r=199;t=1'))
    for path in ("/ping", f"/products/jobs/{JOB_ID}/events"):
        answer = await client.call("GET", path)
        assert answer.headers["ratelimit-policy"] == '"read";q=200;w=1'
        assert answer.headers["ratelimit"] == '"read";r=199;t=1'


@pytest.mark.parametrize(
    "status",
    [
        grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT,
    ],
)  # fmt: skip
async def test_a_bare_status_is_unavailable(client: Client, core: ScriptedCore, status: grpc.StatusCode) -> None:
    core.answers["AccountService/Ping"] = status
    answer = await client.call("GET", "/ping")
    check_problem(answer, 503, "E_INTERNAL")
    assert b"inside" not in answer.body


async def test_core_away_is_unavailable_and_heals() -> None:
    async with scripted_core() as core:
        core.answers = dict(ANSWERS)
        port = core.address
        async with gateway("127.0.0.1:1") as nowhere:
            check_problem(await nowhere.call("GET", "/ping"), 503, "E_INTERNAL")
            assert (await nowhere.call("GET", "//healthz", key=None)).status == 200
            ready = await nowhere.call("GET", "//readyz", key=None)
            assert (ready.status, ready.json["core"]) == (503, "unavailable")
        async with gateway(port) as client:
            assert (await client.call("GET", "/ping")).status == 200


async def test_an_absent_or_empty_key_is_left_to_core(client: Client, core: ScriptedCore) -> None:
    for key in (None, ""):
        await client.call("GET", "/ping", key=key)
        assert "x-api-key" not in core.calls[-1].metadata


@pytest.mark.parametrize("key", ["clé", "a b", "x" * 257, "x" * 7000])
async def test_a_key_that_cannot_be_one_reaches_core_as_a_bad_key(client: Client, core: ScriptedCore, key: str) -> None:
    await client.call("GET", "/ping", key=key)
    assert core.calls[-1].metadata["x-api-key"] == "unreadable"


async def test_repeated_headers_are_refused(client: Client, core: ScriptedCore) -> None:
    answer = await client.call("GET", "/ping", headers=[("X-API-Key", KEY)])
    check_problem(answer, 401, "E_AUTH_INVALID_KEY")
    for method, path, *_ in ENDPOINTS:
        headers = [("Idempotency-Key", JOB_ID), ("Idempotency-Key", JOB_ID)]
        body = json.dumps(BODY).encode() if path == "/products" else None
        problem = check_problem(
            await client.call(method, path, headers=headers, body=body), 422, "E_PRODUCT_INVALID_BODY"
        )
        assert problem["errors"][0]["parameter"] == "Idempotency-Key"
    assert core.calls == []


# --- requests that cannot be read ----------------------------------------------------------------------

UNREADABLE = [
    ("POST", "/products", b"{", {}, "PublishingService/CreateJob", [{"pointer": ""}]),
    ("POST", "/products", b"", {}, "PublishingService/CreateJob", [{"pointer": ""}]),
    ("POST", "/products", b"{}", {}, "PublishingService/CreateJob", [{"pointer": "/items"}]),
    ("POST", "/products", b"{}", {"Content-Type": "text/plain"}, "PublishingService/CreateJob", [{"parameter": "Content-Type"}]),
    ("POST", "/products", json.dumps(BODY).encode(), {"Idempotency-Key": "1"}, "PublishingService/CreateJob", [{"parameter": "Idempotency-Key"}]),
    ("POST", "/products", b"{}", {"Idempotency-Key": "1"}, "PublishingService/CreateJob", [{"pointer": "/items"}, {"parameter": "Idempotency-Key"}]),
    ("POST", "/products/test/promote", b'{"skus":[]}', {}, "PromotionService/PromoteTestProducts", [{"pointer": "/skus"}]),
    ("POST", "/products/test/promote", b"", {"Idempotency-Key": "x"}, "PromotionService/PromoteTestProducts", [{"parameter": "Idempotency-Key"}]),
    ("GET", "/products/test?limit=0&app_status=x", None, {}, "PromotionService/ListTestProducts", [{"parameter": "app_status"}, {"parameter": "limit"}]),
    ("GET", "/products/test?already_published=1", None, {}, "PromotionService/ListTestProducts", [{"parameter": "already_published"}]),
    ("GET", "/products/jobs?status=a&status=b", None, {}, "JobService/ListJobs", [{"parameter": "status"}]),
    ("GET", "/products/jobs?limit=1001&offset=-1", None, {}, "JobService/ListJobs", [{"parameter": "limit"}, {"parameter": "offset"}]),
    ("GET", "/products/jobs/no-uuid?limit=x", None, {}, "JobService/GetJob", [{"parameter": "limit"}]),
    ("GET", f"/products/jobs/{JOB_ID}?x=%00", None, {}, "JobService/GetJob", [{"parameter": "query"}]),
    ("GET", f"/products/jobs/{JOB_ID}/events", None, {"Last-Event-ID": "x"}, "JobService/WatchJob", [{"parameter": "Last-Event-ID"}]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "headers", "rpc", "places"), UNREADABLE)
async def test_a_request_that_cannot_be_read_is_refused_after_its_key(
    client: Client, core: ScriptedCore, method: str, path: str, body: bytes | None, headers: dict[str, str], rpc: str,
    places: list[dict[str, str]],
) -> None:  # fmt: skip
    problem = check_problem(await client.call(method, path, body=body, headers=headers), 422, "E_PRODUCT_INVALID_BODY")
    found = [{name: entry[name] for name in entry if name in ("pointer", "parameter")} for entry in problem["errors"]]
    assert found == places
    (call,) = core.calls
    assert (call.method, call.request.method) == ("AccountService/CheckAccess", "/listing_publication.v1." + rpc)
    core.answers["AccountService/CheckAccess"] = ApiError("E_AUTH_FORBIDDEN_SCOPE", "no")
    check_problem(await client.call(method, path, body=body, headers=headers), 403, "E_AUTH_FORBIDDEN_SCOPE")
    assert {each.method for each in core.calls} == {"AccountService/CheckAccess"}


async def test_what_is_sent_reaches_core_as_sent(client: Client, core: ScriptedCore) -> None:
    await client.call(
        "POST",
        "/products",
        value={**BODY, "listing_type_id": "x", "tax_category_id": 7, "scheduled_for": "soon"},
        headers={"Idempotency-Key": f'"{JOB_ID.upper()}"'},
    )
    request = core.calls[-1].request
    assert (request.listing_type_id, request.tax_category_id, request.scheduled_for) == ("x", 7, "soon")
    assert request.idempotency_key == JOB_ID
    await client.call(
        "GET", "/products/test?already_published=false&status_meli=x&app_status=-3&sku=a%20&limit=1000&offset=5&y=1"
    )
    request = core.calls[-1].request
    assert (request.already_published, request.status_meli, request.app_status) == (False, "x", -3)
    assert (request.sku, request.page_size, request.skip) == ("a ", 1000, 5)
    assert request.HasField("already_published")
    await client.call("GET", "/products/test")
    request = core.calls[-1].request
    assert not request.HasField("already_published")
    assert not request.HasField("sku")
    assert request.page_size == 50
    await client.call("GET", "/products/jobs?from=2026-13-01&to=&status=odd")
    request = core.calls[-1].request
    assert (request.from_date, request.to_date, request.status, request.page_size) == ("2026-13-01", "", "odd", 50)
    assert request.HasField("to_date")
    await client.call("GET", f"/products/jobs/{JOB_ID.upper()}?status=failed")
    request = core.calls[-1].request
    assert (request.job_id, request.status, request.page_size, request.skip) == (JOB_ID, "failed", 100, 0)


@pytest.mark.parametrize(
    "text",
    [
        "1", JOB_ID + "0", JOB_ID.replace("-", ""), "%7B" + JOB_ID + "%7D", "%C3%A9", JOB_ID + "%20", JOB_ID + "%0A",
        JOB_ID + "%00", "%0A", "%0D%0A" + JOB_ID, JOB_ID + "%E2%80%A8", JOB_ID + "%FF",
    ],
)  # fmt: skip
async def test_an_id_of_another_form_is_asked_for_as_an_unknown_job(
    client: Client, core: ScriptedCore, text: str
) -> None:
    for method, action, rpc in (
        ("GET", "", "GetJob"),
        ("POST", "/retry", "RetryJob"),
        ("POST", "/cancel", "CancelJob"),
        ("GET", "/events", "WatchJob"),
    ):
        core.answers[f"JobService/{rpc}"] = ApiError("E_JOB_NOT_FOUND", "no such job")
        path = f"/products/jobs/{text}{action}"
        problem = check_problem(await client.call(method, path), 404, "E_JOB_NOT_FOUND")
        assert problem["instance"] == "/api/v1" + path
        assert core.calls[-1].request.job_id == "00000000-0000-0000-0000-000000000000"


async def test_violations_of_core_are_listed_under_rest_names(client: Client, core: ScriptedCore) -> None:
    core.answers["JobService/ListJobs"] = ApiError(
        "E_PRODUCT_INVALID_BODY", "x", violations=[Violation("E_PRODUCT_INVALID_BODY", "y", parameter="from_date")]
    )
    problem = check_problem(await client.call("GET", "/products/jobs?from=x"), 422, "E_PRODUCT_INVALID_BODY")
    assert problem["errors"] == [{"code": "E_PRODUCT_INVALID_BODY", "detail": "y", "parameter": "from"}]


async def test_a_hundred_places_cross_the_boundary(client: Client, core: ScriptedCore) -> None:
    places = [
        Violation("E_CATEGORY_AND_AUTO_CONFLICT", "rule " * 20, pointer=f"/items/{9_000 + number}/auto_categorize")
        for number in range(100)
    ]
    core.answers["PublishingService/CreateJob"] = ApiError("E_PRODUCT_INVALID_SKU", "x", violations=places)
    problem = check_problem(await client.call("POST", "/products", value=BODY), 422, "E_PRODUCT_INVALID_SKU")
    assert [entry["pointer"] for entry in problem["errors"]] == [entry.pointer for entry in places]


async def test_a_replay_is_marked_and_equal(client: Client, core: ScriptedCore) -> None:
    for path, rpc, reply in (
        ("/products", "PublishingService/CreateJob", CREATED),
        ("/products/test/promote", "PromotionService/PromoteTestProducts", PROMOTED),
    ):
        body = json.dumps(BODY).encode() if path == "/products" else b""
        first = await client.call("POST", path, body=body)
        assert "idempotent-replay" not in first.headers
        again: Any = type(reply)()
        again.CopyFrom(reply)
        again.replayed = True
        core.answers[rpc] = again
        second = await client.call("POST", path, body=body)
        assert (second.status, second.body) == (first.status, first.body)
        assert second.headers["idempotent-replay"] == "true"


async def test_promote_without_a_body(client: Client, core: ScriptedCore) -> None:
    for body, headers in ((None, {}), (b"", {"Content-Type": "text/plain"}), (b"{}", {})):
        assert (await client.call("POST", "/products/test/promote", body=body, headers=headers)).status == 202
        assert not core.calls[-1].request.HasField("sku_list")


async def test_retry_and_cancel_ignore_a_body(client: Client, core: ScriptedCore) -> None:
    for action, status in (("retry", 202), ("cancel", 200)):
        answer = await client.call("POST", f"/products/jobs/{JOB_ID}/{action}", body=b"not json")
        assert answer.status == status


# --- paths and methods ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "//", "//api", "//api/v1", "/", "/products/", "/product", "/ping/", "/ping%0A", "/ping%00", "/products%2Ftest",
        f"/products%2Fjobs%2F{JOB_ID}", f"/products/jobs/{JOB_ID}/", f"/products/jobs/{JOB_ID}/items", "/PING",
        "//api/v2/ping", "//favicon.ico", "/products/jobs/a%2Fretry", f"/products/jobs/{JOB_ID}/cancel%0A", f"/products/jobs/{JOB_ID}/%0A",
        "//healthz%0A", "/products%00",
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", [None, KEY])
async def test_unknown_paths(client: Client, core: ScriptedCore, path: str, key: str | None) -> None:
    from yarl import URL

    url = URL(client.address + (path[1:] if path.startswith("//") else "/api/v1" + path), encoded=True)
    headers = {} if key is None else {"X-API-Key": key}
    async with client.session.get(url, headers=headers, allow_redirects=False) as response:
        answer = Answer(response.status, response.headers, await response.read())
    problem = check_problem(answer, 404)
    assert problem["type"] == "about:blank"
    # The key was not looked at, so that nothing is known of its rate.
    assert not {"ratelimit", "ratelimit-policy"} & {name.lower() for name in answer.headers}
    assert core.calls == []


@pytest.mark.parametrize(("method", "path", "rpc", "status"), ENDPOINTS)
@pytest.mark.parametrize("wrong", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "GET", "POST", "HEAD"])
async def test_wrong_methods(
    client: Client, core: ScriptedCore, method: str, path: str, rpc: str, status: int, wrong: str
) -> None:
    events = path.endswith("/events")
    if wrong == method or (wrong == "HEAD" and method == "GET" and not events):
        body = json.dumps(BODY).encode() if path == "/products" else None
        assert (await client.call(wrong, path, body=body)).status == status
        return
    answer = await client.call(wrong, path)
    assert answer.status == 405
    assert not {"ratelimit", "ratelimit-policy"} & {name.lower() for name in answer.headers}
    assert answer.headers["allow"] == ("POST" if method == "POST" else "GET" if events else "GET, HEAD")
    check_common_headers(answer)
    if wrong != "HEAD":
        check_problem(answer, 405)
    assert core.calls == []


async def test_head_has_the_headers_of_get_and_no_body(client: Client, core: ScriptedCore) -> None:
    got = await client.call("GET", "/ping")
    head = await client.call("HEAD", "/ping")
    assert head.body == b""
    assert head.headers["content-length"] == got.headers["content-length"]


# --- headers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", ["x", "~" * 128, "a:b/c?d=e"])
async def test_a_good_request_id_is_kept(client: Client, core: ScriptedCore, sent: str) -> None:
    for path in ("/ping", "/nowhere"):
        assert (await client.call("GET", path, headers={"X-Request-Id": sent})).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["", "x" * 129, "a b", "é", "a\tb"])
async def test_another_request_id_is_replaced(client: Client, core: ScriptedCore, sent: str) -> None:
    answer = await client.call("GET", "/ping", headers={"X-Request-Id": sent})
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
    assert core.calls[-1].metadata["x-request-id"] == answer.headers["x-request-id"]


async def test_links_are_announced_when_configured() -> None:
    async with scripted_core() as core:
        core.answers = dict(ANSWERS)
        async with gateway(core.address, successor_link="https://x/v2", sunset_link="https://x/end") as client:
            for path in ("/ping", "/nowhere"):
                link = (await client.call("GET", path)).headers["link"]
                assert link == '<https://x/v2>; rel="successor-version", <https://x/end>; rel="sunset"'
        async with gateway(core.address, successor_link="https://x/v2") as client:
            link = (await client.call("GET", "/ping")).headers["link"]
            assert link == '<https://x/v2>; rel="successor-version", <https://x/v2>; rel="sunset"'
        async with gateway(core.address) as client:
            assert "link" not in (await client.call("GET", "/ping")).headers


async def test_after_the_shutdown_all_of_v1_is_gone() -> None:
    async with scripted_core() as core, gateway(core.address, v1_shutdown=True) as client:
        for method, path, *_ in [*ENDPOINTS, ("GET", "", "", 0), ("GET", "/nowhere", "", 0)]:
            check_problem(await client.call(method, path), 410)
        assert (await client.call("GET", "//healthz", key=None)).status == 200
        check_problem(await client.call("GET", "//api/v10", key=None), 404)
        assert core.calls == []


async def test_a_forwarded_address_is_believed_from_trusted_proxies_only(client: Client, core: ScriptedCore) -> None:
    headers = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
    await client.call("GET", "/ping", headers=headers)
    assert core.calls[-1].metadata["x-client-address"] == "127.0.0.1"
    async with gateway(core.address, trusted_proxies=("127.0.0.1",)) as behind:
        await behind.call("GET", "/ping", headers=headers)
        assert core.calls[-1].metadata["x-client-address"] == "198.51.100.7"
        await behind.call("GET", "/ping", headers={"X-Forwarded-For": "not an address\u00e9"})
        assert "x-client-address" not in core.calls[-1].metadata


# --- bodies --------------------------------------------------------------------------------------------


async def test_a_body_over_the_limit_is_refused_however_it_is_sent() -> None:
    async with scripted_core() as core, gateway(core.address, max_body_bytes=100_000) as client:
        core.answers = dict(ANSWERS)
        exact = json.dumps(BODY).encode().ljust(100_000)
        assert (await client.call("POST", "/products", body=exact)).status == 202
        core.calls.clear()
        check_problem(await client.call("POST", "/products", body=exact + b" "), 413, "E_PRODUCT_INVALID_BODY")
        check_problem(await client.call("POST", "/nowhere", body=exact + b" "), 413, "E_PRODUCT_INVALID_BODY")
        # The client sends all of a large body before it reads: the answer still arrives.
        check_problem(await client.call("POST", "/products", body=b"x" * 700_000), 413, "E_PRODUCT_INVALID_BODY")

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b" " * 10_000

        url = client.address + "/api/v1/products"
        async with client.session.post(url, data=chunks(), headers={"X-API-Key": KEY}) as response:
            check_problem(
                Answer(response.status, response.headers, await response.read()), 413, "E_PRODUCT_INVALID_BODY"
            )
        assert core.calls == []


async def test_ten_thousand_items_reach_core(client: Client, core: ScriptedCore) -> None:
    entries = [{"sku": f"B{index:09d}", "category_id": f"MCO{index}"} for index in range(10_000)]
    assert (await client.call("POST", "/products", value={"items": entries})).status == 202
    sent = core.calls[-1].request.items
    assert [(item.sku, item.category_id) for item in sent] == [(e["sku"], e["category_id"]) for e in entries]


# --- leaving and stopping ------------------------------------------------------------------------------


async def test_a_client_that_leaves_cancels_its_call(client: Client, core: ScriptedCore) -> None:
    async def forever(request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    for rpc, request in (
        ("AccountService/Ping", b"GET /api/v1/ping HTTP/1.1\r\nHost: x\r\n\r\n"),
        (
            "PublishingService/CreateJob",
            b"POST /api/v1/products HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(json.dumps(BODY))
            + json.dumps(BODY).encode(),
        ),
    ):
        core.calls.clear()
        core.answers[rpc] = forever
        host, _, port = client.address.removeprefix("http://").rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        await until(lambda: core.calls)
        writer.close()
        await until(lambda: core.calls[0].cancelled)
        assert core.methods == [rpc]


async def test_a_slow_call_ends_at_its_deadline() -> None:
    async def forever(request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    async with scripted_core() as core, gateway(core.address, read_deadline=0.2) as client:
        core.answers["AccountService/Ping"] = forever
        check_problem(await client.call("GET", "/ping"), 503, "E_INTERNAL")
        await until(lambda: core.calls[0].cancelled)


async def test_stopping_lets_running_requests_end_and_ends_streams() -> None:
    release = asyncio.Event()

    async def slow(request: Any, context: Any) -> Any:
        await release.wait()
        return ANSWERS["AccountService/Ping"]

    async def endless(request: Any, context: Any) -> AsyncIterator[Any]:
        yield jobs_pb2.WatchJobResponse(job=JOB)
        await asyncio.Event().wait()

    async with scripted_core() as core:
        core.answers = {"AccountService/Ping": slow, "JobService/WatchJob": endless}
        stack = gateway(core.address)
        client = await stack.__aenter__()
        other = asyncio.create_task(
            send_raw(client.address, b"GET /api/v1/ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        )
        events = asyncio.create_task(
            send_raw(
                client.address,
                f"GET /api/v1/products/jobs/{JOB_ID}/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(),
            )
        )
        await until(lambda: len(core.calls) == 2)
        loop = asyncio.get_running_loop()
        began = loop.time()
        stopping = asyncio.create_task(stack.__aexit__(None, None, None))
        seen = await events
        assert b"event: job" in seen
        assert seen.endswith(b"0\r\n\r\n")
        release.set()
        assert split(await other).status == 200
        await stopping
        assert loop.time() - began < 5


async def test_a_request_that_outlives_the_grace_gets_unavailable() -> None:
    async def forever(request: Any, context: Any) -> Any:
        await asyncio.Event().wait()

    async with scripted_core() as core:
        core.answers["AccountService/Ping"] = forever
        stack = gateway(core.address, shutdown_grace=1.0)
        client = await stack.__aenter__()
        waiting = asyncio.create_task(
            send_raw(client.address, b"GET /api/v1/ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        )
        await until(lambda: core.calls)
        await stack.__aexit__(None, None, None)
        check_problem(split(await waiting), 503, "E_INTERNAL")
        await until(lambda: core.calls[0].cancelled)


# --- events --------------------------------------------------------------------------------------------


def item(sequence: int) -> jobs_pb2.WatchJobResponse:
    entry = jobs_pb2.JobItem(ordinal=sequence - 1, sku="B000000001", status="success", sequence=sequence, price=5)
    return jobs_pb2.WatchJobResponse(item=entry)


def finished(last: int) -> jobs_pb2.WatchJobResponse:
    return jobs_pb2.WatchJobResponse(job=jobs_pb2.Job(job_id=JOB_ID, status="completed", last_sequence=last))


async def test_events_are_relayed_in_form_and_order(client: Client, core: ScriptedCore) -> None:
    core.answers["JobService/WatchJob"] = [
        jobs_pb2.WatchJobResponse(job=JOB),
        item(1),
        jobs_pb2.WatchJobResponse(progress=jobs_pb2.Progress(pending=1, status="processing")),
        jobs_pb2.WatchJobResponse(heartbeat=jobs_pb2.Heartbeat()),
        item(2),
        finished(2),
    ]
    answer = await client.call("GET", f"/products/jobs/{JOB_ID}/events")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    blocks = answer.body.decode().removesuffix("\n\n").split("\n\n")
    assert blocks[0] == "retry: 3000"
    assert [block.split("\n")[0] for block in blocks[1:]] == [
        "event: job", "id: 1", "event: progress", ": heartbeat", "id: 2", "event: job",
    ]  # fmt: skip
    lines = blocks[2].split("\n")
    assert lines[1] == "event: item"
    data = json.loads(lines[2].removeprefix("data: "))
    assert (data["sequence"], data["ordinal"], data["sku"], data["price"]) == (1, 0, "B000000001", 5)
    assert json.loads(blocks[-1].split("\n")[1].removeprefix("data: "))["status"] == "completed"
    assert core.calls[-1].request.after_sequence == 0


async def test_events_resume_and_tell_when_nothing_is_left(client: Client, core: ScriptedCore) -> None:
    core.answers["JobService/WatchJob"] = [finished(2), item(2), finished(2)]
    answer = await client.call("GET", f"/products/jobs/{JOB_ID}/events", headers={"Last-Event-ID": "1"})
    assert core.calls[-1].request.after_sequence == 1
    assert b"id: 2\n" in answer.body
    core.answers["JobService/WatchJob"] = [finished(2), finished(2)]
    answer = await client.call("GET", f"/products/jobs/{JOB_ID}/events", headers={"Last-Event-ID": "2"})
    assert (answer.status, answer.body) == (204, b"")
    check_common_headers(answer)
    answer = await client.call("GET", f"/products/jobs/{JOB_ID}/events", headers={"Last-Event-ID": ""})
    assert answer.status == 200
    assert core.calls[-1].request.after_sequence == 0


@pytest.mark.parametrize("sent", ["-1", "01", "1.0", "9223372036854775808", "x", "1,2", "+1"])
async def test_a_last_event_id_of_another_form(client: Client, core: ScriptedCore, sent: str) -> None:
    answer = await client.call("GET", f"/products/jobs/{JOB_ID}/events", headers={"Last-Event-ID": sent})
    check_problem(answer, 422, "E_PRODUCT_INVALID_BODY")


async def test_a_stream_that_ends_early_says_why(client: Client, core: ScriptedCore) -> None:
    core.answers["JobService/WatchJob"] = [item(1), ApiError("E_AUTH_INVALID_KEY", "revoked")]
    body = (await client.call("GET", f"/products/jobs/{JOB_ID}/events")).body.decode()
    last = body.removesuffix("\n\n").split("\n\n")[-1].split("\n")
    assert last[0] == "event: problem"
    assert json.loads(last[1].removeprefix("data: "))["code"] == "E_AUTH_INVALID_KEY"
    core.answers["JobService/WatchJob"] = [item(1), grpc.StatusCode.UNAVAILABLE]
    body = (await client.call("GET", f"/products/jobs/{JOB_ID}/events")).body.decode()
    assert body.endswith(": reconnect\n\n")


async def test_a_client_that_leaves_ends_its_stream(client: Client, core: ScriptedCore) -> None:
    async def endless(request: Any, context: Any) -> AsyncIterator[Any]:
        yield jobs_pb2.WatchJobResponse(job=JOB)
        await asyncio.Event().wait()

    core.answers["JobService/WatchJob"] = endless
    url = f"{client.address}/api/v1/products/jobs/{JOB_ID}/events"
    async with client.session.get(url, headers={"X-API-Key": KEY}) as response:
        await response.content.readuntil(b"event: job")
        response.close()
    await until(lambda: core.calls[0].cancelled)


# --- beside the API ------------------------------------------------------------------------------------


async def test_readiness_follows_core_and_database(client: Client, core: ScriptedCore) -> None:
    answer = await client.call("GET", "//readyz", key=None)
    assert (answer.status, answer.json) == (200, {"status": "ok", "core": "ok", "database": "ok"})
    await core.serving("readiness", False)
    answer = await client.call("GET", "//readyz", key=None)
    assert (answer.status, answer.json) == (503, {"status": "unavailable", "core": "ok", "database": "unavailable"})
    assert answer.headers["retry-after"] == "2"
    await core.serving("readiness", True)
    assert (await client.call("GET", "//readyz", key=None)).status == 200
    assert (await client.call("GET", "//healthz", key=None)).json == {"status": "ok"}


async def test_metrics_count_by_route_not_by_path(client: Client, core: ScriptedCore) -> None:
    await client.call("GET", f"/products/jobs/{JOB_ID}")
    await client.call("GET", "/no/such/path-of-a-caller")
    text = (await client.call("GET", "//metrics", key=None)).body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = {
        (sample.labels["route"], sample.labels["method"], sample.labels["status"])
        for sample in families["listings_http_requests"].samples
    }
    assert ("/api/v1/products/jobs/{jobId}", "GET", "200") in samples
    assert ("unmatched", "GET", "404") in samples
    assert JOB_ID not in text
    assert "path-of-a-caller" not in text


async def test_the_api_describes_itself(client: Client, core: ScriptedCore) -> None:
    answer = await client.call("GET", "//openapi.json", key=None)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json == openapi_document()
    page = await client.call("GET", "//docs", key=None)
    text = page.body.decode()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" not in text
    assert "src=" not in text
    for path in answer.json["paths"]:
        assert f"<code>{path}</code>" in text
    for name in answer.json["components"]["schemas"]:
        assert f"id='schema-{name}'" in text


def test_every_route_is_described_and_nothing_else() -> None:
    paths = openapi_document()["paths"]
    described = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    config = GatewayConfig()

    async def routes() -> set[tuple[str, str]]:
        channel = open_channel(config)
        try:
            app = create_app(config, channel)
            return {(route.path, method) for route in app.routes for method in route.methods or () if method != "HEAD"}
        finally:
            await channel.close(None)

    assert asyncio.new_event_loop().run_until_complete(routes()) == described
