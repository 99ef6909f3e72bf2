"""Forms of identifiers (contract, "Publication request item")."""

from __future__ import annotations

import re

_SKU = re.compile(r"[A-Za-z0-9]{10}", re.ASCII)
_CATEGORY = re.compile(r"MCO[0-9]{1,20}", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", re.ASCII)

SKU_RULE = "must be exactly 10 ASCII letters or digits"
CATEGORY_RULE = "must be MCO followed by digits"

# fullmatch, not a dollar anchor: "$" would let a trailing newline through.
is_sku = _SKU.fullmatch
is_category_id = _CATEGORY.fullmatch
is_uuid = _UUID.fullmatch
