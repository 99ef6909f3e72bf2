"""What the gateway tells of itself. Labels come from our own tables, never from callers."""

from __future__ import annotations

from typing import Final

from prometheus_client import REGISTRY, generate_latest

from core import metrics

EXPOSITION_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    """Notes a request that has ended.

    Args:
        method: as sent; unusual ones are counted as ``other``.
        route: the pattern that matched.
        status: as answered; 499 when the client left first.
        seconds: how long it took.
    """
    metrics.http_requests.labels(route, method if method in _METHODS else "other", str(status)).inc()
    metrics.http_seconds.labels(route).observe(seconds)


def exposition() -> bytes:
    """All metrics of this process in the Prometheus text format."""
    return generate_latest(REGISTRY)
