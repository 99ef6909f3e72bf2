"""What each method demands of its caller: the one table. A method that is not in it is refused (rule 63)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from core.domain.api_key import Scope
from core.errors import Violation, invalid
from core.use_cases.authorize import Access
from grpc_server.unreadable import refuse_unreadable

PACKAGE = "listing_publication.v1"


class OperatorOnly:
    """The operator token instead of a key."""


class AsNamed:
    """What the method demands that the request names (CheckAccess)."""


OPERATOR = OperatorOnly()
AS_NAMED = AsNamed()

Demand = Access | OperatorOnly | AsNamed

_WRITE = Access(scope=Scope.PRODUCTS_WRITE, writes=True)
_READ = Access(scope=Scope.PRODUCTS_READ)
_ACCOUNT = Access(scope=Scope.ACCOUNT_READ)

_ADMIN = (
    "CreateSeller",
    "ListSellers",
    "GetSeller",
    "UpdateSeller",
    "CreateKey",
    "ListKeys",
    "RevokeKey",
    "GrantCredits",
    "GetCredits",
    "ConnectAccount",
    "DisconnectAccount",
    "SetTaxCategory",
    "ActOnJobs",
)

_DEMANDS: Mapping[str, Demand] = {
    "PublishingService/CreateJob": _WRITE,
    "PromotionService/ListTestProducts": _READ,
    "PromotionService/PromoteTestProducts": Access(scope=Scope.PRODUCTS_WRITE, writes=True, live_only=True),
    "JobService/GetJob": _READ,
    "JobService/ListJobs": _READ,
    "JobService/RetryJob": _WRITE,
    "JobService/CancelJob": _WRITE,
    "JobService/WatchJob": _READ,
    "JobService/WatchJobs": _READ,
    "AccountService/GetAccount": _ACCOUNT,
    "AccountService/ListTaxCategories": _ACCOUNT,
    "AccountService/Ping": Access(scope=None),
    "AccountService/CheckAccess": AS_NAMED,
    **{f"AdminService/{method}": OPERATOR for method in _ADMIN},
}

METHODS: Mapping[str, Demand] = {f"/{PACKAGE}.{name}": demand for name, demand in _DEMANDS.items()}
"""By full method name."""


def named_access(request: Any) -> Access:
    """What the method demands that a CheckAccess request names.

    Raises:
        ApiError: E_PRODUCT_INVALID_BODY for a method that no API key opens, and for a request that cannot be read.
    """
    refuse_unreadable(request)
    demand = METHODS.get(request.method)
    if not isinstance(demand, Access):
        rule = "must be the full name of a method that takes an API key"
        raise invalid([Violation("E_PRODUCT_INVALID_BODY", rule, parameter="method")])
    return demand


AccessOf = Callable[[Any], Access]


def access_of(demand: Access | AsNamed) -> AccessOf:
    """The demand as a function of the request."""
    return (lambda request: demand) if isinstance(demand, Access) else named_access
