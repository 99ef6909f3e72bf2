"""What the catalogue knows of a SKU."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Product:
    """A product. ``cost_usd`` in US dollars, None when unknown; ``image_urls`` in the order shown;
    ``category`` is the supplier's, not the marketplace's."""

    sku: str
    title: str
    category: str
    cost_usd: Decimal | None
    image_urls: tuple[str, ...]
    brand: str | None = None
    model: str | None = None
    gtin: str | None = None
    weight_grams: int | None = None
    description: str | None = None
