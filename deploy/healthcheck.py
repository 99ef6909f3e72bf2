"""Whether the process of this container lives: exit 0 when it does, else 1 with one line on standard error.

Which process it is stands in the command line of process 1, or as this program's argument: gateway and serve are asked
over HTTP, the core server by gRPC's health protocol, the worker for its metrics. The addresses are those of the
LISTINGS_* settings, reached on this machine.
"""

from __future__ import annotations

import os
import socket
import sys
import urllib.request
from pathlib import Path

SECONDS = 3.0
ROLES = ("serve", "gateway", "grpc", "worker")


def role() -> str:
    """What runs in this container."""
    words = sys.argv[1:] or Path("/proc/1/cmdline").read_text(encoding="utf-8").split("\0")
    return next((word for word in words if word in ROLES), "serve")


def local(setting: str, default: str) -> tuple[str, int]:
    """The address of a setting as this machine reaches it."""
    host, _, port = os.environ.get(setting, default).rpartition(":")
    host = host.strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), int(port)  # noqa: S104 - compared, not bound


def get(address: tuple[str, int], path: str) -> str:
    """The body of a page; raises OSError when it cannot be had."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{host}:{address[1]}{path}", timeout=SECONDS) as answer:
        return str(answer.read().decode())


def check_core(address: tuple[str, int]) -> None:
    """Ask the core server; behind TLS only whether it takes connections, because this program has no certificate."""
    if os.environ.get("LISTINGS_GRPC_TLS_CERTIFICATE"):
        socket.create_connection(address, SECONDS).close()
        return
    import grpc  # noqa: PLC0415 - the other processes need none
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415

    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    try:
        with grpc.insecure_channel(f"{host}:{address[1]}") as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    except grpc.RpcError as error:
        raise OSError("the core server does not answer") from error
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise OSError("the core server is stopping")


def main() -> int:
    """See above."""
    try:
        which = role()
        if which == "grpc":
            check_core(local("LISTINGS_GRPC_ADDR", "127.0.0.1:50051"))
        elif which == "worker":
            if "listings_runs_held" not in get(local("LISTINGS_METRICS_ADDR", ""), "/metrics"):
                raise OSError("these are no metrics of a worker")
        else:
            get(local("LISTINGS_HTTP_ADDR", "127.0.0.1:8080"), "/healthz")
    except (OSError, ValueError) as error:
        print(f"not healthy: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
