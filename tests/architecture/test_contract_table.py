"""``docs/contract.md`` names a real test for every line of the contract, and leaves no line out.

What must be there is written down here a second time, from the contract: endpoints with their scopes and codes,
fields, headers, limits. Fields that the service adds come from the types that the gateway answers with.
"""

from __future__ import annotations

import ast
import functools
import re

import pytest

from core.errors import CATALOGUE
from http_gateway import schemas
from tests.architecture.sources import ROOT, python_files, tree

PAGE = ROOT / "docs" / "contract.md"

SCOPES = {
    "POST /products": "products:write 202",
    "GET /products/test": "products:read 200",
    "POST /products/test/promote": "products:write 202",
    "GET /products/jobs/{jobId}": "products:read 200",
    "GET /products/jobs": "products:read 200",
    "POST /products/jobs/{jobId}/retry": "products:write 202",
    "POST /products/jobs/{jobId}/cancel": "products:write 200",
    "GET /account": "account:read 200",
    "GET /account/tax-categories": "account:read 200",
    "GET /ping": "no scope 200",
}

CODES = {
    "POST /products": """AUTH_MISSING_KEY AUTH_INVALID_KEY AUTH_FORBIDDEN_SCOPE RATE_LIMITED IDEMPOTENCY_CONFLICT
        PRODUCT_INVALID_BODY PRODUCT_INVALID_SKU PRODUCT_CREDIT_EXHAUSTED PRODUCT_MAX_CONCURRENT_JOBS
        CATEGORY_INVALID CATEGORY_AND_AUTO_CONFLICT ACCOUNT_NOT_FOUND INTERNAL""",
    "GET /products/test": "AUTH_FORBIDDEN_SCOPE PRODUCT_INVALID_BODY PRODUCT_INVALID_SKU",
    "POST /products/test/promote": """AUTH_FORBIDDEN_SCOPE PROMOTE_REQUIRES_LIVE_KEY PROMOTE_NO_CANDIDATES
        PRODUCT_INVALID_BODY PRODUCT_INVALID_SKU PRODUCT_CREDIT_EXHAUSTED PRODUCT_MAX_CONCURRENT_JOBS
        ACCOUNT_NOT_FOUND""",
    "GET /products/jobs/{jobId}": "AUTH_FORBIDDEN_SCOPE JOB_NOT_FOUND",
    "GET /products/jobs": "AUTH_FORBIDDEN_SCOPE PRODUCT_INVALID_BODY",
    "POST /products/jobs/{jobId}/retry": """AUTH_FORBIDDEN_SCOPE JOB_NOT_FOUND JOB_NOT_RETRYABLE
        PRODUCT_CREDIT_EXHAUSTED""",
    "POST /products/jobs/{jobId}/cancel": "AUTH_FORBIDDEN_SCOPE JOB_NOT_FOUND JOB_ALREADY_TERMINAL",
    "GET /account": "AUTH_FORBIDDEN_SCOPE",
    "GET /account/tax-categories": "AUTH_FORBIDDEN_SCOPE",
}

REQUEST_FIELDS = {
    "items",
    "items[].sku",
    "items[].category_id",
    "items[].auto_categorize",
    "listing_type_id",
    "tax_category_id",
    "scheduled_for",
    "skus",
}

QUERIES = {
    "GET /products/test": "already_published status_meli app_status sku limit offset",
    "GET /products/jobs/{jobId}": "status limit offset",
    "GET /products/jobs": "status from to limit offset",
}

HEADERS = {
    "X-API-Key",
    "Idempotency-Key",
    "Idempotent-Replay: true",
    "X-Request-Id",
    "Deprecation",
    "Sunset",
    "Link",
    "Retry-After",
    "RateLimit-Policy",
    "RateLimit",
    "Allow",
    "WWW-Authenticate",
    "Content-Type: application/problem+json",
}

