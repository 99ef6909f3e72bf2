"""The sandbox on real sockets: HTTP, faults of the connection, the durable log, start and stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from sandbox.config import SandboxConfig
from sandbox.server import SandboxServer, config_of
from tests.support.sandbox_shop import item_body

USER = 4242
HEADERS = {"authorization": f"Bearer APP_USR-test-{USER}"}
SOURCE = Path(__file__).parents[2] / "src"
DEADLINE = 10.0


@asynccontextmanager
async def running(**config: Any) -> AsyncIterator[SandboxServer]:
    server = SandboxServer(SandboxConfig(port=0, **config))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def client(server: SandboxServer) -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=DEADLINE)
    async with aiohttp.ClientSession(server.url, headers=HEADERS, timeout=timeout) as session:
        yield session


async def add_fault(session: aiohttp.ClientSession, **rule: Any) -> None:
    async with session.post("/sandbox/faults", json=rule) as answer:
        assert answer.status == 201


async def counters(session: aiohttp.ClientSession) -> Any:
    async with session.get("/sandbox/counters") as answer:
        return await answer.json()


async def eventually(condition: Any) -> None:
    """Waits until `await condition()` is true, at most DEADLINE seconds."""
    async with asyncio.timeout(DEADLINE):
        while not await condition():
            await asyncio.sleep(0.01)


# HTTP


async def test_publish_read_and_find_over_a_socket() -> None:
    async with running(index_lag_seconds=0.0, picture_delay_seconds=0.0) as server, client(server) as session:
        async with session.post("/items", json=item_body()) as answer:
            assert answer.status == 201
            item = await answer.json()
        async with session.get(f"/items/{item['id']}") as answer:
            assert (await answer.json())["status"] == "active"
        async with session.get(f"/users/{USER}/items/search", params={"seller_sku": "B07N4M94X4"}) as answer:
            assert (await answer.json())["results"] == [item["id"]]
        async with session.post("/items/validate", json=item_body(price=1)) as answer:
            assert answer.status == 400


async def test_many_at_once_get_ids_of_their_own() -> None:
    async with running() as server, client(server) as session:

        async def create(number: int) -> str:
            async with session.post("/items", json=item_body(f"B{number:09d}")) as answer:
                item_id: str = (await answer.json())["id"]
                return item_id

        ids = await asyncio.gather(*(create(number) for number in range(200)))
        assert len(set(ids)) == 200
        assert (await counters(session))["duplicates"] == 0


async def raw(server: SandboxServer, content: bytes) -> bytes:
    """Sends bytes, reads until the server closes."""
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(content)
    async with asyncio.timeout(DEADLINE):
        answer = await reader.read()
    writer.close()
    return answer


def get(path: str, *, close: bool = False) -> bytes:
    end = "connection: close\r\n" if close else ""
    return f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {HEADERS['authorization']}\r\n{end}\r\n".encode()


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with running() as server:
        paths = [f"/items?ids=MCO{number}" for number in range(60)]
        content = b"".join(get(path) for path in paths[:-1]) + get(paths[-1], close=True)
        answer = await raw(server, content)
        found = [answer.find(f"Item with id MCO{number} not".encode()) for number in range(60)]
        assert found == sorted(found)
        assert -1 not in found
        assert answer.count(b"HTTP/1.1 200 OK") == 60


async def test_chunked_bodies_and_expect_continue() -> None:
    async with running() as server:
        body = json.dumps(item_body()).encode()
        head = f"POST /items HTTP/1.1\r\nhost: x\r\nauthorization: {HEADERS['authorization']}\r\nconnection: close\r\n"
        chunked = head + "transfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n"
        content = chunked.encode() + b"%x\r\n" % 20 + body[:20] + b"\r\n%x\r\n" % len(body[20:]) + body[20:]
        answer = await raw(server, content + b"\r\n0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created")


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"POST /items HTTP/1.1\r\nhost: x\r\ncontent-length: 13000000\r\n\r\n" + b"a" * 13_000_000, 413),
        (b"GET /ws HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", 404),
        (b"GET /nothing HTTP/1.0\r\n\r\n", 404),
    ],
)
async def test_what_is_no_good_request_is_refused(content: bytes, status: int) -> None:
    async with running() as server:
        try:
            answer = await raw(server, content)
        except ConnectionResetError:
            assert status == 413, "only an oversized body may be cut off while it is still being sent"
            return
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())


# Faults of the connection


async def test_reset_after_is_a_reset_with_the_item_made() -> None:
    async with running() as server, client(server) as session:
        await add_fault(session, fault="reset_after", times=1)
        reader, writer = await asyncio.open_connection(*server.address)
        body = json.dumps(item_body()).encode()
        head = f"POST /items HTTP/1.1\r\nhost: x\r\nauthorization: {HEADERS['authorization']}\r\n"
        writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), DEADLINE)
        writer.close()
        assert (await counters(session))["created"] == 1


async def test_silence_after_never_answers_and_the_item_is_made() -> None:
    async with running() as server, client(server) as session:
        await add_fault(session, fault="silence_after", times=1)
        with pytest.raises(TimeoutError):
            async with session.post("/items", json=item_body(), timeout=aiohttp.ClientTimeout(total=0.3)):
                pytest.fail("there must be no answer")
        assert (await counters(session))["created"] == 1


async def test_created_late_happens_without_another_request(tmp_path: Path) -> None:
    async with running(data_dir=tmp_path) as server, client(server) as session:
        await add_fault(session, fault="created_late", seconds=0.2, times=1)
        with pytest.raises(TimeoutError):
            async with session.post("/items", json=item_body(), timeout=aiohttp.ClientTimeout(total=0.1)):
                pytest.fail("there must be no answer")

        async def recorded() -> bool:
            return b"item_created" in (tmp_path / "effects.jsonl").read_bytes()

        assert not await recorded()
        await eventually(recorded)


async def test_a_truncated_body_ends_before_its_length() -> None:
    async with running() as server, client(server) as session:
        await add_fault(session, fault="truncated_body", times=1)
        async with session.post("/items", json=item_body()) as answer:
            assert answer.status == 201
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()


async def test_a_dripping_body_arrives_slowly_and_whole() -> None:
    async with running() as server, client(server) as session:
        await add_fault(session, fault="slow_drip", size=200, seconds=0.02, times=1)
        started = time.monotonic()
        async with session.post("/items", json=item_body()) as answer:
            item = await answer.json()
        assert item["id"].startswith("MCO")
        assert time.monotonic() - started >= 0.1


async def test_delays_and_a_client_that_does_not_wait() -> None:
    async with running() as server, client(server) as session:
        await add_fault(session, fault="delay_before", operation="item_create", seconds=0.2, times=1)
        with pytest.raises(TimeoutError):
            async with session.post("/items", json=item_body(), timeout=aiohttp.ClientTimeout(total=0.05)):
                pytest.fail("there must be no answer")

        async def made() -> bool:
            return bool((await counters(session))["created"] == 1)

        await eventually(made)


async def test_latency_is_added_to_marketplace_answers_only() -> None:
    async with running(latency_seconds=60) as server, client(server) as session:
        asking = asyncio.ensure_future(session.get("/users/me"))
        async with asyncio.timeout(30):
            await counters(session)
        assert not asking.done()
        asking.cancel()


async def test_the_latency_is_the_one_asked_for() -> None:
    async with running(latency_seconds=0.15) as server, client(server) as session:
        started = time.monotonic()
        async with session.get("/users/me"):
            assert time.monotonic() - started >= 0.15


# Webhooks


async def test_webhooks_are_sent_retried_repeated_and_lost() -> None:
    received: list[dict[str, Any]] = []
    answers = [500]

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        received.append(json.loads(await reader.readexactly(length)))
        status = answers.pop() if answers else 200
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()

    hook = await asyncio.start_server(receive, "127.0.0.1", 0)
    port = hook.sockets[0].getsockname()[1]
    hooked = running(notification_url=f"http://127.0.0.1:{port}/hook", picture_delay_seconds=99.0)
    async with hooked as server, client(server) as session:
        await add_fault(session, fault="webhook_repeated", sku="B000000002")
        await add_fault(session, fault="webhook_lost", sku="B000000003")
        for number in (1, 2, 3, 4):
            async with session.post("/items", json=item_body(f"B{number:09d}")) as answer:
                assert answer.status == 201

        async def all_there() -> bool:
            return len(received) == 6

        await eventually(all_there)
    hook.close()
    first, retried, *rest = received
    assert first["_id"] == retried["_id"]
    assert (first["attempts"], retried["attempts"]) == (1, 2)
    assert first["topic"] == "items"
    assert first["user_id"] == USER
    assert [message["_id"] for message in rest[:3]] == [rest[0]["_id"]] * 3
    assert int(rest[3]["_id"], 16) == 4


# The durable log


async def test_everything_is_there_again_after_a_restart(tmp_path: Path) -> None:
    form = {"grant_type": "refresh_token", "client_id": "1", "client_secret": "s", "refresh_token": f"TG-a-{USER}"}
    async with running(data_dir=tmp_path, picture_delay_seconds=0.0) as server, client(server) as session:
        async with session.post("/items", json=item_body()) as answer:
            first = (await answer.json())["id"]
        async with session.post("/items", json=item_body("B000000002")) as answer:
            second = (await answer.json())["id"]
        async with session.put(f"/items/{first}", json={"price": 250_000, "status": "paused"}) as answer:
            assert answer.status == 200
        async with session.put(f"/items/{second}", json={"status": "closed"}) as answer:
            assert answer.status == 200
        async with session.post(f"/items/{first}/description", json={"plain_text": "texto"}) as answer:
            assert answer.status == 201
        async with session.post("/oauth/token", data=form) as answer:
            pair = await answer.json()
        async with session.post(f"/sandbox/users/{USER}", json={"model": "classic"}) as answer:
            assert answer.status == 200
        async with session.post("/sandbox/tokens/revoke", json={"token": "APP_USR-gone-7"}) as answer:
            assert answer.status == 200
    async with running(data_dir=tmp_path, index_lag_seconds=0.0) as server, client(server) as session:
        async with session.get(f"/items/{first}") as answer:
            item = await answer.json()
        assert (item["price"], item["sub_status"]) == (250_000, ["paused_by_seller"])
        async with session.get(f"/items/{second}") as answer:
            assert (await answer.json())["status"] == "closed"
        async with session.get(f"/items/{first}/description") as answer:
            assert (await answer.json())["plain_text"] == "texto"
        async with session.post("/oauth/token", data=form) as answer:
            assert (await answer.json())["error"] == "invalid_grant"
        async with session.get("/users/me", headers={"authorization": "Bearer APP_USR-gone-7"}) as answer:
            assert answer.status == 401
        async with session.get("/users/me", headers={"authorization": f"Bearer {pair['access_token']}"}) as answer:
            assert "user_product_seller" not in (await answer.json())["tags"]
        body = item_body("B000000003", drop=("family_name",), title="Maleta nueva")
        async with session.post("/items", json=body) as answer:
            assert int((await answer.json())["id"][3:]) == int(second[3:]) + 1
        assert (await counters(session))["created"] == 3


async def test_a_torn_last_line_is_cut_off_and_a_bad_one_is_named(tmp_path: Path) -> None:
    async with running(data_dir=tmp_path) as server, client(server) as session:
        answer = await session.post("/items", json=item_body())
        assert answer.status == 201
    log = tmp_path / "effects.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:100])
    async with running(data_dir=tmp_path) as server, client(server) as session:
        assert (await counters(session))["effects"] == 1
    assert log.read_bytes() == whole
    log.write_bytes(b"{}\n" + whole)
    with pytest.raises(ValueError, match=r"effects.jsonl line 1"):
        SandboxServer(SandboxConfig(port=0, data_dir=tmp_path))


async def test_two_sandboxes_cannot_share_a_folder(tmp_path: Path) -> None:
    async with running(data_dir=tmp_path):
        with pytest.raises(OSError, match="another sandbox"):
            SandboxServer(SandboxConfig(port=0, data_dir=tmp_path))


async def test_a_log_that_cannot_be_written_drops_the_answer_and_refuses_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _content: object) -> int:
        raise OSError(28, "No space left on device")

    async with running(data_dir=tmp_path) as server, client(server) as session:
        monkeypatch.setattr("sandbox.effects.os.write", full)
        with pytest.raises(aiohttp.ClientConnectionError):
            async with session.post("/items", json=item_body()):
                pytest.fail("there must be no answer")
        async with session.get("/users/me") as answer:
            assert answer.status == 503
        monkeypatch.undo()


# The process


async def start_process(*arguments: str) -> tuple[asyncio.subprocess.Process, str]:
    """Starts ``python -m sandbox`` on a free port; the process and its base address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "sandbox",
        "--addr",
        "127.0.0.1:0",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE):
        line = (await process.stdout.readline()).decode()
    assert line.startswith("sandbox marketplace ready on http://127.0.0.1:")
    return process, line.split()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_soon_whatever_hangs(number: signal.Signals, tmp_path: Path) -> None:
    process, url = await start_process("--data", str(tmp_path))
    async with aiohttp.ClientSession(url, headers=HEADERS) as session:
        await add_fault(session, fault="silence_after")
        hanging = asyncio.ensure_future(session.post("/items", json=item_body()))

        async def made() -> bool:
            return bool((await counters(session))["created"] == 1)

        await eventually(made)
        started = time.monotonic()
        process.send_signal(number)
        async with asyncio.timeout(DEADLINE):
            assert await process.wait() == 0
        assert time.monotonic() - started < 10
        with pytest.raises(aiohttp.ClientError):
            await hanging
    assert (tmp_path / "effects.jsonl").read_bytes().count(b"\n") == 1


