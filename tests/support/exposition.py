"""Reads a Prometheus exposition as strictly as promtool does."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

UNITS = ("seconds", "bytes", "total", "info", "ratio")
_WRONG_UNITS = re.compile(
    r"(?:^|_)(?:milliseconds?|ms|microseconds?|minutes?|hours?|days?|kilobytes?|megabytes?|percent)(?:_|$)"
)


def scrape(address: str) -> str:
    """The metrics page at ``http://HOST:PORT/metrics``."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        return str(answer.read().decode())


def families(text: str) -> dict[str, Metric]:
    """What a page says, by metric; fails where it breaks a rule of the format or of naming."""
    problems = list(_problems(text))
    assert problems == []
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(found: dict[str, Metric], name: str, **labels: str) -> float | None:
    """A sample's value; None when there is no such sample."""
    for family in found.values():
        for sample in family.samples:
            if sample.name == name and sample.labels.items() >= labels.items():
                return float(sample.value)
    return None


def _problems(text: str) -> Iterable[str]:
    assert text.endswith("\n")
    helped = re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE)
    typed = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    yield from (f"{name}: help twice" for name in _twice(name for name, _ in helped))
    yield from (f"{name}: type twice" for name in _twice(name for name, _ in typed))
    yield from (f"{name}: no help" for name, words in helped if not words.strip())
    yield from (f"{name}: type without help" for name in {name for name, _ in typed} - {name for name, _ in helped})
    for name, kind in typed:
        if kind not in ("counter", "gauge", "histogram", "summary"):
            yield f"{name}: type {kind}"
        if (kind == "counter") != name.endswith("_total"):
            yield f"{name}: a {kind} so named"
        if _WRONG_UNITS.search(name):
            yield f"{name}: not a base unit"
        if re.search(r"[A-Z]|__|:", name):
            yield f"{name}: not in small letters and single underscores"
        if kind in name.split("_"):
            yield f"{name}: its type in its name"
    known = {name for name, _ in typed}
    samples = set()
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        identity, _, number = line.rpartition(" ")
        float(number)
        if identity in samples:
            yield f"{identity}: twice"
        samples.add(identity)
        name = identity.partition("{")[0]
        if name not in known and re.sub(r"_(bucket|sum|count)$", "", name) not in known:
            yield f"{name}: no type"
    yield from _broken_histograms(text)


def _broken_histograms(text: str) -> Iterable[str]:
    for family in text_string_to_metric_families(text):
        if family.type != "histogram":
            continue
        counts: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        totals = {}
        for sample in family.samples:
            key = tuple(sorted((name, text) for name, text in sample.labels.items() if name != "le"))
            if sample.name.endswith("_bucket"):
                counts.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
            elif sample.name.endswith("_count"):
                totals[key] = sample.value
        for key, buckets in counts.items():
            values = [number for _, number in sorted(buckets)]
            if values != sorted(values) or max(buckets)[0] != float("inf") or values[-1] != totals.get(key):
                yield f"{family.name}{dict(key)}: buckets do not add up"


def _twice(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]
