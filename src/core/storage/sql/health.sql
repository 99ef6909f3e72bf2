-- select_readiness: whether this server takes writes, and how new its schema is.
SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off',
    (SELECT max(version) FROM schema_migrations);
