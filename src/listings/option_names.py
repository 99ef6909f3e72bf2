"""What the command line calls the fields of a request, where an option of its own sets them."""

from __future__ import annotations

from core.errors import ApiError, Violation

_OPTIONS = {
    "listing_type_id": "--listing-type",
    "tax_category_id": "--tax-category",
    "scheduled_for": "--schedule",
    "idempotency_key": "--idempotency-key",
    "page_size": "--limit",
    "from_date": "--from",
    "to_date": "--to",
    "margin_percent": "--margin",
    "rate_percent": "--rate",
    "scopes": "--scope",
    "seller_id": "--seller",
    "marketplace_user_id": "--marketplace-user",
    **{
        name: "--" + name.replace("_", "-")
        for name in (
            *("status", "status_meli", "app_status", "sku", "error_code", "name", "credits", "site", "currency"),
            *("trm", "price_step", "warranty_time", "manufacturing_time_days", "stock_quantity", "index"),
            *("environment", "expires_at", "access_token", "refresh_token"),
        )
    },
}


def by_option(error: ApiError) -> ApiError:
    """The refusal with its places named by options, where there is one; the sentence too when it begins with one."""
    if not error.violations:
        return error
    places = [Violation(each.code, each.detail, _option(each.pointer or each.parameter)) for each in error.violations]
    first = error.violations[0]
    place = first.pointer or first.parameter
    detail = error.detail
    if place and detail.startswith((f"{place}: ", f"{place} ")):
        detail = places[0].pointer + detail.removeprefix(place)
    return ApiError(error.code, detail, violations=places, retry_after=error.retry_after)


def _option(place: str) -> str:
    return _OPTIONS.get(place.removeprefix("/"), place.removeprefix("/sku_list"))
