"""Why there is no connection, in words for whoever set ``LISTINGS_DATABASE_URL``; they never quote it."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from core.settings import SettingsError

_SETTING: Final = "LISTINGS_DATABASE_URL: "
AWAY: Final = _SETTING + "the database cannot be reached"
NOT_VALID: Final = _SETTING + "must be a valid PostgreSQL address, as postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
NO_LOGIN: Final = _SETTING + "the database refused the login"
NO_DATABASE: Final = _SETTING + "the server has no database of this name"

_OF_A_LOGIN = ("authentication", "no password supplied", 'role "', "pg_hba.conf")


def check_address(url: str) -> None:
    """See that libpq understands this address. Connects to nothing.

    Raises:
        SettingsError: it does not.
    """
    try:
        found = conninfo_to_dict(url)
        ports = [int(port) for port in str(found.get("port") or "5432").split(",")]
    except (psycopg.Error, ValueError):
        raise SettingsError(NOT_VALID) from None
    if not all(0 < port < 65536 for port in ports):
        raise SettingsError(NOT_VALID)


def why_not_connected(error: psycopg.Error) -> str:
    """One line for a connection that was not made: libpq tells no more than its words."""
    if isinstance(error, psycopg.ProgrammingError):
        return NOT_VALID
    words = str(error)
    if 'database "' in words and "does not exist" in words:
        return NO_DATABASE
    return NO_LOGIN if any(sign in words for sign in _OF_A_LOGIN) else AWAY
