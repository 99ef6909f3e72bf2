"""REST v1 as an OpenAPI 3.1 document.

Codes, their HTTP statuses and titles come from ``core.errors.CATALOGUE``; paths, fields, limits and
headers are those of the contract and of the decisions beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from core.errors import CATALOGUE
from http_gateway.query import MAX_OFFSET, MAX_PAGE

Json = dict[str, Any]

TITLE: Final = "Listing Publication Service"
LISTING_TYPES: Final = ("gold_pro", "gold_special", "gold_premium", "gold", "silver", "bronze")
JOB_STATUSES: Final = ("queued", "processing", "scheduled", "completed", "failed", "cancelled")
ITEM_STATUSES: Final = ("success", "failed", "skipped", "pending")
MARKETPLACE_STATUSES: Final = (
    "active",
    "paused",
    "closed",
    "under_review",
    "inactive",
    "not_yet_active",
    "payment_required",
)
_UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_ANY_KEY = ("E_AUTH_MISSING_KEY", "E_AUTH_INVALID_KEY", "E_RATE_LIMITED", "E_INTERNAL")
_SCOPED = ("E_AUTH_FORBIDDEN_SCOPE",)


def _ref(kind: str, name: str) -> Json:
    return {"$ref": f"#/components/{kind}/{name}"}


def _schema(name: str) -> Json:
    return _ref("schemas", name)


def _string(description: str, **more: Any) -> Json:
    return {"type": "string", "description": description, **more}


def _integer(description: str, **more: Any) -> Json:
    return {"type": "integer", "description": description, **more}


def _boolean(description: str) -> Json:
    return {"type": "boolean", "description": description}


def _nullable(schema: Json) -> Json:
    return {**schema, "type": [schema["type"], "null"]}


def _time(description: str) -> Json:
    return _string(f"{description} RFC 3339, UTC.", format="date-time")


def _object(description: str, properties: Json, optional: Sequence[str] = ()) -> Json:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


def _array(description: str, items: Json, **more: Any) -> Json:
    return {"type": "array", "description": description, "items": items, **more}


# --- schemas -------------------------------------------------------------------------------------------

_SKU = _string("Exactly 10 ASCII letters or digits.", pattern="^[A-Za-z0-9]{10}$")
_LISTING_TYPE = _string(
    "Listing type. `gold_pro` is premium with instalments, `gold_special` classic; the others are legacy.",
    enum=list(LISTING_TYPES),
)
_TAX_CATEGORY = _integer(
    "Index into the seller's tariff categories, see `GET /account/tax-categories`. Default 0.", minimum=0
)


def _or_null(schema: Json) -> Json:
    """A request's optional field: ``null`` counts as absent."""
    result = _nullable(schema)
    if "enum" in result:
        result["enum"] = [*result["enum"], None]
    return result


