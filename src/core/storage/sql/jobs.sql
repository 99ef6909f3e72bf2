-- select_job: one job as readers see it.
SELECT seller_id, job_id::text, job_number, status, environment, kind, total_items, successful, failed, skipped,
    pending, reconciling, last_sequence, retries, terms ->> 'currency', created_at, scheduled_for, started_at,
    completed_at, error_message, waiting_reason
FROM job_summaries WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s;

-- select_page: a job with items in request order: of ordinals between two bounds, of one status (null: of any), past the
-- first of them. Both bounds, although the limit makes one enough: with one a page took a third longer (measured).
-- Behind the last match the job's counters say so, and no item is looked at. The items come as one text, a JSON array for
-- each column (null: none): a thousand values cost more to take over one by one, and an array for each item more to
-- write. OFFSET 0 makes one look-up by whole key for each item of what a planner without statistics joins by reading all
-- listings each time.
SELECT j.seller_id, j.job_id::text, j.job_number, j.status, j.environment, j.kind, j.total_items, j.successful,
    j.failed, j.skipped, j.pending, j.reconciling, j.last_sequence, j.retries, j.terms ->> 'currency', j.created_at,
    j.scheduled_for, j.started_at, j.completed_at, j.error_message, j.waiting_reason, (
        SELECT json_build_array(json_agg(ordinal), json_agg(sku), json_agg(status), json_agg(listing_id),
            json_agg(permalink), json_agg(price), json_agg(category_id), json_agg(retryable), json_agg(error),
            json_agg(sequence), json_agg(attempts), json_agg(status_meli))
        FROM (
            SELECT i.*, l.status_meli
            FROM (
                SELECT * FROM job_items
                WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s
                    AND ordinal > %(after)s::bigint AND ordinal <= %(last)s::bigint
                    AND (%(status)s::item_status IS NULL OR status = %(status)s::item_status)
                    AND %(offset)s < CASE %(status)s::item_status WHEN 'success' THEN j.successful
                        WHEN 'failed' THEN j.failed WHEN 'skipped' THEN j.skipped WHEN 'pending' THEN j.pending
                        ELSE j.total_items END
                ORDER BY ordinal LIMIT %(limit)s OFFSET %(offset)s
            ) i
            LEFT JOIN LATERAL (
                SELECT l.listing_id, l.status_meli FROM listings l
                WHERE l.seller_id = %(seller_id)s AND l.environment = j.environment AND l.sku = i.sku OFFSET 0
            ) l ON i.status = 'success' AND l.listing_id = i.listing_id
            ORDER BY i.ordinal
        ) items
        HAVING count(*) > 0
    )::text
FROM job_summaries j WHERE j.seller_id = %(seller_id)s AND j.job_id = %(job_id)s;

-- select_results_after: results in the order they happened, replaced ones included. Those that one retry replaced all
-- happened before those of the next, so no more retries are opened than the answer takes.
SELECT ordinal, sku, status, listing_id, permalink, price, category_id, retryable, error, sequence, attempts
FROM (
    SELECT ordinal, sku, status, listing_id, permalink, price, category_id, retryable, error, sequence, attempts
    FROM job_items
    WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND sequence > %(after)s
    UNION ALL
    (SELECT i.ordinal, i.sku, 'failed', NULL, NULL, i.price, i.category_id, true, i.error, i.sequence, i.attempts
    FROM replaced_results r CROSS JOIN LATERAL unnest(r.results) i
    WHERE r.seller_id = %(seller_id)s AND r.job_id = %(job_id)s AND r.last_sequence > %(after)s
        AND i.sequence > %(after)s
    ORDER BY r.retry, i.sequence LIMIT %(limit)s)
) results
ORDER BY sequence LIMIT %(limit)s;

-- select_jobs_newest: a page of all jobs, or of those older than a job number; numbered, so a deep page costs what
-- the first costs.
SELECT j.seller_id, j.job_id::text, j.job_number, j.status, j.environment, j.kind, j.total_items, j.successful,
    j.failed, j.skipped, j.pending, j.reconciling, j.last_sequence, j.retries, j.terms ->> 'currency', j.created_at,
    j.scheduled_for, j.started_at, j.completed_at, j.error_message, j.waiting_reason, s.job_count
FROM (SELECT seller_id, job_count FROM sellers WHERE seller_id = %(seller_id)s) s
LEFT JOIN LATERAL (
    SELECT * FROM job_summaries v
    WHERE v.seller_id = %(seller_id)s AND v.job_number <= coalesce(%(before)s::bigint - 1, s.job_count - %(offset)s::bigint)
    ORDER BY v.job_number DESC LIMIT %(limit)s
) j ON true
ORDER BY j.job_number DESC;

-- select_jobs_filtered: a page of the jobs that match, or of those older than a job number.
SELECT seller_id, job_id::text, job_number, status, environment, kind, total_items, successful, failed, skipped,
    pending, reconciling, last_sequence, retries, terms ->> 'currency', created_at, scheduled_for, started_at,
    completed_at, error_message, waiting_reason
