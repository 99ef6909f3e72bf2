"""``/items`` (reference sections 3.1 to 3.8): create, validate, read, change, close, delete."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from sandbox.accounts import User
from sandbox.categories import CATEGORIES, Category
from sandbox.causes import LOST_ME1, Cause, error, missing_field, price_not_modifiable
from sandbox.faults import unable_to_list
from sandbox.items import OPEN_LIFE, Change, Item, new_record, pending_picture, picture_urls
from sandbox.market import Market
from sandbox.messages import (
    Answer,
    Overrides,
    Refusal,
    Request,
    bad_request,
    forbidden,
    not_found,
    ok,
    problem,
)
from sandbox.validation import (
    LISTING_TYPES,
    MAX_STOCK,
    Draft,
    check_attributes,
    check_item,
    check_name,
    check_pictures,
    check_price,
    check_quantity,
    check_sale_terms,
    check_types,
    invalid_fields,
    validation_error,
)

MULTIGET_MAX = 20

_MARK = re.compile(
    r"sandbox-(closed|review|payment|inactive|autoprice|unavailable|slow-([0-9]{1,6})|moderated-([0-9]{1,6}))",
    re.ASCII,
)
_OWNER_FIELDS = ("available_quantity", "initial_quantity", "channels")
_TITLE_LENGTH = 60

_UPDATE_FIELDS: dict[str, tuple[type, ...]] = {
    "price": (int, float),
    "available_quantity": (int,),
    "status": (str,),
    "deleted": (str, bool),
    "title": (str,),
    "family_name": (str,),
    "pictures": (list,),
    "attributes": (list,),
    "sale_terms": (list,),
    "shipping": (dict,),
    "seller_custom_field": (str,),
    "condition": (str,),
    "channels": (list,),
    "video_id": (str,),
    "listing_type_id": (str,),
    "category_id": (str,),
    "currency_id": (str,),
    "buying_mode": (str,),
}
_NEVER_UPDATABLE = ("listing_type_id", "category_id", "currency_id", "buying_mode")


@dataclass(slots=True)
class Marks:
    """What the picture addresses of an item ask of the sandbox (docs/sandbox.md, Marks)."""

    pictures_life: str = OPEN_LIFE
    pictures_sub_status: tuple[str, ...] = ()
    slow_seconds: float | None = None
    moderated_after: float | None = None
    automatic_price: bool = False
    unavailable: bool = False


def marks_of(pictures: list[dict[str, str]]) -> Marks:
    """Reads the marks out of the picture sources."""
    marks = Marks()
    for picture in pictures:
        source = picture.get("source", "")
        if "sandbox-" not in source:
            continue
        for match in _MARK.finditer(source):
            _apply_mark(marks, match)
    return marks


def _apply_mark(marks: Marks, match: re.Match[str]) -> None:
    mark = match.group(1)
    if mark == "closed":
        marks.pictures_life, marks.pictures_sub_status = "closed", ("waiting_for_patch",)
    elif mark == "review":
        marks.pictures_life, marks.pictures_sub_status = "under_review", ("waiting_for_patch",)
    elif mark == "payment":
        marks.pictures_life = "payment_required"
    elif mark == "inactive":
        marks.pictures_life = "inactive"
    elif mark == "autoprice":
        marks.automatic_price = True
    elif mark == "unavailable":
        marks.unavailable = True
    elif match.group(2) is not None:
        marks.slow_seconds = float(match.group(2))
    else:
        marks.moderated_after = float(match.group(3))


# Create


def create(market: Market, request: Request) -> Answer:
    """``POST /items``: 201 with the full item; 400 with every cause; 403 for a user that may not list."""
    user = request.caller
    _may_list(user)
    body = request.json_object()
    draft = _checked(market, user, body)
    marks = marks_of(draft.pictures)
    if marks.unavailable:
        _fail_once(market, user, draft)
    if draft.errors:
        return validation_error(_mixed(market, [*draft.errors, *draft.warnings]))
    item = _make(market, user, body, draft=draft, marks=marks, overrides=request.overrides)
    item.record["warnings"] = draft.warnings
    encoded = market.add_item(item, item.created)
    item.record["warnings"] = []
    return Answer(201, encoded)


def validate(market: Market, request: Request) -> Answer:
    """``POST /items/validate``: 204, or 400 with causes, which may all be warnings. Creates nothing."""
    user = request.caller
    _may_list(user)
    draft = _checked(market, user, request.json_object())
    causes = [*draft.errors, *(cause for cause in draft.warnings if cause is not LOST_ME1 or user.lost_me1)]
    if causes:
        return validation_error(_mixed(market, causes))
    return Answer(204, b"", content_type=None)


def _may_list(user: User) -> None:
    if not user.list_allow:
        raise Refusal(unable_to_list(user.list_codes))
    if user.site_id != "MCO":
        raise Refusal(forbidden(f"User of site {user.site_id} cannot list on MCO"))


def _checked(market: Market, user: User, body: dict[str, Any]) -> Draft:
    return check_item(
        body,
        user,
        free_shipping_from=market.settings.free_shipping_from,
        known_pictures=market.pictures,
    )


def _fail_once(market: Market, user: User, draft: Draft) -> None:
    # The marked picture fails the first time it is sent and works from then on: "send again".
    for picture in draft.pictures:
        source = picture.get("source", "")
        if "sandbox-unavailable" in source and (user.id, source) not in market.failed_pictures:
            market.failed_pictures.add((user.id, source))
            draft.errors.append(
                error(
                    3706, "item.pictures.unavailable", "The picture could not be processed, send again", "item.pictures"
                )
            )


def _mixed(market: Market, causes: list[Cause]) -> list[Cause]:
    # The real order of causes is not stable; a client must not lean on it.
    mixed = list(causes)
    market.random.shuffle(mixed)
    return mixed


def _make(
    market: Market, user: User, body: dict[str, Any], *, draft: Draft, marks: Marks, overrides: Overrides
) -> Item:
    now = market.clock()
    number = market.take_number()
    settings = market.settings
    delay = settings.picture_delay_seconds if marks.slow_seconds is None else marks.slow_seconds
    if overrides.picture_delay_seconds is not None:
        delay = overrides.picture_delay_seconds
    lag = settings.index_lag_seconds if overrides.index_lag_seconds is None else overrides.index_lag_seconds
    custom_field = body.get("seller_custom_field")
    if overrides.drop_custom_field or not user.returns_custom_field:
        custom_field = None
    record = new_record(
        number=number,
        user_id=user.id,
        user_product=user.user_product_model,
        title=_title(draft.name, draft.attributes) if user.user_product_model else draft.name,
        body={**body, "category_id": draft.category.id, "sale_terms": draft.sale_terms},
        price=draft.price,
        quantity=draft.quantity,
        attributes=draft.attributes,
        pictures=[
            pending_picture(picture.get("id") or f"{number % 1_000_000}-MCO{number}_{index}")
            for index, picture in enumerate(draft.pictures)
        ],
        shipping=draft.shipping,
        custom_field=custom_field,
        domain_id=draft.category.domain_id,
        now=now,
    )
    item = Item(record, draft.sku, now, now + lag)
    item.price_automation = marks.automatic_price
    item.pictures_pending = bool(draft.pictures)
    if draft.pictures:
        item.changes.append(Change(now + delay, "pictures", marks.pictures_life, list(marks.pictures_sub_status)))
    if marks.moderated_after is not None:
        item.changes.append(Change(now + marks.moderated_after, "life", "closed", ["suspended"]))
    if draft.pictures and delay <= 0 and marks.pictures_life == OPEN_LIFE:
        item.changes = [change for change in item.changes if change.kind != "pictures"]
        item.pictures_pending = False
        item.show_pictures()
    item.refresh(now)
    return item


def _title(family_name: str, attributes: list[dict[str, Any]]) -> str:
    # In the user-products model the platform composes the title from the family name and what varies.
    color = next((value["value_name"] for value in attributes if value["id"] == "COLOR"), None)
    title = f"{family_name} {color}" if color else family_name
    return title if len(title) <= _TITLE_LENGTH else family_name


# Read


def visible(market: Market, item_id: str) -> Item:
    """The item of this id; 404 in the marketplace's words without one."""
    item = market.items.get(item_id)
    if item is None:
        raise Refusal(not_found(f"Item with id {item_id[:40]} not found"))
    return item


