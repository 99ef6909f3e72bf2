"""Every method of every service, with everything around it, ready for a server or an in-process channel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import grpc

from core import tracing
from core.app import Application
from core.use_cases.authorize import Access
from core.use_cases.hub import Hub
from grpc_server.call import Behaviour
from grpc_server.interceptors.admission import admitting_keys, admitting_operators, refusing_all
from grpc_server.interceptors.deadline import with_deadline
from grpc_server.interceptors.errors import answering_errors
from grpc_server.interceptors.observing import observed
from grpc_server.interceptors.tracing import traced
from grpc_server.methods import METHODS, AsNamed, OperatorOnly, access_of
from grpc_server.patience import Patience
from grpc_server.servicers.account import AccountServicer
from grpc_server.servicers.admin import AdminServicer
from grpc_server.servicers.jobs import JobServicer
from grpc_server.servicers.promotion import PromotionServicer
from grpc_server.servicers.publishing import PublishingServicer
from grpc_server.unreadable import reading
from listing_publication.v1 import (
    account_pb2_grpc,
    admin_pb2_grpc,
    jobs_pb2_grpc,
    promotion_pb2_grpc,
    publishing_pb2_grpc,
)

Handlers = dict[str, dict[str, Any]]
"""By service (full name) and method (short name): ``grpc.RpcMethodHandler``s."""


class Collector:
    """Takes what the generated registration functions would give a server."""

    def __init__(self, handlers: Handlers) -> None:
        self.handlers = handlers

    def add_generic_rpc_handlers(self, _: Any) -> None:
        """The same handlers in another form."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """The handlers of one service."""
        self.handlers[service] = handlers


def build_handlers(application: Application, hub: Hub) -> Handlers:
    """The handlers of all our services: each method wrapped once, here."""
    collected: Any = Collector({})
    publishing_pb2_grpc.add_PublishingServiceServicer_to_server(PublishingServicer(application), collected)
    promotion_pb2_grpc.add_PromotionServiceServicer_to_server(PromotionServicer(application), collected)
    jobs_pb2_grpc.add_JobServiceServicer_to_server(JobServicer(application, hub), collected)
    account_pb2_grpc.add_AccountServiceServicer_to_server(AccountServicer(application), collected)
    admin_pb2_grpc.add_AdminServiceServicer_to_server(AdminServicer(application), collected)
    patience = Patience()
    return {
        service: {
            name: _wrapped(application, f"/{service}/{name}", handler, patience) for name, handler in handlers.items()
        }
        for service, handlers in collected.handlers.items()
    }


def _wrapped(application: Application, method: str, handler: Any, patience: Patience) -> Any:
    settings = application.settings
    streams = handler.response_streaming
    inner = partial(patience.watch, handler.unary_stream) if streams else handler.unary_unary
    admitted = _admitted(application, method, inner)
    # A stream has a greatest age instead of a deadline.
    limited = admitted if streams else with_deadline(admitted, settings.default_deadline_seconds)
    proxies = frozenset(settings.proxies)
    demand = METHODS.get(method)
    reads = not streams and isinstance(demand, Access | AsNamed) and not getattr(demand, "writes", False)
    answering = answering_errors(limited)
    if tracing.enabled() and not streams:
        # A watch may last an hour: its span would tell nobody anything until then.
        answering = traced(method, answering)
    behaviour = observed(method, answering, proxies, reads=reads)
    make: Callable[..., Any] = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
    return make(
        behaviour,
        request_deserializer=reading(handler.request_deserializer),
        response_serializer=handler.response_serializer,
    )


def _admitted(application: Application, method: str, behaviour: Behaviour) -> Behaviour:
    demand = METHODS.get(method)
    if demand is None:
        return refusing_all(method)
    if isinstance(demand, OperatorOnly):
        token = application.settings.operator_token
        return admitting_operators(behaviour, token.get_secret_value() if token else None)
    return admitting_keys(behaviour, application.authorizer, access_of(demand))
