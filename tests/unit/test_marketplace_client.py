"""The HTTP client against a real socket: what it sends, and how honestly it tells that no answer came."""

from __future__ import annotations

import asyncio
import gzip
import time

import pytest

from core.marketplace.client import MAX_ANSWER_BYTES, AiohttpClient, Answer, NoAnswer, checked_base_url
from tests.support.raw_server import Exchange, Script, raw_server, unused_url


async def exchange(
    script: Script, *, method: str = "POST", timeout_seconds: float = 2.0
) -> tuple[Answer | NoAnswer, int]:
    """One request to a server with this script: the ending and how many requests arrived."""
    async with raw_server(script) as server:
        client = AiohttpClient(server.url, timeout_seconds=timeout_seconds, connections=4)
        try:
            ended = await client.send(method, "/items", {"Authorization": "Bearer x"}, b'{"a":1}')
        finally:
            await client.aclose()
        return ended, len(server.requests)


async def created(exchange: Exchange) -> None:
    await exchange.answer(201, {"id": "MCO1"})


async def test_sends_the_bytes_given_and_returns_the_whole_answer() -> None:
    async with raw_server(created) as server:
        client = AiohttpClient(server.url, timeout_seconds=2, connections=4)
        ended = await client.send("POST", "/items?x=%20", {"Authorization": "Bearer x"}, b'{"a":1}')
        await client.aclose()
    assert ended == Answer(201, b'{"id": "MCO1"}')
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("POST", "/items?x=%20", b'{"a":1}')
    assert request.headers["authorization"] == "Bearer x"
    assert request.headers["accept-encoding"] == "identity"
    assert "cookie" not in request.headers


async def test_reuses_its_connection() -> None:
    async with raw_server(created) as server:
        client = AiohttpClient(server.url, timeout_seconds=2, connections=4)
        for _ in range(5):
            assert isinstance(await client.send("POST", "/items", {}, b"{}"), Answer)
        await client.aclose()
    assert server.connections == 1


async def test_refused_connection_was_not_sent() -> None:
    client = AiohttpClient(unused_url(), timeout_seconds=2, connections=4)
    assert await client.send("POST", "/items", {}, b"{}") == NoAnswer(False, "connect")
    await client.aclose()


async def test_failed_handshake_was_not_sent() -> None:
    async with raw_server(created) as server:
        client = AiohttpClient(server.url.replace("http:", "https:"), timeout_seconds=2, connections=4)
        ended = await client.send("POST", "/items", {}, b"{}")
        await client.aclose()
    assert isinstance(ended, NoAnswer)
    assert not ended.sent
    assert server.requests == []


async def test_unknown_host_was_not_sent() -> None:
    client = AiohttpClient("https://marketplace.invalid", timeout_seconds=5, connections=4)
    ended = await client.send("POST", "/items", {}, b"{}")
    await client.aclose()
    assert isinstance(ended, NoAnswer)
    assert not ended.sent


async def test_held_back_sends_no_byte() -> None:
    async with raw_server(created) as server:
        client = AiohttpClient(server.url, timeout_seconds=2, connections=4)
        assert await client.send("POST", "/items", {}, b"{}", lambda: False) == NoAnswer(False, "held_back")
        assert isinstance(await client.send("POST", "/other", {}, b"{}", lambda: True), Answer)
        await client.aclose()
    assert [request.target for request in server.requests] == ["/other"]


async def test_may_send_is_asked_after_the_wait_for_a_connection() -> None:
    release = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await release.wait()
        await created(exchange)

    asked: list[str] = []

    def noted(name: str, answer: bool) -> bool:
        asked.append(name)
        return answer

    async with raw_server(slow) as server:
        client = AiohttpClient(server.url, timeout_seconds=5, connections=1)
        first = asyncio.create_task(client.send("POST", "/1", {}, b"{}", lambda: noted("1", True)))
        await server.wait_for(1)
        second = asyncio.create_task(client.send("POST", "/2", {}, b"{}", lambda: noted("2", False)))
        await asyncio.sleep(0)
        assert asked == ["1"]
        release.set()
        assert isinstance(await first, Answer)
        assert await second == NoAnswer(False, "held_back")
        await client.aclose()
    assert asked == ["1", "2"]