def owned(market: Market, request: Request) -> Item:
    """The caller's own item named in the path; 404 or 403 otherwise."""
    item = visible(market, request.params[0])
    if item.user_id != request.caller.id:
        raise Refusal(forbidden())
    return item


def read(market: Market, request: Request) -> Answer:
    """``GET /items/{id}``."""
    return Answer(200, _shown(visible(market, request.params[0]), request))


def multiget(market: Market, request: Request) -> Answer:
    """``GET /items?ids=``: at most 20, a code for each."""
    ids = [item_id for item_id in request.parameter("ids").split(",") if item_id]
    if not ids:
        return bad_request("The parameter ids is required")
    if len(ids) > MULTIGET_MAX:
        return bad_request(f"The parameter ids takes at most {MULTIGET_MAX} values")
    parts = []
    for item_id in ids:
        item = market.items.get(item_id)
        if item is None:
            missing = not_found(f"Item with id {item_id[:40]} not found")
            parts.append(b'{"code":404,"body":' + missing.body + b"}")
        else:
            parts.append(b'{"code":200,"body":' + _shown(item, request) + b"}")
    return Answer(200, b"[" + b",".join(parts) + b"]")


def _shown(item: Item, request: Request) -> bytes:
    record = item.record
    if item.user_id != request.caller.id:
        record = {key: value for key, value in record.items() if key not in _OWNER_FIELDS}
    names = request.parameter("attributes")
    if names:
        record = {name: record[name] for name in names.split(",") if name in record}
    return msgspec.json.encode(record)


