"""What ``serve`` and the single processes see before they start anything."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import log
from listings.main import main


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(log, "configure", lambda **_: None)  # logs of other tests go where they went
    for name in [name for name in os.environ if name.startswith("LISTINGS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LISTINGS_DATA_DIR", str(tmp_path / "data"))
    for name in ("HTTP", "GRPC", "SANDBOX"):
        monkeypatch.setenv(f"LISTINGS_{name}_ADDR", "127.0.0.1:0")


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a usage error; nothing else may be printed and nothing started."""
    assert main(list(arguments)) == 2
    ended = capsys.readouterr()
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert not (Path.cwd() / "data" / "postgres").exists()
    return ended.err


@pytest.mark.parametrize("name", ["HTTP_ADDR", "GRPC_ADDR", "SANDBOX_ADDR", "METRICS_ADDR"])
def test_a_port_in_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, taken: str, name: str
) -> None:
    monkeypatch.setenv(f"LISTINGS_{name}", taken)
    line = refused(capsys, "serve")
    assert f"LISTINGS_{name}" in line
    assert taken in line


def test_one_address_for_two(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, taken: str) -> None:
    free = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("LISTINGS_HTTP_ADDR", free)
    monkeypatch.setenv("LISTINGS_GRPC_ADDR", free)
    assert "LISTINGS_GRPC_ADDR" in refused(capsys, "serve")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTP_ADDR", "nonsense"),
        ("HTTP_ADDR", "192.0.2.1:80"),
        ("LEASE_SECONDS", "10"),
        ("SECRET_KEY", "nonsense"),
        ("MARKETPLACE_URL", "http://api.example.com"),
        ("GRPC_TLS_CERTIFICATE", "/absent.pem"),
        ("GRPC_TLS_SERVER_CA", "/absent.pem"),
        ("SUCCESSOR_LINK", "not a link"),
        ("DATA_DIR", "/dev/null/data"),
        ("LOG_LEVEL", "LOUD"),
        ("RATE_LIMIT_WRITE", "often"),
        ("RATE_LIMIT_STORAGE", "foo://"),
        ("RATE_LIMIT_STORAGE", "redis://host:port"),
        ("RATE_LIMIT_STORAGE", "redis+sentinel://localhost"),
        ("DATABASE_URL", "mysql://someone:a-secret@localhost/x"),
        ("DATABASE_URL", "postgresql://someone:a-secret@localhost:port/x"),
        ("DATABASE_URL", "postgresql://localhost/x?nonsense=a-secret"),
        ("DATABASE_URL", "a-secret"),
    ],
)
def test_a_wrong_setting(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"LISTINGS_{name}", value)
    line = refused(capsys, "serve")
    assert f"LISTINGS_{name}" in line
    assert name == "DATA_DIR" or "ADDR" in name or value not in line


def test_the_gateway_needs_its_port_and_several_need_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    assert "port 0" in refused(capsys, "gateway", "--processes", "2")
    monkeypatch.setenv("LISTINGS_HTTP_ADDR", taken)
    assert "LISTINGS_HTTP_ADDR" in refused(capsys, "gateway")


def test_the_sandbox_needs_its_port(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    monkeypatch.setenv("LISTINGS_SANDBOX_ADDR", taken)
    assert "sandbox" in refused(capsys, "sandbox")
