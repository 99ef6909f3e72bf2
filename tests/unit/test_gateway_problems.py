"""gRPC errors to problems: believed only as far as they carry a code of ours."""

from __future__ import annotations

import json

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from core.errors import CATALOGUE, ApiError, Violation, invalid
from http_gateway import problems
from http_gateway.problems import Problem
from tests.support.scripted_core import status_details


def rpc_error(packed: bytes | None, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> grpc.aio.AioRpcError:
    entries = [] if packed is None else [("grpc-status-details-bin", packed)]
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*entries), "text from inside", None)


def shown(problem: Problem) -> dict[str, object]:
    value: dict[str, object] = json.loads(problem.body("/api/v1/x", "id-1"))
    return value


@pytest.mark.parametrize("code", [code for code in CATALOGUE if not code.startswith("E_ADMIN_")])
def test_every_code_of_the_contract_has_its_status_type_and_title(code: str) -> None:
    problem = problems.from_rpc_error(rpc_error(status_details(ApiError(code, "words"))))
    kind = CATALOGUE[code]
    expected = {
        "type": "urn:listing-publication:error:" + code[2:].lower(),
        "title": kind.title,
        "status": kind.http_status,
        "detail": "words",
        "instance": "/api/v1/x",
        "request_id": "id-1",
        "code": code,
    }
    if kind.http_status in (429, 503):
        expected["retry_after"] = 1
        assert (b"retry-after", b"1") in problem.headers()
    assert shown(problem) == expected
    assert (b"content-type", b"application/problem+json") in problem.headers()


@pytest.mark.parametrize(
    ("field", "place", "name"),
    [
        ("page_size", "parameter", "limit"),
        ("skip", "parameter", "offset"),
        ("from_date", "parameter", "from"),
        ("idempotency_key", "parameter", "Idempotency-Key"),
        ("/sku_list/skus/3", "pointer", "/skus/3"),
        ("/items/3/sku", "pointer", "/items/3/sku"),
    ],
)
def test_rest_calls_places_by_its_own_names(field: str, place: str, name: str) -> None:
    error = invalid([Violation("E_PRODUCT_INVALID_BODY", "rule", field)])
    body = shown(problems.from_rpc_error(rpc_error(status_details(error))))
    assert body["errors"] == [{"code": "E_PRODUCT_INVALID_BODY", "detail": "rule", place: name}]
    assert body["detail"] == f"{name}: rule"


def test_places_and_delay_cross_the_boundary() -> None:
    error = ApiError(
        "E_PRODUCT_INVALID_SKU",
        "words",
        violations=[
            Violation("E_PRODUCT_INVALID_SKU", "a", pointer="/items/17/sku"),
            Violation("E_PRODUCT_INVALID_BODY", "b", parameter="page_size"),
            Violation("E_PRODUCT_INVALID_BODY", "c", parameter="from_date"),
            Violation("E_PRODUCT_INVALID_BODY", "d"),
        ],
        retry_after=17,
    )
    body = shown(problems.from_rpc_error(rpc_error(status_details(error))))
    assert body["errors"] == [
        {"code": "E_PRODUCT_INVALID_SKU", "detail": "a", "pointer": "/items/17/sku"},
        {"code": "E_PRODUCT_INVALID_BODY", "detail": "b", "parameter": "limit"},
        {"code": "E_PRODUCT_INVALID_BODY", "detail": "c", "parameter": "from"},
        {"code": "E_PRODUCT_INVALID_BODY", "detail": "d", "pointer": ""},
    ]
    assert body["retry_after"] == 17


def test_a_part_of_a_second_is_rounded_up() -> None:
    status = status_pb2.Status(message="words")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="E_RATE_LIMITED", domain="listing-publication"))
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.nanos = 1
    retry.retry_delay.seconds = 2
    status.details.add().Pack(retry)
    assert problems.from_rpc_error(rpc_error(status.SerializeToString())).retry_after == 3


def _info(reason: str, domain: str = "listing-publication") -> bytes:
    status = status_pb2.Status(message="secret")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain))
    packed: bytes = status.SerializeToString()
    return packed


@pytest.mark.parametrize(
    "packed",
    [
        None,
        b"",
        b"\xff\xff\xff",
        _info("E_JOB_NOT_FOUND", "googleapis.com"),
        _info("E_NEVER_HEARD_OF"),
        _info(""),
        _info("E_ADMIN_FORBIDDEN"),
        status_pb2.Status(message="secret").SerializeToString(),
    ],
)
@pytest.mark.parametrize("code", list(grpc.StatusCode))
def test_anything_else_is_unavailable_with_a_delay_and_no_text(packed: bytes | None, code: grpc.StatusCode) -> None:
    problem = problems.from_rpc_error(rpc_error(packed, code))
    body = shown(problem)
    assert (body["status"], body["code"]) == (503, "E_INTERNAL")
    assert problem.retry_after is not None
    assert problem.retry_after >= 1
    assert "secret" not in json.dumps(body)
    assert "inside" not in json.dumps(body)


def test_problems_without_a_code() -> None:
    body = shown(problems.method_not_allowed("GET, HEAD"))
    assert body["type"] == "about:blank"
    assert body["title"] == "Method Not Allowed"
    assert "code" not in body
    assert (b"allow", b"GET, HEAD") in problems.method_not_allowed("GET, HEAD").headers()
    assert "code" not in shown(problems.not_found())
    assert shown(problems.gone())["status"] == 410
    assert (b"connection", b"close") in problems.bad_request("x").headers()


def test_a_large_body_has_the_code_of_a_bad_one() -> None:
    body = shown(problems.body_too_large(100))
    assert (body["status"], body["code"]) == (413, "E_PRODUCT_INVALID_BODY")
    assert "100 bytes" in str(body["detail"])
