-- select_test_products: a page of the test account's listings, newest first, then by SKU; or of those after one.
SELECT sku, listing_id, title, image, permalink, listing_type_id, price, currency, category_id, category_name,
    tax_category_id, status_meli, app_status, published_to_live, published_at
FROM listings
WHERE seller_id = %(seller_id)s AND environment = 'test' AND published_at IS NOT NULL
    AND (%(published_to_live)s::boolean IS NULL OR published_to_live = %(published_to_live)s)
    AND (%(status_meli)s::text IS NULL OR status_meli = %(status_meli)s)
    AND (%(app_status)s::smallint IS NULL OR app_status = %(app_status)s)
    AND (%(sku)s::text IS NULL OR sku = %(sku)s)
    AND published_at <= coalesce(%(after_time)s::timestamptz, 'infinity')
    AND (published_at < coalesce(%(after_time)s::timestamptz, 'infinity') OR sku > %(after_sku)s::text)
ORDER BY published_at DESC, sku LIMIT %(limit)s OFFSET %(offset)s;

-- count_test_products: how many match.
SELECT count(*) FROM listings
WHERE seller_id = %(seller_id)s AND environment = 'test' AND published_at IS NOT NULL
    AND (%(published_to_live)s::boolean IS NULL OR published_to_live = %(published_to_live)s)
    AND (%(status_meli)s::text IS NULL OR status_meli = %(status_meli)s)
    AND (%(app_status)s::smallint IS NULL OR app_status = %(app_status)s)
    AND (%(sku)s::text IS NULL OR sku = %(sku)s);

-- select_listing_ids: the listings of these SKUs, but for those published again since.
SELECT sku, listing_id FROM listings
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = ANY (%(skus)s::text[])
    AND (published_at IS NULL OR published_at <= %(since)s);

-- select_on_record: the listing of a SKU that counts, and whether a send of it is not answered yet. In one look, after
-- the marketplace was asked: a listing just made is either on record by then or has its intent.
SELECT (SELECT l.listing_id FROM listings l WHERE l.seller_id = %(seller_id)s AND l.environment = %(environment)s
        AND l.sku = %(sku)s AND l.status_meli <> 'closed') AS listing_id,
    EXISTS (SELECT FROM intents n WHERE n.seller_id = %(seller_id)s AND n.environment = %(environment)s
        AND n.sku = %(sku)s) AS sending;

-- lock_unpublished: the listing on record, if nothing of this SKU was published since then: it was found on the account.
-- In full, against mark_updates: a send about to be made has its intent when the lock is had, or finds the listing as
-- disown has left it.
SELECT FROM listings
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = %(sku)s AND listing_id = %(listing_id)s
    AND status_meli <> 'closed' AND (published_at IS NULL OR published_at < %(since)s)
FOR UPDATE;

-- disown: the locked listing counts as closed from here on, unless a send of its SKU is not answered yet.
UPDATE listings SET status_meli = 'closed', app_status = 0, checked_at = now()
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = %(sku)s AND listing_id = %(listing_id)s
    AND NOT EXISTS (SELECT FROM intents n WHERE n.seller_id = %(seller_id)s AND n.environment = %(environment)s
        AND n.sku = %(sku)s);

-- select_open_listing: the open listing of a SKU, as far as it is known here.
SELECT listing_id, status_meli, sub_status, permalink, title, price, category_id, listing_type_id, coalesce(image, '')
FROM listings
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = %(sku)s AND status_meli <> 'closed';

-- refresh: what the marketplace now says of listings; only of the one known for its SKU. A former user's count as closed
-- and stay so.
UPDATE listings l SET status_meli = f.status_meli, sub_status = f.sub_status, app_status = f.app_status,
    permalink = coalesce(nullif(f.permalink, ''), l.permalink), image = coalesce(f.image, l.image),
    title = coalesce(nullif(f.title, ''), l.title), checked_at = now()
FROM jsonb_to_recordset(%(found)s) AS f (listing_id text, sku text, permalink text, title text, image text,
    status_meli text, sub_status text[], app_status smallint)
WHERE l.seller_id = %(seller_id)s AND l.environment = %(environment)s AND l.sku = f.sku
    AND l.listing_id = f.listing_id
    AND EXISTS (SELECT FROM marketplace_accounts a WHERE a.seller_id = %(seller_id)s AND a.environment = %(environment)s
        AND a.marketplace_user_id = %(marketplace_user_id)s FOR KEY SHARE);

-- mark_closed: the marketplace has closed these listings, or (missing) does not know them. A listing published a
-- moment ago may only be slow to appear: to take it for gone would make a second one.
UPDATE listings SET status_meli = 'closed', app_status = 0, checked_at = now()
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = ANY (%(skus)s::text[])
    AND listing_id = ANY (%(listing_ids)s::text[])
    AND (NOT %(missing)s OR published_at IS NULL OR published_at < now() - interval '5 minutes')
RETURNING sku;

-- insert_follow_up: something to be done about listings later.
INSERT INTO follow_ups (seller_id, follow_up_id, environment, kind, skus, due_at, tries, since)
VALUES (%(seller_id)s, %(follow_up_id)s, %(environment)s, %(kind)s, %(skus)s,
    now() + make_interval(secs => %(delay)s), %(tries)s, coalesce(%(since)s, now()));

-- claim_follow_ups: what is due, for a while; accounts take turns, so that none waits behind another's thousands.
WITH turns AS (
    SELECT f.seller_id, f.follow_up_id, f.due_at,
        row_number() OVER (PARTITION BY f.seller_id, f.environment ORDER BY f.due_at) AS turn
    FROM follow_ups f
    WHERE f.due_at <= now() AND (f.leased_until IS NULL OR f.leased_until < now())
        AND NOT EXISTS (SELECT FROM marketplace_accounts a WHERE a.seller_id = f.seller_id
            AND a.environment = f.environment AND a.paused_until > now())
    ORDER BY turn, f.due_at LIMIT %(limit)s
), due AS (
    SELECT f.seller_id, f.follow_up_id FROM follow_ups f
    JOIN turns t ON t.seller_id = f.seller_id AND t.follow_up_id = f.follow_up_id
    WHERE f.leased_until IS NULL OR f.leased_until < now()
    FOR UPDATE OF f SKIP LOCKED
)
UPDATE follow_ups f SET leased_until = now() + make_interval(secs => %(lease)s)
FROM due WHERE f.seller_id = due.seller_id AND f.follow_up_id = due.follow_up_id
RETURNING f.seller_id, f.follow_up_id::text, f.environment, f.kind, f.skus, f.tries, f.since, f.leased_until;

-- return_follow_up: again later. Guarded by the lease, as delete_follow_up is.
UPDATE follow_ups SET due_at = now() + make_interval(secs => %(delay)s), tries = %(tries)s, leased_until = NULL
WHERE seller_id = %(seller_id)s AND follow_up_id = %(follow_up_id)s AND leased_until = %(leased_until)s;

-- delete_follow_up: done; no row when somebody else has taken it over since.
DELETE FROM follow_ups
WHERE seller_id = %(seller_id)s AND follow_up_id = %(follow_up_id)s AND leased_until = %(leased_until)s;
