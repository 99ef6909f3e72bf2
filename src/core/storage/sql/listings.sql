-- select_test_products: a page of the test account's listings, newest first, then by SKU.
SELECT sku, listing_id, title, image, permalink, listing_type_id, price, currency, category_id, category_name,
    tax_category_id, status_meli, app_status, published_to_live, published_at
FROM listings
WHERE seller_id = %(seller_id)s AND environment = 'test' AND published_at IS NOT NULL
    AND (%(published_to_live)s::boolean IS NULL OR published_to_live = %(published_to_live)s)
    AND (%(status_meli)s::text IS NULL OR status_meli = %(status_meli)s)
    AND (%(app_status)s::smallint IS NULL OR app_status = %(app_status)s)
    AND (%(sku)s::text IS NULL OR sku = %(sku)s)
ORDER BY published_at DESC, sku LIMIT %(limit)s OFFSET %(offset)s;

-- count_test_products: how many match.
SELECT count(*) FROM listings
WHERE seller_id = %(seller_id)s AND environment = 'test' AND published_at IS NOT NULL
    AND (%(published_to_live)s::boolean IS NULL OR published_to_live = %(published_to_live)s)
    AND (%(status_meli)s::text IS NULL OR status_meli = %(status_meli)s)
    AND (%(app_status)s::smallint IS NULL OR app_status = %(app_status)s)
    AND (%(sku)s::text IS NULL OR sku = %(sku)s);

-- select_listing_ids: the listings of these SKUs.
SELECT sku, listing_id FROM listings
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = ANY (%(skus)s::text[]);

-- refresh: what the marketplace now says of listings; only of the one known for its SKU.
UPDATE listings l SET status_meli = f.status_meli, sub_status = f.sub_status, app_status = f.app_status,
    permalink = coalesce(nullif(f.permalink, ''), l.permalink), image = coalesce(f.image, l.image),
    title = coalesce(nullif(f.title, ''), l.title), checked_at = now()
FROM jsonb_to_recordset(%(found)s) AS f (listing_id text, sku text, permalink text, title text, image text,
    status_meli text, sub_status text[], app_status smallint)
WHERE l.seller_id = %(seller_id)s AND l.environment = %(environment)s AND l.sku = f.sku
    AND l.listing_id = f.listing_id;

-- mark_closed: the marketplace no longer has these listings.
UPDATE listings SET status_meli = 'closed', app_status = 0, checked_at = now()
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = ANY (%(skus)s::text[])
    AND listing_id = ANY (%(listing_ids)s::text[]);

-- insert_follow_up: something to be done about listings later.
INSERT INTO follow_ups (seller_id, follow_up_id, environment, kind, skus, due_at, tries, since)
VALUES (%(seller_id)s, %(follow_up_id)s, %(environment)s, %(kind)s, %(skus)s,
    now() + make_interval(secs => %(delay)s), %(tries)s, coalesce(%(since)s, now()));

-- claim_follow_ups: what is due, for a while.
WITH due AS (
    SELECT f.seller_id, f.follow_up_id FROM follow_ups f
    WHERE f.due_at <= now() AND (f.leased_until IS NULL OR f.leased_until < now())
        AND NOT EXISTS (SELECT FROM marketplace_accounts a WHERE a.seller_id = f.seller_id
            AND a.environment = f.environment AND a.paused_until > now())
    ORDER BY f.due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE follow_ups f SET leased_until = now() + make_interval(secs => %(lease)s)
FROM due WHERE f.seller_id = due.seller_id AND f.follow_up_id = due.follow_up_id
RETURNING f.seller_id, f.follow_up_id::text, f.environment, f.kind, f.skus, f.tries, f.since;

-- return_follow_up: again later.
UPDATE follow_ups SET due_at = now() + make_interval(secs => %(delay)s), tries = %(tries)s, leased_until = NULL
WHERE seller_id = %(seller_id)s AND follow_up_id = %(follow_up_id)s;

-- delete_follow_up: done.
DELETE FROM follow_ups WHERE seller_id = %(seller_id)s AND follow_up_id = %(follow_up_id)s;
