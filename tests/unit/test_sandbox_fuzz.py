"""Whatever a client sends, the sandbox answers as a marketplace, never as a broken program."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sandbox_shop import Shop, item_body

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ids = st.sampled_from(["SELLER_SKU", "GTIN", "BRAND", "CAPACITY", "WITH_WHEELS", "SELLER_PACKAGE_WIDTH", "X"])
values = st.fixed_dictionaries({"id": ids | anything}, optional={"value_id": anything, "value_name": anything})
terms = st.fixed_dictionaries(
    {"id": st.sampled_from(["WARRANTY_TYPE", "WARRANTY_TIME", "MANUFACTURING_TIME"]) | anything},
    optional={"value_id": anything, "value_name": anything},
)
changes = st.fixed_dictionaries(
    {},
    optional={
        "family_name": anything,
        "price": anything,
        "available_quantity": anything,
        "pictures": anything | st.lists(st.fixed_dictionaries({}, optional={"id": anything, "source": anything})),
        "attributes": anything | st.lists(values, max_size=4),
        "sale_terms": anything | st.lists(terms, max_size=3),
        "shipping": anything,
        "channels": anything,
        "seller_custom_field": anything,
        "condition": anything,
        "status": anything,
        "deleted": anything,
    },
)


@settings(max_examples=150, deadline=None, print_blob=True)
@given(changes)
def test_creating_and_changing_with_anything(change: dict[str, Any]) -> None:
    shop = Shop()
    body = {**item_body(), **change}
    for method, path, statuses in (
        ("POST", "/items", {201, 400}),
        ("POST", "/items/validate", {204, 400}),
        ("POST", "/oauth/token", {400}),
    ):
        assert shop.call(method, path, body).status in statuses
    item_id = shop.publish("B000000009")
    assert shop.call("PUT", f"/items/{item_id}", change).status in {200, 400}
    assert shop.call("POST", f"/items/{item_id}/description", change).status in {201, 400}
    assert shop.call("GET", f"/items/{item_id}").status == 200


@settings(max_examples=150, deadline=None, print_blob=True)
@given(st.text(max_size=30), st.text(max_size=30))
def test_any_path_and_query(path: str, query: str) -> None:
    shop = Shop()
    for target in (f"/{path}?{query}", f"/items/{path}?{query}", f"/sites/MCO/{path}?{query}", f"/users/{path}"):
        for method in ("GET", "POST", "PUT"):
            assert shop.call(method, target, b"{}").status < 500
    assert shop.call("GET", f"/sites/MCO/domain_discovery/search?q={path}").status in {200, 400}
