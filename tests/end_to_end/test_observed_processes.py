"""A whole run as an operator's tools see it: logs, metrics and traces of every process, no secret in any of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.fernet import Fernet
from prometheus_client import Metric

from core.storage.embedded import EmbeddedPostgres
from core.storage.postgres_cluster import read_access
from tests.support.collector import Collector, collector
from tests.support.exposition import families, scrape, value
from tests.support.ports import free_port
from tests.support.serve import Command, Installation, Service, until

CLIENT_SECRET = "clientsecret" + uuid.uuid4().hex
OPERATOR_TOKEN = "operatortoken" + uuid.uuid4().hex
SECRET_KEY = Fernet.generate_key().decode()
BAD_KEYS = [
    "svc_live_" + "A" * 49,
    "svc_test_" + "b" * 12,
    "hunter2hunter2hunter2",
    "Bearer hunter3hunter3hunter3",
]
HEALTHCHECK = Path(__file__).parents[2] / "deploy" / "healthcheck.py"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """A data folder of the test."""
    made = Installation(tmp_path)
    yield made
    made.clean_up()


def raw_call(url: str, method: str, key: str, body: bytes | None, **headers: str) -> tuple[int, str]:
    """A request as it is; (status, headers and body as text)."""
    sent = {"X-API-Key": key, "Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, data=body, method=method, headers=sent)  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, f"{answer.headers}{answer.read().decode()}"
    except urllib.error.HTTPError as error:
        return error.code, f"{error.headers}{error.read().decode()}"


def market(service: Service, path: str, body: Any) -> None:
    """The sandbox's operator side."""
    url = next(line.split()[-1] for line in service.command.lines if line.startswith("marketplace"))
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/sandbox{path}", data=data, method="POST")  # noqa: S310
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()


def stored_tokens(installation: Installation) -> set[str]:
    """Every marketplace token in the database, in clear."""
    url = EmbeddedPostgres.running_url(installation.data)
    assert url is not None
    cipher = Fernet(SECRET_KEY)
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT access_token, refresh_token FROM marketplace_accounts").fetchall()
    return {cipher.decrypt(bytes(token)).decode() for row in rows for token in row if token is not None}


