-- lock_account: hold off whoever writes listings of the present user, and wait for who is at it.
SELECT FROM marketplace_accounts WHERE seller_id = %(seller_id)s AND environment = %(environment)s FOR UPDATE;

-- connect: a (re)connected account with encrypted tokens. A former user's listings are none that this one could
-- change, so they count as closed; they are found again should their user come back.
WITH left_behind AS (
    SELECT a.seller_id, a.environment FROM marketplace_accounts a
    WHERE a.seller_id = %(seller_id)s AND a.environment = %(environment)s
        AND a.marketplace_user_id <> %(marketplace_user_id)s
), closed AS (
    UPDATE listings l SET status_meli = 'closed', app_status = 0 FROM left_behind b
    WHERE l.seller_id = b.seller_id AND l.environment = b.environment AND l.status_meli <> 'closed'
), forgotten AS (
    DELETE FROM follow_ups f USING left_behind b WHERE f.seller_id = b.seller_id AND f.environment = b.environment
)
INSERT INTO marketplace_accounts (seller_id, environment, marketplace_user_id, status, access_token, refresh_token)
SELECT s.seller_id, %(environment)s, %(marketplace_user_id)s, 'connected', %(access_token)s, %(refresh_token)s
FROM sellers s WHERE s.seller_id = %(seller_id)s
ON CONFLICT (seller_id, environment) DO UPDATE SET marketplace_user_id = EXCLUDED.marketplace_user_id,
    status = 'connected', nickname = NULL, access_token = EXCLUDED.access_token,
    refresh_token = EXCLUDED.refresh_token, token_expires_at = NULL, refresh_until = NULL,
    token_version = marketplace_accounts.token_version + 1, profile_checked_at = NULL, model = NULL,
    paused_until = NULL, pause_reason = NULL, scanned_to = 0, all_known = false,
    connected_at = EXCLUDED.connected_at
RETURNING environment, marketplace_user_id, status, nickname;

-- disconnect: forget the tokens.
UPDATE marketplace_accounts SET status = 'disconnected', access_token = NULL, refresh_token = NULL,
    refresh_until = NULL, token_version = token_version + 1
WHERE seller_id = %(seller_id)s AND environment = %(environment)s
RETURNING environment, marketplace_user_id, status, nickname;

-- select_tokens: the present pair.
SELECT access_token, refresh_token, extract(epoch FROM token_expires_at - now())::float8, token_version, status,
    marketplace_user_id
FROM marketplace_accounts WHERE seller_id = %(seller_id)s AND environment = %(environment)s;

-- begin_refresh: the right to refresh, for one process at a time.
UPDATE marketplace_accounts SET refresh_until = now() + make_interval(secs => %(seconds)s)
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND token_version = %(version)s
    AND status = 'connected' AND (refresh_until IS NULL OR refresh_until < now())
RETURNING 1;

-- finish_refresh: the new pair, stored before anybody uses it.
UPDATE marketplace_accounts SET access_token = %(access_token)s, refresh_token = %(refresh_token)s,
    token_expires_at = now() + make_interval(secs => %(expires_in)s), token_version = token_version + 1,
    refresh_until = NULL
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND token_version = %(version)s
RETURNING 1;

-- abandon_refresh: the marketplace could not be asked.
UPDATE marketplace_accounts SET refresh_until = NULL
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND token_version = %(version)s;

-- require_authorization: the grant is gone.
UPDATE marketplace_accounts SET status = 'reauthorization_required', refresh_until = NULL
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND token_version = %(version)s
    AND status = 'connected';

-- reserve_slots: the next sending slots of the application; the share grows back by a tenth a minute. Reservations wait for
-- each other at the row, so that a transaction's now() may lie before what the row says: that is no minute less.
INSERT INTO marketplace_rate AS r (application, next_slot, share_changed_at)
VALUES (%(application)s, clock_timestamp() + make_interval(secs => %(slots)s / %(per_second)s::float8), now())
ON CONFLICT (application) DO UPDATE SET
    share = least(1.0, r.share + 0.1
        * greatest(0, floor(extract(epoch FROM EXCLUDED.share_changed_at - r.share_changed_at) / 60))),
    share_changed_at = CASE WHEN r.share < 1 AND EXCLUDED.share_changed_at - r.share_changed_at < interval '60 seconds'
        THEN r.share_changed_at ELSE EXCLUDED.share_changed_at END,
    next_slot = greatest(r.next_slot, EXCLUDED.share_changed_at) + make_interval(secs => %(slots)s / (%(per_second)s::float8
        * least(1.0, r.share + 0.1
            * greatest(0, floor(extract(epoch FROM EXCLUDED.share_changed_at - r.share_changed_at) / 60)))))
RETURNING greatest(0, extract(epoch FROM next_slot - clock_timestamp())::float8
    - %(slots)s / (%(per_second)s::float8 * share)), 1 / (%(per_second)s::float8 * share);

