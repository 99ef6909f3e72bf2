"""A lease must outlast a call, and a deadline a statement, or nothing starts."""

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


def test_a_deadline_shorter_than_a_statement_is_refused() -> None:
    assert Settings(_env_file=None, default_deadline_seconds=3, statement_timeout_seconds=2.9)
    with pytest.raises(ValidationError, match="LISTINGS_DEFAULT_DEADLINE_SECONDS must exceed"):
        Settings(_env_file=None, default_deadline_seconds=3, statement_timeout_seconds=3)
