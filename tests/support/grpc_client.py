"""A caller of the core server: stubs, metadata, and what an error carries."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from listing_publication.v1 import (
    account_pb2_grpc,
    admin_pb2_grpc,
    jobs_pb2_grpc,
    promotion_pb2_grpc,
    publishing_pb2,
    publishing_pb2_grpc,
)
from tests.support.service import OPERATOR_TOKEN

DEADLINE = 20.0
OPERATOR = (("x-operator-token", OPERATOR_TOKEN),)


def key(secret: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Metadata with this API key."""
    return (("x-api-key", secret), *more)


class Stubs:
    """All stubs of one channel, without generated types: a call's metadata and trailers are of interest."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.publishing: Any = publishing_pb2_grpc.PublishingServiceStub(channel)
        self.promotion: Any = promotion_pb2_grpc.PromotionServiceStub(channel)
        self.jobs: Any = jobs_pb2_grpc.JobServiceStub(channel)
        self.account: Any = account_pb2_grpc.AccountServiceStub(channel)
        self.admin: Any = admin_pb2_grpc.AdminServiceStub(channel)


@dataclass
class Refusal:
    """What an error carried."""

    status: grpc.StatusCode
    message: str
    code: str = ""
    domain: str = ""
    places: list[tuple[str, str]] = field(default_factory=list)
    """(field, code) of each violation."""
    retry_after: float | None = None
    initial: dict[str, Any] = field(default_factory=dict)


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    """Reads the details back."""
    found = Refusal(error.code(), error.details() or "", initial=dict(error.initial_metadata() or ()))
    trailing: Any = error.trailing_metadata() or ()
    packed = dict(trailing).get("grpc-status-details-bin")
    if packed is None:
        return found
    status = status_pb2.Status.FromString(packed)
    assert status.message == found.message
    assert status.code == found.status.value[0]
    for detail in status.details:
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo.FromString(detail.value)
            found.code, found.domain = info.reason, info.domain
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
            found.retry_after = delay.seconds + delay.nanos / 1e9
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            places = error_details_pb2.BadRequest.FromString(detail.value).field_violations
            found.places = [(place.field, place.reason) for place in places]
    return found


async def refused(call: Awaitable[Any]) -> Refusal:
    """Awaits a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return refusal(caught.value)


def publication(skus: Sequence[str], **options: Any) -> publishing_pb2.CreateJobRequest:
    """A request to publish these SKUs, categories inferred."""
    items = [publishing_pb2.PublicationItem(sku=sku, auto_categorize=True) for sku in skus]
    return publishing_pb2.CreateJobRequest(items=items, **options)