def _schemas() -> Json:
    counters = {
        "total_items": _integer("Items in the job, rejected ones included.", minimum=0),
        "successful": _integer("Items published.", minimum=0),
        "failed": _integer("Items that failed.", minimum=0),
        "skipped": _integer("Repeated SKUs, and items that a cancellation ended unpublished.", minimum=0),
        "pending": _integer("Items not done.", minimum=0),
    }
    job = {
        "job_id": _string("Identifier of the job.", format="uuid"),
        "status": _string("Status; the last three are final.", enum=list(JOB_STATUSES)),
        "environment": _string("Environment of the key that made it.", enum=["live", "test"]),
        "kind": _string("What it does.", enum=["publication", "promotion"]),
        **counters,
        "created_at": _time("When the request was accepted."),
        "completed_at": _nullable(_time("When it became final; null before.")),
        "scheduled_for": _time("When it is or was due; absent when not scheduled."),
        "started_at": _time("When a worker first took an item."),
        "error_message": _string("Why the job failed; every failed job has one."),
        "waiting_reason": _string("Why a job that is not done does not move."),
        "reconciling": _integer("Items whose outcome at the marketplace is being searched for.", minimum=0),
        "retries": _integer("How many times the job was retried.", minimum=0),
    }
    job_optional = (
        "scheduled_for",
        "started_at",
        "error_message",
        "waiting_reason",
        "reconciling",
        "retries",
    )
    rejections = _array(
        "The well-formed entries that were not taken; absent when there are none.", _schema("Rejection")
    )
    return {
        "PublicationItem": {
            **_object(
                "One product to publish. Carries exactly one of `category_id` and `auto_categorize: true`.",
                {
                    "sku": _SKU,
                    "category_id": _or_null(_string("Marketplace category: `MCO` and digits.", pattern="^MCO[0-9]+$")),
                    "auto_categorize": {
                        "type": ["boolean", "null"],
                        "description": "True: the category is inferred from the SKU. False counts as absent.",
                    },
                },
                ("category_id", "auto_categorize"),
            ),
            "oneOf": [
                {
                    "required": ["category_id"],
                    "properties": {
                        "category_id": {"type": "string"},
                        "auto_categorize": {"enum": [False, None]},
                    },
                },
                {
                    "required": ["auto_categorize"],
                    "properties": {
                        "auto_categorize": {"const": True},
                        "category_id": {"type": "null"},
                    },
                },
            ],
        },
        "CreateJob": _object(
            "A publication job to be made.",
            {
                "items": _array(
                    "What to publish. A SKU given twice is taken once; the others are rejected.",
                    _schema("PublicationItem"),
                    minItems=1,
                    maxItems=10_000,
                ),
                "listing_type_id": _or_null(_LISTING_TYPE),
                "tax_category_id": _or_null(_TAX_CATEGORY),
                "scheduled_for": _or_null(
                    _string(
                        "When to publish: `YYYY-MM-DDTHH:MM`, UTC, 5 minutes to 30 days ahead.",
                        pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$",
                    )
                ),
            },
            ("listing_type_id", "tax_category_id", "scheduled_for"),
        ),
        "Promote": _object(
            "What to promote to the real account. Every field is optional.",
            {
                "skus": _or_null(
                    _array(
                        "The SKUs to promote; absent: the 1,000 oldest candidates.",
                        _SKU,
                        minItems=1,
                        maxItems=10_000,
                    )
                ),
                "listing_type_id": _or_null(_LISTING_TYPE),
                "tax_category_id": _or_null(_TAX_CATEGORY),
            },
            ("skus", "listing_type_id", "tax_category_id"),
        ),
        "Rejection": _object(
            "A well-formed entry that was not taken.",
            {
                "index": _integer(
                    "Position in the request, from 0; of a promotion among its SKUs, each counted once.", minimum=0
                ),
                "sku": _string("The SKU as sent."),
                "code": _string("Stable code, for example `duplicate_sku`."),
                "detail": _string("Why, in words."),
            },
        ),
        "JobCreated": _object(
            "The job that was made.",
            {
                "job_id": _string("Identifier for all later tracking.", format="uuid"),
                "status": _string("Initial status.", enum=["queued"]),
                "accepted": _integer("Items taken.", minimum=0),
                "rejected": _integer("Items not taken.", minimum=0),
                "total_items": _integer("accepted + rejected.", minimum=1),
                "rejections": rejections,
            },
            ("rejections",),
        ),
        "Promoted": _object(
            "The promotion job that was made. promoted + rejected = total_candidates.",
            {
                "job_id": _string("Identifier for all later tracking.", format="uuid"),
                "status": _string("Initial status.", enum=["queued"]),
                "promoted": _integer("SKUs taken.", minimum=1),
                "rejected": _integer("Named SKUs that are no candidates.", minimum=0),
                "total_candidates": _integer("SKUs named, or found.", minimum=1),
                "skus": _array("The SKUs taken.", {"type": "string"}),
                "rejections": rejections,
                "remaining": _integer("Candidates left, when no SKU was named.", minimum=0),
            },
            ("rejections", "remaining"),
        ),
        "Pagination": _object(
            "Where the page stands.",
            {
                "limit": _integer("Entries asked for.", minimum=1, maximum=1_000),
                "offset": _integer("Entries passed over.", minimum=0),
                "returned": _integer("Entries on this page.", minimum=0),
                "total": _integer("Entries that match.", minimum=0),
            },
        ),
        "TestProduct": _object(
            "A listing on the test account.",
            {
                "sku": _string("SKU."),
                "listing_id_test": _nullable(_string("Listing id on the test account.")),
                "title": _nullable(_string("Title as published.")),
                "image": _nullable(_string("Address of the first picture.")),
                "permalink_test": _nullable(_string("Address of the listing.")),
                "listing_type_id": _nullable(_string("Listing type.")),
                "price": _nullable(_integer("Price in `currency`, whole units.")),
                "currency": _nullable(_string("ISO 4217.")),
                "category_id": _nullable(_string("Marketplace category.")),
                "category_name": _nullable(_string("The category's name.")),
                "tax_category_id": _integer("Tariff index it was priced with."),
                "status_meli": {
                    "type": ["string", "null"],
                    "description": "Status the marketplace last told, for example `active`.",
                },
                "app_status": _integer("0 = paused or deleted, 1 = active.", enum=[0, 1]),
                "published_to_live": _boolean("True once promoted to the real account."),
                "test_published_at": _nullable(_time("When last published with a test key.")),
            },
        ),
        "TestProductPage": _object(
            "A page of test products.",
            {
                "products": _array("The page, newest first.", _schema("TestProduct")),
                "pagination": _schema("Pagination"),
            },
        ),
        "Job": _object("A job in short.", job, job_optional),
        "JobRetried": _object(
            "The job, queued again.",
            {**job, "retried": _integer("Items sent again.", minimum=1)},
            job_optional,
        ),
        "JobCancelled": _object(
            "The job, cancelled.",
            {
                **job,
                "cancelled_items": _integer("Items skipped by this call.", minimum=0),
                "in_flight": _integer("Items on the wire, recorded as what they become.", minimum=0),
            },
            job_optional,
        ),
        "JobPage": _object(
            "A page of jobs.",
            {
                "jobs": _array("The page, newest first.", _schema("Job")),
                "pagination": _schema("Pagination"),
            },
        ),
        "Cause": _object(
            "One thing the marketplace said.",
            {
                "code": _string("The marketplace's code."),
                "message": _string("The marketplace's words."),
                "field": _nullable(_string("The field it spoke of.")),
            },
        ),
        "ItemError": _object(
            "Why an item failed or was skipped.",
            {
                "code": _string("Stable code."),
                "message": _string("Words a seller can act on."),
                "who": {
                    "type": ["string", "null"],
                    "description": "Who must act.",
                    "enum": ["seller", "integrator", "marketplace", "operator", "nobody", None],
                },
                "causes": _array("What the marketplace said.", _schema("Cause")),
            },
        ),
        "JobItem": _object(
            "One SKU of a job.",
            {
                "sku": _string("SKU."),
                "status": _string("Status.", enum=list(ITEM_STATUSES)),
                "listing_id": _nullable(_string("Listing id at the marketplace.")),
                "permalink": _nullable(_string("Address of the listing.")),
                "price": _nullable(_integer("Price in `currency`, whole units.")),
                "currency": _nullable(_string("ISO 4217.")),
                "category_id": _nullable(_string("Marketplace category.")),
                "environment": _nullable(_string("Environment.")),
                "retryable": _boolean("Failed and skipped items: whether a retry can help."),
                "error": _schema("ItemError"),
                "status_meli": _string("Published items: the listing's present status."),
                "attempts": _integer("Times the item was sent since the job was made or last retried.", minimum=0),
            },
            ("retryable", "error", "status_meli", "attempts"),
        ),
        "JobDetail": _object(
            "A job with a page of its items.",
            {
                "job": _schema("Job"),
                "items": _array("The page, in request order.", _schema("JobItem")),
                "pagination": _schema("Pagination"),
            },
        ),
        "Event": _object(
            "One server-sent event of a job.",
            {
                "event": _string("What it tells.", enum=["job", "item", "progress", "problem"]),
                "id": _string("The sequence, on `item` events only."),
                "data": _string(
                    "JSON: for `job` as in the job list, for `item` as in a job's items with `ordinal` and"
                    " `sequence`, for `progress` counters and rate, for `problem` a problem."
                ),
                "retry": _integer("Milliseconds to wait before connecting again."),
            },
            ("event", "id", "data", "retry"),
        ),
        "Account": _object(
            "Credits and publishing configuration.",
            {
                "seller_id": _integer("The seller."),
                "site_id": _string("The marketplace's site, for example `MCO`."),
                "currency": _string("ISO 4217."),
                "credits": _object(
                    "Credits, as the calling key's environment sees them.",
                    {
                        "total": _integer("Granted in all."),
                        "available": _integer("Left to spend."),
                        "used_live": _integer("Spent and held."),
                        "used_test": _integer("Items published with test keys; free."),
                    },
                ),
                "publishing_config": _object(
                    "The seller's effective settings.",
                    {
                        "trm": _integer("Pesos per US dollar."),
                        "warranty_time": _string("Warranty."),
                        "manufacturing_time_days": _integer("Days until a product can be sent."),
                        "stock_quantity": _integer("Stock each listing is published with."),
                        "margin_percent": {"type": "number", "description": "Margin on cost."},
                        "price_step": _integer("Prices are rounded up to a multiple of this."),
                        "listing_type_id": _string("Used when a request names none."),
                    },
                    ("margin_percent", "price_step", "listing_type_id"),
                ),
                "ml_connected": _boolean("Whether the calling key's environment has a connected account."),
            },
        ),
        "TaxCategories": _object(
            "The seller's tariff categories.",
            {
                "tax_categories": _array(
                    "By index.",
                    _object(
                        "One tariff category.",
                        {
                            "index": _integer("What `tax_category_id` takes.", minimum=0),
                            "name": _string("The seller's name for it."),
                            "rate_percent": {"type": "number", "description": "Rate in percent."},
                        },
                    ),
                )
            },
        ),
        "Ping": _object(
            "What the calling key is.",
            {
                "status": _string("Always `ok`.", enum=["ok"]),
                "seller_id": _integer("The seller."),
                "environment": _string("The key's environment.", enum=["live", "test"]),
                "scopes": _array("The key's scopes.", {"type": "string"}),
                "key_id": _string("The key's public id."),
                "expires_at": _time("Absent when the key does not expire."),
            },
            ("expires_at",),
        ),
        "Problem": _object(
            "RFC 9457 problem.",
            {
                "type": _string("`urn:listing-publication:error:...`, or `about:blank` without a code."),
                "title": _string("Short text."),
                "status": _integer("HTTP status."),
                "detail": _string("What is wrong with this request."),
                "instance": _string("The request's path."),
                "request_id": _string("The request's id."),
                "code": _string("Stable code.", enum=[code for code in CATALOGUE if not code.startswith("E_ADMIN_")]),
                "errors": _array(
                    "Every offending place, at most 100.",
                    _object(
                        "One offending place.",
                        {
                            "code": _string("Stable code."),
                            "detail": _string("The rule."),
                            "pointer": _string("JSON Pointer into the body."),
                            "parameter": _string("Name of a query parameter or header."),
                        },
                        ("pointer", "parameter"),
                    ),
                    maxItems=100,
                ),
                "retry_after": _integer("Seconds until another try makes sense.", minimum=1),
            },
            ("code", "errors", "retry_after"),
        ),
        "Health": _object("The process turns.", {"status": _string("Always `ok`.", enum=["ok"])}),
        "Readiness": _object(
            "Whether requests can be served.",
            {
                name: _string(what, enum=["ok", "unavailable"])
                for name, what in (
                    ("status", "All together."),
                    ("core", "The core server."),
                    ("database", "Its database."),
                )
            },
        ),
    }


