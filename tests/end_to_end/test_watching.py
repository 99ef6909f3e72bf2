"""Watch streams of real processes: through the death of the core server and of the database, and many at once."""

from __future__ import annotations

import asyncio
import csv
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from core.storage.embedded import EmbeddedPostgres
from core.storage.migrate import migrate
from listing_publication.v1 import jobs_pb2, jobs_pb2_grpc
from listings.channel import Core
from listings.watching import follow
from tests.support.ports import free_port
from tests.support.serve import Command, Installation, Service, until
from tests.support.service import environment_for

WATCH_SECONDS = 90.0


@pytest.fixture
def database(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL of the test alone, to be killed."""
    server = EmbeddedPostgres(tmp_path / "database")
    migrate(server.start())
    yield server
    server.stop()


@pytest.fixture
def installation(tmp_path: Path, database: EmbeddedPostgres) -> Iterator[Installation]:
    """Single processes on that database, at ports that stay the same when they are started again."""
    environment = environment_for(database.url, marketplace_client_secret="sandbox", log_level="WARNING")
    made = Installation(
        tmp_path,
        http_addr=f"127.0.0.1:{free_port()}",
        grpc_addr=f"127.0.0.1:{free_port()}",
        **{name.removeprefix("LISTINGS_").lower(): value for name, value in environment.items()},
    )
    yield made
    made.clean_up()


def new_seller(installation: Installation, products: int) -> tuple[str, list[str]]:
    """A test key of a seller with a connected account, and so many SKUs of the catalogue."""
    assert installation.run("seller", "add", "--name", "A", "--json")[0] == 0
    _, out, _ = installation.run(
        *("key", "create", "--seller", "1", "--environment", "test", "--json"),
        *("--scope", "products:write", "--scope", "products:read"),
    )
    connect = ("account", "connect", "--seller", "1", "--environment", "test", "--marketplace-user", "120506781")
    assert installation.run(*connect, "--access-token", "APP_USR-made-up-120506781")[0] == 0
    skus = [f"WATCH{number:05}" for number in range(products)]
    catalogue = installation.folder / "catalogue.csv"
    with catalogue.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["sku", "title", "category", "cost_usd", "image_url"])
        rows.writerows([sku, f"Reloj digital {sku}", "Relojes", "10.5", "https://images.example/a.jpg"] for sku in skus)
    assert installation.run("catalog", "import", str(catalogue))[0] == 0
    return out.partition('"secret": "')[2].partition('"')[0], skus


def start_sandbox(installation: Installation) -> str:
    """The sandbox's address."""
    sandbox = installation.start("sandbox", "--picture-delay-seconds", "0", "--index-lag-seconds", "0")
    return sandbox.until_ready()


class Watcher(threading.Thread):
    """Follows a job as the command line does, and keeps what it was told."""

    def __init__(self, target: str, key: str, job_id: str) -> None:
        super().__init__(daemon=True)
        self._channel = grpc.insecure_channel(target)
        self._core = Core(self._channel, key=key)
        self._job_id = job_id
        self.sequences: list[int] = []
        self.ordinals: list[int] = []
        self.ended: Any = None

    def run(self) -> None:
        """See threading.Thread."""
        self.ended = follow(self._core, self._job_id, self._told)
        self._channel.close()

    def _told(self, _watched: Any, event: jobs_pb2.WatchJobResponse) -> None:
        if event.WhichOneof("event") == "item":
            self.sequences.append(event.item.sequence)
            self.ordinals.append(event.item.ordinal)


def kill_core(core: Command) -> None:
    """Kill it as a crash would."""
    core.process.send_signal(signal.SIGKILL)
    core.process.wait(10)


def test_a_watch_survives_the_death_of_core_server_and_database(
    installation: Installation, database: EmbeddedPostgres
) -> None:
    key, skus = new_seller(installation, 120)
    marketplace = start_sandbox(installation)
    core = installation.start("grpc")
    target = core.until_ready()
    gateway = installation.start("gateway", grpc_target=target)
    service = Service(installation, gateway, gateway.until_ready())
    job_id = service.publish(key, skus)
    watchers = [Watcher(target, key, job_id) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    key_file = installation.folder / "key"
    key_file.write_text(key)
    shown = installation.start("job", "watch", job_id, "--key-file", str(key_file), grpc_target=target)
    worker = installation.start(
        "worker",
        marketplace_url=marketplace,
        marketplace_rate="25/second",
        lease_seconds="25",
        marketplace_timeout_seconds="5",
    )
    worker.until_ready()

    until(lambda: all(len(watcher.sequences) >= 10 for watcher in watchers), seconds=30)
    kill_core(core)
    core = installation.start("grpc")
    assert core.until_ready() == target

    seen = max(len(watcher.sequences) for watcher in watchers)
    until(lambda: all(len(watcher.sequences) >= seen + 10 for watcher in watchers), seconds=60)
    postmaster = database.pid
    assert postmaster is not None
    os.kill(postmaster, signal.SIGKILL)
    until(lambda: database.pid is None)
    assert database.start() == installation.environment["LISTINGS_DATABASE_URL"]

    until(lambda: all(watcher.ended is not None for watcher in watchers), seconds=WATCH_SECONDS)
    job = service.job(key, job_id)
    assert (job["status"], job["successful"]) == ("completed", 120)
    for watcher in watchers:
        assert watcher.sequences == list(range(1, 121))
        assert sorted(watcher.ordinals) == list(range(120))
        assert watcher.ended.reconnects >= 1
        assert watcher.ended.job.status == "completed"
    assert shown.wait() == 0, shown.said()
    assert "120" in "".join(shown.lines)


def test_a_hundred_watchers_of_one_job_each_see_every_result_once_and_in_order(installation: Installation) -> None:
    key, skus = new_seller(installation, 500)
    marketplace = start_sandbox(installation)
    core = installation.start("grpc")
    target = core.until_ready()
    gateway = installation.start("gateway", grpc_target=target)
    service = Service(installation, gateway, gateway.until_ready())
    job_id = service.publish(key, skus)

    async def watch(channel: grpc.aio.Channel, ready: asyncio.Semaphore) -> tuple[list[int], str]:
        stub: Any = jobs_pb2_grpc.JobServiceStub(channel)
        sequences, status, first = [], "", True
        call = stub.WatchJob(jobs_pb2.WatchJobRequest(job_id=job_id), metadata=(("x-api-key", key),))
        async for message in call:
            if first:
                first = False
                ready.release()
            kind = message.WhichOneof("event")
            if kind == "item":
                sequences.append(message.item.sequence)
            elif kind == "job":
                status = message.job.status
        assert await call.code() is grpc.StatusCode.OK
        return sequences, status

    async def all_of_them() -> list[tuple[list[int], str]]:
        ready = asyncio.Semaphore(0)
        async with grpc.aio.insecure_channel(target) as channel, asyncio.timeout(WATCH_SECONDS):
            watching = [asyncio.create_task(watch(channel, ready)) for _ in range(100)]
            for _ in watching:
                await ready.acquire()
            worker = installation.start("worker", marketplace_url=marketplace)
            found = await asyncio.gather(*watching)
            assert worker.process.poll() is None
            return found

    # A loop of its own: the test's processes are waited for with calls that block.
    found: list[tuple[list[int], str]] = []
    thread = threading.Thread(target=lambda: found.extend(asyncio.run(all_of_them())))
    thread.start()
    thread.join(WATCH_SECONDS + 10)

    assert len(found) == 100
    assert all(sequences == list(range(1, 501)) for sequences, _ in found)
    assert {status for _, status in found} == {"completed"}


def test_the_watch_of_a_revoked_key_ends_within_five_seconds(installation: Installation) -> None:
    key, skus = new_seller(installation, 1)
    target = installation.start("grpc").until_ready()
    service_gateway = installation.start("gateway", grpc_target=target)
    service = Service(installation, service_gateway, service_gateway.until_ready())
    job_id = service.publish(key, skus)
    with grpc.insecure_channel(target) as channel:
        stub: Any = jobs_pb2_grpc.JobServiceStub(channel)
        call = stub.WatchJob(jobs_pb2.WatchJobRequest(job_id=job_id), metadata=(("x-api-key", key),), timeout=30)
        assert next(call).WhichOneof("event") == "job"
        _, listed, _ = installation.run("key", "list", "--seller", "1", "--json")
        key_id = listed.partition('"key_id": "')[2].partition('"')[0]
        assert installation.run("key", "revoke", key_id)[0] == 0
        ended: list[grpc.StatusCode] = []

        def read_on() -> None:
            try:
                for _ in call:
                    pass
            except grpc.RpcError:
                ended.append(call.code())

        reader = threading.Thread(target=read_on, daemon=True)
        reader.start()
        reader.join(5.0)
        assert ended == [grpc.StatusCode.UNAUTHENTICATED]
