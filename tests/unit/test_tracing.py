"""Tracing alone: when it is on, what a span says, and that nothing is there when it is off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from core import tracing
from core.errors import ApiError

CLIENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """Spans land here."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    yield exporter
    tracing.use(None)


def test_without_a_provider_nothing_happens() -> None:
    with tracing.span("anything", parent=CLIENT, job_id="1") as span:
        span.note(more=1)
        span.name("other")
        span.failed("E_INTERNAL")
        tracing.told("call", 0.1)
        assert tracing.current() is None
    assert not tracing.enabled()
    assert tracing.add_ids(None, "info", {"event": "x"}) == {"event": "x"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_the_standard_variables_decide(
    environment: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    try:
        assert tracing.configure("test") is wanted
        assert tracing.enabled() is wanted
    finally:
        tracing.use(None)


def test_the_service_runs_where_the_extra_is_not_installed() -> None:
    program = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from core import log, tracing
from listings import program
import grpc_server.server, http_gateway.server, core.worker.process
assert tracing.configure("test") is False
log.configure()
with tracing.span("anything"):
    log.structlog.get_logger("core").info("runs")
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "runs" in done.stderr


def test_nothing_of_the_extra_is_loaded_when_it_is_not_wanted() -> None:
    program = """
import sys
from core import tracing
from listings import program
import grpc_server.server, http_gateway.server, core.worker.process
assert tracing.configure("test") is False
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_span_continues_its_caller_and_is_continued(exported: InMemorySpanExporter) -> None:
    with tracing.span("first", parent=CLIENT, kind="server", job_id="j", absent=None, rpc__method="M") as span:
        span.name("renamed")
        sent = tracing.current()
        assert tracing.add_ids(None, "info", {})["trace_id"] == CLIENT.split("-")[1]
    with tracing.span("second", parent=sent, kind="consumer"):
        tracing.told("call", 0.25, failed="unknown", outcome="unknown")
    first, call, second = exported.get_finished_spans()
    assert first.parent is not None
    assert f"{first.parent.span_id:016x}" == CLIENT.split("-")[2]
    assert (first.name, dict(first.attributes or {})) == ("renamed", {"job_id": "j", "rpc.method": "M"})
    assert second.parent is not None
    assert second.parent.span_id == first.context.span_id
    assert call.parent is not None
    assert call.parent.span_id == second.context.span_id
    assert {f"{span.context.trace_id:032x}" for span in (first, call, second)} == {CLIENT.split("-")[1]}
    assert call.status.status_code is StatusCode.ERROR
    assert call.start_time is not None
    assert call.end_time is not None
    assert round((call.end_time - call.start_time) / 1e9, 3) == 0.25


@pytest.mark.parametrize("parent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 500])
def test_an_unreadable_context_begins_a_new_trace(parent: str, exported: InMemorySpanExporter) -> None:
    with tracing.span("first", parent=parent):
        pass
    (first,) = exported.get_finished_spans()
    assert first.parent is None
    assert first.context.is_valid


def test_a_failure_is_told_by_its_code_or_class_and_never_by_its_text(exported: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="svc_live"), tracing.span("broken"):
        raise ValueError("svc_live_secret")
    with pytest.raises(ApiError), tracing.span("refused"):
        raise ApiError("E_JOB_NOT_FOUND", "There is no such job: svc_live_secret.")
    broken, refused = exported.get_finished_spans()
    assert (broken.status.status_code, broken.status.description) == (StatusCode.ERROR, "ValueError")
    assert refused.status.description == "E_JOB_NOT_FOUND"
    assert not broken.events
    assert not refused.events


def test_a_call_outside_of_every_span_is_not_told(exported: InMemorySpanExporter) -> None:
    tracing.told("call", 0.1)
    assert exported.get_finished_spans() == ()
