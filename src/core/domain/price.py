"""The one price rule (decisions, section 6). Exact fractions throughout; floats never touch money."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

MAX_PRICE: Final = 9_999_999_998
"""The marketplace takes prices below 9,999,999,999 (reference, section 3.2)."""


def listing_price(
    cost_usd: Decimal, *, trm: int, tariff_percent: Decimal, margin_percent: Decimal, price_step: int
) -> int:
    """Price of a listing in whole units of the seller's currency.

    ``cost_usd × trm × (1 + tariff/100) × (1 + margin/100)``, rounded up to a multiple of ``price_step``.

    Args:
        cost_usd: above 0, in US dollars.
        trm: units of the seller's currency per US dollar.
        tariff_percent: import tariff of the job's tax category.
        margin_percent: the seller's margin.
        price_step: above 0.

    Raises:
        ValueError: when the cost is not above 0 or not finite.
    """
    if not cost_usd.is_finite() or cost_usd <= 0:
        raise ValueError("the cost must be above 0")
    numerator, denominator = _of_job(trm, tariff_percent, margin_percent, price_step)
    cost, parts = cost_usd.as_integer_ratio()
    # Rounded up: the division of whole numbers rounds down, so the negative is divided.
    return -(-cost * numerator // (parts * denominator)) * price_step


@lru_cache(maxsize=256)
def _of_job(trm: int, tariff_percent: Decimal, margin_percent: Decimal, price_step: int) -> tuple[int, int]:
    """What is the same for every item of a job: a cost times this fraction is in price steps."""
    tariff, margin = Fraction(tariff_percent), Fraction(margin_percent)
    return ((100 + tariff) * (100 + margin) * trm / (price_step * 10_000)).as_integer_ratio()
