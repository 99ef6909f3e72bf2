"""Why an item did not become a listing: the one table of item failure codes.

Each row: words a seller can act on, who must act, and whether sending the same item again can help.
The marketplace connector maps what the marketplace said onto these codes; the worker adds its own. Stored items name
their code alone, so a code that was ever used stays in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.errors import Who


@dataclass(frozen=True, slots=True)
class FailureKind:
    """One row. ``retryable`` is the contract's boolean: the retry operation takes such items."""

    code: str
    message: str
    who: Who
    retryable: bool


def _rows(*kinds: FailureKind) -> dict[str, FailureKind]:
    return {kind.code: kind for kind in kinds}


KINDS: dict[str, FailureKind] = _rows(
    # Not taken or not tried.
    FailureKind("duplicate_sku", "This SKU stands earlier in the same request; the first one is published.", Who.NOBODY, False),
    FailureKind("cancelled", "The job was cancelled before this item was published.", Who.NOBODY, False),
    # Known before any call.
    FailureKind("product_unknown", "The catalogue does not know this SKU. Add the product, then publish it again.", Who.SELLER, False),
    FailureKind("price_missing", "The product has no cost above 0, so no price can be computed. Set its cost, then publish it again.", Who.SELLER, False),
    FailureKind("price_out_of_range", "The computed price is outside what the marketplace accepts. Check the product's cost.", Who.SELLER, False),
    FailureKind("title_missing", "The product has no title. Give it one, then publish it again.", Who.SELLER, False),
    FailureKind("category_not_found", "The marketplace suggests no category for this title. Send a category_id for this SKU.", Who.INTEGRATOR, False),
    FailureKind("not_promotable", "The test listing of this SKU is gone or no longer active, so it cannot be promoted.", Who.SELLER, False),
    # Refused by the marketplace for its content.
    FailureKind("category_refused", "The marketplace does not accept listings in this category. Choose a leaf category.", Who.INTEGRATOR, False),
    FailureKind("title_refused", "The marketplace does not accept this title. Make it shorter or more specific.", Who.SELLER, False),
    FailureKind("attributes_refused", "The marketplace asks for attributes that are missing or not valid. Complete the product.", Who.SELLER, False),
    FailureKind("identifier_refused", "The marketplace does not accept the product's identifier (GTIN). Correct or remove it.", Who.SELLER, False),
    FailureKind("pictures_refused", "The marketplace does not accept the product's pictures. Replace them.", Who.SELLER, False),
    FailureKind("pictures_processing", "The marketplace could not process the pictures this time.", Who.MARKETPLACE, True),
    FailureKind("price_refused", "The marketplace does not accept this price in this category.", Who.SELLER, False),
    FailureKind("listing_type_refused", "The account cannot use this listing type here. Choose another listing_type_id.", Who.SELLER, False),
    FailureKind("brand_restricted", "The marketplace lets only accredited sellers list this brand.", Who.SELLER, False),
    FailureKind("size_chart_required", "This category needs a size chart, which this service does not send. Publish it by hand.", Who.SELLER, False),
    FailureKind("package_refused", "The marketplace needs the package's size and weight. Complete the product.", Who.SELLER, False),
    FailureKind("description_refused", "The marketplace does not accept the description.", Who.SELLER, False),
    FailureKind("listing_not_modifiable", "The account has this SKU as a listing whose present state cannot be changed.", Who.SELLER, False),
    FailureKind("content_refused", "The marketplace refused the listing. See the causes.", Who.SELLER, False),
    # Time may heal.
    FailureKind("marketplace_busy", "The marketplace kept asking to slow down. Retry later.", Who.MARKETPLACE, True),
    FailureKind("marketplace_unavailable", "The marketplace did not answer or answered with an error of its own. Retry later.", Who.MARKETPLACE, True),
    FailureKind("marketplace_conflict", "The marketplace was changing the same listing. Retry later.", Who.MARKETPLACE, True),
    FailureKind("outcome_unknown", "The marketplace never told whether the listing was made and none can be found. Look at the account, then retry.", Who.SELLER, True),
    FailureKind("internal_error", "This item could not be processed because of a fault in the service. Retry later.", Who.OPERATOR, True),
    # The whole account stops.
    FailureKind("account_not_connected", "No marketplace account is connected for this environment. Connect it, then retry.", Who.SELLER, True),
    FailureKind("account_reauthorization_required", "The marketplace no longer accepts the account's authorization. Connect the account again, then retry.", Who.SELLER, True),
    FailureKind("account_not_allowed", "The marketplace does not allow this account to list now. Resolve it there, then retry.", Who.SELLER, True),
    FailureKind("account_payment_required", "The marketplace asks for a payment or the account's listing quota is used up. Resolve it there, then retry.", Who.SELLER, True),
    FailureKind("account_wrong_site", "The connected account belongs to another marketplace site. Connect one of this site, then retry.", Who.SELLER, True),
    FailureKind("application_blocked", "The marketplace refuses this service's application. The operator has to resolve it.", Who.OPERATOR, True),
)  # fmt: skip

ACCOUNT_WIDE = frozenset(
    {
        "account_not_connected",
        "account_reauthorization_required",
        "account_not_allowed",
        "account_payment_required",
        "account_wrong_site",
        "application_blocked",
    }
)
"""Failures that stop the run of every job of the account: the job fails at once, its untried items with it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What the marketplace said about one place. Text is shortened and stripped of control characters."""

    code: str
    message: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of one item: a row of ``KINDS`` and what the marketplace said."""

    code: str
    causes: Sequence[Cause] = field(default=())

    @property
    def kind(self) -> FailureKind:
        """The row. An unknown code is a bug and raises KeyError."""
        return KINDS[self.code]

    @property
    def account_wide(self) -> bool:
        """Whether the whole account stops."""
        return self.code in ACCOUNT_WIDE

    def stored(self) -> dict[str, object]:
        """The stored form: ``{code}``, with ``causes: [{code, message, field}]`` if the marketplace said anything. What
        the table says of the code is not written with every item: it would double what a cancelled item takes."""
        if not self.causes:
            return {"code": self.code}
        return {
            "code": self.code,
            "causes": [{"code": c.code, "message": c.message, "field": c.field} for c in self.causes],
        }
