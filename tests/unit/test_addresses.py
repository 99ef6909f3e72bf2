"""Addresses to listen on that cannot be."""

from __future__ import annotations

import pytest

from listings.addresses import listener, nth
from listings.output import UsageError


def test_what_is_no_name_of_a_host_is_refused() -> None:
    with pytest.raises(UsageError, match="LISTINGS_HTTP_ADDR: cannot listen on localhost"):
        listener("LISTINGS_HTTP_ADDR", "localhost..:8080")


@pytest.mark.parametrize(
    ("address", "third"),
    [
        (None, None),
        ("127.0.0.1:9000", "127.0.0.1:9002"),
        ("[::1]:9000", "[::1]:9002"),
        ("127.0.0.1:0", "127.0.0.1:0"),
    ],
)
def test_each_process_has_a_metrics_port_of_its_own(address: str | None, third: str | None) -> None:
    assert nth(address, 2) == third


def test_ports_do_not_count_beyond_the_last() -> None:
    assert nth("127.0.0.1:65534", 1) == "127.0.0.1:65535"
    with pytest.raises(UsageError, match="LISTINGS_METRICS_ADDR"):
        nth("127.0.0.1:65535", 1)
