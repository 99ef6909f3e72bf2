"""The error catalogue: the one table from which every face of the service tells a failure.

An ``ApiError`` raised anywhere in core carries a row of this table and the words for the caller. It
crosses gRPC intact (code, detail, violations, retry delay travel as ``google.rpc`` details) and the
gateway renders it as an RFC 9457 problem. What is lost at the boundary on purpose: the Python cause,
SQL, addresses, and the text of anything that is not an ``ApiError``; those reach the log only, and the
caller sees ``E_INTERNAL`` with a request id.

Codes, HTTP statuses and conditions: contract, section "Errors".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

ERROR_DOMAIN = "listing-publication"
MAX_VIOLATIONS = 100
"""At most this many offending places are listed in one problem (decisions, section 2)."""


class Who(StrEnum):
    """Who must act before the same request can succeed."""

    SELLER = "seller"
    INTEGRATOR = "integrator"
    MARKETPLACE = "marketplace"
    OPERATOR = "operator"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One row of the catalogue.

    ``grpc_status`` is the name of the canonical gRPC status. ``retry_helps`` says whether the unchanged
    request can succeed later without anybody acting.
    """

    code: str
    http_status: int
    grpc_status: str
    title: str
    who: Who
    retry_helps: bool

    @property
    def type_uri(self) -> str:
        """The problem's ``type``: stable, and made from the code alone."""
        return "urn:listing-publication:error:" + self.code.removeprefix("E_").lower()


def _rows(*kinds: ErrorKind) -> dict[str, ErrorKind]:
    return {kind.code: kind for kind in kinds}


CATALOGUE: dict[str, ErrorKind] = _rows(
    ErrorKind("E_AUTH_MISSING_KEY", 401, "UNAUTHENTICATED", "API key missing", Who.INTEGRATOR, False),
    ErrorKind("E_AUTH_INVALID_KEY", 401, "UNAUTHENTICATED", "API key not valid", Who.INTEGRATOR, False),
    ErrorKind("E_AUTH_FORBIDDEN_SCOPE", 403, "PERMISSION_DENIED", "Scope missing", Who.INTEGRATOR, False),
    ErrorKind(
        "E_PROMOTE_REQUIRES_LIVE_KEY",
        403,
        "PERMISSION_DENIED",
        "Promotion needs a live key",
        Who.INTEGRATOR,
        False,
    ),
    ErrorKind("E_RATE_LIMITED", 429, "RESOURCE_EXHAUSTED", "Too many requests", Who.INTEGRATOR, True),
    ErrorKind(
        "E_PRODUCT_MAX_CONCURRENT_JOBS",
        429,
        "RESOURCE_EXHAUSTED",
        "Too many active jobs",
        Who.INTEGRATOR,
        True,
    ),
    ErrorKind(
        "E_IDEMPOTENCY_CONFLICT",
        409,
        "ALREADY_EXISTS",
        "Idempotency key used for another request",
        Who.INTEGRATOR,
        False,
    ),
    ErrorKind("E_PRODUCT_INVALID_BODY", 422, "INVALID_ARGUMENT", "Request not valid", Who.INTEGRATOR, False),
    ErrorKind("E_PRODUCT_INVALID_SKU", 422, "INVALID_ARGUMENT", "SKU not valid", Who.INTEGRATOR, False),
    ErrorKind("E_CATEGORY_INVALID", 422, "INVALID_ARGUMENT", "Category id not valid", Who.INTEGRATOR, False),
    ErrorKind(
        "E_CATEGORY_AND_AUTO_CONFLICT",
        422,
        "INVALID_ARGUMENT",
        "Category and automatic category given together",
        Who.INTEGRATOR,
        False,
    ),
    ErrorKind("E_PRODUCT_CREDIT_EXHAUSTED", 400, "FAILED_PRECONDITION", "Not enough credits", Who.SELLER, False),
    ErrorKind("E_PROMOTE_NO_CANDIDATES", 400, "FAILED_PRECONDITION", "Nothing to promote", Who.INTEGRATOR, False),
    ErrorKind("E_JOB_NOT_RETRYABLE", 400, "FAILED_PRECONDITION", "Job cannot be retried", Who.INTEGRATOR, False),
    ErrorKind("E_JOB_ALREADY_TERMINAL", 400, "FAILED_PRECONDITION", "Job already closed", Who.NOBODY, False),
    ErrorKind("E_JOB_NOT_FOUND", 404, "NOT_FOUND", "Job not found", Who.INTEGRATOR, False),
    ErrorKind("E_ACCOUNT_NOT_FOUND", 404, "NOT_FOUND", "Marketplace account not connected", Who.SELLER, False),
    ErrorKind("E_INTERNAL", 503, "UNAVAILABLE", "Service temporarily unavailable", Who.OPERATOR, True),
    # Operator operations only (AdminService and the command line); REST v1 never shows these.
    ErrorKind("E_ADMIN_INVALID", 422, "INVALID_ARGUMENT", "Value not valid", Who.OPERATOR, False),
    ErrorKind("E_ADMIN_NOT_FOUND", 404, "NOT_FOUND", "Not found", Who.OPERATOR, False),
    ErrorKind("E_ADMIN_FORBIDDEN", 403, "PERMISSION_DENIED", "Operator token missing or wrong", Who.OPERATOR, False),
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One offending place: a JSON Pointer into the request, or one field of it. Core names the fields of the gRPC
    request; the gateway and the command line say what they call them.

    ``detail`` quotes the rule, never the value that broke it.
    """

    code: str
    detail: str
    pointer: str = ""
    parameter: str = ""


class ApiError(Exception):
    """A refusal that the caller may read.

    Args:
        code: a key of ``CATALOGUE``.
        detail: a sentence for the caller; names place and rule, never echoes input or a secret.
        violations: every offending place, in the documented order.
        retry_after: whole seconds until another try makes sense; always told for 429 and 503.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        violations: Sequence[Violation] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.kind = CATALOGUE[code]
        self.detail = detail
        self.violations = tuple(violations[:MAX_VIOLATIONS])
        if retry_after is None and self.kind.http_status in (429, 503):
            retry_after = 1
        self.retry_after = retry_after

    @property
    def code(self) -> str:
        """The E_ code."""
        return self.kind.code


def invalid(violations: Sequence[Violation]) -> ApiError:
    """The 422 for a request with these offending places; its code is that of the first.

    Whoever looks for places may stop at one more than ``MAX_VIOLATIONS``: beyond that nobody counts.
    """
    first = violations[0]
    place = first.pointer or first.parameter or "the request"
    more = ""
    if len(violations) > MAX_VIOLATIONS:
        more = f" (more than {MAX_VIOLATIONS} places; the first {MAX_VIOLATIONS} are listed)"
    elif len(violations) > 1:
        more = f" ({len(violations)} places in all)"
    return ApiError(first.code, f"{place}: {first.detail}{more}", violations=violations)


def internal() -> ApiError:
    """The one face of every unexpected failure: no cause, no text from inside."""
    return ApiError("E_INTERNAL", "The request could not be completed. Try again after the delay given.", retry_after=2)