-- slow_down: nobody sends for a while, and only half as fast afterwards. A pause lasts a second at least, so what is told
-- sooner is the same burst, heard of by another process.
INSERT INTO marketplace_rate AS r (application, next_slot, share, share_changed_at)
VALUES (%(application)s, now() + make_interval(secs => %(seconds)s), 0.5, now())
ON CONFLICT (application) DO UPDATE SET next_slot = greatest(r.next_slot, EXCLUDED.next_slot),
    share = CASE WHEN r.share < 1 AND EXCLUDED.share_changed_at - r.share_changed_at < interval '1 second' THEN r.share
        ELSE greatest(0.05, r.share / 2) END,
    share_changed_at = greatest(r.share_changed_at, EXCLUDED.share_changed_at);

-- select_account: what a worker needs to know of an account; no tokens.
SELECT s.site_id, s.currency, a.marketplace_user_id, a.status, a.model,
    a.profile_checked_at > now() - interval '6 hours' AS profile_fresh,
    greatest(0, extract(epoch FROM a.paused_until - now()))::float8 AS paused_seconds,
    a.scanned_to, a.all_known
FROM sellers s LEFT JOIN marketplace_accounts a ON a.seller_id = s.seller_id AND a.environment = %(environment)s
WHERE s.seller_id = %(seller_id)s;

-- store_profile: what the marketplace said of the account's user.
UPDATE marketplace_accounts SET nickname = %(nickname)s, model = %(model)s, profile_checked_at = now()
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND marketplace_user_id = %(marketplace_user_id)s;

-- forget_profile: ask again before the next run.
UPDATE marketplace_accounts SET profile_checked_at = NULL
WHERE seller_id = %(seller_id)s AND environment = %(environment)s;

-- store_scan: the account's listings were looked through, from the newest to those seen before. Null: what was known of
-- the others holds.
UPDATE marketplace_accounts SET scanned_to = greatest(scanned_to, %(scanned_to)s),
    all_known = coalesce(%(all_known)s::boolean, all_known)
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND marketplace_user_id = %(marketplace_user_id)s;

-- pause: nothing is sent for this account for a while; a longer pause stays.
UPDATE marketplace_accounts SET
    paused_until = greatest(coalesce(paused_until, now()), now() + make_interval(secs => %(seconds)s)),
    pause_reason = %(reason)s
WHERE seller_id = %(seller_id)s AND environment = %(environment)s;

-- select_known_listing_ids: which of these listings are already known. One that counts as closed here is looked at:
-- should it be open after all, it must be found, or a second one would be made. Id by id (OFFSET 0): a planner
-- without statistics would read all of the seller's listings.
SELECT l.listing_id FROM unnest(%(listing_ids)s::text[]) AS n (listing_id)
CROSS JOIN LATERAL (SELECT * FROM listings WHERE listing_id = n.listing_id OFFSET 0) l
WHERE l.seller_id = %(seller_id)s AND l.environment = %(environment)s AND l.status_meli <> 'closed';

-- adopt_found: listings found on the account that this service did not know.
INSERT INTO listings AS l (seller_id, environment, sku, listing_id, permalink, title, image, listing_type_id, price,
    currency, category_id, status_meli, sub_status, app_status)
SELECT %(seller_id)s, %(environment)s, sku, listing_id, permalink, title, image, listing_type_id, price, %(currency)s,
    category_id, status_meli, sub_status, app_status
FROM jsonb_to_recordset(%(found)s) AS f (sku text, listing_id text, permalink text, title text, image text,
    listing_type_id text, price bigint, category_id text, status_meli text, sub_status text[], app_status smallint)
WHERE EXISTS (SELECT FROM marketplace_accounts a WHERE a.seller_id = %(seller_id)s AND a.environment = %(environment)s
    AND a.marketplace_user_id = %(marketplace_user_id)s FOR KEY SHARE)
ORDER BY sku
ON CONFLICT (seller_id, environment, sku) DO UPDATE SET listing_id = EXCLUDED.listing_id,
    permalink = EXCLUDED.permalink, title = EXCLUDED.title, image = EXCLUDED.image, price = EXCLUDED.price,
    listing_type_id = EXCLUDED.listing_type_id, category_id = EXCLUDED.category_id,
    status_meli = EXCLUDED.status_meli, sub_status = EXCLUDED.sub_status, app_status = EXCLUDED.app_status
-- An open listing that is already known stays the one for its SKU.
WHERE l.status_meli = 'closed';

-- select_sealed: accounts with tokens, by key.
SELECT seller_id, environment, access_token, refresh_token FROM marketplace_accounts
WHERE access_token IS NOT NULL ORDER BY seller_id, environment;

-- reseal: the same tokens under another key, unless they were renewed meanwhile, which sealed them anew anyway.
UPDATE marketplace_accounts SET access_token = %(new_access)s, refresh_token = %(new_refresh)s
WHERE seller_id = %(seller_id)s AND environment = %(environment)s
    AND access_token = %(old_access)s AND refresh_token IS NOT DISTINCT FROM %(old_refresh)s;
