-- select_vitals: what slows everything down when nobody looks: the oldest open transaction, which keeps rows from being
-- cleaned away, and the table with the most rows that wait to be.
SELECT
    coalesce((SELECT extract(epoch FROM max(now() - a.xact_start)) FROM pg_stat_activity a
        WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()),
        0)::float8,
    coalesce((SELECT max(t.n_dead_tup) FROM pg_stat_user_tables t), 0)::bigint;