FROM job_summaries
WHERE seller_id = %(seller_id)s
    AND (%(status)s::job_status IS NULL OR status = %(status)s::job_status)
    AND (%(from_time)s::timestamptz IS NULL OR created_at >= %(from_time)s)
    AND (%(to_time)s::timestamptz IS NULL OR created_at < %(to_time)s)
    AND job_number < coalesce(%(before)s::bigint, 9223372036854775807)
ORDER BY job_number DESC LIMIT %(limit)s OFFSET %(offset)s;

-- count_jobs_filtered: how many match.
SELECT count(*) FROM jobs
WHERE seller_id = %(seller_id)s
    AND (%(status)s::job_status IS NULL OR status = %(status)s::job_status)
    AND (%(from_time)s::timestamptz IS NULL OR created_at >= %(from_time)s)
    AND (%(to_time)s::timestamptz IS NULL OR created_at < %(to_time)s);

-- select_active_jobs: the seller's jobs that are not done.
SELECT seller_id, job_id::text, job_number, status, environment, kind, total_items, successful, failed, skipped,
    pending, reconciling, last_sequence, retries, terms ->> 'currency', created_at, scheduled_for, started_at,
    completed_at, error_message, waiting_reason
FROM job_summaries
WHERE seller_id = %(seller_id)s AND status IN ('queued', 'processing', 'scheduled')
ORDER BY job_number;

-- select_watched: the watched jobs as they stand, for the hub's batched poll.
SELECT j.seller_id, j.job_id::text, j.job_number, j.status, j.environment, j.kind, j.total_items, j.successful,
    j.failed, j.skipped, j.pending, j.reconciling, j.last_sequence, j.retries, j.terms ->> 'currency', j.created_at,
    j.scheduled_for, j.started_at, j.completed_at, j.error_message, j.waiting_reason
FROM unnest(%(seller_ids)s::bigint[], %(job_ids)s::uuid[]) AS w (seller_id, job_id)
JOIN job_summaries j ON j.seller_id = w.seller_id AND j.job_id = w.job_id;

-- select_jobs_of_sellers: the active jobs of watched sellers, and all made since a job number (null: none), so that
-- a job that came and went between two polls is not missed. A seller without either has one row of nulls.
SELECT j.seller_id, j.job_id::text, j.job_number, j.status, j.environment, j.kind, j.total_items, j.successful,
    j.failed, j.skipped, j.pending, j.reconciling, j.last_sequence, j.retries, j.terms ->> 'currency', j.created_at,
    j.scheduled_for, j.started_at, j.completed_at, j.error_message, j.waiting_reason, s.seller_id, s.job_count
FROM unnest(%(seller_ids)s::bigint[], %(after_numbers)s::bigint[]) AS w (seller_id, after_number)
JOIN sellers s ON s.seller_id = w.seller_id
LEFT JOIN LATERAL (
    SELECT * FROM job_summaries v
    WHERE v.seller_id = w.seller_id AND v.status IN ('queued', 'processing', 'scheduled')
    UNION ALL
    SELECT * FROM job_summaries v
    WHERE v.seller_id = w.seller_id AND v.job_number > w.after_number
        AND v.status NOT IN ('queued', 'processing', 'scheduled')
) j ON true
ORDER BY s.seller_id, j.job_number;

-- notify_changed: wake whoever watches the job. A hint only: delivered at commit, lost without harm.
SELECT pg_notify('job_changed', %(seller_id)s::bigint || ':' || %(job_id)s::uuid);

-- select_jobs_to_act_on: an operator's filter over one seller or all, oldest first.
SELECT j.seller_id, j.job_id::text FROM jobs j
WHERE (%(seller_id)s::bigint IS NULL OR j.seller_id = %(seller_id)s)
    AND (%(status)s::job_status IS NULL OR j.status = %(status)s::job_status)
    AND j.status = ANY (%(statuses)s::job_status[])
    AND (%(from_time)s::timestamptz IS NULL OR j.created_at >= %(from_time)s)
    AND (%(to_time)s::timestamptz IS NULL OR j.created_at < %(to_time)s)
    AND (NOT %(retryable)s::boolean OR j.failed > 0)
    AND (%(error_code)s::text IS NULL OR EXISTS (
        SELECT FROM job_items i WHERE i.seller_id = j.seller_id AND i.job_id = j.job_id AND i.status = 'failed'
            AND i.error ->> 'code' = %(error_code)s))
    AND (j.seller_id, j.job_id) > (%(after_seller)s::bigint, %(after_job)s::uuid)
ORDER BY j.seller_id, j.job_id LIMIT %(limit)s;

-- lock_job: whoever changes the job or its items holds this row. In full, so that no intent is being written meanwhile
-- (share_job): what has none then will never be sent.
SELECT status, environment, pending, failed, last_sequence, terms ->> 'currency', stopped_by, retries
FROM jobs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s FOR UPDATE;

