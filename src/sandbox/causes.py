"""The causes of the marketplace's validation errors (reference section 6.1), each written once.

Where the reference knows a code but no number, cause_id is 0.
"""

from __future__ import annotations

from typing import Any

Cause = dict[str, Any]


def error(cause_id: int, code: str, message: str, *references: str) -> Cause:
    """A cause that blocks."""
    return _cause(cause_id, "error", code, message, references=references, department="items")


def warning(cause_id: int, code: str, message: str, *references: str, department: str = "items") -> Cause:
    """A cause that does not block."""
    return _cause(cause_id, "warning", code, message, references=references, department=department)


def _cause(cause_id: int, kind: str, code: str, message: str, *, references: tuple[str, ...], department: str) -> Cause:
    return {
        "department": department,
        "cause_id": cause_id,
        "type": kind,
        "code": code,
        "references": list(references),
        "message": message,
    }


LOST_ME1 = warning(
    4053,
    "shipping.lost_me1_by_user",
    "User has not mode me1",
    "item.shipping",
    department="shipping",
)


def missing_field(name: str) -> Cause:
    """369: a required body field is absent."""
    return error(
        369,
        "body.required_fields",
        f"The body does not contains some or none of the following properties [{name}]",
        f"item.{name}",
    )


def missing_attributes(names: list[str], category_id: str) -> Cause:
    """147: required attributes are absent; their ids stand between the brackets."""
    return error(
        147,
        "item.attributes.missing_required",
        f"The attributes [{', '.join(names)}] are required for category {category_id} and channel marketplace. "
        "Check the attribute is present in the attributes list or in all variation's attributes_combination.",
        "item.attributes",
        "item.variations.attribute_combinations",
    )


def incomplete_sheet(names: list[str]) -> Cause:
    """3704: catalogue attributes are absent; a warning in practice."""
    return warning(
        3704,
        "item.attribute.missing_catalog_required",
        f"The attributes [{', '.join(names)}] complete the technical sheet.",
        "item.attributes",
    )


def price_not_modifiable(kind: str = "warning") -> Cause:
    """The price of an item under automation was not changed."""
    build = error if kind == "error" else warning
    return build(0, "item.price.not_modifiable", "The price is handled by price automation", "item.price")
