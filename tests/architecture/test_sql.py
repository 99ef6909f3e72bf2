"""Every statement fits the schema, belongs to somebody and names its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from core.storage.statements import groups, load
from tests.architecture.sources import SOURCES, python_files

_PARAMETER = re.compile(r"%\(([a-z_0-9]+)\)s")

STATEMENTS = {f"{group}.{name}": text for group in groups() for name, text in load(group).items()}
PREPARABLE = sorted(name for name, text in STATEMENTS.items() if not text.startswith(("COPY", "CREATE")))


def _numbered(text: str) -> str:
    """psycopg's ``%(name)s`` as PostgreSQL's ``$n``."""
    numbers: dict[str, int] = {}
    return _PARAMETER.sub(lambda match: f"${numbers.setdefault(match.group(1), len(numbers) + 1)}", text).replace(
        "%%", "%"
    )


@pytest.fixture(scope="module")
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection to the migrated schema on which the staging tables exist too."""
    with psycopg.connect(database_url) as opened:
        for text in STATEMENTS.values():
            if text.startswith("CREATE TEMPORARY TABLE"):
                opened.execute(text)
        yield opened
        opened.rollback()


@pytest.mark.parametrize("name", PREPARABLE)
def test_a_statement_can_be_prepared_against_the_migrated_schema(name: str, connection: psycopg.Connection) -> None:
    with connection.transaction():
        connection.execute(b"PREPARE fits AS " + _numbered(STATEMENTS[name]).encode())
        prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE name = 'fits'").fetchone()
        connection.execute("DEALLOCATE fits")

    assert prepared == (1,)


@pytest.mark.parametrize("name", sorted(name for name, text in STATEMENTS.items() if text.startswith("COPY")))
def test_a_copy_names_columns_that_its_table_has(name: str, connection: psycopg.Connection) -> None:
    match = re.fullmatch(r"COPY ([a-z_]+) \(([a-z_, \n]+)\)\s+FROM STDIN.*", STATEMENTS[name], re.DOTALL)
    assert match is not None
    named = {column.strip() for column in match.group(2).split(",")}
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0", (match.group(1),)
    ).fetchall()

    assert named <= {row[0] for row in rows}


def _outermost(text: str) -> str:
    """What of a statement stands in no parentheses: there is what it hands to the process."""
    depth = 0
    kept = []
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0:
            kept.append(character)
    return "".join(kept)


def test_every_statement_names_the_columns_it_hands_out() -> None:
    # A later migration may add a column while processes of the former version still run.
    stars = [
        name
        for name, text in STATEMENTS.items()
        if re.search(r"(SELECT|RETURNING)\s+(\w+\.)?\*", _outermost(text), re.IGNORECASE)
    ]

    assert stars == []


def test_every_statement_is_used() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in python_files(SOURCES / "core"))
    idle = [name for name in STATEMENTS if f'"{name.partition(".")[2]}"' not in code]

    assert idle == []
