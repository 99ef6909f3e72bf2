"""The way to the core server for operators' commands: synchronous stubs, a key, and refusals told as ApiError."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import grpc
import typer
from google.rpc import error_details_pb2, status_pb2

from core.domain.states import Environment
from core.errors import CATALOGUE, ApiError, Violation
from core.settings import Settings
from listing_publication.v1 import (
    account_pb2_grpc,
    admin_pb2_grpc,
    jobs_pb2_grpc,
    promotion_pb2_grpc,
    publishing_pb2_grpc,
)
from listings.installation import read_demo
from listings.output import UsageError

Response = TypeVar("Response")

KEY_VARIABLE: Final = "LISTINGS_API_KEY"
CALL_SECONDS: Final = 60.0
LONGEST_KEY_FILE: Final = 4096

KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", help=f"File with the API key; - reads standard input. Without it: {KEY_VARIABLE}."),
]
DemoKey = Annotated[
    Environment | None, typer.Option("--demo", help="Use the demo seller's live or test key from the data folder.")
]

_OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A watch whose network has gone must notice; not more often than the server allows.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A write is sent once.
    ("grpc.enable_retries", 0),
]


class Core:
    """The core server as one caller sees it.

    Args:
        channel: owned by the caller of this class.
        key: API key; None for operators' calls.
        operator_token: for AdminService; None when none is configured.
    """

    def __init__(self, channel: grpc.Channel, *, key: str | None = None, operator_token: str | None = None) -> None:
        self.publishing = publishing_pb2_grpc.PublishingServiceStub(channel)
        self.promotion = promotion_pb2_grpc.PromotionServiceStub(channel)
        self.jobs = jobs_pb2_grpc.JobServiceStub(channel)
        self.account = account_pb2_grpc.AccountServiceStub(channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(channel)
        given = (("x-api-key", key), ("x-operator-token", operator_token))
        self.metadata = tuple((name, value) for name, value in given if value is not None)

    def call(self, method: Callable[..., Response], request: Any, *, seconds: float = CALL_SECONDS) -> Response:
        """One unary call.

        Raises:
            ApiError: the refusal, as the server told it, or E_INTERNAL when it cannot be reached.
        """
        try:
            return method(request, timeout=seconds, metadata=self.metadata)
        except grpc.RpcError as error:
            raise refusal(error) from None


def open_channel(settings: Settings, target: str) -> grpc.Channel:
    """A channel to the core server; TLS when the settings name an authority to trust.

    Raises:
        UsageError: a TLS file cannot be read, or only half of the client's pair is named.
    """
    options = [
        *_OPTIONS,
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
    ]
    if settings.grpc_tls_server_ca is None:
        return grpc.insecure_channel(target, options=options)
    if (settings.grpc_tls_client_certificate is None) != (settings.grpc_tls_client_key is None):
        # gRPC aborts the process over half of the pair.
        raise UsageError("LISTINGS_GRPC_TLS_CLIENT_CERTIFICATE and _KEY: must be set together")
    credentials = grpc.ssl_channel_credentials(
        _pem("SERVER_CA", settings.grpc_tls_server_ca),
        _pem("CLIENT_KEY", settings.grpc_tls_client_key),
        _pem("CLIENT_CERTIFICATE", settings.grpc_tls_client_certificate),
    )
    return grpc.secure_channel(target, credentials, options=options)


def _pem(name: str, path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise UsageError(f"LISTINGS_GRPC_TLS_{name}: {error.strerror or 'cannot be read'}") from None


@contextmanager
def core_for_key(key_file: Path | None, demo: Environment | None) -> Iterator[Core]:
    """The core server for the holder of a key.

    Raises:
        UsageError: no key is given, or it cannot be read.
        SettingsError: a setting is wrong.
    """
    settings = Settings.load()
    key, target = _key_and_target(settings, key_file, demo)
    channel = open_channel(settings, target)
    try:
        yield Core(channel, key=key)
    finally:
        channel.close()


@contextmanager
def core_for_operator() -> Iterator[Core]:
    """The core server for whoever holds the operator token.

    Raises:
        UsageError: LISTINGS_OPERATOR_TOKEN is not set.
        SettingsError: a setting is wrong.
    """
    settings = Settings.load()
    if settings.operator_token is None:
        raise UsageError("LISTINGS_OPERATOR_TOKEN: needed to act on many jobs")
    channel = open_channel(settings, settings.channel_target)
    try:
        yield Core(channel, operator_token=settings.operator_token.get_secret_value())
    finally:
        channel.close()


def _key_and_target(settings: Settings, key_file: Path | None, demo: Environment | None) -> tuple[str, str]:
    if key_file is not None and demo is not None:
        raise UsageError("--key-file and --demo exclude each other")
    if demo is not None:
        found = read_demo(settings)
        if found is None:
            raise UsageError(
                f"there is no demo.json in {settings.data_dir}: the demo seller comes with `listings serve`"
            )
        key = found.get(f"{demo.value}_key")
        target = settings.grpc_target or found.get("grpc_target")
        if not isinstance(key, str) or not isinstance(target, str):
            raise UsageError("demo.json lacks a key or the address of the core server")
        return _checked(key), target
    if key_file is not None:
        return _checked(_read_key(key_file)), settings.channel_target
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise UsageError(f"no API key: set {KEY_VARIABLE}, or give --key-file or --demo")
    return _checked(key), settings.channel_target


def _read_key(path: Path) -> str:
    try:
        if str(path) == "-":
            return sys.stdin.readline(LONGEST_KEY_FILE).strip()
        with path.open(encoding="utf-8") as file:
            return file.read(LONGEST_KEY_FILE).strip()
    except (OSError, ValueError):
        raise UsageError(f"--key-file: {path} cannot be read") from None


def _checked(key: str) -> str:
    # Anything else cannot travel as gRPC metadata and would fail with words that quote it.
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("the API key must be visible ASCII characters on one line")
    return key


def refusal(error: grpc.RpcError) -> ApiError:
    """The refusal that a failed call carries; E_INTERNAL when the server was not reached or said nothing more."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    told = _details(error)
    if told is None:
        if code is grpc.StatusCode.UNAVAILABLE:
            return ApiError("E_INTERNAL", _unreachable(error), retry_after=2)
        return ApiError("E_INTERNAL", f"The core server failed ({code.name}).", retry_after=2)
    reason, violations, retry_after, detail = told
    return ApiError(reason, detail, violations=violations, retry_after=retry_after)


