-- select_promotable: test listings whose category and price a live publication takes over.
SELECT sku, category_id, price FROM listings
WHERE seller_id = %(seller_id)s AND environment = 'test' AND sku = ANY (%(skus)s::text[])
    AND published_at IS NOT NULL AND app_status = 1 AND status_meli NOT IN ('closed', 'inactive')
    AND NOT published_to_live AND price IS NOT NULL;

-- notify_due: wake the workers. A hint only.
SELECT pg_notify(%(channel)s::text, '');

-- select_due: sellers and environments with due runs held by nobody and an account that is not paused.
SELECT DISTINCT r.seller_id, r.environment FROM work_runs r
LEFT JOIN marketplace_accounts a ON a.seller_id = r.seller_id AND a.environment = r.environment
WHERE r.owner IS NULL AND r.due_at <= now() AND (a.paused_until IS NULL OR a.paused_until <= now())
ORDER BY r.seller_id, r.environment;

-- claim: lease runs of one seller: of the job that has the fewest leased now, so that its jobs advance side by
-- side; of that job in request order.
WITH chosen AS (
    SELECT r.job_id FROM work_runs r
    JOIN jobs j ON j.seller_id = r.seller_id AND j.job_id = r.job_id AND j.status IN ('queued', 'processing')
    WHERE r.seller_id = %(seller_id)s AND r.environment = %(environment)s
    GROUP BY r.job_id HAVING bool_or(r.owner IS NULL AND r.due_at <= now())
    ORDER BY count(r.owner), random() LIMIT 1
), due AS (
    SELECT r.job_id, r.first_ordinal FROM work_runs r JOIN chosen ON chosen.job_id = r.job_id
    WHERE r.seller_id = %(seller_id)s AND r.owner IS NULL AND r.due_at <= now()
    ORDER BY r.first_ordinal LIMIT %(limit)s
    FOR UPDATE OF r SKIP LOCKED
)
UPDATE work_runs r SET fence = nextval('fences'), owner = %(owner)s, leased_until = now() + make_interval(secs => %(lease)s)
FROM due JOIN jobs j ON j.seller_id = %(seller_id)s AND j.job_id = due.job_id
WHERE r.seller_id = %(seller_id)s AND r.job_id = due.job_id AND r.first_ordinal = due.first_ordinal AND r.owner IS NULL
RETURNING r.seller_id, r.job_id::text, r.environment, r.first_ordinal, r.last_ordinal, r.fence, r.returns,
    j.kind, j.environment, j.listing_type_id, j.tax_category_id, j.terms, j.status, j.trace_context, j.retries;

-- start_jobs: the first claimed run starts the job.
UPDATE jobs SET status = 'processing', started_at = coalesce(started_at, now())
WHERE seller_id = %(seller_id)s AND job_id = ANY (%(job_ids)s::uuid[]) AND status = 'queued'
RETURNING pg_notify('job_changed', seller_id || ':' || job_id);

-- renew: prolong the leases still held.
UPDATE work_runs r SET leased_until = now() + make_interval(secs => %(lease)s)
FROM unnest(%(seller_ids)s::bigint[], %(job_ids)s::uuid[], %(firsts)s::int[], %(fences)s::bigint[])
    AS h (seller_id, job_id, first_ordinal, fence)
WHERE r.seller_id = h.seller_id AND r.job_id = h.job_id AND r.first_ordinal = h.first_ordinal
    AND r.fence = h.fence AND r.owner = %(owner)s AND r.leased_until > now()
RETURNING r.job_id::text, r.first_ordinal, r.fence;

-- select_job_terms: what a run needs to know of its job; frozen at acceptance but for status and retries.
SELECT kind, environment, listing_type_id, tax_category_id, terms, status, trace_context, retries FROM jobs
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s;

-- select_run_items: all that is known of the items of a run that are still to be tried, in one statement. The columns
-- are the fields of WorkItem, in their order.
SELECT i.ordinal, i.sku, i.category_id, i.price, i.attempts,
    p.sku IS NOT NULL AS known, p.title, p.cost_usd, coalesce(p.image_urls, '{}'), p.brand, p.model, p.gtin, p.weight_grams,
    p.description IS NOT NULL AS described,
    l.listing_id, l.permalink, l.status_meli, l.category_id, l.category_name,
    t.sku IS NOT NULL AS promotable, t.category_id, t.price, t.category_name,
    c.title IS NOT NULL AS predicted, c.category_id, c.category_name