def prices(market: Market, request: Request) -> Answer:
    """``GET /items/{id}/prices``."""
    item = visible(market, request.params[0])
    price = {
        "id": "1",
        "type": "standard",
        "amount": item.record["price"],
        "regular_amount": None,
        "currency_id": item.record["currency_id"],
        "last_updated": item.record["last_updated"],
        "conditions": {"context_restrictions": [], "start_time": None, "end_time": None},
    }
    return ok({"id": item.id, "prices": [price]})


def sale_price(market: Market, request: Request) -> Answer:
    """``GET /items/{id}/sale_price``."""
    item = visible(market, request.params[0])
    return ok(
        {
            "price_id": "1",
            "amount": item.record["price"],
            "regular_amount": None,
            "currency_id": item.record["currency_id"],
            "reference_date": item.record["last_updated"],
        }
    )


# Change


def update(market: Market, request: Request) -> Answer:
    """``PUT /items/{id}``: 200 with the full item; nothing is changed when any part is refused."""
    item = owned(market, request)
    body = request.json_object()
    check_types(body, _UPDATE_FIELDS)
    if not body:
        return bad_request("The body has no fields")
    now = market.clock()
    if "deleted" in body:
        return _delete(market, item, body, now)
    _refuse_by_state(item, body)
    user = request.caller
    if user.user_product_model:
        if "title" in body:
            return invalid_fields(["title"])
    elif "family_name" in body:
        return invalid_fields(["family_name"])
    change = _Update(market, item, user, CATEGORIES[item.record["category_id"]], body)
    change.check(price_ignored=request.overrides.price_ignored)
    if change.errors:
        return validation_error(_mixed(market, [*change.errors, *change.warnings]))
    return change.apply(now)


def _not_modifiable(item: Item, fields: list[str]) -> Answer:
    causes = [error(0, "field_not_updatable", f"{name} is not modifiable", f"item.{name}") for name in fields]
    message = f"Cannot update item {item.id} [status:{item.status}, has_bids:false]"
    return problem(400, message, "validation_error", causes)


def _refuse_by_state(item: Item, body: dict[str, Any]) -> None:
    if item.life == OPEN_LIFE:
        return
    allowed: set[str] = set()
    if item.life != "closed" and body.get("status") == "closed":
        allowed.add("status")
    if item.life == "under_review" and "waiting_for_patch" in item.life_sub_status:
        allowed.add("pictures")
    refused = [name for name in body if name not in allowed]
    if refused:
        raise Refusal(_not_modifiable(item, refused))