# --- headers and parameters ----------------------------------------------------------------------------

_COMMON_HEADERS = ("X-Request-Id", "Deprecation", "Sunset", "Link")
_KEY_HEADERS = ("RateLimit-Policy", "RateLimit")


def _headers() -> Json:
    def header(description: str, schema: Json, *, required: bool = False) -> Json:
        return {"description": description, "schema": schema, "required": required}

    text: Json = {"type": "string"}
    return {
        "X-Request-Id": header("The client's id, or a new one.", text, required=True),
        "Deprecation": header(
            "Since when v1 is deprecated (RFC 9745).",
            {"type": "string", "pattern": "^@-?[0-9]+$"},
            required=True,
        ),
        "Sunset": header("When v1 is to be shut down (RFC 8594).", text, required=True),
        "Link": header("Relations `successor-version` and `sunset`, when configured.", text),
        "RateLimit-Policy": header("The key's quota; on answers to a known key.", text),
        "RateLimit": header("What is left of the quota; on answers to a known key.", text),
        "Retry-After": header(
            "Whole seconds until another try makes sense.",
            {"type": "integer", "minimum": 1},
            required=True,
        ),
        "Idempotent-Replay": header(
            "`true` when this is a remembered answer and no job was made.",
            {"type": "string", "enum": ["true"]},
        ),
        "WWW-Authenticate": header("Names the way of showing a key: in `X-API-Key`.", text, required=True),
        "Allow": header("The methods that the path takes.", text, required=True),
    }


