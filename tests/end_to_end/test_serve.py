"""``listings serve`` as people run it: real processes, real PostgreSQL, real sockets, and an end in order."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.sandbox import RunningSandbox
from tests.support.serve import Installation, Service, until

STOPPED_WITHIN = 10.0


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    yield made
    made.clean_up()


def sandbox_of(service: Service) -> RunningSandbox:
    """The operator's side of the sandbox that a service runs."""
    url = next(line.split()[1] for line in service.command.lines if line.startswith("marketplace"))
    return RunningSandbox(service.command.process, url)


def open_items(sandbox: RunningSandbox, sku: str) -> list[str]:
    """Ids of the open listings of a SKU."""
    return [item["id"] for item in sandbox.items(sku=sku) if item["status"] != "closed"]


def test_from_the_first_start_to_the_second(installation: Installation) -> None:
    with installation.serving() as service:
        demo = installation.demo()
        printed = "".join(service.command.lines)
        assert demo["live_key"] in printed
        assert demo["test_key"] in printed
        assert demo["base_url"] == service.base_url
        assert len(demo["skus"]) >= 10
        assert stat.S_IMODE((installation.data / "demo.json").stat().st_mode) == 0o600
        assert stat.S_IMODE((installation.data / "secret.key").stat().st_mode) == 0o600
        assert stat.S_IMODE(installation.data.stat().st_mode) == 0o700

        ping = service.call("GET", "/ping", demo["test_key"])
        assert (ping.status, ping.body["environment"]) == (200, "test")
        account = service.call("GET", "/account", demo["live_key"]).body
        assert account["credits"]["available"] == 100_000
        assert account["ml_connected"] is True
        tariffs = service.call("GET", "/account/tax-categories", demo["live_key"]).body["tax_categories"]
        assert [each["index"] for each in tariffs] == [0, 1, 2]

        first = service.publish(demo["test_key"], demo["skus"])
        job = service.until_done(demo["test_key"], first)
        assert (job["status"], job["successful"]) == ("completed", len(demo["skus"]))
        promoted = service.call("POST", "/products/test/promote", demo["live_key"], {"skus": demo["skus"][:5]})
        assert (promoted.status, promoted.body["promoted"]) == (202, 5)
        assert service.until_done(demo["live_key"], promoted.body["job_id"])["successful"] == 5
        listing = service.call("GET", f"/products/jobs/{first}?limit=1", demo["test_key"]).body["items"][0]
        assert service.command.stop() < STOPPED_WITHIN
        assert installation.processes() == {}
        assert demo["live_key"] not in service.command.said()
        assert demo["test_key"] not in service.command.said()

    with installation.serving() as service:
        again = installation.demo()
        printed = "".join(service.command.lines)
        assert demo["live_key"] not in printed
        assert "demo.json" in printed
        assert {**again, "base_url": "", "grpc_target": ""} == {**demo, "base_url": "", "grpc_target": ""}
        assert again["base_url"] == service.base_url
        assert service.job(demo["test_key"], first)["successful"] == len(demo["skus"])
        assert service.call("GET", "/account", demo["live_key"]).body["credits"]["used_live"] == 5
        # The sandbox kept its state too: the same SKU is the same listing.
        second = service.publish(demo["test_key"], demo["skus"][:1])
        assert service.until_done(demo["test_key"], second)["successful"] == 1
        same = service.call("GET", f"/products/jobs/{second}", demo["test_key"]).body["items"][0]
        assert same["listing_id"] == listing["listing_id"]
        assert service.command.stop(signal.SIGTERM) < STOPPED_WITHIN
        assert installation.processes() == {}


def test_administration_finds_the_running_database(installation: Installation) -> None:
    code, _, said = installation.run("seller", "list")
    assert code == 2
    assert "no `listings serve` runs on" in said
    with installation.serving():
        code, out, _ = installation.run("seller", "list", "--json")
        assert code == 0
        assert [seller["name"] for seller in json.loads(out)["sellers"]] == ["Demo"]
        code, out, _ = installation.run("ping", "--demo", "test", "--json")
        assert (code, json.loads(out)["environment"]) == (0, "test")
        code, out, _ = installation.run("migrate", "--json")
        assert (code, json.loads(out)["applied"]) == (0, [])


def another(installation: Installation, name: str, gone: int) -> list[int]:
    """Processes of this name beside the one that is gone."""
    return [pid for pid, line in installation.processes().items() if name in line and pid != gone]