def whole_flow(service: Service, answers: list[str]) -> set[str]:
    """Publish, promote, retry, refusals, bad keys, refreshed and refused tokens, a worker that dies; every answer is
    kept. Returns the secrets that were used or came into being."""
    installation = service.installation
    demo = installation.demo()
    secrets = {demo["live_key"], demo["test_key"], *stored_tokens(installation)}

    def call(method: str, path: str, key: str, body: Any = None, **headers: str) -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        status, text = raw_call(service.base_url + path, method, key, data, **headers)
        answers.append(text)
        return status, json.loads(text.rpartition("\n")[2] or "null")

    idempotency_key = str(uuid.uuid4())
    secrets.add(idempotency_key)
    items = {"items": [{"sku": sku, "auto_categorize": True} for sku in demo["skus"][:6]]}
    headers = {"Idempotency-Key": idempotency_key, "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    status, accepted = call("POST", "/products", demo["test_key"], items, **headers)
    assert status == 202
    service.until_done(demo["test_key"], accepted["job_id"])
    assert call("POST", "/products", demo["test_key"], {"items": items["items"][:1]}, **headers)[0] == 409
    for bad in BAD_KEYS:
        secrets.add(bad.removeprefix("Bearer "))
        assert call("GET", f"/products/jobs?key={bad.replace(' ', '+')}", bad)[0] == 401
        if bad.startswith("svc_"):
            # A key where it does not belong is known by its form; other words in a path are words.
            call("POST", f"/products/{bad}", bad, items)
    assert call("POST", "/products", demo["test_key"], {"items": [{"sku": demo["live_key"]}]})[0] == 422
    assert call("POST", "/products", demo["test_key"], b'{"items": "' + BAD_KEYS[0].encode() + b'"')[0] == 422
    assert call("GET", f"/products/jobs/{demo['live_key']}", demo["test_key"])[0] == 404
    assert call("POST", "/products", demo["test_key"], items, **{"Idempotency-Key": BAD_KEYS[0]})[0] == 422
    # Its own request id comes back to the caller, whatever it is, but goes nowhere else.
    raw_call(service.base_url + "/ping", "GET", demo["test_key"], None, **{"X-Request-Id": demo["live_key"]})

    # Promoted while the tokens have just been refused: every account refreshes.
    users = _users(installation)
    for user in users:
        market(service, "/tokens/revoke", {"user_id": user, "reason": "expired"})
    assert call("POST", "/products/test/promote", demo["live_key"], {"skus": demo["skus"][:3]})[0] == 202
    status, second = call("POST", "/products", demo["test_key"], items)
    assert service.until_done(demo["test_key"], second["job_id"])["successful"] == 6
    secrets |= stored_tokens(installation)

    # A failure that is retried, then a permission that is withdrawn altogether.
    status, third = call(
        "POST", "/products", demo["test_key"], {"items": [{"sku": "UNKNOWN001", "auto_categorize": True}]}
    )
    service.until_done(demo["test_key"], third["job_id"])
    call("POST", f"/products/jobs/{third['job_id']}/retry", demo["test_key"])
    for user in users:
        market(service, "/tokens/revoke", {"user_id": user, "grant": True})
    status, fourth = call("POST", "/products", demo["test_key"], items)
    service.until_done(demo["test_key"], fourth["job_id"])
    call("GET", f"/products/jobs/{fourth['job_id']}", demo["test_key"])
    return secrets


def _users(installation: Installation) -> list[int]:
    url = EmbeddedPostgres.running_url(installation.data)
    assert url is not None
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT marketplace_user_id FROM marketplace_accounts").fetchall()]


def administration(installation: Installation) -> tuple[set[str], str]:
    """Commands whose arguments are secrets, some of them wrong; (the secrets, what was said beside the results)."""
    token = "APP_USR-" + uuid.uuid4().hex + "-123456789"
    refresh = "TG-" + uuid.uuid4().hex + "-123456789"
    connect = ["account", "connect", "--seller", "1", "--environment", "test", "--marketplace-user", "123456789"]
    said = []
    for arguments in (
        [*connect, "--access-token", token, "--refresh-token", refresh],
        [*connect, "--access-token", token + "\n", "--refresh-token", refresh],
        [*connect[:2], "--seller", "99", *connect[4:], "--access-token", token, "--refresh-token", refresh],
    ):
        code, out, errors = installation.run(*arguments)
        said += [out, errors]
        assert code in (0, 1, 2)
    code, out, errors = installation.run(
        "key", "create", "--seller", "1", "--environment", "test", "--scope", "products:read", "--json"
    )
    assert code == 0, errors
    created = json.loads(out)
    code, out, listed = installation.run("key", "list", "--seller", "1")
    assert created["key_id"] in out
    code, _, lost = installation.run("seller", "list", database_url="postgresql://someone:dbpassword123@127.0.0.1:1/x")
    assert code == 2
    return {token, refresh, created["secret"], "dbpassword123"}, "".join([*said, errors, out, listed, lost])


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_secret_of_a_whole_run_comes_out_anywhere(installation: Installation, log_format: str) -> None:
    port = free_port()
    answers: list[str] = []
    pages: list[str] = []
    with collector() as traces:
        installation.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": traces.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "200"}
        with installation.serving(
            log_format=log_format,
            log_level="DEBUG",
            operator_token=OPERATOR_TOKEN,
            marketplace_client_secret=CLIENT_SECRET,
            secret_key=SECRET_KEY,
            metrics_addr=f"127.0.0.1:{port}",
        ) as service:
            secrets = whole_flow(service, answers)
            password = read_access(installation.data).password
            more, said = administration(installation)
            secrets |= more | {password, OPERATOR_TOKEN, CLIENT_SECRET, SECRET_KEY, *stored_tokens(installation)}
            root = service.base_url.removesuffix("/api/v1")
            pages = [scrape(f"{root}/metrics"), scrape(f"http://127.0.0.1:{port}/metrics")]
            for page in ("/healthz", "/readyz", "/openapi.json", "/docs", "/nowhere"):
                answers.append(raw_call(root + page, "GET", BAD_KEYS[0], None)[1])
            check_metrics(families(pages[0]), families(pages[1]))
        logs = service.command.said() + (installation.data / "postgres.log").read_text()
        told = "".join(line for line in service.command.lines if not re.match(r"\s+(live|test) key", line))
        check_traces(traces)

    assert len(secrets) >= 16
    places = {"logs": logs, "standard output": told, "commands": said, "traces": traces.text}
    places |= {"metrics": "\n".join(pages), "answers": "\n".join(answers)}
    # Not even a part of one: whoever cuts a secret short and prints it has printed it.
    leaks = [
        (place, secret[:12])
        for place, text in places.items()
        for secret in secrets
        for part in (secret, secret[-16:])
        if part in text
    ]
    assert leaks == []
    check_logs(service.command, log_format)


def check_logs(command: Command, log_format: str) -> None:
    """Every line is of the format asked for; lines of the worker name the job, those of requests the request."""
    lines = [line for line in command.said().splitlines() if line.strip()]
    assert len(lines) > 20
    if log_format == "text":
        assert any("[redacted]" in line for line in lines)
        return
    events = [json.loads(line) for line in lines]
    assert all({"event", "level", "logger", "timestamp"} <= event.keys() for event in events), events
    by_name: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_name.setdefault(event["event"], []).append(event)
    assert {
        "request",
        "call",
        "core_server_ready",
        "worker_started",
        "service_stopped",
    } <= by_name.keys()
    assert all(event["request_id"] for event in by_name["request"] + by_name["call"])
    assert any(event.get("key_id") for event in by_name["call"])
    assert any(event.get("trace_id") == TRACE for event in by_name["call"])
    refreshed = by_name["marketplace_token_refreshed"]
    assert all(event["job_id"] for event in refreshed if event["logger"] == "core.marketplace")
    assert by_name["job_stopped"][0]["job_id"]


def check_metrics(serving: dict[str, Metric], worker: dict[str, Metric]) -> None:
    """What the run must have left in the metrics of both processes."""
    assert value(serving, "listings_build_info", role="serve") == 1
    assert value(worker, "listings_build_info", role="worker") == 1
    assert value(serving, "listings_database_up", role="core") == 1
    assert value(worker, "listings_database_up", role="worker") == 1
    for found in (serving, worker):
        assert value(found, "process_resident_memory_bytes")
        assert value(found, "listings_database_connections", state="idle") is not None
        assert value(found, "listings_database_waiting") == 0
    assert value(serving, "listings_jobs_accepted_total", environment="test", kind="publication") == 4
    assert value(serving, "listings_jobs_accepted_total", environment="live", kind="promotion") == 1
    assert value(serving, "listings_http_requests_total", route="/api/v1/products", status="202")
    assert value(serving, "listings_grpc_calls_total", method="PublishingService/CreateJob", status="OK")
    assert value(serving, "listings_refusals_total", code="E_AUTH_INVALID_KEY")
    assert value(worker, "listings_items_finished_total", environment="test", status="success") == 12
    assert value(worker, "listings_jobs_finished_total", status="completed") == 3
    assert value(worker, "listings_marketplace_calls_total", operation="create_listing", outcome="done")
    assert value(worker, "listings_token_refreshes_total", outcome="refreshed")
    assert value(worker, "listings_jobs_stopped_total", reason="account_reauthorization_required")
    assert value(worker, "listings_accounts_resting") is not None


def check_traces(traces: Collector) -> None:
    """The first job is one trace over both processes."""
    job = until(
        lambda: [(service, span) for service, span in traces.spans if span.trace_id.hex() == TRACE],
        lambda spans: any(span.name == "publish run" for _, span in spans),
    )
    names = {span.name for _, span in job}
    assert {"POST /api/v1/products", "PublishingService/CreateJob", "create_job", "publish run"} <= names
    assert any(name.startswith("marketplace ") for name in names)
    assert {service for service, _ in job} == {"listings-serve", "listings-worker"}


def test_every_process_shows_metrics_of_its_own(installation: Installation) -> None:
    ports = {name: free_port() for name in ("core", "worker", "gateway")}
    with installation.serving() as service:
        url = EmbeddedPostgres.running_url(installation.data)
        assert url is not None
        marketplace = next(line.split()[-1] for line in service.command.lines if line.startswith("marketplace"))
        key = (installation.data / "secret.key").read_text().strip()
        shared = {"database_url": url, "secret_key": key, "marketplace_url": marketplace, "marketplace_rate": "off"}
        shared |= {"marketplace_client_secret": "sandbox"}
        http_port = free_port()
        core = installation.start("grpc", **shared, metrics_addr=f"127.0.0.1:{ports['core']}")
        target = core.until_ready()
        worker = installation.start("worker", "--processes", "2", **shared, metrics_addr=f"127.0.0.1:{ports['worker']}")
        worker.until_ready()
        gateway = installation.start(
            "gateway",
            "--processes",
            "2",
            grpc_target=target,
            http_addr=f"127.0.0.1:{http_port}",
            metrics_addr=f"127.0.0.1:{ports['gateway']}",
        )
        gateway.until_ready()
        roles = {
            ports["core"]: "core",
            ports["worker"]: "worker",
            ports["worker"] + 1: "worker",
            ports["gateway"]: "gateway",
            ports["gateway"] + 1: "gateway",
        }
        for port, role in roles.items():
            found = families(scrape(f"http://127.0.0.1:{port}/metrics"))
            assert value(found, "listings_build_info", role=role) == 1
            assert value(found, "process_cpu_seconds_total") is not None
            # Who has no database must not look like somebody who lost it.
            assert (value(found, "listings_database_up") is not None) is (role != "gateway")
        assert families(scrape(f"http://127.0.0.1:{http_port}/metrics"))
        addresses = {
            "grpc": ("GRPC_ADDR", target),
            "worker": ("METRICS_ADDR", f"0.0.0.0:{ports['worker']}"),
            "gateway": ("HTTP_ADDR", f"0.0.0.0:{http_port}"),
        }
        assert {role: healthy(role, *address) for role, address in addresses.items()} == dict.fromkeys(addresses, "")
        for command in (gateway, worker, core):
            command.stop()
        said = [healthy(role, *address) for role, address in addresses.items()]
        assert all(line.startswith("not healthy: ") and line.count("\n") == 1 for line in said), said


def healthy(role: str, setting: str, address: str) -> str:
    """What the health check of a container says of this process; empty when it is well."""
    environment = {f"LISTINGS_{setting}": address, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(HEALTHCHECK), role], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == bool(done.stderr)
    return done.stderr
