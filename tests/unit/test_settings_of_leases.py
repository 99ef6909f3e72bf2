"""A lease must outlast a call, a renewal and a margin, or nothing starts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.settings import LEASE_MARGIN_SECONDS, Settings


def settings(lease: float, timeout: float) -> Settings:
    return Settings(_env_file=None, lease_seconds=lease, marketplace_timeout_seconds=timeout)


@pytest.mark.parametrize("timeout", [1.0, 5.0, 15.0, 60.0])
def test_the_shortest_lease_that_fits_is_taken_and_a_shorter_one_refused(timeout: float) -> None:
    shortest = (timeout + LEASE_MARGIN_SECONDS) * 1.5

    assert settings(shortest + 0.01, timeout).lease_seconds == shortest + 0.01
    with pytest.raises(ValidationError, match="LISTINGS_LEASE_SECONDS must exceed"):
        settings(shortest, timeout)


def test_the_defaults_fit() -> None:
    made = Settings(_env_file=None)

    assert made.lease_seconds > made.marketplace_timeout_seconds + made.lease_seconds / 3 + LEASE_MARGIN_SECONDS
