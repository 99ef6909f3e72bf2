"""What the gateway needs to know, taken from the settings in one place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.settings import Settings, SettingsError, split_address

_LINK = re.compile(r"https?://[!#-;=?-~]+", re.ASCII)
MOST_FOR_HEADERS = 10.0
"""Seconds that headers may take at most, however long a body may."""


@dataclass(frozen=True, slots=True)
class ChannelSecurity:
    """PEM texts for a TLS channel to core; without certificate and key the gateway shows no identity."""

    server_ca: bytes
    certificate: bytes | None = None
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Limits, deadlines and announcements of one gateway process. Durations are in seconds."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0 takes any free port; the ready line tells which."""
    grpc_target: str = "127.0.0.1:50051"
    """Where core listens."""
    channel_security: ChannelSecurity | None = None
    """Absent: the channel is not encrypted."""
    deprecation: int = 0
    """Since when v1 is deprecated, unix seconds (RFC 9745)."""
    sunset: int = 1_801_439_999
    """When v1 is to be shut down, unix seconds: 31 January 2027, 23:59:59 UTC (contract, "Versioning")."""
    successor_link: str | None = None
    """Address of the version that follows; absent: no ``Link`` with that relation."""
    sunset_link: str | None = None
    """Address that tells of the shutdown; absent: the successor's."""
    v1_shutdown: bool = False
    """The operator's switch: true answers 410 to all of v1."""
    trusted_proxies: tuple[str, ...] = ()
    """Peers whose ``X-Forwarded-For`` is believed; all others' is ignored."""
    max_body_bytes: int = 8 * 1024 * 1024
    max_message_bytes: int = 16 * 1024 * 1024
    """For one gRPC message; a page of 1,000 items and a job of 10,000 fit several times over."""
    max_header_bytes: int = 32 * 1024
    max_headers: int = 100
    header_timeout: float = MOST_FOR_HEADERS
    """From the first byte of a request (or the opening of the connection) to the end of its headers."""
    body_timeout: float = 30.0
    """From the end of the headers to the end of the body."""
    keep_alive_timeout: float = 65.0
    read_deadline: float = 30.0
    """For calls that change nothing."""
    write_deadline: float = 60.0
    """For calls that change something."""
    stream_deadline: float = 3600.0
    """Greatest age of an event stream; the client reconnects with its last event id."""
    log_format: str = "text"
    access_log: bool = True
    """One line per request; the operator's log level decides."""
    shutdown_grace: float = 8.0
    """How long running requests may go on after the stop was asked for."""

    @classmethod
    def from_settings(cls, settings: Settings) -> GatewayConfig:
        """The gateway's part of the settings.

        Raises:
            SettingsError: a link that cannot stand in a header, or a TLS file that cannot be read.
        """
        host, port = split_address(settings.http_addr)
        for name, link in (("SUCCESSOR", settings.successor_link), ("SUNSET", settings.sunset_link)):
            if link is not None and _LINK.fullmatch(link) is None:
                raise SettingsError(f"LISTINGS_{name}_LINK: must be an http or https address in ASCII")
        return cls(
            host=host,
            port=port,
            grpc_target=settings.channel_target,
            channel_security=_security(settings),
            deprecation=int(settings.deprecation.timestamp()),
            sunset=int(settings.sunset.timestamp()),
            successor_link=settings.successor_link,
            sunset_link=settings.sunset_link,
            v1_shutdown=settings.v1_shutdown,
            trusted_proxies=settings.proxies,
            max_body_bytes=settings.max_body_bytes,
            max_message_bytes=settings.max_message_bytes,
            body_timeout=settings.receive_timeout_seconds,
            header_timeout=min(MOST_FOR_HEADERS, settings.receive_timeout_seconds),
            read_deadline=settings.default_deadline_seconds,
            write_deadline=2 * settings.default_deadline_seconds,
            stream_deadline=settings.stream_max_age_seconds + 60,
            log_format=settings.log_format,
            access_log=settings.log_level in ("DEBUG", "INFO"),
            shutdown_grace=settings.drain_seconds,
        )


def _security(settings: Settings) -> ChannelSecurity | None:
    if settings.grpc_tls_server_ca is None:
        return None
    files = {
        "GRPC_TLS_SERVER_CA": settings.grpc_tls_server_ca,
        "GRPC_TLS_CLIENT_CERTIFICATE": settings.grpc_tls_client_certificate,
        "GRPC_TLS_CLIENT_KEY": settings.grpc_tls_client_key,
    }
    texts: list[bytes | None] = []
    for name, path in files.items():
        try:
            texts.append(None if path is None else path.read_bytes())
        except OSError as error:
            raise SettingsError(f"LISTINGS_{name}: {error.strerror or 'cannot be read'}") from None
    authority, certificate, key = texts
    if (certificate is None) != (key is None):
        raise SettingsError("LISTINGS_GRPC_TLS_CLIENT_CERTIFICATE and _KEY: must be set together")
    return ChannelSecurity(authority or b"", certificate, key)
