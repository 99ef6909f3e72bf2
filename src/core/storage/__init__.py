"""PostgreSQL: the only truth, and the only package that knows its driver.

Statements stand in ``sql/*.sql``, one file per group of tables; the module of the same name runs them
and turns rows into domain values. A function that takes a ``Connection`` takes part in the caller's
transaction; one that takes a ``Database`` makes its own.
"""
