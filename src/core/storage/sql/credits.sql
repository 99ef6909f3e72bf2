-- select_balance: a seller's credits.
SELECT granted, available, held, used, used_test FROM credit_balances WHERE seller_id = %(seller_id)s;

-- grant: add credits.
WITH balance AS (
    UPDATE credit_balances SET granted = granted + %(amount)s, available = available + %(amount)s,
        entry_count = entry_count + 1
    WHERE seller_id = %(seller_id)s
    RETURNING seller_id, entry_count, granted, available, held, used, used_test
), entry AS (
    INSERT INTO credit_ledger (seller_id, entry_number, kind, amount)
    SELECT seller_id, entry_count, 'grant', %(amount)s FROM balance
)
SELECT granted, available, held, used, used_test FROM balance;

-- hold: reserve credits for a job; no row when there are too few.
WITH balance AS (
    UPDATE credit_balances SET available = available - %(amount)s, held = held + %(amount)s,
        entry_count = entry_count + 1
    WHERE seller_id = %(seller_id)s AND available >= %(amount)s
    RETURNING seller_id, entry_count
)
INSERT INTO credit_ledger (seller_id, entry_number, kind, amount, job_id, last_sequence)
SELECT seller_id, entry_count, 'hold', %(amount)s, %(job_id)s, %(last_sequence)s FROM balance
RETURNING entry_number;

-- settle: capture and release the holds of the results first_sequence..last_sequence.
WITH balance AS (
    UPDATE credit_balances SET
        held = held - (%(captured)s::bigint + %(released)s::bigint),
        used = used + %(captured)s,
        available = available + %(released)s,
        entry_count = entry_count + (%(captured)s::bigint > 0)::int + (%(released)s::bigint > 0)::int
    WHERE seller_id = %(seller_id)s AND held >= %(captured)s::bigint + %(released)s::bigint
    RETURNING seller_id, entry_count
)
INSERT INTO credit_ledger (seller_id, entry_number, kind, amount, job_id, first_sequence, last_sequence)
SELECT seller_id, entry_count - (kind = 'capture' AND %(released)s::bigint > 0)::int, kind, amount, %(job_id)s,
    %(first_sequence)s, %(last_sequence)s
FROM balance CROSS JOIN (VALUES ('capture', %(captured)s::bigint), ('release', %(released)s::bigint)) e (kind, amount)
WHERE amount > 0
RETURNING entry_number;

-- meter_test: count items published with test keys; nothing is charged.
UPDATE credit_balances SET used_test = used_test + %(amount)s WHERE seller_id = %(seller_id)s;

-- select_ledger: the latest entries.
SELECT entry_number, kind, amount, job_id::text, created_at
FROM credit_ledger WHERE seller_id = %(seller_id)s ORDER BY entry_number DESC LIMIT %(limit)s;

-- audit: sellers whose ledger and balances differ, or whose holds are not those of their pending items.
WITH sums AS (
    SELECT seller_id,
        coalesce(sum(amount) FILTER (WHERE kind = 'grant'), 0) AS granted,
        coalesce(sum(amount) FILTER (WHERE kind = 'hold'), 0)
            - coalesce(sum(amount) FILTER (WHERE kind IN ('capture', 'release')), 0) AS held,
        coalesce(sum(amount) FILTER (WHERE kind = 'capture'), 0) AS used
    FROM credit_ledger WHERE seller_id = %(seller_id)s GROUP BY seller_id
), pending AS (
    SELECT coalesce(sum(pending), 0) AS held FROM jobs
    WHERE seller_id = %(seller_id)s AND environment = 'live' AND pending > 0
)
SELECT b.granted, b.held, b.used, coalesce(s.granted, 0) AS ledger_granted, coalesce(s.held, 0) AS ledger_held,
    coalesce(s.used, 0) AS ledger_used, p.held AS pending_live
FROM credit_balances b LEFT JOIN sums s USING (seller_id) CROSS JOIN pending p
WHERE b.seller_id = %(seller_id)s
    AND (b.granted, b.held, b.used, b.held)
        IS DISTINCT FROM (coalesce(s.granted, 0), coalesce(s.held, 0), coalesce(s.used, 0), p.held);
