"""The demo catalogue: big and varied enough, and faulty where real ones are."""

from __future__ import annotations

from urllib.parse import urlsplit

from listings.demo import demo_products, is_clean


def test_the_demo_catalogue_is_varied() -> None:
    products = demo_products()
    assert len(products) >= 60
    assert len({product.category for product in products.values()}) >= 15
    assert len([product for product in products.values() if is_clean(product)]) >= 50


def test_it_has_the_faults_that_real_catalogues_have() -> None:
    products = demo_products().values()
    assert any(product.cost_usd is None for product in products)
    assert any(product.cost_usd == 0 for product in products)
    assert any(len(product.title) == 300 for product in products)
    assert any(not product.image_urls for product in products)


def test_its_pictures_lie_nowhere() -> None:
    hosts = {urlsplit(url).hostname for product in demo_products().values() for url in product.image_urls}
    assert hosts == {"images.example.com"}
