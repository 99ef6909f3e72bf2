"""Jobs of the service made and ended directly in its database, to set a case up in no time."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

_TERMS = (
    '{"trm": 4000, "site_id": "MCO", "currency": "COP", "price_step": 100, "warranty_time": "90 días",'
    ' "margin_percent": "10", "stock_quantity": 5, "tariff_percent": "0", "manufacturing_time_days": 0}'
)


def end_jobs(url: str) -> None:
    """Make every active job cancelled, so that its seller may make six more; items stay as they are."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM intents")
        connection.execute("DELETE FROM work_runs")
        connection.execute(
            "UPDATE jobs SET status = 'cancelled', completed_at = now(), reconciling = 0 WHERE completed_at IS NULL"
        )


def tidy(url: str) -> None:
    """What autovacuum would come to do, now, so that it does not fall into a measurement."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def add_products(url: str, skus: Sequence[str]) -> None:
    """Products of the catalogue for these SKUs."""
    with psycopg.connect(url) as connection:
        connection.execute(
            """INSERT INTO products (sku, title, category, cost_usd, image_urls, brand)
            SELECT sku, 'Maleta de viaje ' || sku, 'Suitcases', 19.99,
                ARRAY(SELECT 'https://images.example.com/' || sku || '/' || n || '.jpg' FROM generate_series(1, 8) n),
                'Marca'
            FROM unnest(%s::text[]) sku ON CONFLICT DO NOTHING""",
            [list(skus)],
        )


def add_done_job(
    url: str,
    seller_id: int,
    count: int,
    *,
    environment: str = "test",
    status: str = "success",
    listings: bool = True,
    times: int = 1,
    prefix: str = "DON",
) -> list[str]:
    """Finished jobs with ``count`` items each, and their listings; gives the ids of the jobs.

    ``status``: success, or failed (retryable), of every item.
    """
    failed = status == "failed"
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            """WITH seller AS (
                UPDATE sellers SET job_count = job_count + %(times)s WHERE seller_id = %(seller)s RETURNING job_count
            )
            INSERT INTO jobs (seller_id, job_id, job_number, environment, kind, status, total_items, pending,
                successful, failed, last_sequence, listing_type_id, tax_category_id, terms, started_at, completed_at,
                error_message)
            SELECT %(seller)s, uuidv7(), job_count - %(times)s + n, %(environment)s, 'publication',
                %(job_status)s, %(count)s, 0, %(successful)s, %(failed)s, %(count)s, 'gold_special', 0, %(terms)s,
                now(), now(), %(error)s
            FROM seller, generate_series(1, %(times)s) n
            RETURNING job_id::text""",
            {
                "seller": seller_id,
                "times": times,
                "environment": environment,
                "job_status": "failed" if failed else "completed",
                "count": count,
                "successful": 0 if failed else count,
                "failed": count if failed else 0,
                "terms": _TERMS,
                "error": "No item could be published; each item says why." if failed else None,
            },
        ).fetchall()
        job_ids = [row[0] for row in rows]
        connection.execute(
            """INSERT INTO job_items (seller_id, job_id, ordinal, sku, status, category_id, sequence, attempts,
                listing_id, permalink, price, retryable, error)
            SELECT %(seller)s, job_id, n, %(prefix)s || lpad(n::text, 7, '0'), %(status)s, 'MCO1234', n + 1, 1,
                CASE WHEN %(good)s THEN 'MCO' || 1000000000 + n END,
                CASE WHEN %(good)s THEN 'https://articulo.example.com/MCO-' || 1000000000 + n || '-_JM' END,
                100000 + n, CASE WHEN %(good)s THEN NULL ELSE true END,
                CASE WHEN %(good)s THEN NULL ELSE '{"code": "marketplace_unavailable"}'::jsonb END
            FROM unnest(%(jobs)s::uuid[]) job_id, generate_series(0, %(count)s - 1) n""",
            {
                "seller": seller_id,
                "jobs": job_ids,
                "count": count,
                "status": status,
                "good": not failed,
                "prefix": prefix,
            },
        )
        if listings and not failed:
            add_listings(connection, seller_id, count, environment=environment, prefix=prefix)
    return job_ids


def add_listings(
    connection: psycopg.Connection, seller_id: int, count: int, *, environment: str, prefix: str = "DON"
) -> None:
    """Open listings of a seller."""
    connection.execute(
        """INSERT INTO listings (seller_id, environment, sku, listing_id, permalink, title, listing_type_id, price,
            currency, category_id, status_meli, app_status, published_at)
        SELECT %(seller)s, %(environment)s, %(prefix)s || lpad(n::text, 7, '0'), 'MCO' || 1000000000 + n,
            'https://articulo.example.com/MCO-' || 1000000000 + n || '-_JM', 'Maleta de viaje ' || n, 'gold_special',
            100000 + n, 'COP', 'MCO1234', 'active', 1, now()
        FROM generate_series(0, %(count)s - 1) n ON CONFLICT DO NOTHING""",
        {"seller": seller_id, "environment": environment, "count": count, "prefix": prefix},
    )
