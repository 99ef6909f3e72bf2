"""A sandbox marketplace without a socket, with a clock that the test moves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sandbox.app import Sandbox, create_app
from sandbox.config import SandboxConfig
from sandbox.messages import Answer, Request

USER = 4242
LUGGAGE = "MCO158426"


class Clock:
    """A wall clock that only moves when told."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Reply:
    """An answer with its decoded body."""

    answer: Answer

    @property
    def status(self) -> int:
        return self.answer.status

    @property
    def body(self) -> Any:
        return json.loads(self.answer.body) if self.answer.body else None

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.answer.headers)

    def cause_ids(self, kind: str = "error") -> list[int]:
        return sorted(cause["cause_id"] for cause in self.body["cause"] if cause["type"] == kind)


class Shop:
    """One sandbox and one way to call it; `user_id` is whose token is sent unless said otherwise."""

    def __init__(self, **config: Any) -> None:
        self.clock = Clock()
        self.sandbox: Sandbox = create_app(SandboxConfig(clock=self.clock, **config))
        self.user_id = USER

    def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        token: str | None = "",
        content_type: str = "application/json",
        new_format: bool = False,
    ) -> Reply:
        path, _, query = target.partition("?")
        raw = body if isinstance(body, bytes) else (b"" if body is None else json.dumps(body).encode())
        if token == "":
            token = f"APP_USR-test-{self.user_id}"
        return Reply(
            self.sandbox.handle(
                Request(
                    method=method,
                    path=path,
                    query=query,
                    body=raw,
                    authorization="" if token is None else f"Bearer {token}",
                    content_type=content_type,
                    new_format=new_format,
                )
            )
        )

    def create(self, sku: str = "B07N4M94X4", **changes: Any) -> Reply:
        return self.call("POST", "/items", item_body(sku, **changes))

    def publish(self, sku: str = "B07N4M94X4", **changes: Any) -> str:
        """Creates an item that must succeed, lets its pictures arrive and the index catch up; its id."""
        reply = self.create(sku, **changes)
        assert reply.status == 201, reply.body
        self.clock.pass_seconds(2.0)
        item_id: str = reply.body["id"]
        return item_id

    def item(self, item_id: str) -> Any:
        return self.call("GET", f"/items/{item_id}").body

    def fault(self, **rule: Any) -> Reply:
        reply = self.call("POST", "/sandbox/faults", rule)
        assert reply.status == 201, reply.body
        return reply

    def refresh(self, token: str, /, **changes: str) -> Reply:
        form = {
            "grant_type": "refresh_token",
            "client_id": "1",
            "client_secret": "s",
            "refresh_token": token,
            **changes,
        }
        raw = "&".join(f"{name}={value}" for name, value in form.items()).encode()
        return self.call("POST", "/oauth/token", raw, token=None, content_type="application/x-www-form-urlencoded")

    def search(self, query: str) -> Any:
        reply = self.call("GET", f"/users/{self.user_id}/items/search?{query}")
        assert reply.status == 200, reply.body
        return reply.body


def item_body(sku: str = "B07N4M94X4", *, drop: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """A body of POST /items that the sandbox takes; `drop` leaves fields out, keywords replace them."""
    body: dict[str, Any] = {
        "family_name": "Maleta rígida expandible",
        "category_id": LUGGAGE,
        "price": 189_900,
        "currency_id": "COP",
        "available_quantity": 5,
        "buying_mode": "buy_it_now",
        "condition": "new",
        "listing_type_id": "gold_special",
        "pictures": [{"source": "https://images.example/a.jpg"}],
        "attributes": [{"id": "SELLER_SKU", "value_name": sku}],
        "seller_custom_field": sku,
    }
    body.update(changes)
    return {name: value for name, value in body.items() if name not in drop}
