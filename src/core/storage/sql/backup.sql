-- count_processes: connections of running processes of this service to the database, our own excepted.
SELECT count(*)::int FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'listings %';

-- select_drops: statements that take away what the service's role has in its schema: what a newer version added is in no
-- older backup, and would be left or in the way. What belongs to something else goes with it: sequences of columns,
-- parts of extensions stay with those.
SELECT 'DROP ' || CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END
    || ' IF EXISTS ' || c.oid::regclass || ' CASCADE' AS statement
FROM pg_class c
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S')
    AND c.relnamespace = current_schema()::regnamespace AND c.relowner = current_user::regrole
    AND NOT EXISTS (
        SELECT FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
            AND (d.deptype = 'e' OR c.relkind = 'S' AND d.deptype IN ('a', 'i'))
    )
UNION ALL
SELECT 'DROP TYPE IF EXISTS ' || t.oid::regtype || ' CASCADE'
FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
WHERE (t.typtype IN ('e', 'd') OR c.relkind = 'c')
    AND t.typnamespace = current_schema()::regnamespace AND t.typowner = current_user::regrole
    AND NOT EXISTS (
        SELECT FROM pg_depend d WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
    );