def _delete(market: Market, item: Item, body: dict[str, Any], now: float) -> Answer:
    if len(body) > 1 or body["deleted"] not in {"true", True}:
        return invalid_fields(["deleted"])
    forbidden_review = item.life == "under_review" and "forbidden" in item.life_sub_status
    if item.deleted or not (item.life == "closed" or forbidden_review):
        return _not_modifiable(item, ["deleted"])
    if item.closed_at is not None and now < item.closed_at + market.settings.delete_conflict_seconds:
        return problem(409, "item optimistic locking error: conflict", "conflict", [])
    item.life = "closed"
    item.deleted = True
    market.record_item("item_deleted", item, now)
    return Answer(200, msgspec.json.encode(item.record))


class _Update:
    """One PUT: first every part is checked, then all of it is applied."""

    def __init__(self, market: Market, item: Item, user: User, category: Category, body: dict[str, Any]) -> None:
        self.market = market
        self.item = item
        self.user = user
        self.category = category
        self.body = body
        self.errors: list[Cause] = []
        self.warnings: list[Cause] = []
        self.attributes: list[dict[str, Any]] = []
        self.pictures: list[dict[str, str]] = []
        self.sale_terms: list[dict[str, Any]] = []
        self.price: int | None = None

    def check(self, *, price_ignored: bool) -> None:
        """Collects the causes; raises Refusal where one field alone decides."""
        body, item = self.body, self.item
        never = [name for name in _NEVER_UPDATABLE if name in body]
        if never:
            raise Refusal(_not_modifiable(item, never))
        if "price" in body:
            self._check_price(price_ignored)
        if "available_quantity" in body:
            if item.record["condition"] != "new" or item.record["listing_type_id"] == "free":
                raise Refusal(_not_modifiable(item, ["available_quantity"]))
            check_quantity(body["available_quantity"], MAX_STOCK, self.errors)
        if body.get("status", "active") not in {"active", "paused", "closed"}:
            self.errors.append(error(0, "item.status.invalid", "The status is not allowed", "item.status"))
        for name in ("title", "family_name"):
            if name in body:
                check_name(body[name].strip(), self.category, self.errors, family=name == "family_name")
        if "pictures" in body:
            self.pictures = check_pictures(body["pictures"], self.category, self._known_pictures(), self.errors)
            if not body["pictures"] and item.record["listing_type_id"] != "free":
                self.errors.append(
                    error(
                        173,
                        "item.listing_type_id.requiresPictures",
                        "The listing type requires pictures",
                        "item.pictures",
                    )
                )
        if "attributes" in body:
            self.attributes = check_attributes(body["attributes"], self.category, self.errors, self.warnings)
        if "sale_terms" in body:
            self.sale_terms = check_sale_terms(body["sale_terms"], self.errors)

    def _check_price(self, price_ignored: bool) -> None:
        if self.item.price_automation:
            if len(self.body) == 1:
                raise Refusal(
                    problem(400, "item.price.not_modifiable", "validation_error", [price_not_modifiable("error")])
                )
            price_ignored = True
        price = check_price(self.body["price"], self.category, self.errors)
        if price_ignored:
            self.warnings.append(price_not_modifiable())
        else:
            self.price = price

    def _known_pictures(self) -> dict[str, bytes]:
        return {**self.market.pictures, **{picture["id"]: b"" for picture in self.item.record["pictures"]}}

    def apply(self, now: float) -> Answer:
        """Makes the change, records it and answers the item."""
        body, item = self.body, self.item
        record = item.record
        if self.price is not None:
            record["price"] = record["base_price"] = self.price
        for name in ("available_quantity", "condition", "channels", "seller_custom_field"):
            if name in body:
                record[name] = body[name]
        if "attributes" in body:
            merged = {value["id"] or value["name"]: value for value in record["attributes"]}
            merged.update({value["id"] or value["name"]: value for value in self.attributes})
            record["attributes"] = list(merged.values())
        if "sale_terms" in body:
            terms = {term["id"]: term for term in record["sale_terms"]}
            terms.update({term["id"]: term for term in self.sale_terms})
            record["sale_terms"] = list(terms.values())
        if "shipping" in body:
            for name in ("local_pick_up", "free_shipping"):
                if isinstance(body["shipping"].get(name), bool):
                    record["shipping"][name] = body["shipping"][name]
        if "title" in body:
            record["title"] = body["title"].strip()
        if "family_name" in body:
            record["family_name"] = body["family_name"].strip()
            record["title"] = _title(record["family_name"], record["attributes"])
        if "pictures" in body:
            self._replace_pictures(now)
        effect = self._change_status(now)
        self.market.record_item(effect, item, now)
        record["warnings"] = self.warnings
        encoded = msgspec.json.encode(record)
        record["warnings"] = []
        return Answer(200, encoded)

    def _replace_pictures(self, now: float) -> None:
        item, market = self.item, self.market
        kept = {picture["id"]: picture for picture in item.record["pictures"]}
        pictures: list[dict[str, str]] = []
        for picture in self.pictures:
            picture_id = picture.get("id") or f"{market.take_picture_number()}-{item.id}_{len(pictures)}"
            pictures.append(kept.get(picture_id) or pending_picture(picture_id))
        item.record["pictures"] = pictures
        item.changes = [change for change in item.changes if change.kind != "pictures"]
        marks = marks_of(self.pictures)
        item.price_automation = item.price_automation or marks.automatic_price
        patched = item.life == "under_review"
        if patched:
            item.life, item.life_sub_status = OPEN_LIFE, []
        if patched or item.pictures_pending or marks.pictures_life != OPEN_LIFE:
            item.pictures_pending = item.pictures_pending or patched
            delay = market.settings.picture_delay_seconds if marks.slow_seconds is None else marks.slow_seconds
            market.schedule_change(
                item, Change(now + delay, "pictures", marks.pictures_life, list(marks.pictures_sub_status))
            )
        else:
            item.show_pictures()

    def _change_status(self, now: float) -> str:
        status, item = self.body.get("status"), self.item
        if status == "closed":
            close(item, now)
            return "item_closed"
        if status is not None:
            item.paused_by_seller = status == "paused"
        return "item_updated"


