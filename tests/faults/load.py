"""Clients of REST v1 that write down what they asked for and what became of it."""

from __future__ import annotations

import asyncio
import json
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.faults.cluster import Cluster, Seller

SETTLE_AFTER_OUTAGE = 10.0
"""Seconds after an outage in which a 503 is still its consequence."""


@dataclass(slots=True)
class Sent:
    """One request. ``outcome``: acknowledged (2xx), refused (4xx), unknown (no answer, or 503)."""

    operation: str
    seller_id: int
    environment: str
    skus: tuple[str, ...]
    key: str | None
    began: float
    ended: float = 0.0
    outcome: str = "unknown"
    status: int = 0
    code: str = ""
    body: bytes = b""
    replayed: bool = False

    @property
    def job_id(self) -> str | None:
        """The job that an acknowledged request names."""
        return json.loads(self.body).get("job_id") if self.outcome == "acknowledged" else None


@dataclass
class Clients:
    """All clients of one cluster, with their common log."""

    cluster: Cluster
    random: random.Random
    log: list[Sent] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    reads: int = 0

    async def call(
        self,
        seller: Seller,
        environment: str,
        operation: str,
        path: str,
        body: Any = None,
        *,
        skus: Sequence[str] = (),
        key: str | None = None,
        seconds: float = 10.0,
    ) -> Sent:
        """One POST, written down before it leaves and after it came back."""
        sent = Sent(operation, seller.seller_id, environment, tuple(skus), key, time.monotonic())
        self.log.append(sent)
        headers = {"X-API-Key": seller.keys[environment]}
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            async with self.cluster.session.post(
                self.cluster.base_url + path, json=body, headers=headers, timeout=aiohttp.ClientTimeout(total=seconds)
            ) as answer:
                sent.body = await answer.read()
                sent.status = answer.status
                sent.replayed = answer.headers.get("Idempotent-Replay") == "true"
        except (aiohttp.ClientError, TimeoutError, OSError):
            sent.ended = time.monotonic()
            return sent
        sent.ended = time.monotonic()
        if sent.status < 300:
            sent.outcome = "acknowledged"
        elif sent.status < 500:
            sent.outcome = "refused"
            sent.code = json.loads(sent.body).get("code") or ""
        else:
            self._judge(sent)
        return sent

    def _judge(self, sent: Sent) -> None:
        """A 5xx is expected only as a 503 while something was down."""
        if sent.status == 503 and any(
            each.began - 0.5 <= sent.ended and sent.began <= each.ended + SETTLE_AFTER_OUTAGE
            for each in self.cluster.outages
        ):
            return
        self.unexpected.append(f"{sent.operation}: {sent.status} {sent.body[:200]!r}")

    async def create(
        self,
        seller: Seller,
        environment: str,
        skus: Sequence[str],
        *,
        key: bool = True,
        tries: int = 60,
        **options: Any,
    ) -> str | None:
        """Publish these SKUs. With a key the request is repeated until it is answered; without one it is sent
        once. The job's id, None when it was refused or is unknown."""
        idempotency_key = str(uuid.UUID(int=self.random.getrandbits(128), version=4)) if key else None
        body = {"items": [{"sku": sku, "auto_categorize": True} for sku in skus], **options}
        for _ in range(tries if key else 1):
            sent = await self.call(seller, environment, "create", "/products", body, skus=skus, key=idempotency_key)
            if sent.outcome == "acknowledged":
                return sent.job_id
            if sent.outcome == "refused":
                if sent.code != "E_PRODUCT_MAX_CONCURRENT_JOBS":
                    return None
                await asyncio.sleep(0.3)
                continue
            await asyncio.sleep(self.random.uniform(0.1, 0.5))
        return None

    async def act(self, seller: Seller, environment: str, operation: str, job_id: str) -> Sent:
        """Cancel or retry a job."""
        return await self.call(seller, environment, operation, f"/products/jobs/{job_id}/{operation}")

    async def read(self, seller: Seller, environment: str, path: str) -> Any:
        """A GET; None when there was no answer."""
        began = time.monotonic()
        self.reads += 1
        try:
            async with self.cluster.session.get(
                self.cluster.base_url + path, headers={"X-API-Key": seller.keys[environment]}
            ) as answer:
                body = await answer.read()
                if answer.status >= 500:
                    self._judge(
                        Sent(
                            f"GET {path}",
                            seller.seller_id,
                            environment,
                            (),
                            None,
                            began,
                            time.monotonic(),
                            status=answer.status,
                            body=body,
                        )
                    )
                    return None
                return json.loads(body)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    def count(self, outcome: str, operation: str = "create") -> int:
        """Requests of this operation that ended so."""
        return sum(1 for each in self.log if each.outcome == outcome and each.operation == operation)
