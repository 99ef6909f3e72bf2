"""``backup`` and ``restore``: the database as one file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from core import log
from core.settings import Settings
from core.storage.backup import BackupError, dump
from core.storage.backup import restore as load
from core.storage.embedded import EmbeddedPostgres, EmbeddedPostgresError
from core.storage.migrate import MigrationError, migrate
from listings.installation import find_database_url, use_data_folder
from listings.output import AsJson, Output, UsageError

File = Annotated[Path, typer.Argument(help="The backup.", dir_okay=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def backup(file: File, force: Force = False, as_json: AsJson = False) -> None:
    """Write the whole database to one file, while everything runs. The secret key is not in it: keep that apart.

    A file that is there already is kept, unless --force is said.

    Example: listings backup /var/backups/listings-monday.dump
    """
    with Output(as_json) as output:
        settings = _settings()
        if file.exists() and not force:
            raise UsageError(f"{file} exists: say --force to replace it")
        try:
            size = dump(find_database_url(settings), file)
        except BackupError as error:
            raise UsageError(str(error)) from None
        output.document({"file": str(file), "bytes": size})
        output.say(f"{file}: {size:,} bytes. Without LISTINGS_SECRET_KEY its marketplace tokens cannot be read.")


def restore(file: File, yes: Yes = False, as_json: AsJson = False) -> None:
    """Make the database what a backup holds: all that is in it now is gone. Nothing may run on it meanwhile.

    Works on LISTINGS_DATABASE_URL, else on the embedded database in LISTINGS_DATA_DIR, which it starts for the
    purpose. A backup of an older version is brought up to this one's.

    Example: listings restore /var/backups/listings-monday.dump
    """
    with Output(as_json) as output:
        settings = _settings()
        output.confirm("Everything that the database holds now will be lost. Go on?", yes=yes)
        try:
            with _database(settings) as url:
                load(url, file)
                version = migrate(url, lambda name: None)
        except (BackupError, EmbeddedPostgresError, MigrationError) as error:
            raise UsageError(str(error)) from None
        output.document({"file": str(file), "version": version})
        output.say(f"Restored from {file}; the schema is at version {version}.")


def _settings() -> Settings:
    settings = Settings.load()
    log.configure(log_format=settings.log_format, level="WARNING")
    return settings


@contextlib.contextmanager
def _database(settings: Settings) -> Iterator[str]:
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    use_data_folder(settings)
    with EmbeddedPostgres(settings.data_dir.expanduser().absolute()) as server:
        yield server.url