-- end_pending: end every pending item that is not on the wire, with the next sequences, in request order. The job's row
-- is locked. An item's place among those that end is its ordinal less the number of items before it that do not end,
-- which width_bucket finds in their sorted ordinals: numbering the items and joining each with its number costs as much
-- as writing them.
UPDATE job_items SET status = %(item_status)s, retryable = %(retryable)s, error = %(error)s,
    sequence = (SELECT last_sequence FROM jobs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s)
        + 1 + ordinal - width_bucket(ordinal, ARRAY(
            SELECT i.ordinal FROM job_items i
            WHERE i.seller_id = %(seller_id)s AND i.job_id = %(job_id)s AND (i.status <> 'pending' OR i.ordinal IN (
                SELECT n.ordinal FROM intents n WHERE n.seller_id = %(seller_id)s AND n.job_id = %(job_id)s))
            ORDER BY i.ordinal))
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND status = 'pending'
    AND ordinal NOT IN (
        SELECT n.ordinal FROM intents n WHERE n.seller_id = %(seller_id)s AND n.job_id = %(job_id)s);

-- close_job: the job follows what end_pending ended. Its row is locked.
WITH runs AS (
    -- A run that a worker holds may have sends on the wire: it ends by itself, or is rescued.
    DELETE FROM work_runs WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND owner IS NULL
)
UPDATE jobs SET
    pending = pending - %(ended)s,
    failed = failed + CASE WHEN %(item_status)s = 'failed' THEN %(ended)s::bigint ELSE 0 END,
    skipped = skipped + CASE WHEN %(item_status)s = 'skipped' THEN %(ended)s::bigint ELSE 0 END,
    last_sequence = last_sequence + %(ended)s,
    error_message = coalesce(%(error_message)s, error_message),
    stopped_by = coalesce(%(stopped_by)s, stopped_by),
    status = CASE
        WHEN %(job_status)s = 'cancelled' THEN 'cancelled'::job_status
        WHEN status = 'cancelled' THEN status
        WHEN pending = %(ended)s THEN 'failed'::job_status
        ELSE status END,
    completed_at = CASE
        WHEN completed_at IS NOT NULL THEN completed_at
        WHEN %(job_status)s = 'cancelled' OR pending = %(ended)s THEN now() END
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s
RETURNING last_sequence, environment;

-- stop_job: the account stops. Whatever takes the last pending item then finds the job failed.
UPDATE jobs SET stopped_by = %(stopped_by)s, error_message = %(error_message)s
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND status IN ('queued', 'processing') AND stopped_by IS NULL
    AND retries = %(retries)s;

-- count_retryable: items that a retry would send again.
SELECT count(*)::int FROM job_items
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND status = 'failed' AND retryable;

-- keep_replaced: the results that a retry replaces stay readable under their sequences. The job's row is locked.
INSERT INTO replaced_results (seller_id, job_id, retry, first_ordinal, last_sequence, results)
SELECT j.seller_id, j.job_id, j.retries + 1, run.first, replaced.last_sequence, replaced.results
FROM jobs j CROSS JOIN LATERAL generate_series(0, j.total_items - 1, %(run_size)s::int) AS run (first)
CROSS JOIN LATERAL (
    SELECT max(sequence) AS last_sequence,
        array_agg(ROW(sequence, ordinal, sku, category_id, attempts, price, error)::replaced_result) AS results
    FROM job_items
    WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s
        AND ordinal BETWEEN run.first AND run.first + %(run_size)s::int - 1 AND status = 'failed' AND retryable
    HAVING count(*) > 0
) replaced
WHERE j.seller_id = %(seller_id)s AND j.job_id = %(job_id)s;

-- reopen_items: the failed, retryable items are pending again.
UPDATE job_items SET status = 'pending', sequence = NULL, attempts = 0, retryable = NULL, error = NULL
WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND status = 'failed' AND retryable;

-- reopen_job: the job is queued with the items that reopen_items changed, and the runs they are of exist again.
WITH job AS (
    UPDATE jobs SET status = 'queued', completed_at = NULL, error_message = NULL, stopped_by = NULL,
        retries = retries + 1, pending = pending + %(items)s, failed = failed - %(items)s
    WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s AND status IN ('completed', 'failed', 'cancelled')
    RETURNING environment, total_items, retries
)
INSERT INTO work_runs (seller_id, job_id, first_ordinal, last_ordinal, environment, due_at)
SELECT %(seller_id)s, %(job_id)s, r.first_ordinal, least(r.first_ordinal + %(run_size)s::int, job.total_items) - 1,
    job.environment, now()
FROM job JOIN replaced_results r ON r.seller_id = %(seller_id)s AND r.job_id = %(job_id)s AND r.retry = job.retries
-- A run that a worker still holds (in a cancelled job) looks for pending items again when it ends.
ON CONFLICT (seller_id, job_id, first_ordinal) DO NOTHING;

-- count_in_flight: items on the wire or being searched for.
SELECT count(*)::int FROM intents WHERE seller_id = %(seller_id)s AND job_id = %(job_id)s;