def test_a_killed_worker_database_or_sandbox_comes_back(installation: Installation) -> None:
    with installation.serving() as service:
        demo = installation.demo()
        for name in ("worker --supervised", "sandbox --supervised", "postgres -D"):
            victims = [pid for pid, line in installation.processes().items() if name in line]
            assert len(victims) == 1, installation.processes()
            os.kill(victims[0], signal.SIGKILL)
            until(partial(another, installation, name, victims[0]))
            # A ping may be answered by what is known of the key, without the database.
            until(lambda: service.call("GET", "/account", demo["test_key"]).status == 200)
            job = service.publish(demo["test_key"], demo["skus"][:3])
            assert service.until_done(demo["test_key"], job)["successful"] == 3
        assert service.command.stop() < STOPPED_WITHIN
    assert installation.processes() == {}


def test_when_the_parent_is_killed_its_children_end_and_the_next_start_goes_on(installation: Installation) -> None:
    with installation.serving() as service:
        demo = installation.demo()
        job = service.publish(demo["test_key"], demo["skus"])
        service.command.process.kill()
        service.command.process.wait()
        until(lambda: not [line for line in installation.processes().values() if "supervised" in line], seconds=15)
    with installation.serving() as service:
        done = service.until_done(demo["test_key"], job)
        assert done["successful"] + done["failed"] == len(demo["skus"])
    assert installation.processes() == {}


def test_a_stop_under_load_loses_and_doubles_nothing(installation: Installation) -> None:
    with installation.serving("--workers", "2") as service:
        demo = installation.demo()
        code, _, said = installation.run("catalog", "import", str(catalogue(installation.folder, 1_500)))
        assert code == 0, said
        skus = [f"LOAD{number:06}" for number in range(1_500)]
        job = service.publish(demo["test_key"], skus)
        until(lambda: service.job(demo["test_key"], job)["successful"] > 50)
        assert service.command.stop() < STOPPED_WITHIN
        assert installation.processes() == {}
    with installation.serving() as service:
        before = service.job(demo["test_key"], job)
        assert before["pending"] > 0, "the stop came too late to show anything"
        done = service.until_done(demo["test_key"], job)
        assert (done["status"], done["successful"]) == ("completed", 1_500)
        for sku in skus[:200]:
            assert len(open_items(sandbox_of(service), sku)) == 1


def test_a_stop_while_the_marketplace_is_mute_doubles_nothing(installation: Installation) -> None:
    with installation.serving() as service:
        demo = installation.demo()
        sandbox = sandbox_of(service)
        sandbox.add_fault("silence_after", operation="item_create")
        job = service.publish(demo["test_key"], demo["skus"][:20])
        until(lambda: sandbox.fired().get("silence_after", 0) >= 20)
        assert service.command.stop() < STOPPED_WITHIN
        assert installation.processes() == {}
    with installation.serving(marketplace_settle_seconds="4") as service:
        done = service.until_done(demo["test_key"], job)
        assert (done["status"], done["successful"]) == ("completed", 20)
        for sku in demo["skus"][:20]:
            assert len(open_items(sandbox_of(service), sku)) == 1


def catalogue(folder: Path, count: int) -> Path:
    path = folder / "load.csv"
    rows = [
        f"LOAD{number:06},Silla plegable {number},Hogar,9.50,https://x.example.com/a.jpg\n" for number in range(count)
    ]
    path.write_text("sku,title,category,cost_usd,image_url\n" + "".join(rows))
    return path


def test_a_stop_during_the_start_leaves_nothing(installation: Installation) -> None:
    for seconds in (0.0, 0.5, 1.0):
        command = installation.start("serve")
        # Its first child is there: from now on there is something to be stopped.
        until(lambda: len(installation.processes()) > 1)
        deadline = time.monotonic() + seconds
        until(partial(passed, deadline))
        assert command.stop(signal.SIGTERM) < STOPPED_WITHIN
        assert installation.processes() == {}
    with installation.serving() as service:
        demo = installation.demo()
        assert service.call("GET", "/ping", demo["live_key"]).status == 200


def passed(deadline: float) -> bool:
    return time.monotonic() > deadline


def test_a_port_in_use_is_one_line_before_anything_starts(installation: Installation) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, out, said = installation.run("serve", grpc_addr=f"127.0.0.1:{taken.getsockname()[1]}")
    assert (code, out) == (2, "")
    assert said.count("\n") == 1
    assert "LISTINGS_GRPC_ADDR: cannot listen on" in said
    assert not (installation.data / "postgres").exists()


def test_two_services_do_not_share_a_data_folder(installation: Installation) -> None:
    with installation.serving():
        code, out, said = installation.run("serve")
        assert (code, out) == (2, "")
        assert "already served by process" in said


def test_a_lost_secret_key_is_told(installation: Installation) -> None:
    with installation.serving():
        pass
    (installation.data / "secret.key").unlink()
    code, _, said = installation.run("serve")
    assert code == 2
    assert "LISTINGS_SECRET_KEY" in said
    assert not (installation.data / "secret.key").exists()
    assert installation.processes() == {}
