"""What the gateway counts. Labels come from our own tables, never from callers."""

from __future__ import annotations

from typing import Final

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

EXPOSITION_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_requests = Counter("listings_http_requests", "Requests answered by the gateway.", ["method", "route", "status"])
_seconds = Histogram(
    "listings_http_request_seconds",
    "From the end of the headers to the end of the answer.",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
)
_running = Gauge("listings_http_requests_in_progress", "Requests begun and not answered.")


def request_began() -> None:
    """Notes a request that has come in."""
    _running.inc()


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    """Notes a request that has ended.

    Args:
        method: as sent; unusual ones are counted as ``other``.
        route: the pattern that matched.
        status: as answered; 499 when the client left first.
        seconds: how long it took.
    """
    _running.dec()
    _requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
    _seconds.labels(route).observe(seconds)


def exposition() -> bytes:
    """All metrics of this process in the Prometheus text format."""
    return generate_latest(REGISTRY)
