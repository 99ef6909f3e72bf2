"""Sellers as they meet REST v1: a gateway before a core server, and a caller for each of their keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.support.gateway import Answer, Client, until_async
from tests.support.service import Tenant

AUTO = {"auto_categorize": True}


@dataclass(frozen=True, slots=True)
class Caller:
    """One API key before one gateway; ``key`` None sends no key."""

    client: Client = field(repr=False)
    key: str | None = field(repr=False)

    async def get(self, path: str, **query: Any) -> Answer:
        """A GET below ``/api/v1``. A query name may end in ``_`` where it is a word of Python."""
        text = urlencode({name.rstrip("_"): value for name, value in query.items()})
        return await self.client.call("GET", f"{path}?{text}" if text else path, key=self.key)

    async def post(self, path: str, value: Any = None, **more: Any) -> Answer:
        """A POST below ``/api/v1``; ``headers`` and ``body`` (bytes) as for ``Client.call``."""
        return await self.client.call("POST", path, key=self.key, value=value, **more)

    async def publish(self, *skus: str, headers: dict[str, str] | None = None, **options: Any) -> Answer:
        """``POST /products`` of these SKUs, categories inferred."""
        body = {"items": [{"sku": sku, **AUTO} for sku in skus], **options}
        return await self.post("/products", body, headers=headers)

    async def job(self, job_id: str, **query: Any) -> Any:
        """The body of ``GET /products/jobs/{jobId}``."""
        answer = await self.get(f"/products/jobs/{job_id}", **query)
        assert answer.status == 200, answer.body
        return answer.json

    async def finished(self, job_id: str, seconds: float = 30.0, **query: Any) -> Any:
        """The job's detail once its status is terminal; fails when that takes longer than ``seconds``."""

        async def terminal() -> Any:
            detail = await self.job(job_id, **query)
            return detail if detail["job"]["status"] in ("completed", "failed", "cancelled") else None

        return await until_async(terminal, seconds)


@dataclass(frozen=True, slots=True)
class Seller:
    """A seller with a caller for each environment."""

    tenant: Tenant
    live: Caller
    test: Caller

    @property
    def client(self) -> Client:
        """The gateway's client, for calls without a key of this seller."""
        return self.live.client

    def with_key(self, key: str | None) -> Caller:
        """A caller with another key."""
        return Caller(self.client, key)


def seller_of(client: Client, tenant: Tenant) -> Seller:
    """The tenant as a seller before this gateway."""
    return Seller(tenant, Caller(client, tenant.live_key), Caller(client, tenant.test_key))


def problem(answer: Answer, status: int, code: str | None) -> Any:
    """The body of a refusal, after the checks that hold for every refusal (decisions, section 3)."""
    assert answer.status == status, (answer.status, answer.body)
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json
    assert body.get("code") == code, body
    assert body["status"] == status
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["title"]
    assert body["detail"]
    assert body["instance"].startswith("/")
    if code is not None:
        assert body["type"] == "urn:listing-publication:error:" + code.removeprefix("E_").lower()
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
        assert body["retry_after"] == int(answer.headers["retry-after"])
    return body


def places(body: Any) -> list[tuple[str, str]]:
    """The offending places of a problem, in order: (pointer or parameter, code)."""
    return [(entry.get("pointer", entry.get("parameter")), entry["code"]) for entry in body["errors"]]
