"""The OpenAPI document: sound in itself and true to what the gateway answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from jsonschema import Draft202012Validator

from core.errors import CATALOGUE
from http_gateway import convert, problems
from http_gateway.openapi import openapi_document
from http_gateway.schemas import to_json
from listing_publication.v1 import account_pb2, common_pb2, jobs_pb2, promotion_pb2, publishing_pb2

DOCUMENT = openapi_document()
NOW = Timestamp(seconds=1_764_286_327)
JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
JOB = jobs_pb2.Job(
    job_id=JOB_ID, status="failed", environment=common_pb2.ENVIRONMENT_TEST, kind="promotion", total_items=2,
    created_at=NOW, scheduled_for=NOW, started_at=NOW, completed_at=NOW, error_message="e", waiting_reason="w",
    retries=1, reconciling=1,
)  # fmt: skip
YOUNG = jobs_pb2.Job(
    job_id=JOB_ID, status="queued", environment=common_pb2.ENVIRONMENT_LIVE, kind="publication", created_at=NOW
)


def resolved(value: Any) -> Any:
    """The document's part with its references put in place."""
    if isinstance(value, dict):
        if "$ref" in value:
            target: Any = DOCUMENT
            for step in value["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            return resolved(target)
        return {name: resolved(child) for name, child in value.items()}
    if isinstance(value, list):
        return [resolved(child) for child in value]
    return value


def schema(name: str) -> Any:
    return resolved(DOCUMENT["components"]["schemas"][name])


def strict(value: Any) -> Any:
    """The schema with undocumented members forbidden, so that the answers cannot hold any."""
    if isinstance(value, dict):
        closed = {name: strict(child) for name, child in value.items()}
        if closed.get("type") == "object" and "properties" in closed:
            closed["additionalProperties"] = False
        return closed
    if isinstance(value, list):
        return [strict(child) for child in value]
    return value


ANSWERS: list[tuple[str, Any]] = [
    ("JobCreated", convert.job_created(publishing_pb2.CreateJobResponse(
        job_id=JOB_ID, status="queued", accepted=1, rejected=1, total_items=2,
        rejections=[publishing_pb2.Rejection(index=1, sku="a", code="duplicate_sku", detail="d")]))),
    ("JobCreated", convert.job_created(publishing_pb2.CreateJobResponse(
        job_id=JOB_ID, status="queued", accepted=1, total_items=1))),
    ("Promoted", convert.promoted(promotion_pb2.PromoteTestProductsResponse(
        job_id=JOB_ID, status="queued", promoted=1, total_candidates=1, skus=["a"], remaining=4))),
    ("TestProductPage", convert.test_product_page(
        promotion_pb2.ListTestProductsResponse(products=[promotion_pb2.TestProduct(sku="a", app_status=1)], total=1),
        50, 0)),
    ("JobPage", convert.job_page(jobs_pb2.ListJobsResponse(jobs=[JOB, YOUNG], total=2), 50, 0)),
    ("JobRetried", convert.job_retried(jobs_pb2.RetryJobResponse(job=YOUNG, retried=1))),
    ("JobCancelled", convert.job_cancelled(jobs_pb2.CancelJobResponse(job=JOB, in_flight=1))),
    ("JobDetail", convert.job_detail(jobs_pb2.GetJobResponse(job=JOB, total=3, items=[
        jobs_pb2.JobItem(sku="a", status="pending", currency="COP", environment=common_pb2.ENVIRONMENT_LIVE),
        jobs_pb2.JobItem(sku="b", status="success", price=1, listing_id="MCO1", status_meli="active", attempts=1),
        jobs_pb2.JobItem(sku="c", status="failed", retryable=True, error=common_pb2.ItemError(
            code="x", message="m", who=common_pb2.WHO_MARKETPLACE, causes=[common_pb2.Cause(code="c")])),
    ]), 100, 0)),
    ("Account", convert.account(account_pb2.GetAccountResponse(seller_id=1, site_id="MCO", currency="COP"))),
    ("TaxCategories", convert.tax_categories(account_pb2.ListTaxCategoriesResponse(
        tax_categories=[account_pb2.TaxCategory(index=0, name="General", rate_percent="12.5")]))),
    ("Ping", convert.ping(account_pb2.PingResponse(seller_id=1, environment=common_pb2.ENVIRONMENT_TEST, key_id="k"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), ANSWERS)
def test_answers_are_as_described_and_nothing_more(name: str, answer: Any) -> None:
    Draft202012Validator(strict(schema(name))).validate(json.loads(to_json(answer)))


def test_problems_are_as_described() -> None:
    for problem in (problems.not_found(), problems.unavailable(), problems.body_too_large(5)):
        Draft202012Validator(strict(schema("Problem"))).validate(json.loads(problem.body("/x", "id")))


def test_schemas_are_sound() -> None:
    for name in DOCUMENT["components"]["schemas"]:
        Draft202012Validator.check_schema(schema(name))


def operations() -> Iterator[tuple[str, str, Any]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_operations_are_complete() -> None:
    ids = [operation["operationId"] for *_, operation in operations()]
    assert len(ids) == len(set(ids)) == 16
    for path, _, operation in operations():
        assert operation["summary"]
        for status, response in operation["responses"].items():
            headers = set(resolved(response)["headers"])
            assert {"X-Request-Id", "Deprecation", "Sunset", "Link"} <= headers
            if status in ("429", "503"):
                assert "Retry-After" in headers
            assert ("WWW-Authenticate" in headers) is (status == "401")
        if path.startswith("/api/v1"):
            assert {"401", "429", "503"} <= set(operation["responses"])
            assert operation["security"] == [{"ApiKey": []}]
        else:
            assert operation["security"] == []


def test_every_code_of_the_contract_is_described_with_its_status() -> None:
    described = {
        (code, status)
        for *_, operation in operations()
        for status, response in operation["responses"].items()
        for code in CATALOGUE
        if f"`{code}`" in response["description"]
    }
    expected = {(code, str(kind.http_status)) for code, kind in CATALOGUE.items() if not code.startswith("E_ADMIN_")}
    assert described == expected | {("E_PRODUCT_INVALID_BODY", "413")}


BODIES: list[tuple[bool, Any]] = [
    (True, {"items": [{"sku": "B000000001", "category_id": "MCO1"}]}),
    (True, {"items": [{"sku": "B000000001", "auto_categorize": True, "category_id": None}]}),
    (True, {"items": [{"sku": "B000000001", "category_id": "MCO1", "auto_categorize": False}], "x": 1}),
    (True, {"items": [{"sku": "B000000001", "auto_categorize": True}], "tax_category_id": 0}),
    (False, {"items": [{"sku": "B000000001", "auto_categorize": True, "category_id": "MCO1"}]}),
    (False, {"items": [{"sku": "B000000001", "auto_categorize": False}]}),
    (False, {"items": [{"sku": "B000000001"}]}),
    (False, {"items": [{"sku": "B00000000", "category_id": "MCO1"}]}),
    (False, {"items": []}),
    (False, {}),
]


@pytest.mark.parametrize(("valid", "body"), BODIES)
def test_the_described_request_is_the_contracts(valid: bool, body: Any) -> None:
    assert Draft202012Validator(schema("CreateJob")).is_valid(body) is valid