def _named_headers(*names: str) -> Json:
    return {name: _ref("headers", name) for name in names}


def _query(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def _page(default: int) -> list[Json]:
    return [
        _query(
            "limit",
            {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": default},
            "Entries per page. More than 1,000 is refused, never lowered.",
        ),
        _query(
            "offset",
            {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0},
            "Entries to pass over.",
        ),
    ]


_JOB_ID: Json = {
    "name": "jobId",
    "in": "path",
    "required": True,
    "description": "Identifier returned at creation. Anything but a UUID is an unknown job.",
    "schema": {"type": "string", "format": "uuid", "pattern": _UUID},
}
_IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "A UUID, bare or in double quotes. For 24 hours an equal request gets the first answer again with"
        " `Idempotent-Replay: true`; another request under the same key is refused."
    ),
    "schema": {"type": "string", "format": "uuid", "pattern": _UUID},
}
_REQUEST_ID: Json = {
    "name": "X-Request-Id",
    "in": "header",
    "required": False,
    "description": "1 to 128 visible ASCII characters; echoed and logged. Anything else is replaced.",
    "schema": {"type": "string"},
}


# --- operations ----------------------------------------------------------------------------------------


def _success(description: str, schema: str, *more_headers: str) -> Json:
    return {
        "description": description,
        "headers": _named_headers(*_COMMON_HEADERS, *_KEY_HEADERS, *more_headers),
        "content": {"application/json": {"schema": _schema(schema)}},
    }


