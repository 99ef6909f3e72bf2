"""The announced times are UTC, wherever the machine stands."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from core.settings import Settings
from http_gateway.config import GatewayConfig
from http_gateway.middleware import lifecycle_headers


@pytest.fixture(autouse=True)
def _in_bogota(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/Bogota")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_time_without_an_offset_is_utc() -> None:
    settings = Settings(_env_file=None, deprecation="2026-06-30", sunset="2027-06-30T23:59:59")
    assert lifecycle_headers(GatewayConfig.from_settings(settings)) == [
        (b"deprecation", b"@1782777600"),
        (b"sunset", b"Wed, 30 Jun 2027 23:59:59 GMT"),
    ]
