-- select_acceptance: all that decides whether a request is accepted. Read after the seller row is locked,
-- in a statement of its own so that it sees what the former holder of the lock committed.
SELECT now() AS now, s.site_id, s.currency, s.trm, s.margin_percent, s.price_step, s.warranty_time,
    s.manufacturing_time_days, s.stock_quantity, s.listing_type_id, b.available,
    (SELECT count(*) FROM jobs j
        WHERE j.seller_id = s.seller_id AND j.status IN ('queued', 'processing', 'scheduled')) AS active_jobs,
    (SELECT json_object_agg(t.index, t.rate_percent::text) FROM tax_categories t WHERE t.seller_id = s.seller_id)
        AS tariffs,
    EXISTS (SELECT FROM marketplace_accounts a WHERE a.seller_id = s.seller_id
        AND a.environment = %(environment)s AND a.status = 'connected') AS account_connected,
    k.operation, k.fingerprint, k.result,
    k.created_at <= now() - interval '24 hours' AS key_expired
FROM sellers s
JOIN credit_balances b USING (seller_id)
LEFT JOIN idempotency_keys k ON k.seller_id = s.seller_id AND k.environment = %(environment)s
    AND k.idempotency_key = %(idempotency_key)s::uuid
WHERE s.seller_id = %(seller_id)s;

-- delete_expired_key: make room for the key's new life.
DELETE FROM idempotency_keys
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND idempotency_key = %(idempotency_key)s::uuid
    AND created_at <= now() - interval '24 hours';

-- remember: the answer to be replayed, in the transaction that makes the job.
INSERT INTO idempotency_keys (seller_id, environment, idempotency_key, operation, fingerprint, job_id, result)
VALUES (%(seller_id)s, %(environment)s, %(idempotency_key)s::uuid, %(operation)s, %(fingerprint)s, %(job_id)s,
    %(result)s);

-- delete_old_keys: housekeeping; expiry itself is judged when a key is read.
DELETE FROM idempotency_keys k USING (
    SELECT seller_id, environment, idempotency_key FROM idempotency_keys
    WHERE created_at <= now() - interval '25 hours' LIMIT 5000
) old
WHERE (k.seller_id, k.environment, k.idempotency_key) = (old.seller_id, old.environment, old.idempotency_key);

-- insert_job: the job, its number, the runs to be worked, and the items of a small job (a large one's are copied).
WITH seller AS (
    UPDATE sellers SET job_count = job_count + 1 WHERE seller_id = %(seller_id)s RETURNING job_count
), job AS (
    INSERT INTO jobs (seller_id, job_id, job_number, environment, kind, status, total_items, pending, skipped,
        last_sequence, listing_type_id, tax_category_id, terms, trace_context, scheduled_for)
    SELECT %(seller_id)s, %(job_id)s, job_count, %(environment)s, %(kind)s, %(status)s, %(total_items)s,
        %(total_items)s::int - %(skipped)s::int, %(skipped)s, %(skipped)s, %(listing_type_id)s, %(tax_category_id)s,
        %(terms)s, %(trace_context)s, %(scheduled_for)s
    FROM seller
), items AS (
    INSERT INTO job_items (seller_id, job_id, ordinal, sku, category_id, price)
    SELECT %(seller_id)s, %(job_id)s, ordinal, sku, category_id, price
    FROM unnest(%(ordinals)s::int[], %(skus)s::text[], %(category_ids)s::text[], %(prices)s::bigint[])
        AS i (ordinal, sku, category_id, price)
)
INSERT INTO work_runs (seller_id, job_id, first_ordinal, last_ordinal, environment, due_at)
SELECT %(seller_id)s, %(job_id)s, first, least(first + %(run_size)s::int, %(total_items)s::int) - 1, %(environment)s,
    coalesce(%(scheduled_for)s::timestamptz, now())
FROM generate_series(0, %(total_items)s::int - 1, %(run_size)s::int) AS first;

-- copy_items: the items of a large job.
COPY job_items (seller_id, job_id, ordinal, sku, category_id, price) FROM STDIN (FORMAT binary);

-- insert_skipped: the repeated SKUs, with their reason and the first sequences of the job.
INSERT INTO job_items (seller_id, job_id, ordinal, sku, status, sequence, retryable, error)
SELECT %(seller_id)s, %(job_id)s, ordinal, sku, 'skipped', row_number() OVER (ORDER BY ordinal), false, %(error)s
FROM unnest(%(ordinals)s::int[], %(skus)s::text[]) AS i (ordinal, sku);

-- select_known_job: whether an acceptance whose commit got lost went through.
SELECT job_id FROM jobs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s;

-- select_busy_skus: what the seller's active live jobs are still to publish.
SELECT DISTINCT i.sku FROM jobs j
CROSS JOIN LATERAL (
    SELECT sku FROM job_items
    WHERE seller_id = %(seller_id)s AND job_id = j.job_id AND status = 'pending'
) i
WHERE j.seller_id = %(seller_id)s AND j.environment = 'live' AND j.status IN ('queued', 'processing', 'scheduled');

-- set_nested_loops: without statistics (a fresh table) a planner takes thousands of candidates and of busy SKUs for a
-- handful each and compares every one with every other; until the transaction ends or this is set back.
SELECT set_config('enable_nestloop', %(state)s, true);

-- select_oldest_candidates: what a promotion that names nothing takes, and how many there are in all.
WITH candidates AS (
    SELECT l.sku, l.category_id, l.price, l.published_at FROM listings l
    LEFT JOIN unnest(%(busy)s::text[]) AS b (sku) ON b.sku = l.sku
    WHERE l.seller_id = %(seller_id)s AND l.environment = 'test' AND l.published_at IS NOT NULL
        AND l.app_status = 1 AND l.status_meli NOT IN ('closed', 'inactive') AND NOT l.published_to_live
        AND b.sku IS NULL
)
SELECT sku, category_id, price, (SELECT count(*) FROM candidates) AS total
FROM candidates ORDER BY published_at, sku LIMIT %(limit)s;

-- select_named_candidates: each named SKU with what speaks against it.
SELECT n.sku, l.category_id, l.price,
    CASE
        WHEN l.sku IS NULL THEN 'not_a_test_product'
        WHEN l.published_to_live THEN 'already_published'
        WHEN l.app_status = 0 OR l.status_meli IN ('closed', 'inactive') THEN 'not_active'
        WHEN b.sku IS NOT NULL THEN 'in_active_job'
    END AS objection
FROM unnest(%(skus)s::text[]) WITH ORDINALITY AS n (sku, place)
LEFT JOIN LATERAL (
    SELECT * FROM listings
    WHERE seller_id = %(seller_id)s AND environment = 'test' AND sku = n.sku AND published_at IS NOT NULL
    -- One look-up by key for each SKU, not all of the seller's listings.
    OFFSET 0
) l ON true
LEFT JOIN unnest(%(busy)s::text[]) AS b (sku) ON b.sku = n.sku
ORDER BY n.place;
