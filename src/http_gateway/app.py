"""The gateway's ASGI application."""

from __future__ import annotations

import grpc
import msgspec
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from core import tracing
from http_gateway.calls import Core, Stream
from http_gateway.config import GatewayConfig
from http_gateway.docs_page import render_docs
from http_gateway.middleware import Edge
from http_gateway.openapi import openapi_document
from http_gateway.routes.account import AccountRoutes
from http_gateway.routes.jobs import JobEvents, Jobs
from http_gateway.routes.operations import Operations
from http_gateway.routes.ping import PingRoutes
from http_gateway.routes.products import Products
from http_gateway.routes.test_products import TestProducts
from http_gateway.routing import API_PREFIX, ApiRoute, no_such_path
from http_gateway.tracing import Traced


class Gateway:
    """REST v1 as an ASGI application.

    Args:
        config: limits, deadlines, announcements.
        channel: to core; owned by the caller and open as long as the application is in use.
    """

    def __init__(self, config: GatewayConfig, channel: grpc.aio.Channel) -> None:
        self._streams: set[Stream] = set()
        self.routes = _routes(Core(channel, config), channel, self._streams)
        """Every path that is served."""
        app: ASGIApp = Edge(Router(self.routes, redirect_slashes=False, default=no_such_path), config)
        self._app = Traced(app) if tracing.enabled() else app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        await self._app(scope, receive, send)

    def drain(self) -> None:
        """Ends the running event streams, whose clients reconnect elsewhere. Other requests go on."""
        for stream in list(self._streams):
            stream.drain()


def create_app(config: GatewayConfig, channel: grpc.aio.Channel) -> Gateway:
    """The application for one channel to core."""
    return Gateway(config, channel)


def _routes(core: Core, channel: grpc.aio.Channel, streams: set[Stream]) -> list[ApiRoute]:
    document = openapi_document()
    products, test_products, jobs = Products(core), TestProducts(core), Jobs(core)
    account, ping = AccountRoutes(core), PingRoutes(core)
    operations = Operations(
        channel, msgspec.json.format(msgspec.json.encode(document), indent=2), render_docs(document)
    )
    get, post = ["GET"], ["POST"]
    base = API_PREFIX
    events = ApiRoute(f"{base}/products/jobs/{{jobId}}/events", JobEvents(core, streams), methods=get)
    assert events.methods is not None  # noqa: S101 - given just above
    events.methods.discard("HEAD")  # there is no stream without a body
    return [
        ApiRoute(f"{base}/products", products.create, methods=post),
        ApiRoute(f"{base}/products/jobs/{{jobId}}", jobs.get, methods=get),
        ApiRoute(f"{base}/products/jobs", jobs.list, methods=get),
        ApiRoute(f"{base}/products/test", test_products.list, methods=get),
        ApiRoute(f"{base}/products/test/promote", test_products.promote, methods=post),
        ApiRoute(f"{base}/products/jobs/{{jobId}}/retry", jobs.retry, methods=post),
        ApiRoute(f"{base}/products/jobs/{{jobId}}/cancel", jobs.cancel, methods=post),
        events,
        ApiRoute(f"{base}/account", account.get, methods=get),
        ApiRoute(f"{base}/account/tax-categories", account.tax_categories, methods=get),
        ApiRoute(f"{base}/ping", ping.get, methods=get),
        ApiRoute("/healthz", operations.healthz, methods=get),
        ApiRoute("/readyz", operations.readyz, methods=get),
        ApiRoute("/metrics", operations.metrics, methods=get),
        ApiRoute("/openapi.json", operations.openapi, methods=get),
        ApiRoute("/docs", operations.docs, methods=get),
    ]
