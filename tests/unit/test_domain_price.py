"""The price rule, against the same rule in fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.price import listing_price

COSTS = st.decimals(min_value="0.0001", max_value="1000000", places=4)
PERCENTS = st.decimals(min_value="0", max_value="1000", places=3)


@given(cost=COSTS, trm=st.integers(1, 100_000), tariff=PERCENTS, margin=PERCENTS, step=st.integers(1, 100_000))
def test_a_price_is_exact_and_rounded_up_to_the_step(
    cost: Decimal, trm: int, tariff: Decimal, margin: Decimal, step: int
) -> None:
    exact = Fraction(cost) * trm * (1 + Fraction(tariff) / 100) * (1 + Fraction(margin) / 100)

    price = listing_price(cost, trm=trm, tariff_percent=tariff, margin_percent=margin, price_step=step)

    assert price == math.ceil(exact / step) * step


def test_a_price_that_is_a_step_already_stays() -> None:
    price = listing_price(
        Decimal("10.00"), trm=4000, tariff_percent=Decimal(0), margin_percent=Decimal("2.5"), price_step=100
    )
    assert price == 41_000


@pytest.mark.parametrize("cost", ["0", "-1", "NaN", "Infinity"])
def test_a_cost_that_is_not_above_zero_has_no_price(cost: str) -> None:
    with pytest.raises(ValueError, match="above 0"):
        listing_price(Decimal(cost), trm=4000, tariff_percent=Decimal(0), margin_percent=Decimal(0), price_step=100)
