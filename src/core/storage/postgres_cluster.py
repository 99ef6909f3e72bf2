"""The files of the embedded PostgreSQL in the data folder: making the cluster, its password, its log.

postgres/access.json   password of the service's role, name of the cluster (mode 0600)
postgres/data/         the PostgreSQL cluster, its Unix socket included
postgres.log           what initdb and the server say
"""

import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from core.storage.postgres_binaries import Account, EmbeddedPostgresError, child_options

ROLE = "listings"
DATABASE = "listings"

_UNFINISHED = "postgres.new-"
# The kernel resolves it without walking the parent folders, which may be closed to the account that runs PostgreSQL.
HERE = "/proc/self/cwd"

# Written to postgresql.conf once, when the cluster is made: an operator may change them there.
_INITIAL_SETTINGS = {
    "shared_buffers": "128MB",
    "max_connections": "100",
    "wal_compression": "on",
    "jit": "off",
    "random_page_cost": "1.1",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_ROTATE_LOG_BYTES = 16 * 1024 * 1024


class Access(NamedTuple):
    """What access.json holds. `cluster`: random name; `by_root`: made by root, so a service account owns the files."""

    cluster: str
    password: str
    by_root: bool


def read_access(data_dir: Path) -> Access:
    """Read access.json. Raises FileNotFoundError, PermissionError, or ValueError when the content is not ours."""
    content = json.loads((data_dir / "postgres" / "access.json").read_text())
    try:
        return Access(**content)
    except TypeError as error:
        raise ValueError("access.json") from error


class ServerLog:
    """postgres.log: a child inherits the open file, so it needs no right to the path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def open(self) -> int:
        """Open for appending and return the descriptor; `last_words` then speaks of what is written from here on."""
        if self.path.is_file() and self.path.stat().st_size > _ROTATE_LOG_BYTES:
            self.path.replace(self.path.with_suffix(".log.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        self._offset = os.fstat(descriptor).st_size
        return descriptor

    def last_words(self) -> str:
        """The line that says why the child ended, without its time stamp, and where to read more."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        told = [line for line in lines if re.search(r"\b(FATAL|PANIC|ERROR|error):", line)]
        line = re.sub(r"^.*?\b(FATAL|PANIC|ERROR|error):\s*", "", (told or lines or ["no message"])[-1])
        return f"{line[:300]} (see {self.path})"


def remove_unfinished(data_dir: Path) -> None:
    """Remove what interrupted attempts to make a cluster left. One whose initdb still runs may leave something
    again, so every start does it."""
    for unfinished in data_dir.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(unfinished, ignore_errors=True)


def create_cluster(data_dir: Path, programs: Path, account: Account | None, log: ServerLog) -> None:
    """Make postgres/ in `data_dir`: initdb, the service's role and database, on disk before it gets its name.

    It is built beside its place and renamed, so a folder that exists is complete. Raises EmbeddedPostgresError when
    PostgreSQL refuses, OSError when the folder does.
    """
    building = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=data_dir))
    access = Access(secrets.token_hex(6), secrets.token_urlsafe(32), os.geteuid() == 0)
    try:
        cluster = building / "data"
        cluster.mkdir(mode=0o700)
        if account is not None:
            os.chown(cluster, account.uid, account.gid)
        options = ["--username=postgres", "--auth=scram-sha-256", "--pwfile=/dev/stdin", "--data-checksums"]
        options += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        for name, value in _INITIAL_SETTINGS.items():
            options += ["--set", f"{name}={value}"]
        single = ["postgres", "--single", "-F", "-c", "exit_on_error=true", "-c", "log_min_error_statement=panic"]
        steps = [
            # The superuser's password is thrown away: the service works as a role without special rights.
            (["initdb", *options, "--no-sync", "--no-instructions", "-D", HERE], secrets.token_urlsafe(32)),
            (
                [*single, "-D", HERE, "template1"],
                f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{access.password}'\n"
                f"CREATE DATABASE {DATABASE} OWNER {ROLE}",
            ),
            (["initdb", "--sync-only", "-D", HERE], ""),
        ]
        for command, words in steps:
            _run([str(programs / command[0]), *command[1:]], words, cluster, account, log)
        descriptor = os.open(building / "access.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(access._asdict(), file)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(building)
        building.rename(data_dir / "postgres")
        _sync_folder(data_dir)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _run(command: list[str], words: str, cluster: Path, account: Account | None, log: ServerLog) -> None:
    """Run one program in the cluster, `words` on its standard input: a password belongs neither into arguments,
    which every local user can read, nor into a file. Raises EmbeddedPostgresError when it fails."""
    errors = log.open()
    source, sink = os.pipe()
    try:
        os.write(sink, words.encode() + b"\n")
        os.close(sink)
        if account is not None:
            os.fchown(source, account.uid, account.gid)  # initdb opens /dev/stdin by its name
        options = child_options(account, cluster)
        done = subprocess.run(  # noqa: S603 - our own binary and arguments
            command, stdin=source, stdout=subprocess.DEVNULL, stderr=errors, check=False, **options
        )
    finally:
        os.close(source)
        os.close(errors)
    if done.returncode != 0:
        raise EmbeddedPostgresError(f"cannot make the database: {log.last_words()}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
