"""One real PostgreSQL for a test run: shared by all workers of pytest-xdist, a fresh database for whoever asks.

A guardian process owns the server. Every process that uses it holds a shared lock on one file; the kernel lets go of
it however the process ends. The guardian waits for the exclusive lock, that is for the last user's end, then stops
the server and removes its folder. So neither a killed worker nor a killed run leaks a server.

fsync is off: a test run that loses power starts again anyway.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

_SOURCES = Path(__file__).parents[2] / "src"


class SharedPostgres:
    """The server of this test run, as one process sees it. `url`: its maintenance database; `folder`: its files."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def create_template(self, name: str, prepare: Callable[[str], None]) -> str:
        """Make the template database `name` once per server and return `name`.

        `prepare` gets the URL of a fresh database (to migrate it, say) and must close its connections; it runs in the
        first process that asks, the others wait. When it raises, the next one tries again.
        """
        with _locked(self.folder / "template.lock"):
            if not self._has_template(name):
                building = self.create_database()
                prepare(building)
                old = urlsplit(building).path.removeprefix("/")
                with self._connect() as connection:
                    rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
                    connection.execute(rename.format(sql.Identifier(old), sql.Identifier(name)))
        return name

    def create_database(self, template: str | None = None) -> str:
        """Make a database with a random name, a copy of `template` if one is given, and return its URL."""
        name = f"test_{secrets.token_hex(6)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        with self._connect() as connection:
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template or "template1")))
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def drop_database(self, url: str) -> None:
        """Drop what `create_database` made, connections to it included; it frees some 8 MB of disk."""
        name = urlsplit(url).path.removeprefix("/")
        with self._connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _has_template(self, name: str) -> bool:
        with self._connect() as connection:
            return connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is not None

    def _connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(self.url, autocommit=True)


@functools.cache
def start_test_postgres() -> SharedPostgres:
    """The shared server of this test run, started by the first process that asks.

    Runs are told apart by the run id of xdist, or the process id without it. Raises RuntimeError with the guardian's
    words when the server cannot start.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{secrets.token_hex(4)}"
    digest = hashlib.sha256(run.encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"listings-tests-{os.getuid()}-{digest}"
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError), _locked(folder / "start.lock") as lock:
            # A guardian that has just ended removes the folder, and with it the lock that this process waited for.
            if os.path.samestat(os.fstat(lock), (folder / "start.lock").stat()):
                return _join(folder)


def _join(folder: Path) -> SharedPostgres:
    # Held until this process ends. A guardian that is stopping holds it exclusively: then this waits for its end.
    users = _open(folder / "users.lock")
    fcntl.flock(users, fcntl.LOCK_SH)
    address = folder / "url"
    if not address.exists():
        _start_guardian(folder)
    return SharedPostgres(address.read_text(), folder)


def _start_guardian(folder: Path) -> None:
    guardian = subprocess.Popen(
        [sys.executable, "-P", __file__, str(folder)],
        env={**os.environ, "PYTHONPATH": str(_SOURCES)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C ends the run; the guardian ends after it
    )
    assert guardian.stdout is not None
    with guardian.stdout:
        said = guardian.stdout.readline().decode().strip()
        if said != "ready":
            raise RuntimeError(f"no PostgreSQL for the tests: {said} {guardian.stdout.read().decode()}")
    guardian.returncode = 0  # it outlives this process: no warning about a child left behind


def _guard(folder: Path) -> None:
    """The guardian: start, say `ready`, wait until nobody uses the server, stop, clean up."""
    from core.storage.embedded import EmbeddedPostgres, EmbeddedPostgresError

    settings = {
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "autovacuum_naptime": "10min",
        "max_connections": "400",
    }
    users = _open(folder / "users.lock")
    address = folder / "url"
    with contextlib.ExitStack() as ending:
        ending.callback(_clean, folder)
        server = EmbeddedPostgres(folder / "data", settings=settings)
        try:
            address.write_text(server.start())
        except EmbeddedPostgresError as error:
            sys.stdout.write(f"{error}\n")
            return
        ending.callback(server.stop)
        ending.callback(address.unlink)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        fcntl.flock(users, fcntl.LOCK_EX)


def _clean(folder: Path) -> None:
    shutil.rmtree(folder / "data", ignore_errors=True)
    # A process that is just asking holds start.lock and waits for users.lock: then the rest stays for it.
    with contextlib.suppress(BlockingIOError), _locked(folder / "start.lock", fcntl.LOCK_NB):
        shutil.rmtree(folder, ignore_errors=True)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _locked(path: Path, how: int = 0) -> Iterator[int]:
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield descriptor
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))