def _failures(codes: Sequence[str], *, body: bool) -> Json:
    """Responses by status; each names its codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CATALOGUE[code].http_status, []).append(code)
    if body:
        by_status[413] = ["E_PRODUCT_INVALID_BODY"]
        by_status[408] = []
    by_status.setdefault(400, [])
    by_status.setdefault(431, [])
    by_status.setdefault(501, [])
    responses: Json = {}
    for status in sorted(by_status):
        named = by_status[status]
        lines = [f"`{code}`: {CATALOGUE[code].title.lower()}" for code in named]
        if status == 413:
            lines = ["`E_PRODUCT_INVALID_BODY`: the body is larger than 8 MiB"]
        if status == 400:
            lines.append("no code: the request's framing cannot be trusted")
        if status == 408:
            lines = ["no code: the request did not arrive in time"]
        if status == 431:
            lines = ["no code: the headers are too large"]
        if status == 501:
            lines = ["no code: the body came in a transfer coding other than chunked"]
        headers = _named_headers(*_COMMON_HEADERS)
        if status not in (400, 408, 413, 431, 501):
            headers |= _named_headers(*_KEY_HEADERS)
        if status == 401:
            headers |= _named_headers("WWW-Authenticate")
        if status in (429, 503):
            headers |= _named_headers("Retry-After")
        responses[str(status)] = {
            "description": "; ".join(lines),
            "headers": headers,
            "content": {"application/problem+json": {"schema": _schema("Problem")}},
        }
    return responses


def _operation(
    operation_id: str,
    summary: str,
    description: str,
    success: Json,
    codes: Sequence[str],
    *,
    tag: str,
    scope: str | None,
    parameters: Sequence[Json] = (),
    body: tuple[str, bool] | None = None,
) -> Json:
    """One operation. ``body`` is the schema's name and whether a body is required."""
    needed = f"Scope `{scope}`." if scope else "No scope."
    operation: Json = {
        "operationId": operation_id,
        "tags": [tag],
        "summary": summary,
        "description": f"{description}\n\n{needed}",
        "parameters": [*parameters, _REQUEST_ID],
        "responses": {**success, **_failures([*_ANY_KEY, *(_SCOPED if scope else ()), *codes], body=bool(body))},
        "security": [{"ApiKey": []}],
    }
    if body is not None:
        schema, required = body
        operation["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": _schema(schema)}},
        }
    return operation


