"""``POST /products``."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from core.errors import Violation
from http_gateway import convert
from http_gateway.body import read_body
from http_gateway.calls import Core, method_name
from http_gateway.decode import CreateJobBody, MalformedRequest, decode_create_job
from http_gateway.query import content_type_violations, idempotency_key
from http_gateway.responses import json_response

CREATE_JOB: Final = method_name("PublishingService", "CreateJob")
REPLAY_HEADER: Final = "idempotent-replay"


class Products:
    """Publication jobs are made here.

    Args:
        core: where calls go.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(self, request: Request) -> Response:
        """Creates a publication job: 202 with its id, or the remembered answer of an equal request."""
        core = self._core
        body = await read_body(request, core.config)
        headers = request.scope["headers"]
        violations: list[Violation] = content_type_violations(headers)
        decoded: CreateJobBody | None = None
        if not violations:
            try:
                decoded = decode_create_job(body)
            except MalformedRequest as error:
                violations = error.violations
        key, key_violations = idempotency_key(headers)
        violations += key_violations
        if decoded is None or violations:
            await core.refuse(request, CREATE_JOB, violations)
        message = convert.create_job_request(decoded, key)
        reply = await core.write(request, core.publishing.CreateJob, message)
        response = json_response(convert.job_created(reply), 202)
        if reply.replayed:
            response.headers[REPLAY_HEADER] = "true"
        return response
