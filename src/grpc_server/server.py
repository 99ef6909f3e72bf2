"""The core server: one ``grpc.aio`` server with our services, health and reflection; its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import SERVICE_NAME as HEALTH
from grpc_reflection.v1alpha import reflection

from core import metrics
from core.app import Application
from core.settings import Settings, SettingsError, split_address
from core.use_cases import readiness
from core.use_cases.hub import Hub
from grpc_server.handlers import Collector, Handlers, build_handlers
from grpc_server.health import Health
from grpc_server.loopback import LoopbackChannel

log = structlog.get_logger("grpc_server")


def server_options(settings: Settings, *, reuse_port: bool = False) -> list[tuple[str, Any]]:
    """Limits and keepalive, all explicit (rule 48). Clients may ping every 10 s, also without a call."""
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        ("grpc.max_metadata_size", 16 * 1024),
        ("grpc.absolute_max_metadata_size", 32 * 1024),
        ("grpc.max_concurrent_streams", settings.max_concurrent_calls),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        # Two processes on one port must be meant: without this the second one would start unnoticed.
        ("grpc.so_reuseport", int(reuse_port)),
    ]


def server_credentials(settings: Settings) -> grpc.ServerCredentials | None:
    """TLS from the settings, mutual when a client authority is named; None for plain text.

    Raises:
        SettingsError: a file is missing or cannot be read, or only half of the pair is named.
    """
    certificate, key, authority = (
        settings.grpc_tls_certificate,
        settings.grpc_tls_key,
        settings.grpc_tls_client_ca,
    )
    if certificate is None and key is None:
        if authority is not None:
            raise SettingsError("LISTINGS_GRPC_TLS_CLIENT_CA: needs LISTINGS_GRPC_TLS_CERTIFICATE")
        return None
    if certificate is None or key is None:
        raise SettingsError("LISTINGS_GRPC_TLS_CERTIFICATE, LISTINGS_GRPC_TLS_KEY: both or neither")
    try:
        # gRPC takes anything and says no more than "no port" about it later.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError:
        raise SettingsError(
            "LISTINGS_GRPC_TLS_CERTIFICATE, LISTINGS_GRPC_TLS_KEY: must be a PEM certificate and its key"
        ) from None
    except OSError:
        pass  # told by name below
    pair = (_file("LISTINGS_GRPC_TLS_KEY", key), _file("LISTINGS_GRPC_TLS_CERTIFICATE", certificate))
    root = _file("LISTINGS_GRPC_TLS_CLIENT_CA", authority) if authority else None
    return grpc.ssl_server_credentials([pair], root_certificates=root, require_client_auth=root is not None)


def _file(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{name}: {error.strerror}") from None


class CoreServer:
    """One core server on an open application.

    ``start`` and ``drain`` frame its life; the application stays open, its owner closes it afterwards. May be
    built before it is started; everything runs on the loop that calls ``start``.

    Args:
        application: open when ``start`` is called.
        address: ``HOST:PORT``, port 0 for a free one; default the settings' grpc_addr.
        reuse_port: several processes share the port.
    """

    def __init__(self, application: Application, *, address: str | None = None, reuse_port: bool = False) -> None:
        settings = application.settings
        self.application = application
        self.hub = Hub(
            application.database,
            poll_seconds=settings.poll_seconds,
            listening=settings.database_listen,
            max_streams=settings.max_streams_per_seller,
            # The other calls need places too.
            max_streams_in_all=max(1, settings.max_concurrent_calls * 3 // 4),
        )
        self.handlers: Handlers = build_handlers(application, self.hub)
        self._address = address or settings.grpc_addr
        self._reuse_port = reuse_port
        self._health = Health(self.handlers)
        self._server: grpc.aio.Server | None = None
        self._following: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self.port = 0

    @property
    def target(self) -> str:
        """``HOST:PORT`` for clients on this machine."""
        host = split_address(self._address)[0]
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def loopback(self) -> LoopbackChannel:
        """A channel for callers in this process; usable from ``start`` on."""
        handlers = dict(self.handlers)
        health: Any = Collector(handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, health)
        return LoopbackChannel(handlers)

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            SettingsError: the address cannot be had, or a TLS file cannot be read.
        """
        settings = self.application.settings
        credentials = server_credentials(settings)
        server = grpc.aio.server(
            options=server_options(settings, reuse_port=self._reuse_port),
            maximum_concurrent_rpcs=settings.max_concurrent_calls,
        )
        self._register(server)
        try:
            self.port = (
                server.add_insecure_port(self._address)
                if credentials is None
                else server.add_secure_port(self._address, credentials)
            )
        except RuntimeError:
            raise SettingsError(
                f"LISTINGS_GRPC_ADDR: cannot listen on {self._address} (in use, or not an address of this machine)"
            ) from None
        await self._health.serving()
        await self.hub.start()
        await server.start()
        self._server = server
        self._following = asyncio.create_task(
            readiness.follow(self.application.database, self._health.ready), name="readiness"
        )
        log.info("core_server_ready", address=self.target, tls=credentials is not None)

    def _register(self, server: grpc.aio.Server) -> None:
        for service, handlers in self.handlers.items():
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = [*self.handlers, HEALTH, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, server)

    async def drain(self, grace: float | None = None) -> None:
        """Stop in order (rule 49): health says no, watch streams end, no new calls, running ones end within
        the grace (default: the settings'), then they are cancelled. A second call waits for the first."""
        if self._draining is None:
            seconds = self.application.settings.drain_seconds if grace is None else grace
            self._draining = asyncio.create_task(self._drain(seconds), name="drain")
        await asyncio.shield(self._draining)

    async def _drain(self, grace: float) -> None:
        log.info("core_server_stopping")
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._health.stop()
        self.hub.drain()
        if self._server is not None:
            await self._server.stop(grace)
        await self.hub.stop()
        log.info("core_server_stopped")


async def serve(
    settings: Settings,
    *,
    database_url: str,
    secret_key: str,
    ready: Callable[[str], None] = lambda target: None,
    stop: asyncio.Event | None = None,
    reuse_port: bool = False,
) -> None:
    """Run a core server of its own until SIGTERM or SIGINT, then stop it in order.

    Args:
        ready: called once with the server's target when it serves.
        stop: ends the run as a signal does; with it signals are left to the caller.
        reuse_port: several processes share the port.

    Raises:
        SettingsError: an address, a file or a key is wrong.
        psycopg_pool.PoolTimeout: the database stays away.
    """
    ending = stop or asyncio.Event()
    application = Application(settings, name="core", database_url=database_url, secret_key=secret_key)
    server = CoreServer(application, reuse_port=reuse_port)
    await application.open()
    try:
        with metrics.showing(settings.metrics_addr), _signals(ending, wanted=stop is None):
            await server.start()
            ready(server.target)
            try:
                await ending.wait()
            finally:
                await server.drain()
    finally:
        await application.close()


@contextlib.contextmanager
def _signals(ending: asyncio.Event, *, wanted: bool) -> Any:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT) if wanted else ()
    for number in numbers:
        loop.add_signal_handler(number, ending.set)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