def close(item: Item, now: float) -> None:
    """Closes an item for good."""
    item.life = "closed"
    item.life_sub_status = []
    item.closed_at = now
    item.changes = []


def change_listing_type(market: Market, request: Request) -> Answer:
    """``POST /items/{id}/listing_type {"id": ...}``."""
    item = owned(market, request)
    body = request.json_object()
    check_types(body, {"id": (str,)})
    if "id" not in body:
        return validation_error([missing_field("id")])
    if item.life != OPEN_LIFE:
        return _not_modifiable(item, ["listing_type_id"])
    if body["id"] not in LISTING_TYPES:
        return validation_error(
            [error(0, "item.listing_type_id.invalid", "The listing type is not available", "item.listing_type_id")]
        )
    item.record["listing_type_id"] = body["id"]
    market.record_item("item_updated", item, market.clock())
    return Answer(200, msgspec.json.encode(item.record))


def add_picture(market: Market, request: Request) -> Answer:
    """``POST /items/{id}/pictures {"id": ...}``: appends an uploaded picture."""
    item = owned(market, request)
    body = request.json_object()
    check_types(body, {"id": (str,)})
    if item.life != OPEN_LIFE:
        return _not_modifiable(item, ["pictures"])
    errors: list[Cause] = []
    pictures = [{"id": picture["id"]} for picture in item.record["pictures"]]
    category = CATEGORIES[item.record["category_id"]]
    known = {**market.pictures, **{picture["id"]: b"" for picture in item.record["pictures"]}}
    check_pictures([*pictures, body], category, known, errors)
    if errors:
        return validation_error(errors)
    picture = {**pending_picture(body["id"]), **picture_urls(body["id"], "1200x1200")}
    item.record["pictures"].append(picture)
    market.record_item("item_updated", item, market.clock())
    return ok(picture)
