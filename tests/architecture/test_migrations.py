"""The schema and the program say the same, and the schema distributes by seller."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from core.domain.states import Environment, ItemStatus, JobKind, JobStatus
from core.storage.migrate import migrations

SHARED = {"api_keys", "products", "category_predictions", "marketplace_rate", "schema_migrations"}
"""Tables that no seller owns alone, each for a reason told where it is made."""


@pytest.fixture(scope="module")
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as opened:
        yield opened


def test_migrations_are_numbered_without_holes() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, len(migrations()) + 1))
    assert len(migrations()) >= 1


@pytest.mark.parametrize(
    ("name", "values"),
    [("environment", Environment), ("job_kind", JobKind), ("job_status", JobStatus), ("item_status", ItemStatus)],
)
def test_a_type_of_the_schema_has_the_values_of_the_program(
    name: str, values: type[Environment | JobKind | JobStatus | ItemStatus], connection: psycopg.Connection
) -> None:
    rows = connection.execute("SELECT enumlabel FROM pg_enum WHERE enumtypid = to_regtype(%s)::oid", (name,)).fetchall()

    assert {row[0] for row in rows} == {value.value for value in values}


def test_seller_id_leads_every_primary_and_unique_key(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        """
        SELECT t.relname, k.relname, a.attname
        FROM pg_index i
        JOIN pg_class t ON t.oid = i.indrelid
        JOIN pg_class k ON k.oid = i.indexrelid
        JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
        WHERE i.indisunique AND t.relnamespace = 'public'::regnamespace
        """
    ).fetchall()
    owned = [row for row in rows if row[0] not in SHARED]

    assert len(owned) > 5
    assert [row for row in owned if row[2] != "seller_id"] == []


def test_seller_id_leads_every_foreign_key(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        """
        SELECT t.relname, c.conname, a.attname
        FROM pg_constraint c
        JOIN pg_class t ON t.oid = c.conrelid
        JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1]
        WHERE c.contype = 'f' AND t.relnamespace = 'public'::regnamespace
        """
    ).fetchall()

    assert len(rows) > 3
    assert [row for row in rows if row[2] != "seller_id"] == []


def test_there_are_no_triggers(connection: psycopg.Connection) -> None:
    rows = connection.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal").fetchall()

    assert rows == []
