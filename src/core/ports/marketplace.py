"""The marketplace as the worker sees it.

One implementation talks to Mercado Libre (``core.marketplace``); the sandbox is another server behind
the same implementation, not another implementation. A contract suite holds whatever stands behind this
Protocol to these words.

Promises every method keeps:

* it never retries a write and never follows a redirect (rule 21);
* it never raises for what the marketplace does: the outcome says it. It raises only
  ``asyncio.CancelledError`` and programming errors;
* it waits for the application's and the account's throttle before sending, and refreshes an expired
  token once for all callers of the account; a write is repeated after a refresh only when the
  marketplace answered 401, i.e. refused it unread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from core.domain.failures import Failure
from core.domain.states import Environment


class SellerModel(StrEnum):
    """How the seller's listings are composed (reference, section 3.3)."""

    USER_PRODUCT = "user_product"
    CLASSIC = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A connected marketplace account. Tokens are not here: the connector fetches them by this key."""

    seller_id: int
    environment: Environment
    marketplace_user_id: int
    site_id: str
    currency: str
    model: SellerModel = SellerModel.USER_PRODUCT


class ListingDraft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that is sent to make one listing. ``price`` in whole units of the account's currency."""

    sku: str
    title: str
    category_id: str
    price: int
    listing_type_id: str
    quantity: int
    image_urls: Sequence[str]
    warranty_time: str = ""
    manufacturing_time_days: int = 0
    brand: str | None = None
    model: str | None = None
    gtin: str | None = None
    weight_grams: int | None = None


class Outcome(StrEnum):
    """How a call ended (rule 23). Only NOT_SENT, THROTTLED and REFUSED promise that nothing happened."""

    DONE = "done"
    """The marketplace did it and said so."""
    REFUSED = "refused"
    """The marketplace said no; ``failure`` says why. Repeating the same call does not help."""
    NOT_SENT = "not_sent"
    """Failed before the first request byte."""
    THROTTLED = "throttled"
    """429 (or a quota told otherwise); ``retry_after`` is set, in seconds, within sane bounds."""
    RETRY = "retry"
    """A transient answer to a call that is safe to repeat (reads, updates, descriptions; a picture that
    could not be processed, a conflict). For ``create_listing`` only where the marketplace's answer says
    that nothing was made."""
    UNKNOWN = "unknown"
    """Nobody knows whether it happened: timeout, reset, any 5xx, unreadable or incomplete answer."""


class Listing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A listing as the marketplace tells it. Texts are length-checked; unknown ones are empty."""

    listing_id: str
    sku: str
    """SELLER_SKU; where the answer has no such attribute, the legacy custom field; empty without either."""
    status: str
    """active, paused, closed, under_review, inactive, not_yet_active, payment_required (others as told)."""
    sub_status: Sequence[str] = ()
    permalink: str = ""
    title: str = ""
    price: int | None = None
    category_id: str = ""
    listing_type_id: str = ""
    image: str = ""
    created_at: datetime | None = None
    warnings: Sequence[str] = ()

    @property
    def is_open(self) -> bool:
        """Closed is final; everything else is a listing that exists in the shop window or may come back."""
        return self.status != "closed"


class Result(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one call ended. ``failure`` is set for every outcome but DONE."""

    outcome: Outcome
    failure: Failure | None = None
    retry_after: float | None = None
    """Seconds; only with THROTTLED and RETRY."""


class ListingResult(Result, frozen=True, kw_only=True, gc=False):
    """``listing`` is set when DONE."""

    listing: Listing | None = None


class SearchResult(Result, frozen=True, kw_only=True, gc=False):
    """``listings``: open ones that carry the SKU asked for, oldest first; only when DONE."""

    listings: Sequence[Listing] = ()


class NewestResult(Result, frozen=True, kw_only=True, gc=False):
    """A page of the account's listing ids, newest first. ``total`` counts all of the account."""

    listing_ids: Sequence[str] = ()
    total: int = 0


class StatesResult(Result, frozen=True, kw_only=True, gc=False):
    """``listings`` by id; ``missing`` are ids the marketplace does not know."""

    listings: dict[str, Listing] = msgspec.field(default_factory=dict)
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A category suggested for a title."""

    category_id: str
    category_name: str


class PredictionResult(Result, frozen=True, kw_only=True, gc=False):
    """DONE with ``prediction`` None: the marketplace suggests nothing for this title."""

    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the marketplace says of the account's user."""

    nickname: str
    site_id: str
    may_list: bool
    model: SellerModel


