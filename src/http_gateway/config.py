"""What the gateway needs to know, taken from the settings in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """Limits, deadlines and announcements of one gateway process. Durations are in seconds."""

    host: str = "127.0.0.1"
    port: int = 8080
    """0 takes any free port; the ready line tells which."""
    grpc_target: str = "127.0.0.1:50051"
    """Where core listens."""
    deprecation: int = 0
    """Since when v1 is deprecated, unix seconds (RFC 9745)."""
    sunset: int = 1_801_439_999
    """When v1 is to be shut down, unix seconds: 31 January 2027, 23:59:59 UTC (contract, "Versioning")."""
    successor_link: str | None = None
    """Address that tells of the successor and the sunset; absent: no ``Link`` header."""
    v1_shutdown: bool = False
    """The operator's switch: true answers 410 to all of v1."""
    trusted_proxies: tuple[str, ...] = ()
    """Peers whose ``X-Forwarded-For`` is believed; all others' is ignored."""
    max_body_bytes: int = 8 * 1024 * 1024
    max_header_bytes: int = 32 * 1024
    max_headers: int = 100
    header_timeout: float = 10.0
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
    shutdown_grace: float = 8.0
    """How long running requests may go on after the stop was asked for."""
