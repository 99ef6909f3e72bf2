"""What of pg_restore's script reaches the database."""

from __future__ import annotations

from unittest import mock

import psycopg

from core.storage.backup import play


def test_restoring_sets_nothing_that_an_older_postgres_does_not_know() -> None:
    """transaction_timeout came with PostgreSQL 17, and the script's program is newer than that."""
    connection = mock.create_autospec(psycopg.Connection, instance=True)
    script = [
        b"\\restrict x\n",
        b"BEGIN;\n",
        b"SET lock_timeout = 0;\n",
        b"SET transaction_timeout = 0;\n",
        b"CREATE TABLE t (n integer);\n",
        b"COMMIT;\n",
        b"\\unrestrict x\n",
    ]

    play(connection, script)

    connection.execute.assert_called_once_with(b"SET lock_timeout = 0;\nCREATE TABLE t (n integer);\n")


def test_rows_are_copied_as_they_stand_whatever_they_look_like() -> None:
    connection = mock.create_autospec(psycopg.Connection, instance=True)
    cursor = connection.cursor.return_value
    copied = cursor.copy.return_value.__enter__.return_value
    rows = [b"COMMIT;\n", b"SET transaction_timeout = 0;\n", b"COPY t (n) FROM stdin;\n"]

    play(connection, [b"SET a = 1;\n", b"COPY public.t (n) FROM stdin;\n", *rows, b"\\.\n", b"SET b = 2;\n"])

    assert [call.args for call in copied.write.call_args_list] == [(row,) for row in rows]
    assert [call.args for call in connection.execute.call_args_list] == [(b"SET a = 1;\n",), (b"SET b = 2;\n",)]
