-- count_processes: connections of running processes of this service to the database, our own excepted.
SELECT count(*)::int FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'listings %';
