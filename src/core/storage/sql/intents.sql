-- select_due: sellers and environments with unknown outcomes to be searched for now.
SELECT DISTINCT n.seller_id, n.environment FROM intents n
LEFT JOIN marketplace_accounts a ON a.seller_id = n.seller_id AND a.environment = n.environment
WHERE n.state = 'unknown' AND n.due_at <= now() AND (n.leased_until IS NULL OR n.leased_until < now())
    -- A paused account is not asked, but what has waited far too long is still given up.
    AND (a.paused_until IS NULL OR a.paused_until <= now()
        OR n.settle_until < now() - make_interval(secs => %(hopeless_after)s))
ORDER BY n.seller_id, n.environment;

-- claim: lease unknown intents of one seller for a search.
WITH due AS (
    SELECT n.sku FROM intents n
    WHERE n.seller_id = %(seller_id)s AND n.environment = %(environment)s AND n.state = 'unknown'
        AND n.due_at <= now() AND (n.leased_until IS NULL OR n.leased_until < now())
    ORDER BY n.due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE intents n SET leased_until = now() + make_interval(secs => %(lease)s), owner = %(owner)s, fence = nextval('fences'),
    searches = least(n.searches + 1, 1000)
FROM due
WHERE n.seller_id = %(seller_id)s AND n.environment = %(environment)s AND n.sku = due.sku AND n.state = 'unknown'
RETURNING n.sku, n.job_id::text, n.ordinal, n.fence, n.attempt, n.draft, n.started_at, n.searches,
    n.settle_until <= now() AS settled,
    n.settle_until < now() - make_interval(secs => %(hopeless_after)s) AS hopeless,
    greatest(0, extract(epoch FROM n.settle_until - now()))::float8 AS seconds_left,
    (SELECT j.status FROM jobs j WHERE j.seller_id = n.seller_id AND j.job_id = n.job_id) AS job_status,
    (SELECT j.stopped_by FROM jobs j WHERE j.seller_id = n.seller_id AND j.job_id = n.job_id) AS stopped_by, n.unsent;

-- postpone: search again later.
UPDATE intents SET due_at = now() + make_interval(secs => %(delay)s), leased_until = NULL
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = %(sku)s AND owner = %(owner)s
    AND fence = %(fence)s AND state = 'unknown';

-- share_job: a cancellation or a stop waits, or is seen. Against any change, unlike work.sql's: a stop by the results of
-- others must be seen too.
SELECT status, stopped_by FROM jobs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s FOR SHARE;

-- repost: the one new attempt after a search that found nothing, as a new intent.
UPDATE intents SET state = 'sending', attempt = 2, started_at = now(), settle_until = NULL, due_at = NULL,
    leased_until = now() + make_interval(secs => %(lease)s)
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = %(sku)s AND owner = %(owner)s
    AND fence = %(fence)s AND state = 'unknown' AND attempt = 1 AND leased_until > now()
    AND EXISTS (SELECT FROM marketplace_accounts a WHERE a.seller_id = %(seller_id)s AND a.environment = %(environment)s
        AND a.marketplace_user_id = %(marketplace_user_id)s AND a.status = 'connected')
RETURNING 1;

-- unsent: the new attempt came to nothing for certain; it may be made once more.
UPDATE intents SET state = 'unknown', attempt = 1, settle_until = now(), leased_until = NULL, unsent = unsent + %(counted)s::int,
    due_at = now() + make_interval(secs => %(delay)s)
WHERE seller_id = %(seller_id)s AND environment = %(environment)s AND sku = %(sku)s AND owner = %(owner)s
    AND fence = %(fence)s AND state = 'sending';

-- doubt_expired: reposts whose sender let its lease end; searched for like any unknown send.
UPDATE intents SET state = 'unknown', settle_until = now() + make_interval(secs => %(settle)s), due_at = now(),
    leased_until = NULL, searches = 0
WHERE state = 'sending' AND attempt = 2 AND leased_until < now();

-- release_owned: a stopping worker's searches, for the others.
UPDATE intents SET leased_until = NULL WHERE owner = %(owner)s AND state = 'unknown' AND leased_until IS NOT NULL;