FROM job_items i
-- Each OFFSET 0 makes a look-up by whole key of what the planner, without statistics, would join by reading
-- all of the seller's rows for each item. An explicit category wins (first_step), so nothing else is looked for then.
LEFT JOIN LATERAL (SELECT * FROM products p WHERE p.sku = i.sku OFFSET 0) p ON true
LEFT JOIN LATERAL (
    SELECT * FROM listings l
    WHERE l.seller_id = %(seller_id)s AND l.environment = %(environment)s AND l.sku = i.sku OFFSET 0
) l ON true
LEFT JOIN LATERAL (
    SELECT * FROM listings t
    WHERE (%(promotion)s OR i.category_id IS NULL) AND %(environment)s = 'live'
        AND t.seller_id = %(seller_id)s AND t.environment = 'test' AND t.sku = i.sku
        AND t.published_at IS NOT NULL AND t.app_status = 1 AND t.status_meli NOT IN ('closed', 'inactive')
        AND t.price IS NOT NULL AND (%(promotion)s OR NOT t.published_to_live) OFFSET 0
) t ON true
LEFT JOIN LATERAL (
    SELECT * FROM category_predictions c
    WHERE i.category_id IS NULL
        AND c.site_id = %(site_id)s AND c.title = p.title AND c.predicted_at > now() - interval '30 days' OFFSET 0
) c ON true
WHERE i.seller_id = %(seller_id)s AND i.job_id = %(job_id)s
    AND i.ordinal BETWEEN %(first_ordinal)s AND %(last_ordinal)s AND i.status = 'pending'
    AND NOT EXISTS (SELECT FROM intents n WHERE n.seller_id = i.seller_id AND n.environment = %(environment)s
        AND n.sku = i.sku AND n.job_id = i.job_id)
ORDER BY i.ordinal;

-- share_job: hold off whoever would end pending items or take a run back while intents are written. Not those who
-- record results: they touch no item without an intent of their own, and two runs of a job would wait for each other at
-- each other's commits (measured: a third of the time that two workers stood still).
SELECT status FROM jobs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s FOR KEY SHARE;

-- insert_intents: the sends about to be made; those that another intent stands in the way of are not
-- returned. In the order of the key, so that two workers cannot wait for each other. Each is a creation until
-- mark_updates has seen an open listing.
INSERT INTO intents (seller_id, environment, sku, job_id, ordinal, first_ordinal, fence, owner, kind, attempt, state,
    draft, started_at)
SELECT %(seller_id)s, %(environment)s, w.sku, %(job_id)s, w.ordinal, %(first_ordinal)s, %(fence)s, %(owner)s,
    'create', 1, 'sending', w.draft::json, now()
-- One text a column, a draft a line: half of what one JSON text of all costs here, where each would be read twice.
FROM unnest(string_to_array(%(ordinals)s, ',')::int[], string_to_array(%(skus)s, ','),
    string_to_array(%(drafts)s, E'\n')) AS w (ordinal, sku, draft)
JOIN LATERAL (
    SELECT FROM job_items i WHERE i.seller_id = %(seller_id)s AND i.job_id = %(job_id)s AND i.ordinal = w.ordinal
        AND i.status = 'pending' OFFSET 0
) i ON true
WHERE EXISTS (SELECT FROM work_runs r WHERE r.seller_id = %(seller_id)s AND r.job_id = %(job_id)s
    AND r.first_ordinal = %(first_ordinal)s AND r.owner = %(owner)s AND r.fence = %(fence)s AND r.leased_until > now())
    -- The account may have been disconnected, or connected to another user, since it was read.
    AND EXISTS (SELECT FROM marketplace_accounts a WHERE a.seller_id = %(seller_id)s AND a.environment = %(environment)s
        AND a.marketplace_user_id = %(marketplace_user_id)s AND a.status = 'connected' FOR KEY SHARE)
