"""What the marketplace checks of an item before it takes it (reference sections 3.2, 3.3 and 6.1).

Order: body types, required fields, category, listing type and pictures, attributes, GTIN, price. A body of
the wrong form ends the check at once; otherwise every cause is collected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sandbox.accounts import User
from sandbox.attributes import SALE_TERMS, TERM_UNITS, Attribute
from sandbox.categories import CATEGORIES, MAX_PRICE, OTHER, Category
from sandbox.category_table import MIGRATED_CATEGORY
from sandbox.causes import (
    LOST_ME1,
    Cause,
    error,
    incomplete_sheet,
    missing_attributes,
    missing_field,
    warning,
)
from sandbox.messages import Answer, Refusal, problem

LISTING_TYPES = {
    "gold_pro": "Premium",
    "gold_premium": "Oro Premium",
    "gold_special": "Clásica",
    "gold": "Oro",
    "silver": "Plata",
    "bronze": "Bronce",
    "free": "Gratuita",
}
MAX_STOCK = 99_999
MAX_VALUE_LENGTH = 255
MAX_MANUFACTURING_DAYS = 60
NOT_APPLICABLE = "-1"

_ACCREDITED_BRANDS = frozenset({"adidas", "reebok", "nike"})
_VAGUE_TITLES = frozenset({"producto", "articulo", "item", "otro", "otros", "product", "article", "other"})
_THREE_LETTERS = re.compile(r"(?:[^\W\d_][\W\d_]*){3}")
_NUMBER_UNIT = re.compile(r"\s*([0-9]+(?:[.,][0-9]+)?)\s*([^\s0-9.,]\S*)\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[0-9]+(?:[.,][0-9]+)?\s*", re.ASCII)
_GTIN = re.compile(r"[0-9]{8}|[0-9]{12,14}", re.ASCII)

_Number = (int, float)
_FIELDS: dict[str, tuple[type, ...]] = {
    "title": (str,),
    "family_name": (str,),
    "category_id": (str,),
    "price": _Number,
    "currency_id": (str,),
    "available_quantity": (int,),
    "buying_mode": (str,),
    "condition": (str,),
    "listing_type_id": (str,),
    "pictures": (list,),
    "attributes": (list,),
    "sale_terms": (list,),
    "shipping": (dict,),
    "channels": (list,),
    "seller_custom_field": (str,),
    "description": (dict,),
    "status": (str,),
    "variations": (list,),
    "video_id": (str,),
    "site_id": (str,),
    "warranty": (str,),
    "tags": (list,),
    "official_store_id": (int,),
    "catalog_product_id": (str,),
    "catalog_listing": (bool,),
    "domain_id": (str,),
    "location": (dict,),
}
_REQUIRED = ("category_id", "price", "currency_id", "available_quantity", "buying_mode", "listing_type_id")
_NULLABLE = frozenset(
    {
        "seller_custom_field",
        "video_id",
        "warranty",
        "official_store_id",
        "catalog_product_id",
        "description",
        "location",
    }
)
_ELEMENTS: dict[str, tuple[type, ...]] = {"pictures": (dict, str), "channels": (str,), "tags": (str,)}


@dataclass(slots=True)
class Draft:
    """What became of a body: its causes, and the values an item is made of. price: whole COP."""

    errors: list[Cause] = field(default_factory=list)
    warnings: list[Cause] = field(default_factory=list)
    category: Category = OTHER
    name: str = ""
    price: int = 0
    quantity: int = 0
    attributes: list[dict[str, Any]] = field(default_factory=list)
    sku: str | None = None
    pictures: list[dict[str, str]] = field(default_factory=list)
    shipping: dict[str, Any] = field(default_factory=dict)
    sale_terms: list[dict[str, Any]] = field(default_factory=list)


def validation_error(causes: list[Cause]) -> Answer:
    """400 with causes."""
    return problem(400, "Validation error", "validation_error", causes)


def invalid_fields(names: list[str]) -> Answer:
    """400 for fields that this call does not take."""
    return problem(400, "body.invalid_fields", f"The fields [{', '.join(names)}] are invalid for requested call.")


def invalid_types(names: list[str]) -> Answer:
    """400 for fields of a wrong JSON type."""
    return problem(
        400, "body.invalid_field_types", f"The field types [{', '.join(names)}] are invalid for requested call."
    )


def check_types(body: dict[str, Any], taken: dict[str, tuple[type, ...]]) -> None:
    """Refuses unknown fields, then fields of a wrong type."""
    unknown = [name for name in body if name not in taken]
    if unknown:
        raise Refusal(invalid_fields(unknown))
    wrong = [name for name, value in body.items() if not _fits(name, value, taken[name])]
    if wrong:
        raise Refusal(invalid_types(wrong))


def _fits(name: str, value: object, expected: tuple[type, ...]) -> bool:
    if value is None:
        return name in _NULLABLE
    if isinstance(value, bool) and bool not in expected:
        return False
    if isinstance(value, list) and name in _ELEMENTS:
        return all(isinstance(element, _ELEMENTS[name]) for element in value)
    return isinstance(value, expected)


def check_item(body: dict[str, Any], user: User, *, free_shipping_from: int, known_pictures: dict[str, bytes]) -> Draft:
    """Checks the body of ``POST /items`` for this user.

    Raises Refusal for a body of the wrong form. The causes of everything else are in the Draft.
    """
    check_types(body, _FIELDS)
    draft = Draft()
    _check_required(body, user, draft)
    category = _check_category(body, draft)
    draft.category = category
    _check_name(draft, category, user)
    _check_listing(body, draft, category)
    draft.pictures = check_pictures(body.get("pictures") or [], category, known_pictures, draft.errors)
    if not body.get("pictures") and body.get("listing_type_id", "free") != "free":
        draft.errors.append(
            error(
                173,
                "item.listing_type_id.requiresPictures",
                f"Listing type {body['listing_type_id']} requires pictures",
                "item.pictures",
                "item.listing_type_id",
            )
        )
    draft.attributes = check_attributes(body.get("attributes") or [], category, draft.errors, draft.warnings)
    _check_completeness(draft, category)
    draft.sale_terms = check_sale_terms(body.get("sale_terms") or [], draft.errors)
    if "price" in body:
        draft.price = check_price(body["price"], category, draft.errors)
    draft.shipping = _shipping(body, draft, free_shipping_from)
    if body.get("description") is not None:
        draft.warnings.append(
            warning(310, "item.description.text.not_allowed", "Create the description afterwards", "item.description")
        )
    draft.warnings.append(LOST_ME1)
    return draft


def _check_required(body: dict[str, Any], user: User, draft: Draft) -> None:
    if user.user_product_model:
        if "title" in body:
            raise Refusal(invalid_fields(["title"]))
        if body.get("variations"):
            draft.errors.append(
                error(
                    374,
                    "body.invalid_fields",
                    "The fields [variations] are invalid with family_name",
                    "item.variations",
                )
            )
        name_field = "family_name"
    else:
        if "family_name" in body:
            raise Refusal(invalid_fields(["family_name"]))
        name_field = "title"
    draft.errors.extend(missing_field(name) for name in (name_field, *_REQUIRED) if name not in body)
    draft.name = str(body.get(name_field, "")).strip()
    draft.quantity = body.get("available_quantity", 0)


def _check_category(body: dict[str, Any], draft: Draft) -> Category:
    category_id = body.get("category_id")
    if category_id is None:
        return OTHER
    if category_id == MIGRATED_CATEGORY:
        draft.warnings.append(
            warning(
                382,
                "item.category_id.migrated",
                f"Category {category_id} was replaced by {OTHER.id}",
                "item.category_id",
            )
        )
        return OTHER
    category = CATEGORIES.get(category_id)
    if category is None or not category.takes_listings:
        draft.errors.append(
            error(
                126,
                "item.category_id.invalid",
                f"Category {category_id[:40]} does not allow listings or does not exist",
                "item.category_id",
            )
        )
        return category or OTHER
    return category


def _check_name(draft: Draft, category: Category, user: User) -> None:
    if not draft.name:
        return
    check_name(draft.name, category, draft.errors, family=user.user_product_model)


def check_name(name: str, category: Category, errors: list[Cause], *, family: bool) -> None:
    """Length and content of title or family_name."""
    place = "item.family_name" if family else "item.title"
    limit = category.max_title_length
    if len(name) > limit:
        if family:
            errors.append(
                error(
                    462, "item.family_name.length_invalid", f"family_name must have at most {limit} characters", place
                )
            )
        else:
            errors.append(error(134, "item.title.length.invalid", f"title must have at most {limit} characters", place))
    if _THREE_LETTERS.search(name) is None or name.lower() in _VAGUE_TITLES:
        errors.append(error(3705, "item.title.minimum_length", "The title is not descriptive enough", place))


def _check_listing(body: dict[str, Any], draft: Draft, category: Category) -> None:
    listing_type = body.get("listing_type_id")
    if listing_type is not None and listing_type not in LISTING_TYPES:
        draft.errors.append(
            error(0, "item.listing_type_id.invalid", "The listing type is not available", "item.listing_type_id")
        )
    currency = body.get("currency_id")
    if currency is not None and currency not in category.currencies:
        draft.errors.append(
            error(1001, "item.currency_id.invalid", "The currency is not allowed in the category", "item.currency_id")
        )
    if body.get("buying_mode", "buy_it_now") != "buy_it_now":
        draft.errors.append(error(0, "item.buying_mode.invalid", "The buying mode is not allowed", "item.buying_mode"))
    if body.get("condition", "new") not in {"new", "used", "not_specified"}:
        draft.errors.append(
            error(0, "item.attributes.condition.invalid", "The condition is not allowed", "item.condition")
        )
    limit = 1 if listing_type == "free" else MAX_STOCK
    check_quantity(draft.quantity, limit, draft.errors)


def check_quantity(quantity: int, limit: int, errors: list[Cause]) -> None:
    """0 to the limit of the listing type."""
    if not 0 <= quantity <= limit:
        errors.append(
            error(
                0,
                "item.available_quantity.invalid",
                f"available_quantity must be between 0 and {limit}",
                "item.available_quantity",
            )
        )


def check_price(price: float, category: Category, errors: list[Cause]) -> int:
    """The price in whole COP; appends causes 109 and 129. Decimals are refused as 109 (our reading)."""
    # Compared before anything else: an integer may be too long to be a float.
    if not -MAX_PRICE < price < MAX_PRICE:
        errors.append(error(129, "item.price.invalid", f"price must be below {MAX_PRICE}", "item.price"))
        return 0
    if price != int(price):
        errors.append(error(109, "item.price.invalid", "COP takes no decimals", "item.price"))
    elif price < category.minimum_price:
        errors.append(
            error(
                109,
                "item.price.invalid",
                f"The category {category.id} requires a minimum price of {category.minimum_price}",
                "item.price",
            )
        )
    return int(price)


def check_pictures(
    pictures: list[Any], category: Category, known: dict[str, bytes], errors: list[Cause]
) -> list[dict[str, str]]:
    """The pictures as {"source": url} or {"id": id}; appends causes 201, 204, 508, 509 and 3703."""
    if len(pictures) > category.max_pictures:
        errors.append(
            error(
                201,
                "item.pictures.max",
                f"The category {category.id} takes at most {category.max_pictures} pictures",
                "item.pictures",
            )
        )
    found: list[dict[str, str]] = []
    for index, picture in enumerate(pictures):
        place = f"item.pictures[{index}]"
        source = picture if isinstance(picture, str) else picture.get("source")
        picture_id = None if isinstance(picture, str) else picture.get("id")
        if isinstance(picture_id, str):
            if picture_id not in known:
                errors.append(error(204, "item.pictures.picture_not_found", "Picture not found", place))
            found.append({"id": picture_id})
        elif isinstance(source, str) and _is_web_address(source):
            if "sandbox-small" in source:
                errors.append(error(3703, "item.pictures.invalid_size", "The picture is smaller than 500 px", place))
            found.append({"source": source})
        else:
            errors.append(error(508, "item.pictures.error", "The picture cannot be read", place))
    return found


def _is_web_address(source: str) -> bool:
    if not source.startswith(("http://", "https://")) or len(source) > 2048:
        return False
    try:
        return bool(urlsplit(source).hostname) and " " not in source
    except ValueError:
        return False


def check_attributes(
    attributes: list[Any], category: Category, errors: list[Cause], warnings: list[Cause]
) -> list[dict[str, Any]]:
    """The attributes as the item will show them; values that are not used are dropped with a warning."""
    shown: dict[str, dict[str, Any]] = {}
    for index, sent in enumerate(attributes):
        place = f"item.attributes[{index}]"
        if not isinstance(sent, dict) or not isinstance(sent.get("id", sent.get("name")), str):
            raise Refusal(invalid_types(["attributes"]))
        value_id, value_name = sent.get("value_id"), sent.get("value_name")
        if not isinstance(value_id, (str, type(None))) or not isinstance(value_name, (str, type(None))):
            raise Refusal(invalid_types([f"attributes[{index}]"]))
        attribute_id = sent.get("id")
        known = category.attributes.get(attribute_id) if isinstance(attribute_id, str) else None
        if known is None:
            if isinstance(sent.get("name"), str) and value_name:
                shown[sent["name"]] = {
                    "id": attribute_id,
                    "name": sent["name"],
                    "value_id": None,
                    "value_name": value_name,
                }
            else:
                warnings.append(
                    warning(
                        301, "item.attributes.dropped", f"The attribute {str(attribute_id)[:60]} was dropped", place
                    )
                )
            continue
        value = _check_value(known, (value_id, value_name), place, errors=errors, warnings=warnings)
        if value is not None:
            shown[known.id] = value
    return list(shown.values())


def _check_value(
    known: Attribute, sent: tuple[str | None, str | None], place: str, *, errors: list[Cause], warnings: list[Cause]
) -> dict[str, Any] | None:
    """The attribute as shown for the (value_id, value_name) sent; None when it is not used."""
    value_id, value_name = sent
    if "read_only" in known.tags or "fixed" in known.tags:
        warnings.append(warning(303, "item.attributes.ignored", f"The attribute {known.id} was ignored", place))
        return None
    if value_id == NOT_APPLICABLE and value_name is None:
        if "required" in known.tags:
            errors.append(
                error(100, "field.constraint.violated", f"The attribute {known.id} cannot be not applicable", place)
            )
        return {"id": known.id, "name": known.name, "value_id": NOT_APPLICABLE, "value_name": None}
    if len(value_name or "") > MAX_VALUE_LENGTH:
        message = f"The value of {known.id} is longer than {MAX_VALUE_LENGTH}"
        errors.append(error(154, "item.attributes.invalid_length", message, f"{place}.values"))
        return None
    if not value_id and not value_name:
        return None
    value: dict[str, Any] = {"id": known.id, "name": known.name, "value_id": None, "value_name": value_name}
    if known.closed or (value_id is not None and value_id in known.values):
        return _listed(known, value, value_id, place, errors)
    return _free(known, value, place, errors, warnings)


def _free(
    known: Attribute, value: dict[str, Any], place: str, errors: list[Cause], warnings: list[Cause]
) -> dict[str, Any] | None:
    text = value["value_name"] or ""
    if known.value_type == "number_unit":
        return _check_number_unit(known, value, place, errors, warnings)
    if known.value_type == "number" and _NUMBER.fullmatch(text) is None:
        errors.append(
            error(3708, "item.attribute.number_invalid_format", f"The value of {known.id} is no number", place)
        )
        return None
    if known.id == "GTIN":
        _check_gtin(text, place, errors)
    return value


def _listed(
    known: Attribute, value: dict[str, Any], value_id: str | None, place: str, errors: list[Cause]
) -> dict[str, Any] | None:
    if value_id is None and known.value_type == "boolean":
        value_id = next((key for key, name in known.values.items() if name == value["value_name"]), None)
    if value_id is None or value_id not in known.values:
        errors.append(_not_in_list(known, place))
        return None
    value.update(value_id=value_id, value_name=known.values[value_id])
    return value


def _not_in_list(known: Attribute, place: str) -> Cause:
    if known.id == "GENDER":
        return error(
            2516,
            "error.item.attribute.business_conditional.value_name",
            "The value of [GENDER] is not allowed",
            place,
        )
    return error(
        3510, "invalid.item.attribute.values", f"The value of [{known.id}] is not in its list", f"{place}.values"
    )


def _check_number_unit(
    known: Attribute, value: dict[str, Any], place: str, errors: list[Cause], warnings: list[Cause]
) -> dict[str, Any] | None:
    text = value["value_name"] or ""
    package = known.id.startswith("SELLER_PACKAGE_")
    match = _NUMBER_UNIT.fullmatch(text)
    if match is None:
        if package and _NUMBER.fullmatch(text):
            warnings.append(
                warning(306, "item.attributes.omitted", f"The attribute {known.id} was omitted: no unit", place)
            )
        elif package:
            errors.append(
                error(
                    5402,
                    "item.attribute.invalid.format.seller.package.dimensions",
                    f"Bad format of [{known.id}]",
                    place,
                )
            )
        else:
            errors.append(
                error(344, "item.attributes.normalizable.invalid", f"The value of [{known.id}] needs a unit", place)
            )
        return None
    number, unit = match.group(1).replace(",", "."), match.group(2)
    if unit not in known.units:
        if package:
            errors.append(
                error(5401, "item.attribute.invalid.seller.package.dimensions", f"Bad unit of [{known.id}]", place)
            )
        else:
            errors.append(
                error(344, "item.attributes.normalizable.invalid", f"The unit of [{known.id}] is not allowed", place)
            )
        return None
    if package and ("." in number or int(number) == 0):
        errors.append(
            error(
                5402,
                "item.attribute.invalid.format.seller.package.dimensions",
                f"[{known.id}] takes whole numbers above 0",
                place,
            )
        )
        return None
    value["value_name"] = f"{number} {unit}"
    value["value_struct"] = {"number": float(number) if "." in number else int(number), "unit": unit}
    return value


def _check_gtin(text: str, place: str, errors: list[Cause]) -> None:
    code = "item.attribute.product_identifier.invalid"
    for gtin in text.split(","):
        digits = gtin.strip()
        if _GTIN.fullmatch(digits) is None:
            errors.append(error(7710, f"{code}_format", "The [GTIN] has invalid characters or length", place))
        elif not valid_check_digit(digits):
            errors.append(error(7711, f"{code}_check_digit", "The [GTIN] has a wrong check digit", place))
        elif digits.strip("0") == "":
            errors.append(
                error(3701, "item.attribute.invalid_product_identifier", "The [GTIN] belongs to another product", place)
            )


def valid_check_digit(digits: str) -> bool:
    """Whether the last digit of a GTIN-8, -12, -13 or -14 is the one its other digits demand."""
    total = sum(int(digit) * (3 if index % 2 == 0 else 1) for index, digit in enumerate(reversed(digits[:-1])))
    return (10 - total % 10) % 10 == int(digits[-1])


def _check_completeness(draft: Draft, category: Category) -> None:
    present = {attribute["id"] for attribute in draft.attributes}
    for attribute in draft.attributes:
        if attribute["id"] == "SELLER_SKU":
            draft.sku = attribute["value_name"]
        elif attribute["id"] == "BRAND" and str(attribute["value_name"]).lower() in _ACCREDITED_BRANDS:
            build = error if category.accredited_brands_only else warning
            found = build(
                3250, "moderations.seller.not_authorized", "The brand needs an accredited seller", "item.attributes"
            )
            (draft.errors if category.accredited_brands_only else draft.warnings).append(found)
    missing = [name for name in category.required if name not in present]
    packages = [name for name in missing if name.startswith("SELLER_PACKAGE_")]
    if packages:
        draft.errors.append(
            error(
                5400,
                "item.attribute.missing.seller.package.dimensions",
                f"The attributes [{', '.join(packages)}] are required",
                "item.attributes",
            )
        )
    if "SIZE_GRID_ID" in missing:
        draft.errors.append(
            error(
                2610,
                "missing.fashion_grid.grid_id.values",
                "The attribute [SIZE_GRID_ID] is missing",
                "item.attributes",
            )
        )
    others = [name for name in missing if name != "SIZE_GRID_ID" and name not in packages]
    if others:
        draft.errors.append(missing_attributes(others, category.id))
    sheet = [name for name in category.catalog_required if name not in present]
    if sheet:
        draft.warnings.append(incomplete_sheet(sheet))
    if category.identifier_required and not {"GTIN", "EMPTY_GTIN_REASON"} & present:
        draft.errors.append(
            error(
                7810,
                "item.attribute.missing_conditional_required",
                "The attributes [GTIN] are required; without one say why in [EMPTY_GTIN_REASON]",
                "item.attributes",
            )
        )


def check_sale_terms(terms: list[Any], errors: list[Cause]) -> list[dict[str, Any]]:
    """Warranty and manufacturing time, by the closed lists and units of the sale terms; as they are shown."""
    shown: list[dict[str, Any]] = []
    for index, term in enumerate(terms):
        place = f"item.sale_terms[{index}]"
        known = SALE_TERMS.get(str(term.get("id"))) if isinstance(term, dict) else None
        if known is None:
            errors.append(error(0, "item.sale_terms.invalid", "The sale term is unknown", place))
            continue
        value_id, value_name = str(term.get("value_id")), str(term.get("value_name") or "")
        if known.closed:
            if value_id not in known.values:
                errors.append(_not_in_list(known, place))
                continue
            value_name = known.values[value_id]
        elif not _fits_term(known, value_name, place, errors):
            continue
        found = {"id": known.id, "name": known.name, "value_id": value_id if known.closed else None}
        shown.append({**found, "value_name": value_name})
    return shown


def _fits_term(known: Attribute, text: str, place: str, errors: list[Cause]) -> bool:
    match = _NUMBER_UNIT.fullmatch(text)
    if match is None or TERM_UNITS.get(match.group(2).lower()) not in known.units:
        message = f"The value of [{known.id}] needs a unit"
        errors.append(error(344, "item.attributes.normalizable.invalid", message, place))
        return False
    if known.id == "MANUFACTURING_TIME" and float(match.group(1).replace(",", ".")) > MAX_MANUFACTURING_DAYS:
        message = f"[MANUFACTURING_TIME] is at most {MAX_MANUFACTURING_DAYS} días"
        errors.append(error(0, "item.sale_terms.invalid", message, place))
        return False
    return True


def _shipping(body: dict[str, Any], draft: Draft, free_shipping_from: int) -> dict[str, Any]:
    sent = body.get("shipping") or {}
    free = bool(sent.get("free_shipping"))
    if not free and draft.price >= free_shipping_from:
        free = True
        draft.warnings.append(
            warning(
                350,
                "item.shipping.mandatory_free_shipping",
                "Mandatory free shipping was added",
                "item.shipping.free_shipping",
                department="shipping",
            )
        )
    return {
        "mode": "me2",
        "local_pick_up": bool(sent.get("local_pick_up")),
        "free_shipping": free,
        "methods": [],
        "dimensions": None,
        "tags": ["mandatory_free_shipping"] if free else [],
        "logistic_type": "drop_off",
        "store_pick_up": False,
    }