LIMITS = {
    "items per job: 1 to 10,000",
    "active jobs per seller: 6",
    "candidates per promote call without skus: 1,000",
    "scheduled_for: 5 minutes to 30 days ahead",
    "idempotency retention: 24 hours",
    "default page: 50 test products",
    "default page: 100 items of a job",
    "default offset: 0",
    "SKU: 10 alphanumeric characters, ASCII",
    "active keys per seller: no limit",
    "cost: 1 credit per item published, promoted or retried",
    "cost: test keys, reads and cancel are free",
}

ANSWERS = (
    schemas.JobCreated,
    schemas.TestProduct,
    schemas.Promoted,
    schemas.Job,
    schemas.JobItem,
    schemas.Pagination,
    schemas.Account,
    schemas.Credits,
    schemas.PublishingConfig,
    schemas.TaxCategory,
    schemas.Ping,
    schemas.ProblemObject,
)
CONTAINERS = {"credits", "publishing_config"}
"""Fields whose parts have lines of their own."""
EVENTS_ONLY = {"JobItem.ordinal", "JobItem.sequence"}
"""Shown in event streams, which are an addition beside the contract."""


@functools.cache
def _tables() -> dict[str, dict[str, list[str]]]:
    """Section → line → tests."""
    sections: dict[str, dict[str, list[str]]] = {}
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        rows = re.findall(r"^\| (.+) \| (.+) \|$", body, re.MULTILINE)[1:]
        assert len({line for line, _ in rows}) == len(rows), f"{title}: a line stands twice"
        sections[title] = {line: re.findall(r"`([^`]+)`", tests) for line, tests in rows}
    return sections


@functools.cache
def _tests() -> frozenset[str]:
    """Every test there is, as ``module::function``."""
    return frozenset(
        f"{path.stem}::{node.name}"
        for path in python_files(ROOT / "tests")
        if path.name.startswith("test_")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def _quoted(section: str) -> set[str]:
    """What stands in the leading code span of each line of a section."""
    return {match.group(1) for line in _tables()[section] if (match := re.match(r"`([^`]+)`", line))}


def test_every_line_names_tests_that_exist() -> None:
    named = {(line, test) for rows in _tables().values() for line, tests in rows.items() for test in tests}
    unproven = [line for rows in _tables().values() for line, tests in rows.items() if not tests]

    assert len(named) > 300
    assert unproven == []
    assert sorted({test for _, test in named} - _tests()) == []


def test_every_endpoint_is_there_with_its_scope_and_success() -> None:
    assert set(_tables()["Endpoints"]) == {f"`{endpoint}` {scope}" for endpoint, scope in SCOPES.items()}


@pytest.mark.parametrize("endpoint", CODES)
def test_every_code_that_the_contract_lists_for_an_endpoint_is_there_with_its_status(endpoint: str) -> None:
    listed = {f"`{endpoint}` E_{code} {CATALOGUE[f'E_{code}'].http_status}" for code in CODES[endpoint].split()}

    assert listed <= set(_tables()["Errors"])


def test_every_code_of_the_catalogue_that_rest_shows_is_there() -> None:
    named = {line.split()[-2] for line in _tables()["Errors"]}

    assert named == {code for code in CATALOGUE if not code.startswith("E_ADMIN")}
    for line in _tables()["Errors"]:
        code, status = line.split()[-2:]
        assert CATALOGUE[code].http_status == int(status)


def test_every_field_and_parameter_of_a_request_is_there() -> None:
    parameters = {f"`{endpoint}` {name}" for endpoint, names in QUERIES.items() for name in names.split()}

    assert _quoted("Request fields") == REQUEST_FIELDS
    assert set(_tables()["Query parameters"]) == parameters


def test_every_field_of_an_answer_is_there() -> None:
    fields = {
        f"{kind.__name__}.{name}" for kind in ANSWERS for name in kind.__struct_fields__ if name not in CONTAINERS
    }

    assert _quoted("Response fields") == fields - EVENTS_ONLY


def test_every_header_and_limit_is_there() -> None:
    assert _quoted("Headers") == HEADERS
    assert set(_tables()["Limits and costs"]) >= LIMITS