ORDER BY w.sku
ON CONFLICT (seller_id, environment, sku) DO NOTHING
RETURNING sku;

-- mark_updates: which of the intents change an open listing. Looked up after they stand, so that a listing made by
-- a job that was faster is seen, and one that was closed since the items were read is not: what is marked as an
-- update is forgotten after a crash, so it must never be sent as a creation. Locked against disown (listings.sql).
WITH open AS MATERIALIZED (
    SELECT l.sku, l.listing_id, l.permalink FROM listings l
    WHERE l.seller_id = %(seller_id)s AND l.environment = %(environment)s
        AND l.sku = ANY (string_to_array(%(skus)s, ',')) AND l.status_meli <> 'closed'
    ORDER BY l.sku FOR KEY SHARE
), marked AS (
    UPDATE intents n SET kind = 'update'
    WHERE n.seller_id = %(seller_id)s AND n.environment = %(environment)s AND n.sku = ANY (ARRAY(SELECT sku FROM open))
        AND n.fence = %(fence)s AND n.owner = %(owner)s AND n.state = 'sending'
)
SELECT sku, listing_id, permalink FROM open;

-- select_intents: those of a commit whose answer was lost, with the listings that they change.
SELECT n.sku, l.listing_id, l.permalink FROM intents n
LEFT JOIN listings l ON n.kind = 'update' AND l.seller_id = n.seller_id AND l.environment = n.environment
    AND l.sku = n.sku
WHERE n.seller_id = %(seller_id)s AND n.environment = %(environment)s AND n.sku = ANY (%(skus)s::text[])
    AND n.job_id = %(job_id)s AND n.fence = %(fence)s AND n.owner = %(owner)s AND n.state = 'sending';

-- lock_for_results: take turns at the job's counters and sequence. Weaker than lock_job: see share_job.
SELECT FROM jobs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s FOR NO KEY UPDATE;