async def test_wait_for_a_connection_ends_as_not_sent() -> None:
    async def silent(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with raw_server(silent) as server:
        client = AiohttpClient(server.url, timeout_seconds=0.3, connections=1)
        endings = await asyncio.gather(*(client.send("POST", "/items", {}, b"{}") for _ in range(2)))
        await client.aclose()
    assert sorted((ended.sent, ended.reason) for ended in endings if isinstance(ended, NoAnswer)) == [
        (False, "timeout"),
        (True, "timeout"),
    ]


async def test_silence_is_unknown_after_the_timeout() -> None:
    async def silent(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    began = time.monotonic()
    assert await exchange(silent, timeout_seconds=0.3) == (NoAnswer(True, "timeout"), 1)
    assert 0.25 < time.monotonic() - began < 20


async def test_a_long_timeout_is_not_rounded_up() -> None:
    client = AiohttpClient("http://127.0.0.1:1", timeout_seconds=7.25, connections=1)
    session = client._open()
    assert session.timeout.total == 7.25
    assert session.timeout.ceil_threshold == float("inf")
    await client.aclose()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
async def test_reset_after_the_request_is_unknown_and_not_repeated(method: str) -> None:
    async def reset(exchange: Exchange) -> None:
        exchange.reset()

    ended, arrived = await exchange(reset, method=method)
    assert ended == NoAnswer(True, "disconnected")
    assert arrived == 1


@pytest.mark.parametrize("library_retries", [False, True])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "GET"])
async def test_a_reused_connection_closed_by_the_server_is_unknown_and_not_repeated(
    method: str, library_retries: bool
) -> None:
    async def once(exchange: Exchange) -> None:
        if exchange.request.target == "/first":
            await exchange.answer(200, {})
        else:
            exchange.close()

    async with raw_server(once) as server:
        client = AiohttpClient(server.url, timeout_seconds=2, connections=4)
        assert isinstance(await client.send(method, "/first", {}), Answer)
        assert client._session is not None
        # The library's own repeat, switched on: the request class alone has to prevent it.
        client._session._retry_connection = library_retries
        ended = await client.send(method, "/second", {}, b"{}")
        await client.aclose()
    assert ended == NoAnswer(True, "disconnected")
    assert [(request.target, request.connection) for request in server.requests] == [("/first", 1), ("/second", 1)]


async def test_a_connection_closed_while_idle_is_replaced() -> None:
    closed = asyncio.Event()

    async def once(exchange: Exchange) -> None:
        await exchange.answer(200, {})
        exchange.close()
        closed.set()

    async with raw_server(once) as server:
        client = AiohttpClient(server.url, timeout_seconds=2, connections=4)
        assert isinstance(await client.send("POST", "/items", {}, b"{}"), Answer)
        await closed.wait()
        async with asyncio.timeout(5):
            connector = client._session.connector if client._session else None
            assert connector is not None
            while any(proto.is_connected() for conns in connector._conns.values() for proto, _ in conns):
                await asyncio.sleep(0.01)
        assert isinstance(await client.send("POST", "/items", {}, b"{}"), Answer)
        await client.aclose()
    assert server.connections == 2


async def test_truncated_body_is_unknown() -> None:
    async def truncated(exchange: Exchange) -> None:
        await exchange.write(b'HTTP/1.1 201 X\r\nContent-Length: 100\r\n\r\n{"id":')
        exchange.close()

    assert await exchange(truncated) == (NoAnswer(True, "truncated"), 1)


