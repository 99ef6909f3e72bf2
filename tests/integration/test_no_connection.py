"""What is said of a database that no connection can be made to."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from core.storage.connecting import AWAY, NO_DATABASE, NO_LOGIN
from core.storage.migrate import MigrationError, check_schema, migrate


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"user": "nobody-of-this-name", "password": "a-secret"}, NO_LOGIN),
        ({"password": "a-secret"}, NO_LOGIN),
        ({"dbname": "no_database_of_this_name"}, NO_DATABASE),
        ({"host": "127.0.0.1", "port": "1"}, AWAY),
    ],
)
def test_why_there_is_no_connection(own_database_url: str, change: dict[str, str], line: str) -> None:
    parts = {name: str(value) for name, value in conninfo_to_dict(own_database_url).items()}
    address = make_conninfo(**(parts | change))
    for work in (migrate, check_schema):
        with pytest.raises(MigrationError) as caught:
            work(address)
        assert str(caught.value) == line