-- record: what became of items. The job's row is locked, which makes this the only writer of its items:
-- sequences are gapless and in commit order. A result counts only if the writer's intent is still its own
-- (or, for an item never sent, if it still holds the run): a rescued item belongs to somebody else.
-- What of a result is not told is null here, and stands for the default that it has in work.py.
-- Each row is looked up once, by its whole key (OFFSET 0 keeps the planner from joining instead, which on a table
-- that was empty a minute ago means reading the whole job for each item), and changed where it was found (ctid). The
-- guards stand again where intents are changed: a row that somebody else changes in between is followed to its new
-- version, and servers before the releases of November 2025 do not look at its place again.
WITH input AS MATERIALIZED (
    SELECT r.*, i.place AS item_place, n.place AS intent_place
    FROM json_to_recordset(%(results)s) AS r (ordinal int, sku text, outcome text, intent boolean, fence bigint,
        attempts int, listing_id text, permalink text, price bigint, category_id text, category_name text, title text,
        image text, listing_type_id text, status_meli text, sub_status text[], app_status smallint, described boolean,
        retryable boolean, error jsonb)
    LEFT JOIN LATERAL (
        SELECT i.ctid AS place FROM job_items i
        WHERE i.seller_id = %(seller_id)s AND i.job_id = %(job_id)s AND i.ordinal = r.ordinal AND i.status = 'pending'
        OFFSET 0
    ) i ON true
    LEFT JOIN LATERAL (
        SELECT n.ctid AS place, n.job_id, n.ordinal, n.owner, n.fence, n.state FROM intents n
        WHERE n.seller_id = %(seller_id)s AND n.environment = %(environment)s AND n.sku = r.sku OFFSET 0
    ) n ON r.intent AND n.job_id = %(job_id)s AND n.ordinal = r.ordinal AND n.owner = %(owner)s AND n.fence = r.fence
        AND n.state = %(state)s
), resolved AS (
    DELETE FROM intents n USING input r
    WHERE n.ctid = r.intent_place AND r.outcome <> 'unknown'
        AND n.owner = %(owner)s AND n.fence = r.fence AND n.state = %(state)s
    RETURNING n.ordinal
), doubted AS (
    UPDATE intents n SET state = 'unknown', leased_until = NULL, searches = 0,
        settle_until = now() + make_interval(secs => %(settle)s),
        due_at = now() + make_interval(secs => %(first_search)s)
    FROM input r
    WHERE n.ctid = r.intent_place AND r.outcome = 'unknown'
        AND n.owner = %(owner)s AND n.fence = r.fence AND n.state = %(state)s
    RETURNING n.ordinal
), accepted AS (
    SELECT r.* FROM input r
    WHERE r.item_place IS NOT NULL AND r.outcome <> 'unknown' AND CASE WHEN r.intent THEN r.ordinal IN (SELECT ordinal FROM resolved)
        ELSE EXISTS (SELECT FROM work_runs w WHERE w.seller_id = %(seller_id)s AND w.job_id = %(job_id)s
            AND w.first_ordinal = %(first_ordinal)s AND w.owner = %(owner)s AND w.fence = r.fence) END
), finished AS (
    SELECT a.*, row_number() OVER (ORDER BY a.ordinal) AS place FROM accepted a
    WHERE a.outcome IN ('success', 'failed', 'skipped')
), items AS (
    UPDATE job_items i SET status = f.outcome::item_status,
        sequence = (SELECT last_sequence FROM jobs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s) + f.place,
        attempts = i.attempts + coalesce(f.attempts, 0), listing_id = f.listing_id, permalink = f.permalink,
        price = coalesce(f.price, i.price), category_id = coalesce(f.category_id, i.category_id),
        retryable = f.retryable, error = f.error
    FROM finished f WHERE i.ctid = f.item_place
), still_pending AS (
    SELECT item_place, attempts FROM accepted WHERE outcome = 'deferred' AND attempts > 0
    UNION ALL
    SELECT r.item_place, r.attempts FROM input r
    WHERE r.outcome = 'unknown' AND r.attempts > 0 AND r.ordinal IN (SELECT ordinal FROM doubted)
), tried AS (
    UPDATE job_items i SET attempts = i.attempts + t.attempts FROM still_pending t WHERE i.ctid = t.item_place
), ours AS MATERIALIZED (
    -- Of an account that was connected to another user since the send nothing is kept: every change of a listing that
    -- this user does not own would be refused, and a refusal like that stops the whole job.
    SELECT FROM marketplace_accounts a WHERE a.seller_id = %(seller_id)s AND a.environment = %(environment)s
        AND (%(marketplace_user_id)s::bigint IS NULL OR a.marketplace_user_id = %(marketplace_user_id)s::bigint)
    FOR KEY SHARE
), shown AS (
    INSERT INTO listings AS l (seller_id, environment, sku, listing_id, permalink, title, image, listing_type_id,
        price, currency, category_id, category_name, tax_category_id, status_meli, sub_status, app_status,
        published_at)
    SELECT %(seller_id)s, %(environment)s, f.sku, f.listing_id, f.permalink, f.title, f.image, f.listing_type_id,
        f.price, %(currency)s, f.category_id, f.category_name, %(tax_category_id)s, f.status_meli,
        coalesce(f.sub_status, '{}'), coalesce(f.app_status, 1), now()
    FROM finished f WHERE f.outcome = 'success' AND EXISTS (SELECT FROM ours) ORDER BY f.sku
    ON CONFLICT (seller_id, environment, sku) DO UPDATE SET listing_id = EXCLUDED.listing_id,
        permalink = EXCLUDED.permalink, title = EXCLUDED.title, image = coalesce(EXCLUDED.image, l.image),
        listing_type_id = EXCLUDED.listing_type_id, price = EXCLUDED.price, category_id = EXCLUDED.category_id,
        category_name = CASE WHEN EXCLUDED.category_name IS NULL AND EXCLUDED.category_id = l.category_id
            THEN l.category_name ELSE EXCLUDED.category_name END,
        tax_category_id = EXCLUDED.tax_category_id, status_meli = EXCLUDED.status_meli,
        sub_status = EXCLUDED.sub_status, app_status = EXCLUDED.app_status, published_at = EXCLUDED.published_at,
        checked_at = EXCLUDED.published_at
), promoted AS (
    UPDATE listings l SET published_to_live = true
    WHERE %(environment)s = 'live' AND l.seller_id = %(seller_id)s AND l.environment = 'test'
        AND l.sku = ANY (ARRAY(SELECT sku FROM finished WHERE outcome = 'success')) AND NOT l.published_to_live
), followed AS (
    INSERT INTO follow_ups (seller_id, follow_up_id, environment, kind, skus, due_at)
    SELECT %(seller_id)s, %(check_id)s::uuid, %(environment)s, 'check', array_agg(f.sku ORDER BY f.sku),
        now() + make_interval(secs => %(first_check)s)
    FROM finished f WHERE f.outcome = 'success' AND EXISTS (SELECT FROM ours) HAVING count(*) > 0
    UNION ALL
    SELECT %(seller_id)s, %(description_id)s::uuid, %(environment)s, 'description', array_agg(f.sku ORDER BY f.sku), now()
    FROM finished f WHERE f.outcome = 'success' AND f.described AND EXISTS (SELECT FROM ours) HAVING count(*) > 0
), counted AS (
    SELECT count(*) FILTER (WHERE outcome = 'success')::int AS successful,
        count(*) FILTER (WHERE outcome = 'failed')::int AS failed,
        count(*) FILTER (WHERE outcome = 'skipped')::int AS skipped,
        count(*)::int AS finished,
        (SELECT count(*) FROM accepted)::int AS accepted,
        (SELECT count(*) FROM doubted)::int AS doubted,
        CASE WHEN %(reconciling)s THEN -(SELECT count(*) FROM resolved)
            ELSE (SELECT count(*) FROM doubted) END::int AS reconciling
    FROM finished
)
UPDATE jobs j SET
    successful = j.successful + c.successful,
    failed = j.failed + c.failed,
    skipped = j.skipped + c.skipped,
    pending = j.pending - c.finished,
    reconciling = j.reconciling + c.reconciling,
    last_sequence = j.last_sequence + c.finished,
    status = CASE
        WHEN j.pending > c.finished OR j.status NOT IN ('queued', 'processing') THEN j.status
        WHEN j.error_message IS NOT NULL THEN 'failed'
        WHEN j.successful + c.successful = 0 AND j.failed + c.failed > 0 THEN 'failed'
        ELSE 'completed' END,
    error_message = CASE
        WHEN j.error_message IS NULL AND j.pending = c.finished AND j.status IN ('queued', 'processing')
            AND j.successful + c.successful = 0 AND j.failed + c.failed > 0
            THEN 'No item could be published; each item says why.'
        ELSE j.error_message END,
    completed_at = CASE
        WHEN j.completed_at IS NULL AND j.pending = c.finished AND j.status IN ('queued', 'processing') THEN now()
        ELSE j.completed_at END