async def test_headers_without_end_are_unknown() -> None:
    async def half(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 201 X\r\nContent-Le")
        exchange.close()

    assert await exchange(half) == (NoAnswer(True, "disconnected"), 1)


@pytest.mark.parametrize(
    "noise",
    [
        b"\x00\xff\x00\xff\r\n\r\n",
        b"HTTP/9.9 abc\r\n\r\n",
        b"HTTP/1.1 201 X\r\nContent-Length: -5\r\n\r\n",
        b"<html>\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_unknown(noise: bytes) -> None:
    async def speak(exchange: Exchange) -> None:
        await exchange.write(noise)
        exchange.close()

    ended, arrived = await exchange(speak)
    assert isinstance(ended, NoAnswer)
    assert ended.sent
    assert arrived == 1


async def test_endless_headers_are_unknown() -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 201 X\r\nX: " + b"a" * 200_000)

    ended, _ = await exchange(endless)
    assert isinstance(ended, NoAnswer)
    assert ended.sent


async def test_a_body_announced_as_huge_is_given_up_unread() -> None:
    async def huge(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 201 X\r\nContent-Length: 20000000\r\n\r\n{")

    assert await exchange(huge) == (NoAnswer(True, "too_large"), 1)


async def test_a_body_that_grows_huge_is_given_up() -> None:
    written = 0

    async def huge(exchange: Exchange) -> None:
        nonlocal written
        await exchange.write(b"HTTP/1.1 201 X\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(400):
            await exchange.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            written += 0x10000

    assert await exchange(huge) == (NoAnswer(True, "too_large"), 1)
    assert written < 16 * MAX_ANSWER_BYTES


async def test_a_body_of_exactly_the_limit_is_read() -> None:
    async def large(exchange: Exchange) -> None:
        await exchange.answer(200, b"x" * MAX_ANSWER_BYTES)

    ended, _ = await exchange(large)
    assert isinstance(ended, Answer)
    assert len(ended.body) == MAX_ANSWER_BYTES


async def test_a_drip_ends_with_the_timeout() -> None:
    async def drip(exchange: Exchange) -> None:
        await exchange.write(b"HTTP/1.1 201 X\r\nContent-Length: 1000\r\n\r\n")
        while True:
            await exchange.write(b"x")
            await asyncio.sleep(0.02)

    assert await exchange(drip, timeout_seconds=0.4) == (NoAnswer(True, "timeout"), 1)


async def test_redirects_are_told_not_followed() -> None:
    async def redirect(exchange: Exchange) -> None:
        await exchange.answer(302, Location="/elsewhere")

    assert await exchange(redirect, method="GET") == (Answer(302, b""), 1)


async def test_compressed_bodies_stay_compressed() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)

    async def compressed(exchange: Exchange) -> None:
        await exchange.answer(200, bomb, Content_Encoding="gzip")

    assert await exchange(compressed) == (Answer(200, bomb), 1)


async def test_cookies_are_not_kept() -> None:
    async def cookie(exchange: Exchange) -> None:
        await exchange.answer(200, {}, Set_Cookie="a=b")

    async with raw_server(cookie) as server:
        client = AiohttpClient(server.url, timeout_seconds=2, connections=1)
        for _ in range(2):
            await client.send("GET", "/", {})
        await client.aclose()
    assert len(server.requests) == 2
    assert all("cookie" not in request.headers for request in server.requests)


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, unused_url())
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert (await exchange(created))[0] == Answer(201, b'{"id": "MCO1"}')


async def test_retry_after_is_passed_on_with_errors() -> None:
    async def busy(exchange: Exchange) -> None:
        await exchange.answer(429, {}, Retry_After="7")

    assert (await exchange(busy))[0] == Answer(429, b"{}", "7")


async def test_cancellation_is_passed_on() -> None:
    async def silent(exchange: Exchange) -> None:
        await asyncio.Event().wait()

    async with raw_server(silent) as server:
        client = AiohttpClient(server.url, timeout_seconds=5, connections=1)
        task = asyncio.create_task(client.send("POST", "/items", {}, b"{}"))
        await server.wait_for(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.aclose()


@pytest.mark.parametrize(
    "address",
    [
        "http://api.example.com",
        "http://10.0.0.1",
        "ftp://127.0.0.1",
        "127.0.0.1:8090",
        "",
        "https://",
        "https://user:secret@api.example.com",
        "https://api.example.com/?a=b",
        "http://127.0.0.1.example.com",
    ],
)
def test_addresses_that_are_not_allowed(address: str) -> None:
    with pytest.raises(ValueError, match="marketplace address"):
        checked_base_url(address)


@pytest.mark.parametrize(
    "address",
    ["https://api.example.com", "http://127.0.0.1:8090/", "http://[::1]:1", "http://127.8.8.8", "http://localhost:1"],
)
def test_addresses_that_are_allowed(address: str) -> None:
    assert checked_base_url(address) == address.rstrip("/")
