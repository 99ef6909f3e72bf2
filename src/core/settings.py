"""The one settings object, read from ``LISTINGS_*`` environment variables and a ``.env`` file.

Every value has a usable default. ``Settings.load`` turns a wrong value into one clear line.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

LEASE_MARGIN_SECONDS = 5.0
"""What a lease must leave beyond one marketplace call and one renewal (rule 13)."""

_DAY = 86_400.0
_YEAR = 365 * _DAY
"""The longest that times are taken to be: the database's intervals and gRPC's numbers end somewhere above."""
_RATE = re.compile(r"([1-9][0-9]{0,6})/(second|minute|hour)")
_RATE_STORAGES = ("redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster")
_DATABASE = re.compile(r"postgres(ql)?://|\s*[a-z_]+\s*=")
"""How a libpq address begins: a URL, or names and values."""
_ADDRESS = re.compile(r"(.+):([0-9]{1,5})")


class SettingsError(Exception):
    """One line that names the variable and the rule; never the value, which may be a secret."""


def parse_rate(text: str) -> tuple[int, int] | None:
    """``40/second`` as (40, seconds in the period); None for ``off``.

    Raises:
        ValueError: another form.
    """
    if text == "off":
        return None
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError("must be off or NUMBER/second, NUMBER/minute or NUMBER/hour")
    return int(match.group(1)), {"second": 1, "minute": 60, "hour": 3600}[match.group(2)]


def split_address(text: str) -> tuple[str, int]:
    """``HOST:PORT`` as its parts; an IPv6 host may stand in brackets.

    Raises:
        ValueError: another form.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match.group(2)) > 65535:
        raise ValueError("must be HOST:PORT")
    return match.group(1).strip("[]"), int(match.group(2))