FROM counted c
WHERE j.seller_id = %(seller_id)s AND j.job_id = %(job_id)s
RETURNING c.successful, c.failed, c.skipped, j.last_sequence, c.accepted, c.doubted, j.status,
    j.status = 'cancelled' OR j.stopped_by IS NOT NULL, pg_notify('job_changed', j.seller_id || ':' || j.job_id);

-- end_run: give a run back. It is deleted when nothing of it is left to be tried. The job's row is locked,
-- so that a retry cannot add items between the look and the deletion.
WITH remaining AS (
    SELECT EXISTS (
        SELECT FROM job_items i
        WHERE i.seller_id = %(seller_id)s AND i.job_id = %(job_id)s
            AND i.ordinal BETWEEN %(first_ordinal)s AND %(last_ordinal)s AND i.status = 'pending'
            AND NOT EXISTS (SELECT FROM intents n WHERE n.seller_id = i.seller_id
                AND n.environment = %(environment)s AND n.sku = i.sku AND n.job_id = i.job_id)
    ) AS some
), done AS (
    DELETE FROM work_runs r USING remaining
    WHERE NOT remaining.some AND r.seller_id = %(seller_id)s AND r.job_id = %(job_id)s
        AND r.first_ordinal = %(first_ordinal)s AND r.owner = %(owner)s AND r.fence = %(fence)s
)
UPDATE work_runs r SET owner = NULL, leased_until = NULL, due_at = now() + make_interval(secs => %(delay)s),
    returns = %(returns)s
