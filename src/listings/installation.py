"""The installation that the settings name: its data folder, its database, its secret key.

What ``serve`` keeps in the data folder: ``postgres/`` and ``postgres.log`` (the embedded database), ``secret.key``,
``sandbox/`` (the sandbox marketplace's log of effects), ``demo.json``. The folder is its owner's alone.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from core.settings import Settings
from core.storage.accounts import TokenCipher
from core.storage.connecting import check_address
from core.storage.embedded import EmbeddedPostgres, EmbeddedPostgresError
from listings.output import UsageError


def secret_key_path(settings: Settings) -> Path:
    """Where the key that ``serve`` made is kept."""
    return settings.data_dir / "secret.key"


def demo_path(settings: Settings) -> Path:
    """Where the demo seller's keys and addresses are kept."""
    return settings.data_dir / "demo.json"


def sandbox_folder(settings: Settings) -> Path:
    """Where the sandbox marketplace keeps its state."""
    return settings.data_dir / "sandbox"


def use_data_folder(settings: Settings) -> None:
    """Make the data folder (mode 0700) if needed and see that it can be written.

    Raises:
        UsageError: it cannot.
    """
    folder = settings.data_dir
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"LISTINGS_DATA_DIR: {folder} cannot be written ({error.strerror})") from None


def find_database_url(settings: Settings) -> str:
    """The database to work on: the one named, else the embedded one that runs on the data folder. Secret.

    Raises:
        UsageError: neither is there.
        SettingsError: libpq does not understand the one named.
    """
    if settings.database_url is not None:
        url = settings.database_url.get_secret_value()
        check_address(url)
        return url
    try:
        running = EmbeddedPostgres.running_url(settings.data_dir)
    except EmbeddedPostgresError as error:
        raise UsageError(str(error)) from None
    if running is None:
        raise UsageError(
            f"no database: LISTINGS_DATABASE_URL is not set and no `listings serve` runs on {settings.data_dir}"
        )
    return running


def find_secret_key(settings: Settings) -> str:
    """The keys that encrypt marketplace tokens: those named, else the one in the data folder. Secret.

    Raises:
        UsageError: neither is there, or the file cannot be read.
    """
    if settings.secret_key is not None:
        return settings.secret_key.get_secret_value()
    path = secret_key_path(settings)
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise UsageError(f"LISTINGS_SECRET_KEY: not set, and {path} does not exist") from None
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"LISTINGS_SECRET_KEY: not set, and {path} cannot be read") from None


def check_secret_key(keys: str) -> None:
    """See that these are keys that can encrypt.

    Raises:
        UsageError: they are not.
    """
    try:
        TokenCipher(keys)
    except ValueError:
        raise UsageError("LISTINGS_SECRET_KEY: must be Fernet keys (32 bytes, URL-safe base64)") from None


def keep_secret_key(settings: Settings, key: str) -> None:
    """Keep a new key in the data folder (mode 0600).

    Raises:
        UsageError: the file cannot be written.
    """
    write_private(secret_key_path(settings), key + "\n")


def read_demo(settings: Settings) -> dict[str, Any] | None:
    """What ``demo.json`` says; None when there is none. Holds secrets.

    Raises:
        UsageError: it is damaged or cannot be read.
    """
    path = demo_path(settings)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise UsageError(f"{path} is damaged or cannot be read") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is damaged")
    return found


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read: whole, or not at all.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        # mkstemp makes it with mode 0600: there is no moment at which others could open it.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror})") from None
