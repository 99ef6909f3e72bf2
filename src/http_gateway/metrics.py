"""What the gateway tells of itself. Labels come from our own tables, never from callers."""

from __future__ import annotations

from typing import Final

from prometheus_client import REGISTRY, Counter, Histogram, generate_latest

from core import metrics

EXPOSITION_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Series once looked up: finding them by label costs more than counting. As many as routes times statuses.
_series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    """Notes a request that has ended.

    Args:
        method: as sent; unusual ones are counted as ``other``.
        route: the pattern that matched.
        status: as answered; 499 when the client left first.
        seconds: how long it took.
    """
    series = (route, method, status)
    known = _series.get(series)
    if known is None:
        labels = (route, method if method in _METHODS else "other", str(status))
        known = (metrics.http_requests.labels(*labels), metrics.http_seconds.labels(route))
        if method in _METHODS:
            _series[series] = known
    known[0].inc()
    known[1].observe(seconds)


def exposition() -> bytes:
    """All metrics of this process in the Prometheus text format."""
    return generate_latest(REGISTRY)