def _unreachable(error: grpc.RpcError) -> str:
    # gRPC's own words quote addresses and change with its version; only what they are about is taken from them.
    words = (error.details() or "").lower() if isinstance(error, grpc.Call) else ""
    if any(word in words for word in ("handshake", "certificate", "ssl_error", "tls")):
        return (
            "The core server cannot be reached: its certificate or ours is not trusted, or one side speaks no TLS "
            "(see the LISTINGS_GRPC_TLS_ settings)."
        )
    return "The core server cannot be reached."


def _details(error: grpc.RpcError) -> tuple[str, list[Violation], int | None, str] | None:
    metadata: dict[str, str | bytes] = dict(error.trailing_metadata() or ()) if isinstance(error, grpc.Call) else {}
    packed = metadata.get("grpc-status-details-bin")
    if not isinstance(packed, bytes):
        return None
    status = status_pb2.Status.FromString(packed)
    reason, violations, retry_after = None, [], None
    for detail in status.details:
        info, bad, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(bad):
            violations = [
                Violation(each.reason or "E_PRODUCT_INVALID_BODY", each.description, each.field)
                for each in bad.field_violations
            ]
        elif detail.Unpack(retry):
            retry_after = max(1, retry.retry_delay.seconds)
    if reason not in CATALOGUE:
        return None
    return reason, violations, retry_after, status.message
