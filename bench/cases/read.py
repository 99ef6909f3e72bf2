"""Answering about jobs: a page of 100 items over REST, deep pages, deep lists."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.load import rate, request
from bench.measure import Row, compare, paired, skipped
from bench.product import add_done_job, tidy
from bench.setting import Bench, application, environment_for, new_sellers

CLIENTS = 16
PAGE = "GET job page of 100"


def envoy(bench: Bench, descriptor: Path, target: str) -> tuple[Any, str]:
    """Envoy's gRPC-JSON transcoder before a core server; gives its process and address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    host, grpc_port = target.rsplit(":", 1)
    manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    transcoder = "type.googleapis.com/envoy.extensions.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder"
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    options = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    endpoint = {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(grpc_port)}}}}
    config = {
        "static_resources": {
            "listeners": [
                {
                    "name": "rest",
                    "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
                    "filter_chains": [
                        {
                            "filters": [
                                {
                                    "name": "manager",
                                    "typed_config": {
                                        "@type": manager,
                                        "stat_prefix": "rest",
                                        "codec_type": "AUTO",
                                        "route_config": {
                                            "virtual_hosts": [
                                                {
                                                    "name": "all",
                                                    "domains": ["*"],
                                                    "routes": [
                                                        {
                                                            "match": {"prefix": "/"},
                                                            "route": {"cluster": "core", "timeout": "10s"},
                                                        }
                                                    ],
                                                }
                                            ]
                                        },
                                        "http_filters": [
                                            {
                                                "name": "transcoder",
                                                "typed_config": {
                                                    "@type": transcoder,
                                                    "proto_descriptor": str(descriptor),
                                                    "services": ["listing_publication.v1.JobService"],
                                                    "auto_mapping": True,
                                                    "print_options": {"preserve_proto_field_names": True},
                                                },
                                            },
                                            {"name": "router", "typed_config": {"@type": router}},
                                        ],
                                    },
                                }
                            ]
                        }
                    ],
                }
            ],
            "clusters": [
                {
                    "name": "core",
                    "type": "STATIC",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                            "@type": options,
                            "explicit_http_config": {"http2_protocol_options": {}},
                        }
                    },
                    "load_assignment": {"cluster_name": "core", "endpoints": [{"lb_endpoints": [endpoint]}]},
                }
            ],
        }
    }
    path = bench.folder / "envoy.json"
    path.write_text(json.dumps(config))
    program = Path(sys.executable).with_name("envoy")
    process, _ = bench.start_command(
        ["/bin/sh", "-c", f"exec {program} -c {path} --concurrency 1 -l info --base-id {port} 2>&1"],
        name="envoy",
        ready="starting main dispatch loop",
    )
    return process, f"http://127.0.0.1:{port}"


def descriptor(bench: Bench) -> Path:
    """The compiled protos with everything they import."""
    target = bench.folder / "listing_publication.pb"
    proto = Path(__file__).parents[2] / "proto"
    files = [str(each.relative_to(proto)) for each in sorted(proto.glob("listing_publication/v1/*.proto"))]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{proto}",
            "--include_imports",
            f"--descriptor_set_out={target}",
            *files,
        ],
        check=True,
        cwd=proto,
    )
    return target


async def run(bench: Bench) -> list[Row]:
    """Rows of the group."""
    url = bench.migrated_database()
    async with application(url) as app:
        seller = (await new_sellers(app, 1))[0]
    job_id = add_done_job(url, seller.seller_id, 10_000)[0]
    listed = 20_000 if bench.quick else 100_000
    many = await _seller_with_jobs(url, listed)
    tidy(url)
    environment = environment_for(url)
    both, last = bench.start("service", environment=environment)
    in_process = last
    core, core_target = bench.start_command(
        [sys.executable, "-m", "listings", "grpc"], name="grpc", environment=environment
    )
    gateway, gateway_address = bench.start_command(
        [sys.executable, "-m", "listings", "gateway"],
        name="gateway",
        environment=environment | {"LISTINGS_GRPC_TARGET": core_target},
    )
    over_channel = gateway_address.removesuffix("/api/v1")
    started = [both, core, gateway]
    seconds = 1.0 if bench.quick else 2.5
    rounds = bench.rounds(5, 9)
    get = request("GET", f"/api/v1/products/jobs/{job_id}?limit=100&offset=0", key=seller.test_key)
    try:
        contenders = {
            "channel": lambda: rate(over_channel, get, clients=CLIENTS, seconds=seconds),
            "in process": lambda: rate(in_process, get, clients=CLIENTS, seconds=seconds),
        }
        try:
            proxy, envoy_address = envoy(bench, descriptor(bench), core_target)
        except (OSError, RuntimeError) as error:
            reason = f"Envoy does not start here: {str(error)[:200]}"
            rows = [skipped(PAGE, "Envoy transcoder before the same core server", reason)]
        else:
            started.append(proxy)
            asked = json.dumps({"job_id": job_id, "page_size": 100}).encode()
            post = request("POST", "/listing_publication.v1.JobService/GetJob", key=seller.test_key, body=asked)
            contenders["envoy"] = lambda: rate(envoy_address, post, clients=CLIENTS, seconds=seconds)
            found = await paired(rounds, contenders)
            against = "Envoy transcoder before the same core server"
            rows = [
                compare(
                    f"{PAGE}, over the channel",
                    against,
                    found["channel"],
                    found["envoy"],
                    "req/s",
                    bar=1.0,
                    at_least=True,
                ),
                compare(
                    f"{PAGE}, in process",
                    against,
                    found["in process"],
                    found["envoy"],
                    "req/s",
                    bar=1.7,
                    at_least=True,
                ),
            ]
        rows += await _deep(bench, in_process, seller.test_key, job_id, many.test_key, listed)
    finally:
        bench.stop(*reversed(started))
        bench.drop(url)
    return rows


async def _seller_with_jobs(url: str, count: int) -> Any:
    async with application(url) as app:
        seller = (await new_sellers(app, 1))[0]
    add_done_job(url, seller.seller_id, 1, times=count, listings=False)
    return seller


async def _deep(bench: Bench, address: str, key: str, job_id: str, other_key: str, listed: int) -> list[Row]:
    """Pages far back against first pages: latency of one client."""
    seconds = 0.7 if bench.quick else 2.0

    def reading(path: str, with_key: str) -> Any:
        one = request("GET", path, key=with_key)

        async def run_one() -> float:
            return 1 / await rate(address, one, clients=1, seconds=seconds)

        return run_one

    job = f"/api/v1/products/jobs/{job_id}?limit=100"
    jobs = "/api/v1/products/jobs?limit=20"
    found = await paired(
        bench.rounds(5, 9),
        {
            "first": reading(f"{job}&offset=0", key),
            "deep": reading(f"{job}&offset=9900", key),
            "first jobs": reading(f"{jobs}&offset=0", other_key),
            "deep jobs": reading(f"{jobs}&offset=19980", other_key),
        },
    )
    return [
        compare("page at offset 9,900", "first page", found["deep"], found["first"], "ms", bar=1.5, scale=1e3),
        compare(
            f"jobs page 1,000 of a seller with {listed:,} jobs",
            "first page",
            found["deep jobs"],
            found["first jobs"],
            "ms",
            bar=1.5,
            scale=1e3,
        ),
    ]
