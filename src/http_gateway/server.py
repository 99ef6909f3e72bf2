"""Serves the gateway: socket, channel to core, readiness, ordered stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import grpc
import structlog
import uvicorn

from http_gateway.app import create_app
from http_gateway.calls import MAX_METADATA_BYTES
from http_gateway.config import GatewayConfig
from http_gateway.protocol import protocol_class

_log = structlog.get_logger("http_gateway")

_CHANNEL_OPTIONS: Final[list[tuple[str, int | str]]] = [
    # A core that comes back must be found within seconds, not within the default of two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # No pings without calls and no more than one a minute, so that core never counts them as abuse.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # A hundred offending places travel in the trailing metadata; the defaults hold a third of them.
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", 2 * MAX_METADATA_BYTES),
    # A write is sent once; nothing below us may send it again.
    ("grpc.enable_retries", 0),
]


def open_channel(config: GatewayConfig) -> grpc.aio.Channel:
    """A long-lived channel to core; the caller closes it."""
    options = [
        *_CHANNEL_OPTIONS,
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", config.max_message_bytes),
    ]
    security = config.channel_security
    if security is None:
        return grpc.aio.insecure_channel(config.grpc_target, options=options)
    credentials = grpc.ssl_channel_credentials(security.server_ca, security.key, security.certificate)
    return grpc.aio.secure_channel(config.grpc_target, credentials, options=options)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket for the gateway. Raises ``OSError`` when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


class _Server(uvicorn.Server):
    """uvicorn without its signal handling: the process decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield


@asynccontextmanager
async def running_gateway(
    config: GatewayConfig,
    channel: grpc.aio.Channel,
    *,
    listener: socket.socket | None = None,
) -> AsyncIterator[str]:
    """A running gateway for the length of the block; the value is its address, ``http://HOST:PORT``.

    Leaving the block stops it in order: no new connections, event streams end, running requests have
    ``config.shutdown_grace`` seconds, then they are cancelled (their clients get 503).

    Args:
        config: address, limits, announcements.
        channel: to core; not closed here.
        listener: an already bound socket; by default one is bound to ``config.host`` and ``config.port``.

    Raises:
        OSError: the address cannot be had.
    """
    own = listener if listener is not None else bind(config.host, config.port)
    app = create_app(config, channel)
    # Below ERROR uvicorn writes a line for whatever a stranger sends; metrics count that.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = _Server(
        uvicorn.Config(
            app,
            http=protocol_class(config),
            ws="none",
            lifespan="off",
            loop="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=bool(config.trusted_proxies),
            forwarded_allow_ips=list(config.trusted_proxies),
            timeout_keep_alive=int(config.keep_alive_timeout),
            timeout_graceful_shutdown=max(1, int(config.shutdown_grace)),
        )
    )
    running = asyncio.create_task(server.serve(sockets=[own]), name="http_gateway")
    try:
        while not server.started:
            if running.done():
                await running
                raise OSError("the HTTP server stopped while it started")
            await asyncio.sleep(0.005)
        host, port = own.getsockname()[:2]
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        app.drain()
        server.should_exit = True
        await asyncio.wait([running], timeout=config.shutdown_grace + 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        own.close()


async def serve(
    config: GatewayConfig,
    stop: asyncio.Event,
    *,
    channel: grpc.aio.Channel | None = None,
    listener: socket.socket | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Runs the gateway until ``stop`` is set, then stops it in order within ten seconds.

    Args:
        config: address, target, limits.
        stop: set by whoever owns the process (its signal handler).
        channel: to core; by default one to ``config.grpc_target`` is opened, and closed at the end.
        listener: an already bound socket.
        on_ready: called once with the gateway's address when it accepts connections.

    Raises:
        OSError: the address cannot be had.
    """
    own_channel = channel if channel is not None else open_channel(config)
    try:
        async with running_gateway(config, own_channel, listener=listener) as address:
            _log.info("gateway_ready", address=address)
            if on_ready is not None:
                on_ready(address)
            await stop.wait()
            _log.info("gateway_stopping")
    finally:
        if channel is None:
            await own_channel.close(None)
