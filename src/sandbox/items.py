"""Items: their record as the marketplace shows it, and the state that the record follows from."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

OPEN_LIFE = "open"

_encode = msgspec.json.Encoder().encode
_ITEM_LIFE_SECONDS = 7300 * 86_400.0


class Change(msgspec.Struct):
    """Something that happens to an item by itself, at `at` (seconds since the epoch).

    kind ``pictures``: the download ends; ``life`` becomes what is given. kind ``life``: moderation sets
    life and sub_status whatever the pictures do.
    """

    at: float
    kind: str
    life: str = OPEN_LIFE
    sub_status: list[str] = []


class Snapshot(msgspec.Struct):
    """Everything of an item that the effects log must hold to rebuild it."""

    record: msgspec.Raw
    created: float
    visible_at: float
    life: str = OPEN_LIFE
    life_sub_status: list[str] = []
    pictures_pending: bool = False
    paused_by_seller: bool = False
    price_automation: bool = False
    deleted: bool = False
    closed_at: float | None = None
    changes: list[Change] = []
    description: dict[str, Any] | None = None


class Item:
    """One listing. `record` is the full answer body for its owner and is kept current by `refresh`.

    life is ``open`` while status follows from pictures, pause and stock; any other value (``closed``,
    ``under_review``, ``payment_required``, ``inactive``, ``not_yet_active``) is the status itself.
    """

    __slots__ = (
        "changes",
        "closed_at",
        "created",
        "custom_field",
        "deleted",
        "description",
        "id",
        "life",
        "life_sub_status",
        "paused_by_seller",
        "pictures_pending",
        "price_automation",
        "record",
        "sku",
        "user_id",
        "visible_at",
    )

    def __init__(self, record: dict[str, Any], sku: str | None, created: float, visible_at: float) -> None:
        self.record = record
        self.id: str = record["id"]
        self.user_id: int = record["seller_id"]
        self.sku = sku
        self.custom_field: str | None = record["seller_custom_field"]
        self.created = created
        self.visible_at = visible_at
        self.life = OPEN_LIFE
        self.life_sub_status: list[str] = []
        self.pictures_pending = False
        self.paused_by_seller = False
        self.price_automation = False
        self.deleted = False
        self.closed_at: float | None = None
        self.changes: list[Change] = []
        self.description: dict[str, Any] | None = None

    @property
    def status(self) -> str:
        """The status as last refreshed."""
        status: str = self.record["status"]
        return status

    @property
    def is_open(self) -> bool:
        """Whether the item counts as a listing of its SKU: anything but closed."""
        return self.life != "closed"

    def refresh(self, now: float) -> None:
        """Brings status, sub_status and last_updated of the record in line with the state."""
        sub_status: list[str]
        if self.life != OPEN_LIFE:
            status, sub_status = self.life, self.life_sub_status
            if self.deleted:
                sub_status = ["deleted"]
        else:
            sub_status = []
            if self.pictures_pending:
                sub_status.append("picture_download_pending")
            if self.paused_by_seller:
                sub_status.append("paused_by_seller")
            if self.record["available_quantity"] == 0:
                sub_status.append("out_of_stock")
            status = "paused" if sub_status else "active"
        self.record["status"] = status
        self.record["sub_status"] = sub_status
        self.record["last_updated"] = timestamp(now)

    def show_pictures(self) -> None:
        """Replaces the placeholder pictures of an item whose pictures have been downloaded."""
        for picture in self.record["pictures"]:
            picture.update(picture_urls(picture["id"], "1200x1200"))
        pictures = self.record["pictures"]
        self.record["thumbnail"] = pictures[0]["url"] if pictures else None

    def attribute(self, attribute_id: str) -> str | None:
        """value_name of one attribute, or None."""
        for attribute in self.record["attributes"]:
            if attribute["id"] == attribute_id:
                value: str | None = attribute["value_name"]
                return value
        return None

    def snapshot(self, encoded_record: bytes | None = None) -> bytes:
        """JSON of the whole state; encoded_record spares encoding the record again."""
        return _encode(
            Snapshot(
                record=msgspec.Raw(encoded_record or _encode(self.record)),
                created=self.created,
                visible_at=self.visible_at,
                life=self.life,
                life_sub_status=self.life_sub_status,
                pictures_pending=self.pictures_pending,
                paused_by_seller=self.paused_by_seller,
                price_automation=self.price_automation,
                deleted=self.deleted,
                closed_at=self.closed_at,
                changes=self.changes,
                description=self.description,
            )
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Takes over a state read back from the effects log; the caller keeps its indexes in step."""
        self.record = msgspec.json.decode(snapshot.record)
        self.record["warnings"] = []
        self.created = snapshot.created
        self.visible_at = snapshot.visible_at
        self.life = snapshot.life
        self.life_sub_status = snapshot.life_sub_status
        self.pictures_pending = snapshot.pictures_pending
        self.paused_by_seller = snapshot.paused_by_seller
        self.price_automation = snapshot.price_automation
        self.deleted = snapshot.deleted
        self.closed_at = snapshot.closed_at
        self.changes = snapshot.changes
        self.description = snapshot.description