FROM remaining
WHERE remaining.some AND r.seller_id = %(seller_id)s AND r.job_id = %(job_id)s
    AND r.first_ordinal = %(first_ordinal)s AND r.owner = %(owner)s AND r.fence = %(fence)s;

-- select_expired: runs whose holder let the lease end. Looks at leases, never at age.
SELECT seller_id, job_id::text, first_ordinal, fence FROM work_runs
WHERE leased_until < now() ORDER BY leased_until LIMIT 100;

-- select_owned: runs a stopping worker still holds.
SELECT seller_id, job_id::text, first_ordinal, fence FROM work_runs WHERE owner = %(owner)s;

-- rescue: take a run back, later each time (a run that breaks its workers must not keep them busy). What may have
-- been sent goes to the search, never straight to another send; updates are safe to repeat and simply forgotten.
-- The job's row is locked.
WITH run AS (
    UPDATE work_runs r SET owner = NULL, leased_until = NULL, returns = least(r.returns + 1, 1000),
        due_at = now() + make_interval(secs => least(60, %(spread)s * power(2, least(r.returns, 6))))
    WHERE r.seller_id = %(seller_id)s AND r.job_id = %(job_id)s AND r.first_ordinal = %(first_ordinal)s
        AND r.fence = %(fence)s AND (r.leased_until < now() OR r.owner = %(owner)s)
    RETURNING r.fence
), doubted AS (
    UPDATE intents n SET state = 'unknown', settle_until = now() + make_interval(secs => %(settle)s),
        due_at = now() + make_interval(secs => %(spread)s), searches = 0
    FROM run
    WHERE n.seller_id = %(seller_id)s AND n.job_id = %(job_id)s AND n.first_ordinal = %(first_ordinal)s
        AND n.fence = run.fence AND n.state = 'sending' AND n.kind = 'create' AND n.attempt = 1
    RETURNING 1
), forgotten AS (
    DELETE FROM intents n USING run
    WHERE n.seller_id = %(seller_id)s AND n.job_id = %(job_id)s AND n.first_ordinal = %(first_ordinal)s
        AND n.fence = run.fence AND n.state = 'sending' AND n.kind = 'update'
)
UPDATE jobs j SET reconciling = j.reconciling + (SELECT count(*) FROM doubted)
FROM run
WHERE j.seller_id = %(seller_id)s AND j.job_id = %(job_id)s
RETURNING (SELECT count(*) FROM doubted);

-- delete_useless: runs that nobody holds, of a job that has ended: nothing is left to be tried, and no claim would
-- ever take them. The job's row is locked.
DELETE FROM work_runs r USING jobs j
WHERE r.seller_id = %(seller_id)s AND r.job_id = %(job_id)s AND r.owner IS NULL
    AND j.seller_id = %(seller_id)s AND j.job_id = %(job_id)s AND j.status IN ('completed', 'failed', 'cancelled');

-- select_due_schedules: scheduled jobs whose time has come.
SELECT j.seller_id, j.job_id::text,
    EXISTS (SELECT FROM marketplace_accounts a WHERE a.seller_id = j.seller_id AND a.environment = j.environment
        AND a.status = 'connected') AS connected
FROM jobs j WHERE j.status = 'scheduled' AND j.scheduled_for <= now() ORDER BY j.scheduled_for LIMIT 100;

-- queue_scheduled: from scheduled to queued.
UPDATE jobs SET status = 'queued'
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND status = 'scheduled' AND scheduled_for <= now()
RETURNING pg_notify('job_changed', seller_id || ':' || job_id);

-- select_stranded: jobs with pending items that no run and no intent will ever reach, or with a send that no run
-- answers for. There is no way into these states; should a bug find one, nothing stays stuck in it.
SELECT j.seller_id, j.job_id::text FROM jobs j
WHERE j.status IN ('queued', 'processing', 'cancelled') AND j.pending > 0
    AND ((NOT EXISTS (SELECT FROM work_runs r WHERE r.seller_id = j.seller_id AND r.job_id = j.job_id)
            AND NOT EXISTS (SELECT FROM intents n WHERE n.seller_id = j.seller_id AND n.job_id = j.job_id))
        OR EXISTS (SELECT FROM intents n WHERE n.seller_id = j.seller_id AND n.job_id = j.job_id
            AND n.state = 'sending' AND n.attempt = 1
            AND NOT EXISTS (SELECT FROM work_runs r WHERE r.seller_id = n.seller_id AND r.job_id = n.job_id
                AND r.first_ordinal = n.first_ordinal AND r.fence = n.fence AND r.owner IS NOT NULL)))
