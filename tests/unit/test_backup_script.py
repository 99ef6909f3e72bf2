"""What PostgreSQL's programs are given for a backup, and what of pg_restore's script reaches the database."""

from __future__ import annotations

import subprocess
from pathlib import Path
from unittest import mock

import psycopg
import pytest

from core.storage.backup import dump, play


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


def test_the_programs_get_what_libpq_takes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = mock.create_autospec(subprocess.run, return_value=subprocess.CompletedProcess([], 0, "", ""))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("PGPASSWORD", "of the service")
    monkeypatch.setenv("PGSERVICE", "another")
    monkeypatch.setenv("LISTINGS_OPERATOR_TOKEN", "not for others")

    dump("postgresql://someone@localhost/x", tmp_path / "all.dump")

    environment = run.call_args.kwargs["env"]
    assert environment["PGPASSWORD"] == "of the service"
    assert environment["PGSERVICE"] == "listings"
    assert "LISTINGS_OPERATOR_TOKEN" not in environment