async def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    process, url = await start_process("--data", str(tmp_path))
    answered: set[str] = set()

    async def publish(session: aiohttp.ClientSession, lane: int) -> None:
        for number in range(10_000):
            try:
                async with session.post("/items", json=item_body(f"B{lane}{number:08d}")) as answer:
                    answered.add((await answer.json())["id"])
            except aiohttp.ClientError:
                return
            if len(answered) == 150:
                process.kill()

    async with aiohttp.ClientSession(url, headers=HEADERS) as session:
        await asyncio.gather(*(publish(session, lane) for lane in range(8)))
    assert await process.wait() == -signal.SIGKILL
    assert len(answered) >= 150
    async with running(data_dir=tmp_path) as server:
        assert answered <= set(server.sandbox.market.items)


async def test_a_taken_port_and_a_bad_folder_are_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for arguments in (["--addr", f"127.0.0.1:{port}"], ["--addr", "127.0.0.1:0", "--data", str(tmp_path / "file")]):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "sandbox",
                *arguments,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )
            async with asyncio.timeout(DEADLINE):
                _, error = await process.communicate()
            assert process.returncode == 2
            assert error.startswith(b"sandbox: cannot start: ")
            assert error.count(b"\n") == 1


def test_the_command_line_makes_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of(["--addr", "[::1]:0", "--no-fsync", "--latency-seconds", "0.5", "--data", "d"])
    assert (config.host, config.port, config.fsync, config.latency_seconds) == ("::1", 0, False, 0.5)
    assert config.data_dir == Path("d")
    assert config_of([]).port == 8090
    for arguments in (["--addr", "nowhere"], ["--addr", "x:99999"], ["--addr", "x:-1"]):
        with pytest.raises(SystemExit) as stopped:
            config_of(arguments)
        assert stopped.value.code == 2
    with pytest.raises(SystemExit) as helped:
        config_of(["--help"])
    assert helped.value.code == 0
    assert "--addr" in capsys.readouterr().out