class ProfileResult(Result, frozen=True, kw_only=True, gc=False):
    """``profile`` is set when DONE."""

    profile: Profile | None = None


class CategoryResult(Result, frozen=True, kw_only=True, gc=False):
    """``name`` of the category when DONE."""

    name: str = ""


MULTIGET_LIMIT = 20
"""Listings per ``get_listings`` call (reference, section 3.8)."""
NEWEST_PAGE = 100
"""Ids per ``newest_listings`` page (reference, section 4)."""


class Marketplace(Protocol):
    """See the module's promises."""

    async def profile(self, account: Account) -> ProfileResult:
        """The account's user: site, whether it may list, which model. One call."""

    async def predict_category(self, account: Account, title: str) -> PredictionResult:
        """The best category for a title. One call, not cached here."""

    async def category_name(self, account: Account, category_id: str) -> CategoryResult:
        """The category's name; cached in memory for a day."""

    async def create_listing(
        self, account: Account, draft: ListingDraft, may_send: Callable[[], bool]
    ) -> ListingResult:
        """Send one creation, once. At most one rebuild when the marketplace refused the body for its
        form (wrong seller model, over-long title, bad GTIN): a refusal made nothing, so this is no repeat.
        DONE only when id and SKU in the answer are those expected.

        ``may_send`` is asked right before the first byte of each request, after every wait for a throttle
        or a token: False ends the call as NOT_SENT. It is how a lease that has grown too old stops a send
        (rule 22).
        """

    async def update_listing(self, account: Account, listing_id: str, draft: ListingDraft) -> ListingResult:
        """Set price, stock and pictures of an existing listing; ``draft.category_id`` is the listing's own, whose
        limits hold. Safe to repeat. DONE with the listing as told back; a price the
        marketplace ignored (price automation) is in ``listing.price``."""

    async def close_listing(self, account: Account, listing_id: str) -> ListingResult:
        """Close a listing. Safe to repeat."""

    async def set_description(self, account: Account, listing_id: str, text: str) -> Result:
        """Write the description (create or replace), cleaned to what the marketplace takes. Safe to repeat."""

    async def find_by_sku(self, account: Account, sku: str) -> SearchResult:
        """Open listings of the account that carry this SELLER_SKU. The index lags behind creation: an
        empty answer is no proof."""

    async def newest_listings(self, account: Account, offset: int) -> NewestResult:
        """A page of listing ids, newest first; offsets from 0 below 1,000."""

    async def get_listings(self, account: Account, listing_ids: Sequence[str]) -> StatesResult:
        """At most MULTIGET_LIMIT listings as they stand."""

    async def aclose(self) -> None:
        """Close connections."""


class TokenStore(Protocol):
    """Where an account's tokens live, and the guard that lets one process refresh at a time."""

    async def read(self, seller_id: int, environment: Environment) -> StoredTokens | None:
        """The present tokens; None when the account is not connected."""

    async def begin_refresh(self, seller_id: int, environment: Environment, version: int, seconds: float) -> bool:
        """Take the right to refresh the pair of this version for that many seconds. False: another
        process holds it or the version has moved on; read again."""

    async def finish_refresh(
        self,
        seller_id: int,
        environment: Environment,
        version: int,
        *,
        access_token: str,
        refresh_token: str,
        expires_in: int,
    ) -> bool:
        """Store the new pair (version + 1) before anybody uses it."""

    async def abandon_refresh(self, seller_id: int, environment: Environment, version: int) -> None:
        """Give the right back: the marketplace could not be asked; the pair stays as it was."""

    async def require_authorization(self, seller_id: int, environment: Environment, version: int) -> None:
        """The grant is gone: mark the account until it is connected again."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StoredTokens:
    """A pair in clear text, in memory only; has no repr so that no log can show it."""

    access_token: str
    refresh_token: str | None
    seconds_left: float | None
    """Until the access token ends by the marketplace's word; None: not known."""
    version: int
    status: str
    """connected, disconnected, reauthorization_required, or unreadable: none of this process's keys fits."""
    marketplace_user_id: int | None = None
    """Whose tokens these are: an account may have been connected to another user since a caller read it.
    None: not told."""


class SlotStore(Protocol):
    """The application-wide rate limit, shared by every process."""

    async def reserve(self, application: str, slots: int, per_second: float) -> tuple[float, float]:
        """Reserve that many consecutive sending slots. Returns (seconds until the first, seconds between
        two), the latter longer than 1/per_second while the limit is turned down after a 429."""

    async def slow_down(self, application: str, seconds: float) -> None:
        """Nobody sends for that many seconds, and the rate is halved; it grows back slowly."""
