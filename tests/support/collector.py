"""A collector of traces in this process: what a traced process sends by OTLP over gRPC lands in a list."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass
class Collector:
    """``endpoint`` is what ``OTEL_EXPORTER_OTLP_ENDPOINT`` takes."""

    endpoint: str = ""
    batches: list[Any] = field(default_factory=list)

    @property
    def spans(self) -> list[tuple[str, Any]]:
        """Every span with the name of the service that sent it."""
        found = []
        for batch in list(self.batches):
            for resource in batch.resource_spans:
                name = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
                found += [(name, span) for scope in resource.scope_spans for span in scope.spans]
        return found

    @property
    def text(self) -> str:
        """Everything that came, to be searched."""
        return "\n".join(str(batch) for batch in self.batches)


class _Service(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        self._collector.batches.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()


@contextmanager
def collector() -> Iterator[Collector]:
    """A running collector on a free port."""
    made = Collector()
    server = grpc.server(ThreadPoolExecutor(4))
    register: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    register(_Service(made), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    made.endpoint = f"http://127.0.0.1:{port}"
    yield made
    server.stop(1).wait()
