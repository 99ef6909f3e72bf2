-- insert_key: store a key's digest.
INSERT INTO api_keys (key_hash, key_id, seller_id, environment, scopes, last_four, expires_at)
SELECT %(key_hash)s, %(key_id)s, s.seller_id, %(environment)s, %(scopes)s, %(last_four)s, %(expires_at)s
FROM sellers s WHERE s.seller_id = %(seller_id)s
RETURNING key_id, seller_id, environment, scopes, last_four, created_at, expires_at, revoked_at;

-- select_key_by_hash: a key that is neither revoked nor expired by the database's clock.
SELECT seller_id, environment, scopes, key_id, expires_at,
    extract(epoch FROM expires_at - now())::float8 AS seconds_left
FROM api_keys
WHERE key_hash = %(key_hash)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- select_keys: a seller's keys, newest first.
SELECT key_id, seller_id, environment, scopes, last_four, created_at, expires_at, revoked_at
FROM api_keys WHERE seller_id = %(seller_id)s ORDER BY created_at DESC, key_id;

-- revoke_key: from now on; a second time changes nothing.
UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE key_id = %(key_id)s
RETURNING key_id, seller_id, environment, scopes, last_four, created_at, expires_at, revoked_at;
