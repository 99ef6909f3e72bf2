"""Framing over a raw socket: what must never reach a route (failure rules, 51 and 52)."""

# ruff: noqa: E501 - tables with one case a line

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from listing_publication.v1 import account_pb2, publishing_pb2
from tests.support.gateway import Client, gateway, raw, split
from tests.support.scripted_core import ScriptedCore, scripted_core
from tests.unit.test_gateway_app import check_problem


@pytest_asyncio.fixture(loop_scope="session", scope="module", name="pair")
async def _pair() -> AsyncIterator[tuple[Client, ScriptedCore]]:
    async with (
        scripted_core() as core,
        gateway(core.address, header_timeout=0.5, body_timeout=0.5, max_body_bytes=65_536) as client,
    ):
        core.answers["AccountService/Ping"] = account_pb2.PingResponse(seller_id=1)
        yield client, core


@pytest.fixture
def client(pair: tuple[Client, ScriptedCore]) -> Client:
    pair[1].calls.clear()
    return pair[0]


@pytest.fixture
def core(pair: tuple[Client, ScriptedCore]) -> ScriptedCore:
    return pair[1]


KEY_OF_A_JOB = "01890a5d-ac96-774b-bcce-b302099a8057"
PING = b"GET /api/v1/ping HTTP/1.1\r\n"
POST = b"POST /api/v1/products HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(PING + b"\r\n", 400, id="no Host"),
        pytest.param(PING + b"Host: a\r\nHost: b\r\n\r\n", 400, id="two Hosts"),
        pytest.param(b"GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400, id="two Hosts in HTTP/1.0"),
        pytest.param(b"FOO /api/v1/ping HTTP/1.1\r\n\r\n", 400, id="unknown method, no Host"),
        pytest.param(b"FOO /api/v1/ping HTTP/9.9\r\nHost: x\r\n\r\n", 400, id="unknown method, odd version"),
        pytest.param(b"FOO /api/v1/ping HTTP/1.1\r\nHost: x\r\nX A: b\r\n\r\n", 400, id="unknown method, odd header"),
        pytest.param(b"F(O /api/v1/ping HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="method that is no token"),
        pytest.param(b"F\xc3\x98 /api/v1/ping HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="method above ASCII"),
        pytest.param(b" /api/v1/ping HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="no method"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, id="HTTP/2"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, id="TLS"),
        pytest.param(b"FOO", 408, id="unknown method stops"),
        pytest.param(b"F" * 900_000, 431, id="method without end"),
        pytest.param(b"\r\nFOO\r\n\r\n", 400, id="method alone"),
        pytest.param(POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501, id="compressed transfer"),
        pytest.param(POST + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501, id="compressed transfer in two headers"),
        pytest.param(POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400, id="chunks in HTTP/1.0"),
        pytest.param(POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="two lengths"),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", 400, id="two lengths, turned"),
        pytest.param(POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400, id="Content-Length twice"),
        pytest.param(POST + b"Content-Length: -1\r\n\r\n", 400, id="negative length"),
        pytest.param(POST + b"Content-Length: 1e3\r\n\r\n", 400, id="odd length"),
        pytest.param(POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400, id="length overflow"),
        pytest.param(POST + b"Transfer-Encoding: gzip, chunked, identity\r\n\r\n", 400, id="odd transfer encoding"),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, id="odd chunk size"),
        pytest.param(b"NONSENSE\r\n\r\n", 400, id="no request line"),
        pytest.param(b"GET /api/v1/ping HTTP/9.9\r\nHost: x\r\n\r\n", 400, id="odd version"),
        pytest.param(PING + b"Host: x\r\nX-A: a\x00b\r\n\r\n", 400, id="NUL in a header"),
        pytest.param(PING + b"Host: x\r\nX A: b\r\n\r\n", 400, id="space in a header name"),
        pytest.param(PING + b"Host: x\r\n folded\r\n\r\n", 400, id="folded header"),
        pytest.param(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="bytes above ASCII in the path"),
        pytest.param(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, id="CONNECT"),
        pytest.param(PING + b"Host: x\r\nX-A: " + b"a" * 40_000 + b"\r\n\r\n", 431, id="large header"),
        pytest.param(PING + b"Host: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431, id="many headers"),
        pytest.param(b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431, id="long path"),
        pytest.param(b"GET /" + b"a" * 900_000, 431, id="path without end"),
        pytest.param(PING + b"Host: x\r\nX-A: " + b"a" * 900_000, 431, id="header without end"),
        pytest.param(PING + b"Host: x\r\n", 408, id="headers stop"),
        pytest.param(b"G", 408, id="first byte only"),
        pytest.param(POST + b"Content-Length: 10\r\n\r\n{", 408, id="body stops"),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", 408, id="chunk stops"),
    ],
)  # fmt: skip
async def test_a_request_that_cannot_be_trusted_is_refused_and_closed(
    client: Client, core: ScriptedCore, request_bytes: bytes, status: int
) -> None:
    response = await raw(client.address, request_bytes)
    answer = split(response)
    if (status, answer.status) == (400, 404):
        pytest.fail("reached a route")
    check_problem(answer, status)
    assert answer.headers["connection"] == "close"
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert core.calls == []


async def test_a_connection_without_a_byte_is_closed_silently(client: Client) -> None:
    assert await raw(client.address, timeout=3) == b""


async def test_headers_that_trickle_are_cut_off(client: Client, core: ScriptedCore) -> None:
    parts = [bytes([byte]) for byte in PING + b"Host: x\r\n"]
    answer = split(await raw(client.address, *parts[:12], pause=0.06))
    check_problem(answer, 408)
    assert core.calls == []


async def test_a_kept_connection_serves_again_and_starts_new_deadlines(client: Client, core: ScriptedCore) -> None:
    host, _, port = client.address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for _ in range(3):
            writer.write(PING + b"Host: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            length = int(split(head).headers["content-length"])
            await reader.readexactly(length)
            await asyncio.sleep(0.6)  # longer than the deadline for headers: an idle connection is not a slow one
    finally:
        writer.close()
    assert core.methods == ["AccountService/Ping"] * 3


async def test_a_trailer_adds_no_header(client: Client, core: ScriptedCore) -> None:
    core.answers["JobService/CancelJob"] = account_pb2.PingResponse()
    await raw(
        client.address,
        b"POST /api/v1/products/test/promote HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
        b"Trailer: X-API-Key\r\n\r\n2\r\n{}\r\n0\r\nX-API-Key: svc_live_trailer\r\n\r\n",
    )
    assert "x-api-key" not in core.calls[-1].metadata


async def test_more_bytes_than_any_body_end_the_connection(client: Client, core: ScriptedCore) -> None:
    """An early 413 does not make us read for ever."""
    host, _, port = client.address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(POST + b"Content-Length: 1000000000000\r\n\r\n")
    try:
        assert split(await reader.readuntil(b"\r\n\r\n")).status == 413
        with pytest.raises((ConnectionError, TimeoutError)):
            async with asyncio.timeout(10):
                for _ in range(10_000):
                    writer.write(b"x" * 65_536)
                    await writer.drain()
                raise AssertionError("600 MB were read")
    finally:
        writer.close()


async def test_expect_continue_is_not_asked_for_a_body_too_large(client: Client) -> None:
    response = await raw(
        client.address,
        POST + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: 70000\r\n\r\n",
    )
    assert response.startswith(b"HTTP/1.1 413")


async def test_an_answer_leaves_in_one_piece(client: Client, core: ScriptedCore) -> None:
    """Also behind an answer without a body, and behind an invitation to send one."""
    core.answers["PublishingService/CreateJob"] = publishing_pb2.CreateJobResponse(job_id=KEY_OF_A_JOB, status="queued")
    host, _, port = client.address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(10):
            writer.write(PING.replace(b"GET", b"HEAD") + b"Host: x\r\n\r\n")
            assert split(await reader.readuntil(b"\r\n\r\n")).status == 200
            writer.write(PING + b"Host: x\r\n\r\n")
            answer = split(await reader.read(65_536))
            assert len(answer.body) == int(answer.headers["content-length"])
            body = b'{"items":[{"sku":"ABCDEFGH12"}]}'
            writer.write(POST + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            answer = split(await reader.read(65_536))
            assert answer.status == 202
            assert len(answer.body) == int(answer.headers["content-length"])
    finally:
        writer.close()


async def test_upgrades_are_ignored(client: Client, core: ScriptedCore) -> None:
    response = await raw(
        client.address, PING + b"Host: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n", timeout=5
    )
    assert split(response).status in (200, 400)


@pytest.mark.parametrize("path", [b"/healthz", b"/api/v1/ping"])
async def test_http_1_0_needs_no_host(client: Client, core: ScriptedCore, path: bytes) -> None:
    answer = split(await raw(client.address, b"GET " + path + b" HTTP/1.0\r\n\r\n"))
    assert answer.status == 200


async def test_white_space_around_a_header_value_is_no_part_of_it(client: Client, core: ScriptedCore) -> None:
    core.answers["PublishingService/CreateJob"] = publishing_pb2.CreateJobResponse(job_id=KEY_OF_A_JOB, status="queued")
    headers = (
        b"X-API-Key: \t svc_live_0123 \t\r\nIdempotency-Key:" + KEY_OF_A_JOB.encode() + b" \r\n"
        b"X-Request-Id:  mine\t\r\nContent-Type: application/json \r\nContent-Encoding: identity \r\n"
        b"Transfer-Encoding: chunked \r\nConnection: close \r\n\r\n"
    )
    body = b'{"items":[{"sku":"B000000001","auto_categorize":true}]}'
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    answer = split(await raw(client.address, POST + headers + chunks))
    assert answer.status == 202
    assert answer.headers["x-request-id"] == "mine"
    (call,) = core.calls
    assert call.metadata["x-api-key"] == "svc_live_0123"
    assert call.request.idempotency_key == KEY_OF_A_JOB


async def test_a_key_of_white_space_is_none(client: Client, core: ScriptedCore) -> None:
    await raw(client.address, PING + b"Host: x\r\nConnection: close\r\nX-API-Key: \t \r\n\r\n")
    assert "x-api-key" not in core.calls[-1].metadata


@pytest.mark.parametrize(
    "method", ["FOO", "get", "GETS", "G", "PROPFIND", "DESCRIBE", "SOURCE", "M-SEARCH", "!#$%&'*+-.^_`|~09aZ"]
)
async def test_a_method_that_nobody_knows_is_not_allowed(client: Client, core: ScriptedCore, method: str) -> None:
    request = (
        f"{method} /api/v1/ping HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    )
    host, _, port = client.address.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for size in (1, 7, len(request)):
            for place in range(0, len(request), size):
                writer.write(request[place : place + size])
                await writer.drain()
                await asyncio.sleep(0)
            answer = split(await reader.readuntil(b"\r\n\r\n"))
            assert answer.status == 405
            assert answer.headers["allow"] == "GET, HEAD"
            assert answer.headers["x-request-id"] == "mine"
            assert b"GET, HEAD" in await reader.readexactly(int(answer.headers["content-length"]))
    finally:
        writer.close()
    answer = split(
        await raw(client.address, f"{method} /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    )
    check_problem(answer, 404)
    assert core.calls == []


async def test_a_method_that_nobody_knows_after_another_request_in_one_packet(
    client: Client, core: ScriptedCore
) -> None:
    answers = await raw(client.address, PING + b"Host: x\r\n\r\nFOO /api/v1/ping HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"FOO" not in answers
    assert core.methods in ([], ["AccountService/Ping"])
