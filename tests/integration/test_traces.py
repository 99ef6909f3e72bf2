"""One trace per job: gateway, core call, use case, worker run and marketplace calls, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from core import tracing
from tests.support.gateway import until
from tests.support.whole_service import WholeService, whole_service

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def exported() -> Iterator[InMemorySpanExporter]:
    """Spans of the module's service land here; set before anything is built."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    yield exporter
    tracing.use(None)


@pytest_asyncio.fixture(scope="module")
async def running(database_url: str, exported: InMemorySpanExporter) -> AsyncIterator[WholeService]:
    """A traced service."""
    async with whole_service(database_url) as made:
        yield made


def _of(exporter: InMemorySpanExporter, trace: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.context and f"{span.context.trace_id:032x}" == trace]


def _above(span: ReadableSpan, spans: list[ReadableSpan]) -> list[str]:
    """Names from the span to the topmost one of this service."""
    names = [span.name]
    by_id = {each.context.span_id: each for each in spans if each.context}
    while span.parent is not None and span.parent.span_id in by_id:
        span = by_id[span.parent.span_id]
        names.append(span.name)
    return names


async def test_a_job_is_one_trace_that_continues_the_callers(
    running: WholeService, exported: InMemorySpanExporter
) -> None:
    seller = await running.new_seller()
    skus = await running.stock(12, "TRACE")
    accepted = await seller.test.publish(*skus, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    job_id = accepted.json["job_id"]
    done = await seller.test.finished(job_id)
    assert done["job"]["successful"] == 12
    await until(lambda: "publish run" in [span.name for span in _of(exported, TRACE)])

    spans = _of(exported, TRACE)
    create = next(span for span in spans if span.name == "marketplace create_listing")
    assert _above(create, spans) == [
        "marketplace create_listing",
        "publish run",
        "create_job",
        "PublishingService/CreateJob",
        "POST /api/v1/products",
    ]
    top = next(span for span in spans if span.name == "POST /api/v1/products")
    assert top.parent is not None
    assert f"{top.parent.span_id:016x}" == PARENT
    assert dict(top.attributes or {})["http.response.status_code"] == 202
    assert sum(span.name == "marketplace create_listing" for span in spans) == 12
    run = next(span for span in spans if span.name == "publish run")
    assert dict(run.attributes or {})["job_id"] == job_id


async def test_no_span_holds_a_key_a_token_a_sku_or_a_path(
    running: WholeService, exported: InMemorySpanExporter
) -> None:
    seller = await running.new_seller()
    skus = await running.stock(3, "SECRET")
    accepted = await seller.test.publish(*skus)
    job_id = accepted.json["job_id"]
    await seller.test.finished(job_id, status="success")
    await seller.with_key("svc_live_" + "A" * 49).get("/products/jobs")

    def told() -> str:
        return "\n".join(span.to_json() for span in exported.get_finished_spans())

    # The answer is here before the spans of who gave it have ended.
    await until(lambda: "E_AUTH_INVALID_KEY" in told())
    text = told()
    assert seller.tenant.test_key_id in text
    for secret in (seller.tenant.test_key, "svc_live_", "APP_USR", *skus, f"/products/jobs/{job_id}", "status=success"):
        assert secret not in text


async def test_a_refusal_is_no_failed_span_and_an_outage_is_one(
    running: WholeService, exported: InMemorySpanExporter
) -> None:
    seller = await running.new_seller()
    trace = "1" * 32
    answer = await seller.test.post("/products", {"items": []}, headers={"traceparent": f"00-{trace}-{PARENT}-01"})
    assert answer.status == 422
    await until(lambda: "POST /api/v1/products" in [span.name for span in _of(exported, trace)])
    assert {span.status.is_ok or span.status.is_unset for span in _of(exported, trace)} == {True}


async def test_without_a_callers_context_a_job_has_a_trace_of_its_own(
    running: WholeService, exported: InMemorySpanExporter
) -> None:
    seller = await running.new_seller()
    skus = await running.stock(2, "OWN")
    job_ids = [(await seller.test.publish(sku)).json["job_id"] for sku in skus]
    for job_id in job_ids:
        await seller.test.finished(job_id)
    traces = {
        span.context.trace_id
        for span in exported.get_finished_spans()
        if span.context and dict(span.attributes or {}).get("job_id") in job_ids
    }
    assert len(traces) == 2