ORDER BY j.seller_id, j.job_id LIMIT 20;

-- doubt_orphans: sends of a stranded job that no run answers for are searched for. Its row is locked.
WITH doubted AS (
    UPDATE intents n SET state = 'unknown', settle_until = now() + make_interval(secs => %(settle)s), due_at = now(),
        searches = 0
    WHERE n.seller_id = %(seller_id)s AND n.job_id = %(job_id)s AND n.state = 'sending' AND n.attempt = 1
        AND NOT EXISTS (SELECT FROM work_runs r WHERE r.seller_id = n.seller_id AND r.job_id = n.job_id
            AND r.first_ordinal = n.first_ordinal AND r.fence = n.fence AND r.owner IS NOT NULL)
    RETURNING 1
)
UPDATE jobs j SET reconciling = j.reconciling + (SELECT count(*) FROM doubted)
WHERE j.seller_id = %(seller_id)s AND j.job_id = %(job_id)s AND EXISTS (SELECT FROM doubted);

-- restore_runs: the runs of a stranded job. Its row is locked.
INSERT INTO work_runs (seller_id, job_id, first_ordinal, last_ordinal, environment, due_at)
SELECT j.seller_id, j.job_id, r.first, least(r.first + %(run_size)s::int, j.total_items) - 1, j.environment, now()
FROM jobs j CROSS JOIN LATERAL (
    SELECT DISTINCT i.ordinal / %(run_size)s::int * %(run_size)s::int AS first FROM job_items i
    WHERE i.seller_id = j.seller_id AND i.job_id = j.job_id AND i.status = 'pending'
) r
WHERE j.seller_id = %(seller_id)s AND j.job_id = %(job_id)s AND j.status IN ('queued', 'processing')
    AND NOT EXISTS (SELECT FROM work_runs w WHERE w.seller_id = j.seller_id AND w.job_id = j.job_id)
    AND NOT EXISTS (SELECT FROM intents n WHERE n.seller_id = j.seller_id AND n.job_id = j.job_id)
ON CONFLICT DO NOTHING;

-- select_leftovers: a cancelled job whose pending items nobody holds.
SELECT 1 FROM jobs j
WHERE j.seller_id = %(seller_id)s AND j.job_id = %(job_id)s AND j.status = 'cancelled' AND j.pending > 0
    AND NOT EXISTS (SELECT FROM work_runs r WHERE r.seller_id = j.seller_id AND r.job_id = j.job_id)
    AND NOT EXISTS (SELECT FROM intents n WHERE n.seller_id = j.seller_id AND n.job_id = j.job_id);

-- select_gauges: what an operator looks at first.
SELECT
    (SELECT count(*) FROM work_runs WHERE owner IS NULL AND due_at <= now())::int,
    coalesce(extract(epoch FROM now() - (SELECT min(due_at) FROM work_runs WHERE owner IS NULL AND due_at <= now())),
        0)::float8,
    coalesce(extract(epoch FROM now() - (SELECT min(created_at) FROM jobs WHERE status IN ('queued', 'processing'))),
        0)::float8,
    (SELECT count(*) FROM jobs WHERE status = 'queued')::int,
    (SELECT count(*) FROM jobs WHERE status = 'processing')::int,
    (SELECT count(*) FROM jobs WHERE status = 'scheduled')::int,
    (SELECT coalesce(sum(reconciling), 0) FROM jobs WHERE status IN ('queued', 'processing', 'cancelled')
        AND reconciling > 0)::int;

-- insert_finding: books that did not add up.
INSERT INTO audit_findings (seller_id, finding_id, what) VALUES (%(seller_id)s, %(finding_id)s, %(what)s);
