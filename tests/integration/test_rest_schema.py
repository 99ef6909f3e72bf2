"""Whatever the OpenAPI document allows or forbids, the service answers as the document says."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from grpc_server.server import CoreServer
from http_gateway.openapi import openapi_document
from tests.support.gateway import gateway
from tests.support.service import Tenant

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "12"))
SEED = int(os.environ.get("TEST_SEED", random.SystemRandom().randrange(2**32)))
SCHEMA = schemathesis.openapi.from_dict(openapi_document())
OPERATIONS: dict[str, Any] = {}
for _result in SCHEMA.get_all_operations():
    _operation: Any = _result.ok()  # type: ignore[union-attr]
    OPERATIONS[_operation.label] = _operation
# Unknown parameters are ignored by contract, though they "violate" the schema; and a request may be valid
# and still be refused (no candidates, no such tariff, a time that has passed).
EXCLUDED = [negative_data_rejection, positive_data_acceptance]


def examine(operation: Any, mode: GenerationMode, address: str, key: str) -> int:
    """Calls the operation with generated requests; raises at the first answer that is not as described."""
    made = 0

    @hypothesis.seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        nonlocal made
        made += 1
        # A refused scope or an unknown job is an answer as good as any; 5xx is not.
        response = case.call(base_url=address, headers={"X-API-Key": key}, timeout=20)
        case.validate_response(response, excluded_checks=EXCLUDED)

    check()
    return made


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good", "bad"])
@pytest.mark.parametrize("label", [label for label in OPERATIONS if "/api/" in label])
async def test_answers_are_as_described(
    core_server: CoreServer, tenant: Tenant, label: str, mode: GenerationMode
) -> None:
    print(f"seed {SEED}")
    async with gateway(core_server.target, access_log=False) as client:
        made = await asyncio.to_thread(examine, OPERATIONS[label], mode, client.address, tenant.live_key)
    assert made > 0