def _paths() -> Json:
    publication_codes = (
        "E_PRODUCT_INVALID_BODY",
        "E_PRODUCT_INVALID_SKU",
        "E_IDEMPOTENCY_CONFLICT",
        "E_ACCOUNT_NOT_FOUND",
        "E_PRODUCT_MAX_CONCURRENT_JOBS",
        "E_PRODUCT_CREDIT_EXHAUSTED",
    )
    events: Json = {
        "description": (
            "Server-sent events `job`, `item` (its `id` is the sequence), `progress` and `problem`; comments"
            " while nothing happens. Ends after the terminal state."
        ),
        "headers": _named_headers(*_COMMON_HEADERS, *_KEY_HEADERS),
        "content": {"text/event-stream": {"schema": _schema("Event")}},
    }
    no_more_events: Json = {
        "description": "The job is terminal and the client has seen everything.",
        "headers": _named_headers(*_COMMON_HEADERS, *_KEY_HEADERS),
    }
    last_event_id: Json = {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "description": "Id of the last event seen; the stream goes on after it.",
        "schema": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,17})$"},
    }
    return {
        "/api/v1/products": {
            "post": _operation(
                "createJob",
                "Create a publication job",
                "Answers at once; the job is worked in the background. One malformed item refuses the whole"
                " request. Costs 1 credit per item published; test keys are free.",
                {"202": _success("The job was made.", "JobCreated", "Idempotent-Replay")},
                (*publication_codes, "E_CATEGORY_INVALID", "E_CATEGORY_AND_AUTO_CONFLICT"),
                tag="Publishing",
                scope="products:write",
                parameters=[_IDEMPOTENCY_KEY],
                body=("CreateJob", True),
            )
        },
        "/api/v1/products/test": {
            "get": _operation(
                "listTestProducts",
                "List test products",
                "Products created by publishing with a test key, newest first. A key of either environment.",
                {"200": _success("A page of test products.", "TestProductPage")},
                ("E_PRODUCT_INVALID_BODY", "E_PRODUCT_INVALID_SKU"),
                tag="Promotion",
                scope="products:read",
                parameters=[
                    _query(
                        "already_published",
                        {"type": "boolean"},
                        "False: only those pending promotion; true: only those promoted.",
                    ),
                    _query(
                        "status_meli",
                        {"type": "string", "enum": list(MARKETPLACE_STATUSES)},
                        "Only those of this marketplace status.",
                    ),
                    _query("app_status", {"type": "integer", "enum": [0, 1]}, "0 = paused or deleted, 1 = active."),
                    _query("sku", {"type": "string", "pattern": "^[A-Za-z0-9]{10}$"}, "Exact SKU."),
                    *_page(50),
                ],
            )
        },
        "/api/v1/products/test/promote": {
            "post": _operation(
                "promoteTestProducts",
                "Promote test products to the real account",
                "Takes category and price of the test run. Live keys only. Costs 1 credit per SKU promoted.",
                {"202": _success("The promotion job was made.", "Promoted", "Idempotent-Replay")},
                (*publication_codes, "E_PROMOTE_REQUIRES_LIVE_KEY", "E_PROMOTE_NO_CANDIDATES"),
                tag="Promotion",
                scope="products:write",
                parameters=[_IDEMPOTENCY_KEY],
                body=("Promote", False),
            )
        },
        "/api/v1/products/jobs": {
            "get": _operation(
                "listJobs",
                "List jobs",
                "The seller's jobs of both environments, newest first.",
                {"200": _success("A page of jobs.", "JobPage")},
                ("E_PRODUCT_INVALID_BODY",),
                tag="Jobs",
                scope="products:read",
                parameters=[
                    _query("status", {"type": "string", "enum": list(JOB_STATUSES)}, "Only jobs of this status."),
                    _query("from", {"type": "string", "format": "date"}, "First UTC day of creation."),
                    _query("to", {"type": "string", "format": "date"}, "Last UTC day of creation."),
                    *_page(50),
                ],
            )
        },
        "/api/v1/products/jobs/{jobId}": {
            "get": _operation(
                "getJob",
                "Get a job with its items",
                "Poll every 5 to 10 seconds until the status is final, or follow the job's events.",
                {"200": _success("The job and a page of its items.", "JobDetail")},
                ("E_PRODUCT_INVALID_BODY", "E_JOB_NOT_FOUND"),
                tag="Jobs",
                scope="products:read",
                parameters=[
                    _JOB_ID,
                    _query(
                        "status",
                        {"type": "string", "enum": list(ITEM_STATUSES)},
                        "Only items of this status.",
                    ),
                    *_page(100),
                ],
            )
        },
        "/api/v1/products/jobs/{jobId}/events": {
            "get": _operation(
                "watchJob",
                "Follow a job as server-sent events",
                "An addition beside the frozen endpoints: every item result exactly once, in order.",
                {"200": events, "204": no_more_events},
                ("E_PRODUCT_INVALID_BODY", "E_JOB_NOT_FOUND"),
                tag="Jobs",
                scope="products:read",
                parameters=[_JOB_ID, last_event_id],
            )
        },
        "/api/v1/products/jobs/{jobId}/retry": {
            "post": _operation(
                "retryJob",
                "Retry a job's failed, retryable items",
                "All of them or none; only for terminal jobs, with a key of the job's environment. Costs 1"
                " credit per item.",
                {"202": _success("The job, queued again.", "JobRetried")},
                ("E_JOB_NOT_FOUND", "E_JOB_NOT_RETRYABLE", "E_PRODUCT_CREDIT_EXHAUSTED"),
                tag="Jobs",
                scope="products:write",
                parameters=[_JOB_ID],
            )
        },
        "/api/v1/products/jobs/{jobId}/cancel": {
            "post": _operation(
                "cancelJob",
                "Cancel a job",
                "Pending items become skipped; nothing published is taken down. Free.",
                {"200": _success("The job, cancelled.", "JobCancelled")},
                ("E_JOB_NOT_FOUND", "E_JOB_ALREADY_TERMINAL"),
                tag="Jobs",
                scope="products:write",
                parameters=[_JOB_ID],
            )
        },
        "/api/v1/account": {
            "get": _operation(
                "getAccount",
                "Get credits and configuration",
                "Check before a large batch.",
                {"200": _success("The account.", "Account")},
                (),
                tag="Account",
                scope="account:read",
            )
        },
        "/api/v1/account/tax-categories": {
            "get": _operation(
                "listTaxCategories",
                "List tariff categories",
                "Their indices are what `tax_category_id` takes.",
                {"200": _success("The tariff categories.", "TaxCategories")},
                (),
                tag="Account",
                scope="account:read",
            )
        },
        "/api/v1/ping": {
            "get": _operation(
                "ping",
                "Verify a key",
                "Tells the key's seller, environment and scopes.",
                {"200": _success("The key works.", "Ping")},
                (),
                tag="Account",
                scope=None,
            )
        },
        **_operational_paths(),
    }