def timestamp(now: float) -> str:
    """A moment as the marketplace writes it: UTC, milliseconds, Z."""
    milliseconds = int(now * 1000)
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def picture_urls(picture_id: str, size: str) -> dict[str, str]:
    """url, secure_url, size and max_size of a downloaded picture."""
    name = f"D_NQ_NP_{picture_id}-O.jpg"
    return {
        "url": f"http://http2.mlstatic.com/{name}",
        "secure_url": f"https://http2.mlstatic.com/{name}",
        "size": size,
        "max_size": size,
    }


def pending_picture(picture_id: str) -> dict[str, str]:
    """A picture that is still being downloaded: the placeholder of reference 3.4."""
    path = "/resources/frontend/statics/processing-image/1.0.0/O-ES.jpg"
    return {
        "id": picture_id,
        "url": f"http://http2.mlstatic.com{path}",
        "secure_url": f"https://http2.mlstatic.com{path}",
        "size": "500x500",
        "max_size": "500x500",
        "quality": "",
    }


def new_record(
    *,
    number: int,
    user_id: int,
    user_product: bool,
    title: str,
    body: dict[str, Any],
    price: int,
    quantity: int,
    attributes: list[dict[str, Any]],
    pictures: list[dict[str, str]],
    shipping: dict[str, Any],
    custom_field: str | None,
    domain_id: str,
    now: float,
) -> dict[str, Any]:
    """The record of a new item (all fields of reference 3.4). price: whole COP."""
    moment = timestamp(now)
    end = timestamp(now + _ITEM_LIFE_SECONDS)
    item_id = f"MCO{number}"
    record: dict[str, Any] = {"id": item_id, "site_id": "MCO", "title": title}
    tags = ["good_quality_picture", "immediate_payment"]
    if user_product:
        record["family_name"] = body["family_name"]
        tags.append("user_product_listing")
    record.update(
        {
            "seller_id": user_id,
            "category_id": body["category_id"],
            "user_product_id": f"MCOU{number}" if user_product else None,
            "official_store_id": None,
            "price": price,
            "base_price": price,
            "original_price": None,
            "currency_id": body["currency_id"],
            "initial_quantity": quantity,
            "available_quantity": quantity,
            "sold_quantity": 0,
            "sale_terms": body.get("sale_terms") or [],
            "buying_mode": body["buying_mode"],
            "listing_type_id": body["listing_type_id"],
            "start_time": moment,
            "stop_time": end,
            "end_time": end,
            "expiration_time": end,
            "condition": body.get("condition") or "new",
            "permalink": f"https://articulo.mercadolibre.com.co/MCO-{number}-_JM",
            "pictures": pictures,
            "shipping": shipping,
            "seller_address": {"city": {"name": "Bogotá"}, "country": {"id": "CO", "name": "Colombia"}},
            "attributes": attributes,
            "warnings": [],
            "variations": [],
            "thumbnail": pictures[0]["url"] if pictures else None,
            "status": "paused",
            "sub_status": [],
            "tags": tags,
            "warranty": None,
            "catalog_product_id": None,
            "domain_id": domain_id,
            "seller_custom_field": custom_field,
            "date_created": moment,
            "last_updated": moment,
            "health": None,
            "catalog_listing": False,
            "channels": body.get("channels") or ["marketplace"],
        }
    )
    return record
