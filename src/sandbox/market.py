"""The state of the sandbox: users, items, tokens, pictures; what happens by itself; the effects log."""

from __future__ import annotations

import heapq
import random
from bisect import insort
from collections.abc import Callable
from typing import Any

import msgspec

from sandbox.accounts import USER_PRODUCT_TAG, Notice, Tokens, User
from sandbox.config import LiveSettings, SandboxConfig
from sandbox.effects import EffectLog, RecordedEffect
from sandbox.items import Change, Item, Snapshot, timestamp

_ITEM_EFFECTS = frozenset(
    {
        "item_created",
        "item_updated",
        "item_closed",
        "item_deleted",
        "operator_changed",
        "description_written",
    }
)
_FIRST_ITEM_NUMBER = 1_000_000_001
_EPOCH_OF_MEMORY_NUMBERS = 1_700_000_000


class Market:
    """Everything that is true in the sandbox. All methods are synchronous and run on one thread.

    Raises OSError when the data folder cannot be used, ValueError when its log cannot be read.
    """

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self.settings = LiveSettings.of(config)
        self.clock = config.clock
        self.users: dict[int, User] = {}
        self.items: dict[str, Item] = {}
        self.tokens = Tokens()
        self.pictures: dict[str, bytes] = {}
        self.failed_pictures: set[tuple[int, str]] = set()
        self.random = random.Random(config.seed)  # noqa: S311 - order of causes, nothing secret
        self.created = 0
        self.duplicates_ever: set[tuple[int, str]] = set()
        self.on_notice: Callable[[Notice], None] | None = None
        self._timeline: list[tuple[float, int, Callable[[float], None]]] = []
        self._timeline_sequence = 0
        self._notice_number = 0
        self._picture_number = 900_000
        self._next_number = self._first_number()
        self.effects = EffectLog(config.data_dir, config.fsync)
        for recorded in self.effects.replay():
            self._rebuild(recorded)

    def _first_number(self) -> int:
        if self.config.first_item_number is not None:
            return self.config.first_item_number
        if self.config.data_dir is not None:
            return _FIRST_ITEM_NUMBER
        return max(_FIRST_ITEM_NUMBER, (int(self.clock()) - _EPOCH_OF_MEMORY_NUMBERS) * 1000)

    # What happens by itself

    def at(self, moment: float, action: Callable[[float], None]) -> None:
        """Calls action(now) at the first opportunity after `moment`."""
        self._timeline_sequence += 1
        heapq.heappush(self._timeline, (moment, self._timeline_sequence, action))

    def advance(self, now: float) -> None:
        """Lets everything happen whose time has come."""
        timeline = self._timeline
        while timeline and timeline[0][0] <= now:
            heapq.heappop(timeline)[2](now)

    # Users

    def user(self, user_id: int) -> User:
        """The user of this id, made on first sight."""
        found = self.users.get(user_id)
        if found is None:
            tags = ["normal", "credits_profile"]
            if self.config.seller_model == "user_product":
                tags.append(USER_PRODUCT_TAG)
            found = self.users[user_id] = User(user_id, tags)
        return found

    def change_user(self, user: User, changes: dict[str, Any], now: float) -> None:
        """Sets fields of the user (names as in User) and records it."""
        for name, value in changes.items():
            setattr(user, name, value)
        self.effects.append("user_changed", now, user.id, msgspec.json.encode(user.settings()))

    # Items

    def take_number(self) -> int:
        """The next item number."""
        number = self._next_number
        self._next_number += 1
        return number

    def take_picture_number(self) -> int:
        """A number that makes the id of a replaced picture a new one."""
        self._picture_number += 1
        return self._picture_number

    def add_item(self, item: Item, now: float) -> bytes:
        """Takes a new item in, records it, and returns its record as JSON."""
        user = self.user(item.user_id)
        self._index(user, item)
        self._schedule(item)
        self.created += 1
        if item.sku is not None and sum(1 for other in user.by_sku[item.sku] if other.is_open) > 1:
            self.duplicates_ever.add((user.id, item.sku))
        encoded = msgspec.json.encode(item.record)
        self._record("item_created", item, now, encoded)
        self._notice(item, now)
        return encoded

    def record_item(self, effect: str, item: Item, now: float) -> None:
        """Brings the item's record up to date and records the change."""
        item.refresh(now)
        self._reindex(item)
        self._record(effect, item, now, None)
        self._notice(item, now)

    def _record(self, effect: str, item: Item, now: float, encoded: bytes | None) -> None:
        record = item.record
        self.effects.append(
            effect,
            now,
            item.user_id,
            item.snapshot(encoded),
            listing_id=item.id,
            seller_sku=item.sku,
            price=record["price"],
            status=record["status"],
        )

    def _index(self, user: User, item: Item) -> None:
        self.items[item.id] = item
        user.items.append(item)
        if item.sku is not None:
            user.by_sku.setdefault(item.sku, []).append(item)
        if item.custom_field is not None:
            user.by_custom_field.setdefault(item.custom_field, []).append(item)

    def _reindex(self, item: Item) -> None:
        sku, custom_field = item.attribute("SELLER_SKU"), item.record["seller_custom_field"]
        user = self.user(item.user_id)
        if sku != item.sku:
            item.sku = _move(user.by_sku, item, item.sku, sku)
        if custom_field != item.custom_field:
            item.custom_field = _move(user.by_custom_field, item, item.custom_field, custom_field)

    def _schedule(self, item: Item) -> None:
        for change in item.changes:
            self.at(change.at, lambda now, change=change: self._apply(item, change, now))  # type: ignore[misc]

    def schedule_change(self, item: Item, change: Change) -> None:
        """Lets one more thing happen to an item by itself."""
        item.changes.append(change)
        self.at(change.at, lambda now: self._apply(item, change, now))

    def _apply(self, item: Item, change: Change, now: float) -> None:
        if change not in item.changes:
            return  # superseded: the pictures were replaced, or an operator decided otherwise
        item.changes.remove(change)
        if item.life == "closed":
            return
        if change.kind == "pictures":
            item.pictures_pending = False
            if change.life == "open":
                item.show_pictures()
        if change.life != "open":
            item.life = change.life
            item.life_sub_status = list(change.sub_status)
            if change.life == "closed":
                item.closed_at = now
                self.record_item("item_closed", item, now)
                return
        item.refresh(now)
        self._notice(item, now)

    def _notice(self, item: Item, now: float) -> None:
        self._notice_number += 1
        notice = Notice(self._notice_number, item.id, item.user_id, now)
        self.user(item.user_id).notices.append(notice)
        if self.on_notice is not None:
            self.on_notice(notice)

    # Start

    def _rebuild(self, recorded: RecordedEffect) -> None:
        if recorded.effect in _ITEM_EFFECTS:
            self._rebuild_item(recorded)
            return
        data = msgspec.json.decode(recorded.data)
        user = self.user(recorded.user_id)
        if recorded.effect == "token_rotated":
            self.tokens.install(data)
        elif recorded.effect == "tokens_revoked":
            self.tokens.refuse(data["refused"], data["reason"])
        elif recorded.effect == "user_changed":
            for name, value in data.items():
                setattr(user, name, value)
        elif recorded.effect == "picture_uploaded":
            self.pictures[data["id"]] = b""

    def _rebuild_item(self, recorded: RecordedEffect) -> None:
        snapshot = msgspec.json.decode(recorded.data, type=Snapshot)
        record = msgspec.json.decode(snapshot.record)
        item = self.items.get(record["id"])
        if item is None:
            item = Item(record, recorded.seller_sku, snapshot.created, snapshot.visible_at)
            item.restore(snapshot)
            user = self.user(item.user_id)
            self._index(user, item)
            self.created += 1
            self._next_number = max(self._next_number, int(item.id[3:]) + 1)
            if item.sku is not None and sum(1 for other in user.by_sku[item.sku] if other.is_open) > 1:
                self.duplicates_ever.add((user.id, item.sku))
        else:
            item.restore(snapshot)
            self._reindex(item)
        self._schedule(item)


def _move(index: dict[str, list[Item]], item: Item, old: str | None, new: str | None) -> str | None:
    if old is not None:
        index[old].remove(item)
        if not index[old]:
            del index[old]
    if new is not None:
        insort(index.setdefault(new, []), item, key=lambda other: other.created)
    return new


def notice_body(notice: Notice, application_id: int) -> dict[str, Any]:
    """A notification as the webhook and ``/missed_feeds`` carry it."""
    sent = timestamp(notice.sent)
    return {
        "_id": f"{notice.number:024x}",
        "resource": f"/items/{notice.item_id}",
        "user_id": notice.user_id,
        "topic": "items",
        "application_id": application_id,
        "attempts": 1,
        "sent": sent,
        "received": sent,
    }
