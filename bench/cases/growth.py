"""What an operation costs as stored items grow."""

from __future__ import annotations

import json
from typing import Any

from bench.cases.work import Product
from bench.load import request, send_all
from bench.measure import Row, compare, paired, skipped
from bench.product import add_done_job, end_jobs, tidy
from bench.setting import Bench, application, environment_for, new_sellers, skus


async def run(bench: Bench) -> list[Row]:
    """Rows of the group; only in a full run: filling takes minutes."""
    if bench.quick:
        return [skipped("cost per item with 10,000,000 stored items", "with 10,000", "only in a full run")]
    small, large = bench.migrated_database(), bench.migrated_database()
    stored = 10_000_000
    try:
        for url, count in ((small, 10_000), (large, stored)):
            await fill(url, count)
        return [await _accepting(bench, small, large, stored), *await _working(bench, small, large, stored)]
    finally:
        bench.drop(small)
        bench.drop(large)


async def fill(url: str, count: int) -> None:
    """Finished items of ten other sellers, 10,000 a job, and a listing for each SKU that they have."""
    async with application(url) as app:
        others = await new_sellers(app, max(1, min(10, count // 10_000)))
    for seller in others:
        times = max(1, count // 10_000 // len(others))
        for start in range(0, times, 10):
            add_done_job(url, seller.seller_id, 10_000, times=min(10, times - start), prefix=f"G{start // 10:02d}")
    tidy(url)


async def _accepting(bench: Bench, small: str, large: str, stored: int) -> Row:
    contenders: dict[str, Any] = {}
    started = []
    body = json.dumps({"items": [{"sku": sku, "category_id": "MCO1234"} for sku in skus(10_000)]}).encode()
    for name, url in (("few", small), ("many", large)):
        async with application(url) as app:
            seller = (await new_sellers(app, 1))[0]
        service, address = bench.start("service", environment=environment_for(url))
        started.append(service)
        one = request("POST", "/api/v1/products", key=seller.test_key, body=body)

        async def post(url: str = url, address: str = address, one: bytes = one) -> float:
            end_jobs(url)
            return await send_all(address, [[one]], expected=202)

        contenders[name] = post
    found = await paired(bench.rounds(5, 11), contenders)
    bench.stop(*started)
    return compare(
        f"accept an item with {stored:,} stored items",
        "with 10,000",
        [each / 10_000 for each in found["many"]],
        [each / 10_000 for each in found["few"]],
        "µs",
        bar=1.25,
        scale=1e6,
    )


async def _working(bench: Bench, small: str, large: str, stored: int) -> list[Row]:
    contenders: dict[str, Any] = {}
    products = []
    for name, url in (("few", small), ("many", large)):
        async with application(url) as app:
            sellers = await new_sellers(app, 1, credit=10**12)
        product = Product(bench, url, sellers)
        products.append(product)

        async def work(url: str = url, product: Product = product) -> float:
            environment = environment_for(url)
            return 1 / await product.rate(lambda: bench.start("instant_worker", environment=environment)[0], 1)

        contenders[name] = work
    found = await paired(bench.rounds(2, 5), contenders)
    for product in products:
        product.close()
    return [
        compare(
            f"work an item with {stored:,} stored items",
            "with 10,000",
            found["many"],
            found["few"],
            "µs",
            bar=1.25,
            scale=1e6,
        )
    ]