def _operational_paths() -> Json:
    headers = _named_headers(*_COMMON_HEADERS)

    def plain(operation_id: str, summary: str, responses: Json) -> Json:
        return {
            "get": {
                "operationId": operation_id,
                "tags": ["Operation"],
                "summary": summary,
                "responses": responses,
                "security": [],
            }
        }

    def answer(description: str, media_type: str, schema: Json) -> Json:
        return {
            "description": description,
            "headers": headers,
            "content": {media_type: {"schema": schema}},
        }

    not_ready = answer("Core or its database is away.", "application/json", _schema("Readiness"))
    not_ready["headers"] = headers | _named_headers("Retry-After")
    return {
        "/healthz": plain(
            "healthz",
            "Whether the process turns",
            {"200": answer("It does.", "application/json", _schema("Health"))},
        ),
        "/readyz": plain(
            "readyz",
            "Whether requests can be served",
            {
                "200": answer("They can.", "application/json", _schema("Readiness")),
                "503": not_ready,
            },
        ),
        "/metrics": plain(
            "metrics",
            "Metrics of this process",
            {"200": answer("Prometheus text format.", "text/plain", {"type": "string"})},
        ),
        "/openapi.json": plain(
            "openapi",
            "This document",
            {"200": answer("OpenAPI 3.1.", "application/json", {"type": "object"})},
        ),
        "/docs": plain(
            "docs",
            "This document for people",
            {"200": answer("One page.", "text/html", {"type": "string"})},
        ),
    }


def openapi_document() -> Json:
    """The whole document, ready to be encoded."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "version": "v1",
            "summary": "Publishes products as marketplace listings in background jobs.",
            "description": (
                "Recommended flow: publish with a test key, look at the test products, promote them to the"
                " real account. The key's environment decides; no request carries it.\n\n"
                "Version v1 is frozen and deprecated; every answer tells since when and until when."
                " Unknown paths are 404 and wrong methods 405, both as problems without a code."
            ),
        },
        "tags": [
            {"name": "Publishing", "description": "Accepts products."},
            {"name": "Promotion", "description": "From the test account to the real one."},
            {"name": "Jobs", "description": "Follows and steers jobs."},
            {"name": "Account", "description": "Credits, settings, keys."},
            {"name": "Operation", "description": "For whoever runs the service; no key."},
        ],
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "headers": _headers(),
            "securitySchemes": {
                "ApiKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-API-Key",
                    "description": "`svc_live_...` or `svc_test_...`; made by the operator, shown once.",
                }
            },
        },
    }
