"""Settings to the gateway's configuration, and its own access log."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.settings import Settings, SettingsError
from http_gateway.access_log import AccessLog
from http_gateway.config import ChannelSecurity, GatewayConfig
from http_gateway.middleware import lifecycle_headers


def settings(**values: Any) -> Settings:
    return Settings(_env_file=None, **values)


def test_defaults_announce_the_contracts_shutdown() -> None:
    config = GatewayConfig.from_settings(settings())
    headers = dict(lifecycle_headers(config))
    assert headers[b"sunset"] == b"Sun, 31 Jan 2027 23:59:59 GMT"
    assert headers[b"deprecation"].startswith(b"@")
    assert b"link" not in headers
    assert config.max_body_bytes == 8 * 1024 * 1024
    assert config.grpc_target == "127.0.0.1:50051"
    assert not config.v1_shutdown
    assert config.shutdown_grace <= 8


def test_every_setting_arrives() -> None:
    config = GatewayConfig.from_settings(
        settings(
            http_addr="[::1]:0",
            grpc_target="core.example:1",
            deprecation=datetime(2026, 1, 1, tzinfo=UTC),
            sunset=datetime(2026, 6, 1, tzinfo=UTC),
            successor_link="https://x.example/v2?a=1#b",
            sunset_link="https://x.example/end",
            v1_shutdown=True,
            trusted_proxies="10.0.0.1, ::1,2001:DB8:0::1,",
            max_body_bytes=2048,
            receive_timeout_seconds=3,
            default_deadline_seconds=7,
            statement_timeout_seconds=5,
            log_format="json",
            log_level="WARNING",
        )
    )
    assert (config.host, config.port, config.grpc_target) == ("::1", 0, "core.example:1")
    assert (config.deprecation, config.sunset) == (1_767_225_600, 1_780_272_000)
    assert config.trusted_proxies == ("10.0.0.1", "::1", "2001:db8::1")
    assert (config.max_body_bytes, config.body_timeout, config.header_timeout) == (2048, 3, 3)
    assert (config.read_deadline, config.write_deadline) == (7, 14)
    assert config.v1_shutdown
    assert (config.log_format, config.access_log) == ("json", False)


@pytest.mark.parametrize("link", ["x", "https://x y", 'https://x">', "https://x\r\nA: b", "javascript:1", "https://é"])
def test_a_link_that_cannot_stand_in_a_header_is_refused(link: str) -> None:
    with pytest.raises(SettingsError, match="LISTINGS_SUCCESSOR_LINK"):
        GatewayConfig.from_settings(settings(successor_link=link))


@pytest.mark.parametrize(
    "text", ["zzz", "*", "10.0.0.1 10.0.0.2", "10.0.0.0/8", "10.0.0.1,proxy", "10.0.0.1:80", "[::1]", "010.0.0.1"]
)
def test_a_proxy_that_is_no_address_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTINGS_TRUSTED_PROXIES", text)
    with pytest.raises(SettingsError, match=r"^LISTINGS_TRUSTED_PROXIES: must be IP addresses separated by commas$"):
        Settings.load()


@pytest.mark.parametrize(("setting", "headers"), [(3.0, 3.0), (10.0, 10.0), (30.0, 10.0)])
def test_headers_have_ten_seconds_at_most(setting: float, headers: float) -> None:
    config = GatewayConfig.from_settings(settings(receive_timeout_seconds=setting))
    assert (config.header_timeout, config.body_timeout) == (headers, setting)


def test_tls_files_are_read_or_named(tmp_path: Path) -> None:
    authority, certificate, key = (tmp_path / name for name in ("ca", "cert", "key"))
    authority.write_bytes(b"A")
    certificate.write_bytes(b"C")
    key.write_bytes(b"K")
    tls = {"grpc_tls_server_ca": authority}
    assert GatewayConfig.from_settings(settings(**tls)).channel_security == ChannelSecurity(b"A")
    full = {**tls, "grpc_tls_client_certificate": certificate, "grpc_tls_client_key": key}
    assert GatewayConfig.from_settings(settings(**full)).channel_security == ChannelSecurity(b"A", b"C", b"K")
    with pytest.raises(SettingsError, match="must be set together"):
        GatewayConfig.from_settings(settings(**tls, grpc_tls_client_key=key))
    with pytest.raises(SettingsError, match="LISTINGS_GRPC_TLS_SERVER_CA"):
        GatewayConfig.from_settings(settings(grpc_tls_server_ca=tmp_path / "none"))


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_access_log_is_one_line_without_secrets(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = AccessLog(log_format, enabled=True)
    log.write(
        method="GET",
        path="/api/v1/products/jobs/svc_live_abcdefghijklmnopqrstuvwxyz",
        status=404,
        seconds=0.0123456,
        client="127.0.0.1",
        request_id="svc_test_abcdefghijklmnopqrstuvwxyz",
    )
    AccessLog(log_format, enabled=False).write(
        method="GET", path="/", status=200, seconds=0.0, client="", request_id="x"
    )
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "abcdefgh" not in text
    assert "12.35" in text
    if log_format == "json":
        assert json.loads(text)["status"] == 404