class Settings(BaseSettings):
    """See ``docs/operating.md`` for the table. Times in seconds."""

    model_config = SettingsConfigDict(env_prefix="LISTINGS_", env_file=".env", extra="ignore", frozen=True)

    database_url: SecretStr | None = None
    """Absent: ``serve`` runs an embedded PostgreSQL in the data folder."""
    database_pool_size: int = Field(20, ge=2, le=200)
    database_prepare: bool = True
    """Off behind a transaction pooler."""
    database_listen: bool = True
    """Off behind a transaction pooler: watchers then hear of changes, and workers of work, by polling alone."""
    statement_timeout_seconds: float = Field(15, ge=0.001, le=_DAY)
    data_dir: Path = Path(".listings")

    http_addr: str = "127.0.0.1:8080"
    grpc_addr: str = "127.0.0.1:50051"
    grpc_target: str | None = None
    """What gateway and command line call; absent: grpc_addr."""
    metrics_addr: str | None = None
    """Where core server and worker show metrics; absent: nowhere (the gateway's are at /metrics)."""
    grpc_tls_certificate: Path | None = None
    grpc_tls_key: Path | None = None
    grpc_tls_client_ca: Path | None = None
    """With it the core server demands a client certificate signed by this authority."""
    grpc_tls_server_ca: Path | None = None
    """What gateway and command line trust; setting it makes their channels TLS."""
    grpc_tls_client_certificate: Path | None = None
    grpc_tls_client_key: Path | None = None
    max_message_bytes: int = Field(16 * 1024 * 1024, ge=64 * 1024, le=2**31 - 1)
    max_concurrent_calls: int = Field(2000, ge=1, le=2**31 - 1)
    max_streams_per_seller: int = Field(1200, ge=1)
    stream_max_age_seconds: float = Field(3600, gt=0, le=_YEAR)
    heartbeat_seconds: float = Field(10, gt=0, le=_DAY)
    default_deadline_seconds: float = Field(30, gt=0, le=_YEAR)
    drain_seconds: float = Field(8, gt=0, le=_DAY)

    max_body_bytes: int = Field(8 * 1024 * 1024, ge=1024)
    receive_timeout_seconds: float = Field(30, gt=0, le=_DAY)
    """Within which a body must have arrived, and the headers before it, which have ten seconds at most."""
    trusted_proxies: str = ""
    """IP addresses whose forwarding headers are believed, comma-separated, each in its shortest form."""
    deprecation: datetime = datetime(2026, 1, 31, tzinfo=UTC)
    sunset: datetime = datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC)
    successor_link: str | None = None
    sunset_link: str | None = None
    v1_shutdown: bool = False

    marketplace_url: str | None = None
    """Absent in ``serve``: the sandbox."""
    sandbox_addr: str = "127.0.0.1:8090"
    marketplace_client_id: str = "listing-publication"
    marketplace_client_secret: SecretStr = SecretStr("")
    marketplace_timeout_seconds: float = Field(15, gt=0, le=_DAY)
    marketplace_settle_seconds: float = Field(150, gt=0, le=_YEAR)
    marketplace_rate: str = "4/second"

    secret_key: SecretStr | None = None
    """Fernet keys, comma separated; embedded: made in the data folder."""
    operator_token: SecretStr | None = None

    lease_seconds: float = Field(60, gt=0, le=_YEAR)
    worker_concurrency: int = Field(64, ge=1, le=1000)
    poll_seconds: float = Field(0.5, gt=0, le=_DAY)

    rate_limit_write: str = "40/second"
    rate_limit_read: str = "200/second"
    rate_limit_bad_keys: str = "60/minute"
    rate_limit_storage: str = "memory://"

    log_format: str = Field("text", pattern="^(text|json)$")
    log_level: str = Field("INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")

    @field_validator("http_addr", "grpc_addr", "sandbox_addr", "metrics_addr")
    @classmethod
    def _addresses(cls, value: str | None) -> str | None:
        if value is not None:
            split_address(value)
        return value

    @field_validator("deprecation", "sunset")
    @classmethod
    def _moments(cls, value: datetime) -> datetime:
        # All times are UTC: without an offset, the machine's zone would decide what is announced.
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies(cls, value: str) -> str:
        # In one form, so that gateway and core server may compare texts. Networks are none of it: the core
        # server takes single addresses only, and what one believes the other must believe.
        try:
            return ",".join(str(ipaddress.ip_address(part.strip())) for part in value.split(",") if part.strip())
        except ValueError:
            raise ValueError("must be IP addresses separated by commas") from None

    @field_validator("marketplace_rate", "rate_limit_write", "rate_limit_read", "rate_limit_bad_keys")
    @classmethod
    def _rates(cls, value: str) -> str:
        parse_rate(value)
        return value

    @field_validator("database_url")
    @classmethod
    def _database(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and _DATABASE.match(value.get_secret_value()) is None:
            raise ValueError("must be a PostgreSQL address, as postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
        return value

    @field_validator("rate_limit_storage")
    @classmethod
    def _counts(cls, value: str) -> str:
        if value != "memory://" and not _is_url(value, _RATE_STORAGES):
            raise ValueError("must be memory:// or the address of a Redis, as redis://HOST:PORT/0")
        return value

    @field_validator("marketplace_url")
    @classmethod
    def _outgoing(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme == "https" and parts.hostname:
            return value.rstrip("/")
        if parts.scheme == "http" and parts.hostname and is_loopback(parts.hostname):
            return value.rstrip("/")
        raise ValueError("must be an https address (http only for a loopback host)")

    @model_validator(mode="after")
    def _lease_outlasts_a_call(self) -> Settings:
        needed = self.marketplace_timeout_seconds + self.lease_seconds / 3 + LEASE_MARGIN_SECONDS
        if self.lease_seconds <= needed:
            raise ValueError(
                "LISTINGS_LEASE_SECONDS must exceed LISTINGS_MARKETPLACE_TIMEOUT_SECONDS + a third of itself + "
                f"{LEASE_MARGIN_SECONDS:.0f}"
            )
        return self

    @model_validator(mode="after")
    def _deadline_outlasts_a_statement(self) -> Settings:
        if self.statement_timeout_seconds >= self.default_deadline_seconds:
            # Otherwise callers are told of a deadline where the database has its say, and ask again.
            raise ValueError("LISTINGS_DEFAULT_DEADLINE_SECONDS must exceed LISTINGS_STATEMENT_TIMEOUT_SECONDS")
        return self

    @classmethod
    def load(cls) -> Settings:
        """Read the environment.

        Raises:
            SettingsError: names the first wrong variable and its rule.
        """
        try:
            return cls()
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            name = f"LISTINGS_{str(first['loc'][0]).upper()}: " if first["loc"] else ""
            raise SettingsError(name + first["msg"].removeprefix("Value error, ")) from None
        except UnicodeDecodeError:
            raise SettingsError(".env: must be text in UTF-8") from None
        except OSError as error:
            raise SettingsError(f".env: cannot be read ({error.strerror})") from None

    @property
    def proxies(self) -> tuple[str, ...]:
        """The trusted proxies one by one."""
        return tuple(filter(None, self.trusted_proxies.split(",")))

    @property
    def channel_target(self) -> str:
        """Where clients of the core server find it."""
        return self.grpc_target or self.grpc_addr


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    """Whether this is an address of one of these schemes, with a port that can be if it has one."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in schemes and "://" in text and port != 0


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
