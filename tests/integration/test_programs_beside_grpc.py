"""Programs can be started as another user while gRPC is at work."""

from __future__ import annotations

import asyncio
import os
import pwd
import subprocess
from collections import Counter

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

PROGRAMS = 60


def run_as_another_user() -> int:
    """Start a program the way root starts PostgreSQL (an ordinary user: as itself); its exit code."""
    nobody = pwd.getpwnam("nobody")
    other = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(["/bin/true"], check=False, **other).returncode  # type: ignore[call-overload, no-any-return]


async def test_every_program_starts_while_calls_run(channel: grpc.aio.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    done = asyncio.Event()

    async def call() -> None:
        while not done.is_set():
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)

    calls = [asyncio.create_task(call()) for _ in range(4)]
    codes = Counter([await asyncio.to_thread(run_as_another_user) for _ in range(PROGRAMS)])
    done.set()
    await asyncio.gather(*calls)
    assert codes == {0: PROGRAMS}
