"""Traces by OpenTelemetry, an optional extra (``otel``): one trace per job, from the request to the marketplace.

Without the extra, or without an exporter in the standard ``OTEL_*`` variables, nothing is traced and every function
here returns at once. Attributes hold ids, counts and outcomes; never a key, a token, a SKU, a title or an address.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import time
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from core.log import redact

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

Attribute = str | int | float | bool

HEADER: Final = "traceparent"
"""The name under which a trace context travels, in HTTP headers and gRPC metadata (W3C Trace Context)."""
_LONGEST_CONTEXT: Final = 128
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_tracer: Any = None
_provider: Any = None


class Span:
    """What may be said of a span that is open. This one stands for "not traced" and forgets everything."""

    def name(self, name: str) -> None:
        """Rename it: a route is known only when the request was routed."""

    def note(self, **attributes: Attribute | None) -> None:
        """Add attributes; None is passed over, ``__`` in a name stands for a dot."""

    def failed(self, why: str) -> None:
        """Mark it as failed; ``why`` is an error code or the name of an exception's class, never its text."""


class _RealSpan(Span):
    def __init__(self, span: Any) -> None:
        self._span = span

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def note(self, **attributes: Attribute | None) -> None:
        self._span.set_attributes(_attributes(attributes))

    def failed(self, why: str) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - an optional extra

        self._span.set_status(Status(StatusCode.ERROR, why))


_NOTHING: Final = Span()


def configure(role: str) -> bool:
    """Trace this process from now on, when the extra is installed and the environment names an OTLP endpoint.

    Read: ``OTEL_EXPORTER_OTLP_ENDPOINT`` or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` (gRPC), ``OTEL_TRACES_EXPORTER``
    (``none`` switches off), ``OTEL_SDK_DISABLED``, and what the SDK itself reads: ``OTEL_SERVICE_NAME``,
    ``OTEL_TRACES_SAMPLER``, ``OTEL_BSP_*`` and so on. Spans leave in batches from a thread of their own; what is left
    is sent when the process ends.

    Args:
        role: of this process; names the service unless ``OTEL_SERVICE_NAME`` does.

    Returns:
        Whether this process traces.
    """
    if not _wanted(os.environ):
        return False
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        return False
    described: dict[str, Attribute] = {"service.version": importlib.metadata.version("listing-publication")}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        described["service.name"] = f"listings-{role}"
    provider = TracerProvider(resource=Resource.create(described))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use(provider)
    return True


def _wanted(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp").lower() != "otlp":
        return False
    return any(environment.get(name) for name in _ENDPOINTS)


def use(provider: TracerProvider | None) -> None:
    """Trace with this provider from now on; None: not at all. What was built before keeps to what held then."""
    global _tracer, _provider  # noqa: PLW0603 - one per process, as the log and the metrics are
    _provider = provider
    _tracer = None if provider is None else provider.get_tracer("listings")


def enabled() -> bool:
    """Whether this process traces: asked once when something is built, so that untraced calls pay nothing."""
    return _tracer is not None


def flush() -> None:
    """Send what waits to be sent. Blocks for at most five seconds."""
    if _provider is not None:
        _provider.force_flush(5_000)


@contextlib.contextmanager
def span(
    name: str, *, parent: str | None = None, kind: str = "internal", **attributes: Attribute | None
) -> Iterator[Span]:
    """A span for the length of the block; a child of ``parent``, or of the span around it when there is none.

    An exception marks the span with its error code or its class alone: texts may hold what a caller sent.

    Args:
        name: an operation, from our own words; never from a caller's.
        parent: a trace context as ``current`` or a caller gave it; anything unreadable counts as none.
        kind: internal, server, client, producer or consumer.
        attributes: ``__`` in a name stands for a dot; None is passed over.
    """
    if _tracer is None:
        yield _NOTHING
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an optional extra

    with _tracer.start_as_current_span(
        name,
        context=_context(parent),
        kind=SpanKind[kind.upper()],
        attributes=_attributes(attributes),
        record_exception=False,
        set_status_on_exception=False,
    ) as opened:
        real = _RealSpan(opened)
        try:
            yield real
        except BaseException as error:
            code = getattr(error, "code", None)
            real.failed(code if isinstance(code, str) else type(error).__name__)
            raise


def told(
    name: str, seconds: float, *, kind: str = "client", failed: str | None = None, **attributes: Attribute
) -> None:
    """A span that has just ended, as a child of the one around it; nothing where there is none around it.

    Args:
        seconds: how long it took.
        failed: how it failed; None when it did not.
    """
    if _tracer is None:
        return
    from opentelemetry.trace import SpanKind, get_current_span  # noqa: PLC0415 - an optional extra

    if not get_current_span().get_span_context().is_valid:
        return
    end = time.time_ns()
    ended = _tracer.start_span(
        name, kind=SpanKind[kind.upper()], attributes=_attributes(attributes), start_time=end - int(seconds * 1e9)
    )
    if failed is not None:
        _RealSpan(ended).failed(failed)
    ended.end(end)


def current() -> str | None:
    """The present span's context, to be sent or stored; None when nothing is traced."""
    if _tracer is None:
        return None
    carrier: dict[str, str] = {}
    _propagator().inject(carrier)
    return carrier.get(HEADER)


def add_ids(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: lines written inside a span carry its trace id."""
    if _tracer is not None:
        from opentelemetry.trace import get_current_span  # noqa: PLC0415 - an optional extra

        context = get_current_span().get_span_context()
        if context.is_valid:
            event["trace_id"] = f"{context.trace_id:032x}"
    return event


def _context(parent: str | None) -> Any:
    if parent is None or len(parent) > _LONGEST_CONTEXT:
        return None
    return _propagator().extract({HEADER: parent})


def _propagator() -> Any:
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - an optional extra
        TraceContextTextMapPropagator,
    )

    return TraceContextTextMapPropagator()


def _attributes(given: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    # A caller may put a key where it does not belong, a request id for example.
    return {
        name.replace("__", "."): redact(value) if isinstance(value, str) else value
        for name, value in given.items()
        if value is not None
    }
