"""The server that a test run shares: one for all its processes, gone after the last of them, however they end."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import SharedPostgres, start_test_postgres

ROOT = Path(__file__).parents[2]

Worker = subprocess.Popen[str]

# A process of some other test run: prepares the template, makes a database, tells both, waits.
PROGRAM = """
import sys
import psycopg
from tests.support.postgres import start_test_postgres

def prepare(url):
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE prepared (by_process int)")
        connection.execute("INSERT INTO prepared VALUES (pg_backend_pid())")

server = start_test_postgres()
url = server.create_database(server.create_template("prepared", prepare))
with psycopg.connect(url) as connection:
    count, by = connection.execute("SELECT count(*), min(by_process) FROM prepared").fetchone()
print(server.folder, server.url, count, by, flush=True)
sys.stdin.read()
"""


def worker(run: str) -> Worker:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "PYTEST_XDIST_TESTRUNUID": run},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: Worker) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def wait_until_gone(folder: Path) -> None:
    limit = time.monotonic() + 30
    while folder.exists():
        assert time.monotonic() < limit, f"{folder} is still there"
        time.sleep(0.01)


@pytest.fixture
def server() -> SharedPostgres:
    return start_test_postgres()


@pytest.fixture
def run() -> Iterator[str]:
    yield secrets.token_hex(8)


def test_workers_share_one_server_and_one_template(run: str) -> None:
    workers = [worker(run) for _ in range(3)]
    answers = [said(process) for process in workers]
    assert len({tuple(answer) for answer in answers}) == 1  # same server, and the template was prepared once
    folder, _, count, _ = answers[0]
    assert count == "1"
    postmaster = int((Path(folder) / "data/postgres/data/postmaster.pid").read_text().split()[0])
    workers[0].kill()
    workers[1].communicate(timeout=30)
    psycopg.connect(answers[0][1]).close()  # one user is left
    workers[2].kill()
    wait_until_gone(Path(folder))
    assert not Path(f"/proc/{postmaster}/cmdline").exists() or not Path(f"/proc/{postmaster}/cmdline").read_bytes()
    for process in workers:
        process.communicate(timeout=30)


def test_a_worker_that_replaces_the_last_killed_one_gets_a_server(run: str) -> None:
    for _ in range(3):
        process = worker(run)
        folder, url, count, _ = said(process)
        assert count == "1"
        psycopg.connect(url).close()
        process.kill()  # the next one comes while the guardian is stopping
        process.communicate()
    wait_until_gone(Path(folder))


def test_databases_are_apart_and_can_be_dropped(server: SharedPostgres) -> None:
    first, second = server.create_database(), server.create_database()
    assert first != second
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE mine ()")
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
    holder = psycopg.connect(first)
    server.drop_database(first)
    with pytest.raises(psycopg.OperationalError):
        holder.execute("SELECT 1")
    server.drop_database(first)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(first)
    server.drop_database(second)


def test_a_failed_template_is_tried_again(server: SharedPostgres) -> None:
    name = f"template_{secrets.token_hex(4)}"

    def fail(url: str) -> None:
        raise LookupError(name)

    def prepare(url: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE ready ()")

    with pytest.raises(LookupError):
        server.create_template(name, fail)
    assert server.create_template(name, prepare) == name
    assert server.create_template(name, fail) == name  # it is there
    url = server.create_database(name)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regclass('ready')").fetchone() == ("ready",)
    server.drop_database(url)
