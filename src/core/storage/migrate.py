"""Schema migrations: ``migrations/NNNN_name.sql``, forward only, each in a transaction of its own.

Every process checks at its start that the schema is at least the one it was written for; old and new
processes run side by side while a migration is rolled out (rule 69), so a newer schema is accepted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from core.storage.connecting import why_not_connected

_FOLDER = Path(__file__).with_name("migrations")
_NAME = re.compile(r"([0-9]{4})_[a-z0-9_]+\.sql")

LOCK = 0x6C697374
"""Key of the transaction-level advisory lock that keeps two migrators apart."""
STATEMENT_TIMEOUT = "120s"
LOCK_TIMEOUT = "10s"

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


class MigrationError(Exception):
    """The schema cannot be brought to, or is not at, the version this program needs."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Of the text, to notice an edit after it was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """All files, by version."""
    found = []
    for path in sorted(_FOLDER.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise MigrationError(f"{path.name} is not named NNNN_words.sql")
        found.append(Migration(int(match.group(1)), path.stem, path.read_text(encoding="utf-8")))
    if [m.version for m in found] != list(range(1, len(found) + 1)):
        raise MigrationError("migration files are not numbered 1, 2, 3, ... without holes")
    return found


def migrate(url: str, told: Callable[[str], None] = lambda name: None) -> int:
    """Apply what is missing; ``told`` hears each name. Returns the schema's version.

    Safe to run from several processes at once and to run again.

    Raises:
        MigrationError: an applied file was changed, or the database refuses a statement.
    """
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            for migration in migrations():
                with connection.transaction():
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                    connection.execute(_TABLE)
                    row = connection.execute(
                        "SELECT checksum FROM schema_migrations WHERE version = %s", (migration.version,)
                    ).fetchone()
                    if row is not None:
                        if row[0] != migration.checksum:
                            raise MigrationError(f"{migration.name} was changed after it was applied")
                        continue
                    connection.execute(
                        "SELECT set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true)",
                        (STATEMENT_TIMEOUT, LOCK_TIMEOUT),
                    )
                    connection.execute(migration.sql.encode())
                    connection.execute(
                        "INSERT INTO schema_migrations (version, name, checksum) VALUES (%s, %s, %s)",
                        (migration.version, migration.name, migration.checksum),
                    )
                    told(migration.name)
            return applied_version(connection)
    except psycopg.Error as error:
        said = error.diag.message_primary
        raise MigrationError(f"the database refused: {said}" if said else why_not_connected(error)) from error


def applied_version(connection: psycopg.Connection) -> int:
    """The newest version applied; 0 for an empty database."""
    table = connection.execute("SELECT to_regclass('schema_migrations')").fetchone()
    if table is None or table[0] is None:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
    return int(row[0]) if row else 0


def check_schema(url: str) -> None:
    """Refuse to start on a schema older than this program's.

    Raises:
        MigrationError: says which version is there and which is needed, or that the database is away.
    """
    needed = len(migrations())
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            present = applied_version(connection)
    except psycopg.Error as error:
        raise MigrationError(why_not_connected(error)) from error
    if present < needed:
        raise MigrationError(f"the schema is at version {present}, this program needs {needed}: run `listings migrate`")
