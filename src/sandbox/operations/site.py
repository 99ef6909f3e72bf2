"""Categories, prediction, listing types, fees, currency (reference section 5)."""

from __future__ import annotations

from typing import Any

from sandbox.categories import (
    CATEGORIES,
    PREDICTIONS_DEFAULT,
    PREDICTIONS_MAX,
    ROOT_CATEGORIES,
    attributes_body,
    category,
    category_body,
    predict,
    predicted_attributes,
    sale_terms_body,
)
from sandbox.items import timestamp
from sandbox.market import Market
from sandbox.messages import Answer, Refusal, Request, bad_request, forbidden, not_found, ok
from sandbox.validation import LISTING_TYPES, MAX_STOCK

_FEE_PERCENT = {"gold_pro": 16.5, "gold_premium": 16.5, "gold_special": 12.0, "gold": 12.0}
_FIXED_FEE_BELOW = 60_000
_FIXED_FEE = 2400


def domain_discovery(market: Market, request: Request) -> Answer:
    """``GET /sites/MCO/domain_discovery/search?q=``: categories for a title, best first."""
    _check_site(request)
    title = request.parameter("q")
    limit = request.integer("limit", PREDICTIONS_DEFAULT)
    if not title.strip():
        return bad_request("The parameter q is required")
    if not 1 <= limit <= PREDICTIONS_MAX:
        return bad_request(f"limit must be between 1 and {PREDICTIONS_MAX}")
    attributes = predicted_attributes(title)
    found = [CATEGORIES[category_id] for category_id in predict(title)[:limit]]
    return ok(
        [
            {
                "domain_id": node.domain_id,
                "domain_name": node.domain_name,
                "category_id": node.id,
                "category_name": node.name,
                "attributes": attributes,
            }
            for node in found
        ]
    )


def _check_site(request: Request) -> None:
    if request.params[0] != "MCO":
        raise Refusal(not_found(f"Site not found: {request.params[0][:10]}"))


def site_categories(market: Market, request: Request) -> Answer:
    """``GET /sites/MCO/categories``: the roots."""
    _check_site(request)
    return ok([{"id": node.id, "name": node.name} for node in ROOT_CATEGORIES])


def site_search(market: Market, request: Request) -> Answer:
    """``GET /sites/MCO/search``: closed to ordinary applications."""
    return forbidden("forbidden")


def one_category(market: Market, request: Request) -> Answer:
    """``GET /categories/{id}``."""
    return Answer(200, category_body(_known(request)))


def category_attributes(market: Market, request: Request) -> Answer:
    """``GET /categories/{id}/attributes``."""
    return Answer(200, attributes_body(_known(request)))


def category_conditional(market: Market, request: Request) -> Answer:
    """``POST /categories/{id}/attributes/conditional``: which conditional attributes this item needs."""
    node = CATEGORIES[_known(request)]
    required = [node.attributes["GTIN"].body()] if node.identifier_required else []
    return ok({"required_attributes": required})


def category_sale_terms(market: Market, request: Request) -> Answer:
    """``GET /categories/{id}/sale_terms``."""
    _known(request)
    return Answer(200, sale_terms_body())


def _known(request: Request) -> str:
    if category(request.params[0]) is None:
        raise Refusal(not_found(f"Category not found: {request.params[0][:40]}"))
    return request.params[0]


def site_listing_types(market: Market, request: Request) -> Answer:
    """``GET /sites/MCO/listing_types``."""
    _check_site(request)
    return ok([{"site_id": "MCO", "id": key, "name": name} for key, name in LISTING_TYPES.items()])


def listing_type(market: Market, request: Request) -> Answer:
    """``GET /sites/MCO/listing_types/{id}`` (and ``/listing_types/{id}``): its configuration."""
    key = request.params[-1]
    if key not in LISTING_TYPES:
        return not_found(f"Listing type not found: {key[:40]}")
    return ok(
        {
            "id": key,
            "site_id": "MCO",
            "configuration": {
                "name": LISTING_TYPES[key],
                "requires_picture": key != "free",
                "max_stock_per_item": 1 if key == "free" else MAX_STOCK,
                "listing_exposure": "lowest" if key == "free" else "highest",
                "duration_days": {"buy_it_now": 60 if key == "free" else 7300},
            },
        }
    )


def listing_prices(market: Market, request: Request) -> Answer:
    """``GET /sites/MCO/listing_prices``: a list, or one object when listing_type_id is given.

    The fixed fee is right only when logistic_type and shipping_mode are named, as on the real site.
    """
    _check_site(request)
    price = request.integer("price", 0)
    if price == 0:
        return bad_request("The parameter price is required")
    wanted = request.parameter("listing_type_id")
    if wanted and wanted not in LISTING_TYPES:
        return bad_request("Invalid listing_type_id")
    logistic = bool(request.parameter("logistic_type") and request.parameter("shipping_mode"))
    rows = [_fee(key, price, logistic) for key in LISTING_TYPES if not wanted or key == wanted]
    return ok(rows[0] if wanted else rows)


def _fee(key: str, price: int, logistic: bool) -> dict[str, Any]:
    percent = 0.0 if key == "free" else _FEE_PERCENT.get(key, 10.0)
    fixed = _FIXED_FEE if price < _FIXED_FEE_BELOW and logistic and key != "free" else 0
    amount = round(price * percent / 100) + fixed
    return {
        "currency_id": "COP",
        "listing_type_id": key,
        "listing_type_name": LISTING_TYPES[key],
        "listing_exposure": "lowest" if key == "free" else "highest",
        "listing_fee_amount": 0,
        "listing_fee_details": {"fixed_fee": 0, "gross_amount": 0},
        "requires_picture": key != "free",
        "sale_fee_amount": amount,
        "sale_fee_details": {
            "percentage_fee": percent,
            "fixed_fee": fixed,
            "financing_add_on_fee": 4.5 if key == "gold_pro" else 0,
            "gross_amount": amount,
            "meli_percentage_fee": percent,
        },
        "stop_time": "2099-12-31T00:00:00.000-04:00",
    }


def currency(market: Market, request: Request) -> Answer:
    """``GET /currencies/{id}``."""
    known = {
        "COP": {"id": "COP", "description": "Peso colombiano", "symbol": "$", "decimal_places": 0},
        "USD": {"id": "USD", "description": "Dólar", "symbol": "U$S", "decimal_places": 2},
    }
    body = known.get(request.params[0])
    return not_found("Currency not found") if body is None else ok(body)


def currency_conversion(market: Market, request: Request) -> Answer:
    """``GET /currency_conversions/search?from=USD&to=COP``, new format with ``x-format-new: true``."""
    base, quote = request.parameter("from"), request.parameter("to")
    rates = {("USD", "COP"): market.settings.usd_to_cop, ("COP", "USD"): 1 / market.settings.usd_to_cop}
    rate = 1.0 if base == quote and base in {"USD", "COP"} else rates.get((base, quote))
    if rate is None:
        return not_found("Currency conversion not found")
    if not request.new_format:
        return ok({"ratio": rate, "mercado_pago_ratio": rate})
    return ok(
        {
            "currency_base": base,
            "currency_quote": quote,
            "rate": rate,
            "inv_rate": round(1 / rate, 9),
            "creation_date": timestamp(market.clock()),
        }
    )
