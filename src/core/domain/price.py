"""The one price rule (decisions, section 6). Decimal arithmetic throughout; floats never touch money."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

_HUNDRED = Decimal(100)
_EXACT = Context(prec=60, rounding=ROUND_CEILING)


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
    factor = _EXACT.multiply(_HUNDRED + tariff_percent, _HUNDRED + margin_percent)
    scaled = _EXACT.multiply(_EXACT.multiply(cost_usd, Decimal(trm)), factor)
    steps = _EXACT.divide(scaled, Decimal(price_step) * 10000)
    return int(steps.to_integral_value(rounding=ROUND_CEILING)) * price_step
