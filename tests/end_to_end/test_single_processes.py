"""The components as processes of their own, some of them several times, on a database named in the settings."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.serve import Installation, Service, until
from tests.support.service import environment_for


@pytest.fixture
def installation(tmp_path: Path, own_database_url: str) -> Iterator[Installation]:
    made = Installation(
        tmp_path,
        http_addr=f"127.0.0.1:{free_port()}",
        grpc_addr=f"127.0.0.1:{free_port()}",
        **{name.removeprefix("LISTINGS_").lower(): value for name, value in environment_for(own_database_url).items()},
    )
    yield made
    made.clean_up()


def test_each_component_alone_and_several_of_each(installation: Installation) -> None:
    sandbox = installation.start("sandbox", "--picture-delay-seconds", "0")
    marketplace = sandbox.until_ready()
    core = installation.start("grpc", "--processes", "2", metrics_addr=f"127.0.0.1:{free_port()}")
    gateway = installation.start("gateway", "--processes", "2")
    workers = installation.start("worker", "--processes", "2", marketplace_url=marketplace)
    for command in (core, gateway, workers):
        command.until_ready()
    service = Service(installation, gateway, f"http://{installation.environment['LISTINGS_HTTP_ADDR']}/api/v1")

    code, out, said = installation.run("seller", "add", "--name", "A", "--credits", "10", "--json")
    assert code == 0, said
    _, out, _ = installation.run(
        *("key", "create", "--seller", "1", "--environment", "test", "--json"),
        *("--scope", "products:write", "--scope", "products:read"),
    )
    key = out.partition('"secret": "')[2].partition('"')[0]
    code, _, said = installation.run(
        *("account", "connect", "--seller", "1", "--environment", "test", "--marketplace-user", "120506781"),
        *("--access-token", "APP_USR-made-up-120506781"),
    )
    assert code == 0, said
    demo = Path(__file__).parents[2] / "src" / "listings" / "demo_catalog.csv"
    assert installation.run("catalog", "import", str(demo))[0] == 0

    skus = [f"DEMO{number:06}" for number in range(1, 21)]
    job = service.publish(key, skus)
    assert service.until_done(key, job)["successful"] == 20

    # One of two dies: the other serves on, and another one takes its place.
    for name in ("grpc --share-port", "gateway --share-port", "worker --supervised"):
        alike = [pid for pid, line in installation.processes().items() if name in line]
        assert len(alike) == 2, installation.processes()
        os.kill(alike[0], signal.SIGKILL)
    until(lambda: sum("--supervised" in line for line in installation.processes().values()) == 6)
    until(lambda: service.call("GET", "/ping", key).status == 200)
    again = service.publish(key, skus)
    assert service.until_done(key, again)["successful"] == 20

    for command in (gateway, core, workers, sandbox):
        assert command.stop(signal.SIGTERM) < 10
    assert installation.processes() == {}


def test_serve_on_a_database_of_its_own(installation: Installation) -> None:
    with installation.serving() as service:
        assert not (installation.data / "postgres").exists()
        assert not (installation.data / "demo.json").exists()
        assert service.call("GET", "/ping", "svc_test_none").status == 401
    with installation.serving("--demo") as service:
        demo = installation.demo()
        job = service.publish(demo["test_key"], demo["skus"][:2])
        assert service.until_done(demo["test_key"], job)["successful"] == 2
    assert installation.processes() == {}


def test_a_core_server_needs_a_migrated_database(installation: Installation, tmp_path: Path) -> None:
    from tests.support.postgres import start_test_postgres

    server = start_test_postgres()
    empty = server.create_database()
    code, out, said = installation.run("grpc", database_url=empty)
    assert (code, out) == (2, "")
    assert "listings migrate" in said
    code, out, _ = installation.run("migrate", "--json", database_url=empty)
    assert code == 0
    assert '"applied": ["0001_' in out
    server.drop_database(empty)
