"""The marketplace port on Mercado Libre's REST API (reference; failure rules, section 3)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar
from urllib.parse import quote

import msgspec
import structlog

from core.domain.failures import Cause
from core.domain.states import Environment
from core.marketplace.answers import (
    CATEGORY_ID,
    LISTING_ID,
    Category,
    ErrorBody,
    ErrorCause,
    read_category,
    read_error,
    read_listing,
    read_listings,
    read_prediction,
    read_profile,
    read_search,
)
from core.marketplace.client import AiohttpClient, Answer, HttpClient, NoAnswer
from core.marketplace.errors import (
    THROTTLED_BY_US,
    ending,
    is_throttling,
    named_attributes,
    not_sent,
    stopped,
    throttled,
    throttled_by_us,
    uncertain,
)
from core.marketplace.payloads import (
    CLOSE_BODY,
    DEFAULT_TITLE_LENGTH,
    MAX_PICTURES,
    Form,
    create_body,
    description_body,
    gtin_is_valid,
    plain_description,
    plain_title,
    update_body,
)
from core.marketplace.throttle import Backoff, Throttle, calls_per_second
from core.marketplace.tokens import Grant, Tokens
from core.ports.marketplace import (
    MULTIGET_LIMIT,
    NEWEST_PAGE,
    Account,
    CategoryResult,
    Listing,
    ListingDraft,
    ListingResult,
    NewestResult,
    Outcome,
    PredictionResult,
    ProfileResult,
    Result,
    SearchResult,
    SellerModel,
    SlotStore,
    StatesResult,
    TokenStore,
)

_LOG = structlog.stdlib.get_logger("core.marketplace")

CATEGORY_SECONDS = 86_400.0
"""A category is kept in memory for a day."""
CATEGORY_FAILED_SECONDS = 30.0
"""After a failed look-up creations do without for this time, instead of each waiting for its own failure."""
MAX_CATEGORIES = 10_000
"""Categories kept; the oldest goes first. Ids come from requests, so their number is not ours to choose."""
NEWEST_OFFSETS = 1_000
"""Beyond this offset the marketplace pages differently (reference, section 4)."""
_SKU_PAGES = 5

_FIELDS = (
    "id,title,family_name,category_id,price,listing_type_id,permalink,pictures,thumbnail,secure_thumbnail,"
    "attributes,seller_custom_field,status,sub_status,date_created"
)
_DONE_STATUSES = frozenset({200, 201, 206})
"""206 is a success whose answer lacks members that are not used here (reference, section 0)."""

ObserveCall = Callable[[str, str, float], None]
"""Told of every ended operation: its name, its outcome, its seconds with all waiting."""

R = TypeVar("R", bound=Result)


def _ignore(*_: object) -> None:
    """The default of everything that is told."""


@dataclass(slots=True)
class _KnownCategory:
    """A category, or the refusal or failure to tell it, until a moment on the monotonic clock."""

    until: float
    category: Category | None
    ended: Result | None


_NO_CATEGORY = Category("", None, None)


class MercadoLibre:
    """``core.ports.marketplace.Marketplace`` on Mercado Libre, or on a server that speaks its API.

    Safe for any number of concurrent calls on one event loop. Where the port leaves a choice:

    * calls that are safe to repeat end as RETRY where a creation would end as UNKNOWN;
    * a failure of the token or slot store before a request ends as NOT_SENT with ``internal_error``;
    * a wait for the application's rate that would be longer than the throttle's patience ends as THROTTLED;
    * an account of another site than the connector's is refused before any call.

    Args:
        base_url: https, or http to a loopback address.
        client_id: the application's id; names the application-wide rate.
        client_secret: the application's secret.
        timeout_seconds: for one request as a whole.
        rate: ``N/second`` for the whole application, or ``off``.
        token_store: where accounts' tokens live.
        slot_store: where processes share the rate; not used when the rate is off.
        site: the marketplace's site.
        connections: connections at once; further calls wait for one within their timeout.
        picture_retry_seconds: least pause after pictures that could not be processed.
        observe: told of every operation.
        observe_wait: told how long each call waited for the application's rate, in seconds.
        observe_refresh: told how each refresh of a token ended: refreshed, refused, failed or other_user.
        http: takes the place of the HTTP client.

    Raises:
        ValueError: for an address or a rate that is not allowed.
    """

    def __init__(
        self,
        *,
        base_url: str,
        client_id: str,
        client_secret: str,
        timeout_seconds: float,
        rate: str,
        token_store: TokenStore,
        slot_store: SlotStore,
        site: str = "MCO",
        connections: int = 100,
        picture_retry_seconds: float = 15.0,
        observe: ObserveCall = _ignore,
        observe_wait: Callable[[float], object] = _ignore,
        observe_refresh: Callable[[str], object] = _ignore,
        http: HttpClient | None = None,
    ) -> None:
        self._site = site
        self._observe = observe
        self._observe_wait = observe_wait
        self._picture_retry_seconds = picture_retry_seconds
        self._http = http or AiohttpClient(base_url, timeout_seconds=timeout_seconds, connections=connections)
        per_second = calls_per_second(rate)
        self._throttle = None if per_second is None else Throttle(slot_store, client_id, per_second)
        self._backoff = Backoff()
        self._tokens = Tokens(
            token_store,
            self._http,
            client_id=client_id,
            client_secret=client_secret,
            timeout_seconds=timeout_seconds,
            before_send=self._wait_for_slot,
            observe=observe_refresh,
        )
        self._categories: dict[str, _KnownCategory] = {}
        self._category_flights: dict[str, asyncio.Task[_KnownCategory]] = {}
        self._models: dict[tuple[int, Environment], SellerModel] = {}

    async def aclose(self) -> None:
        """Finish token refreshes under way, then close connections."""
        flights = tuple(self._category_flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        await self._tokens.aclose()
        await self._http.aclose()

    # One request.

    async def _wait_for_slot(self, account: Account) -> Result | None:
        """None when one call for this account may be sent now."""
        if self._throttle is None:
            return None
        began = time.perf_counter()
        try:
            seconds = await self._throttle.acquire((account.seller_id, account.environment))
        except Exception:
            _LOG.exception("marketplace_slots_failed")
            return not_sent("internal_error")
        self._observe_wait(time.perf_counter() - began)
        return throttled_by_us(seconds) if seconds else None

    async def _call(
        self,
        account: Account,
        method: str,
        target: str,
        body: bytes | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> Answer | NoAnswer | Result:
        """One request with the account's token; after a 401 a second one with a renewed token.

        A ``Result`` means that it ended before the marketplace looked at the request, or with 429.
        """
        if account.site_id != self._site:
            return stopped("account_wrong_site")
        refused: int | None = None
        while True:
            grant = await self._ready(account, refused)
            if not isinstance(grant, Grant):
                return grant
            answer = await self._http.send(method, target, grant.headers, body, may_send)
            if type(answer) is not Answer:
                return answer
            if is_throttling(answer):
                return await self._throttled(throttled(answer))
            self._backoff.ok()
            if answer.status != 401:
                return answer
            if refused is not None:
                # A token fresh from a refresh was refused: asking again cannot help.
                _LOG.error(
                    "marketplace_token_refused_twice",
                    seller_id=account.seller_id,
                    environment=account.environment.value,
                )
                await self._tokens.give_up(account, grant.version)
                return ending(answer, safe=True, sent=body)
            refused = grant.version

    async def _ready(self, account: Account, refused: int | None) -> Grant | Result:
        """A grant, after the throttle: the wait may have been longer than the grant is fresh."""
        if refused is None:
            # Before the slot: an account that is not connected shall not use up slots.
            grant = self._tokens.cached(account) or await self._tokens.get(account)
        else:
            grant = await self._tokens.renew(account, refused)
        if isinstance(grant, Grant) and self._throttle is not None:
            held = await self._wait_for_slot(account)
            if held is not None:
                return held
            grant = self._tokens.cached(account) or await self._tokens.get(account)
        if isinstance(grant, Result) and grant.outcome is Outcome.THROTTLED and grant.failure is not THROTTLED_BY_US:
            return await self._throttled(grant)
        return grant

    async def _throttled(self, result: Result) -> Result:
        """The result of a 429 with its pause; tells the application's throttle once per burst."""
        seconds, news = self._backoff.seconds(result.retry_after)
        if news:
            _LOG.warning("marketplace_throttled", retry_after=round(seconds, 1))
            if self._throttle is not None:
                await self._throttle.pause(seconds)
        return msgspec.structs.replace(result, retry_after=seconds)

    def _ending(self, answer: Answer | NoAnswer | Result, *, safe: bool, sent: bytes | None = None) -> Result:
        if isinstance(answer, Result):
            return answer
        return ending(answer, safe=safe, sent=sent, picture_retry_seconds=self._picture_retry_seconds)

    def _told(self, operation: str, started: float, result: R) -> R:
        self._observe(operation, result.outcome.value, time.perf_counter() - started)
        return result

    # Reading.

    async def profile(self, account: Account) -> ProfileResult:
        """See the port. An account of another site, or whose token belongs to another user, is REFUSED,
        with the profile set for the former."""
        started = time.perf_counter()
        return self._told("profile", started, await self._profile(account))

    async def _profile(self, account: Account) -> ProfileResult:
        answer = await self._call(account, "GET", "/users/me")
        if type(answer) is Answer and answer.status in _DONE_STATUSES:
            told = read_profile(answer.body)
            if told is None:
                return _as(ProfileResult, _unreadable())
            user_id, profile = told
            if user_id != account.marketplace_user_id:
                return _as(ProfileResult, stopped("account_reauthorization_required"))
            self._models.pop((account.seller_id, account.environment), None)
            if profile.site_id != self._site:
                refused = stopped("account_wrong_site")
                return ProfileResult(outcome=refused.outcome, failure=refused.failure, profile=profile)
            return ProfileResult(outcome=Outcome.DONE, profile=profile)
        return _as(ProfileResult, self._ending(answer, safe=True))

    async def predict_category(self, account: Account, title: str) -> PredictionResult:
        """See the port."""
        started = time.perf_counter()
        words = quote(plain_title(title)[:250], safe="", errors="replace")
        target = f"/sites/{self._site}/domain_discovery/search?q={words}&limit=3"
        answer = await self._call(account, "GET", target)
        if type(answer) is Answer and answer.status in _DONE_STATUSES:
            told = read_prediction(answer.body)
            if told is None:
                result = _as(PredictionResult, _unreadable())
            else:
                result = PredictionResult(outcome=Outcome.DONE, prediction=told[0])
        else:
            result = _as(PredictionResult, self._ending(answer, safe=True))
        return self._told("predict_category", started, result)

    async def category_name(self, account: Account, category_id: str) -> CategoryResult:
        """See the port. A category that the marketplace does not know is REFUSED, ``category_refused``."""
        known = self._categories.get(category_id)
        if known is not None and known.category is not None and time.monotonic() < known.until:
            # No call, so none is told.
            return CategoryResult(outcome=Outcome.DONE, name=known.category.name)
        started = time.perf_counter()
        known = await self._category(account, category_id)
        if known.category is not None:
            result = CategoryResult(outcome=Outcome.DONE, name=known.category.name)
        else:
            result = _as(CategoryResult, known.ended or _unreadable())
        return self._told("category_name", started, result)

    async def _category(self, account: Account, category_id: str) -> _KnownCategory:
        """One look-up for all who wait for it."""
        if CATEGORY_ID.fullmatch(category_id) is None:
            return _KnownCategory(0.0, None, stopped("category_refused"))
        flight = self._category_flights.get(category_id)
        if flight is None:
            flight = asyncio.create_task(self._look_up(account, category_id))
            self._category_flights[category_id] = flight
            flight.add_done_callback(lambda done: self._category_flights.pop(category_id, None))
        return await asyncio.shield(flight)

    async def _look_up(self, account: Account, category_id: str) -> _KnownCategory:
        answer = await self._call(account, "GET", f"/categories/{category_id}")
        category = ended = None
        if type(answer) is Answer and answer.status in _DONE_STATUSES:
            category = read_category(answer.body, category_id)
            ended = None if category is not None else _unreadable()
        elif type(answer) is Answer and answer.status in (400, 404):
            ended = stopped("category_refused", Cause(f"http_{answer.status}", "", "category_id"))
        else:
            ended = self._ending(answer, safe=True)
            if ended.outcome is Outcome.THROTTLED or (ended.failure is not None and ended.failure.account_wide):
                # The account's or the moment's trouble, not the category's: the next one asks for itself.
                return _KnownCategory(0.0, None, ended)
        seconds = CATEGORY_SECONDS if category is not None else CATEGORY_FAILED_SECONDS
        known = _KnownCategory(time.monotonic() + seconds, category, ended)
        while len(self._categories) >= MAX_CATEGORIES:
            del self._categories[next(iter(self._categories))]
        self._categories[category_id] = known
        return known

    async def find_by_sku(self, account: Account, sku: str) -> SearchResult:
        """See the port. RETRY when any of the hits could not be read: none must be overlooked."""
        started = time.perf_counter()
        return self._told("find_by_sku", started, await self._find_by_sku(account, sku))

    async def _find_by_sku(self, account: Account, sku: str) -> SearchResult:
        path = f"/users/{account.marketplace_user_id}/items/search?seller_sku={quote(sku, safe='', errors='replace')}"
        ids: dict[str, None] = {}
        for page in range(_SKU_PAGES):
            answer = await self._call(account, "GET", f"{path}&limit={NEWEST_PAGE}&offset={page * NEWEST_PAGE}")
            if type(answer) is not Answer or answer.status not in _DONE_STATUSES:
                return _as(SearchResult, self._ending(answer, safe=True))
            told = read_search(answer.body)
            if told is None:
                return _as(SearchResult, _unreadable())
            ids.update(dict.fromkeys(told[0]))
            if len(ids) < min(told[1], (page + 1) * NEWEST_PAGE):
                # Fewer than it says there are, or some that cannot be read: no proof that there is none.
                return _as(SearchResult, _unreadable())
            if told[1] <= (page + 1) * NEWEST_PAGE:
                break
        listings: list[Listing] = []
        wanted = list(ids)
        for start in range(0, len(wanted), MULTIGET_LIMIT):
            some = wanted[start : start + MULTIGET_LIMIT]
            states = await self._get_listings(account, some)
            if states.outcome is not Outcome.DONE:
                return _as(SearchResult, states)
            if len(states.listings) + len(states.missing) < len(some):
                return _as(SearchResult, _unreadable())
            # The index may hold what has changed since: each hit is judged by what it says itself.
            listings += (found for found in states.listings.values() if found.sku == sku and found.is_open)
        # Ids grow with time; they decide where the time of creation is not told.
        listings.sort(key=lambda found: (found.created_at is None, found.created_at or 0, int(found.listing_id[3:])))
        return SearchResult(outcome=Outcome.DONE, listings=listings)

    async def newest_listings(self, account: Account, offset: int) -> NewestResult:
        """See the port.

        Raises:
            ValueError: for an offset outside 0 to 999.
        """
        if not 0 <= offset < NEWEST_OFFSETS:
            raise ValueError("offset must be from 0 to 999")
        started = time.perf_counter()
        # The marketplace serves the first 1,000 only; a last page is cut to them.
        limit = min(NEWEST_PAGE, NEWEST_OFFSETS - offset)
        target = (
            f"/users/{account.marketplace_user_id}/items/search?orders=start_time_desc&limit={limit}&offset={offset}"
        )
        answer = await self._call(account, "GET", target)
        if type(answer) is Answer and answer.status in _DONE_STATUSES:
            told = read_search(answer.body)
            if told is None:
                result = _as(NewestResult, _unreadable())
            else:
                result = NewestResult(outcome=Outcome.DONE, listing_ids=told[0], total=told[1])
        else:
            result = _as(NewestResult, self._ending(answer, safe=True))
        return self._told("newest_listings", started, result)

    async def get_listings(self, account: Account, listing_ids: Sequence[str]) -> StatesResult:
        """See the port. An id in neither ``listings`` nor ``missing`` was not told this time: ask again.

        Raises:
            ValueError: for more than MULTIGET_LIMIT ids.
        """
        if len(listing_ids) > MULTIGET_LIMIT:
            raise ValueError("too many listings for one call")
        started = time.perf_counter()
        return self._told("get_listings", started, await self._get_listings(account, listing_ids))

    async def _get_listings(self, account: Account, listing_ids: Sequence[str]) -> StatesResult:
        asked = [listing_id for listing_id in dict.fromkeys(listing_ids) if LISTING_ID.fullmatch(listing_id)]
        missing = [listing_id for listing_id in listing_ids if not LISTING_ID.fullmatch(listing_id)]
        if not asked:
            return StatesResult(outcome=Outcome.DONE, missing=missing)
        target = f"/items?ids={','.join(asked)}&attributes={_FIELDS}&include_attributes=all"
        answer = await self._call(account, "GET", target)
        if type(answer) is not Answer or answer.status not in _DONE_STATUSES:
            return _as(StatesResult, self._ending(answer, safe=True))
        entries = read_listings(answer.body)
        if entries is None or len(entries) != len(asked):
            return _as(StatesResult, _unreadable())
        told = [listing for code, listing in entries if code in _DONE_STATUSES and listing is not None]
        listings = {listing.listing_id: listing for listing in told if listing.listing_id in asked}
        # Entries come in the order asked for; a 404 does not say its id otherwise.
        missing += (
            wanted for wanted, (code, _) in zip(asked, entries, strict=True) if code == 404 and wanted not in listings
        )
        return StatesResult(outcome=Outcome.DONE, listings=listings, missing=missing)

    # Writing.

    async def create_listing(
        self, account: Account, draft: ListingDraft, may_send: Callable[[], bool]
    ) -> ListingResult:
        """See the port. The category's limits are looked up first (a day in memory); when that fails, the
        usual ones are taken."""
        started = time.perf_counter()
        known = await self._limits(account, draft.category_id)
        unread = known.ended if known.category is None else None
        if unread is not None and unread.outcome is Outcome.THROTTLED:
            # Nothing was sent yet, and nothing should be.
            return self._told("create_listing", started, _as(ListingResult, unread))
        category = known.category or _NO_CATEGORY
        model = account.model
        if self._models:
            model = self._models.get((account.seller_id, account.environment), model)
        form = _form(model, category.max_title_length or DEFAULT_TITLE_LENGTH, category.max_pictures or MAX_PICTURES)
        result, rebuilt = await self._create(account, draft, form, may_send)
        if rebuilt is not None:
            _LOG.info(
                "marketplace_body_rebuilt", seller_id=account.seller_id, sku=draft.sku, change=_change(form, rebuilt)
            )
            result, _ = await self._create(account, draft, rebuilt, may_send)
            if rebuilt.model is not form.model and result.outcome is Outcome.DONE:
                # The account's stored model is out of date; the next creations need no detour.
                self._models[(account.seller_id, account.environment)] = rebuilt.model
        if unread is not None and unread.outcome is not Outcome.REFUSED and _for_a_limit(result):
            # With the category's own limits it may pass: those are asked for again by then.
            result = ListingResult(outcome=Outcome.RETRY, failure=unread.failure, retry_after=CATEGORY_FAILED_SECONDS)
        return self._told("create_listing", started, result)

    async def _limits(self, account: Account, category_id: str) -> _KnownCategory:
        """What is known of a category."""
        known = self._categories.get(category_id)
        if known is None or time.monotonic() >= known.until:
            known = await self._category(account, category_id)
        return known

    async def _create(
        self, account: Account, draft: ListingDraft, form: Form, may_send: Callable[[], bool]
    ) -> tuple[ListingResult, Form | None]:
        """One creation; with a refusal of the body's form, the form that may pass."""
        body = create_body(draft, account.currency, form)
        answer = await self._call(account, "POST", "/items", body, may_send)
        if type(answer) is Answer:
            if answer.status in _DONE_STATUSES:
                listing = read_listing(answer.body)
                if listing is None or listing.sku != draft.sku or not listing.listing_id.startswith(account.site_id):
                    # It may well exist; only its own words could have told which it is.
                    _LOG.warning("marketplace_unexpected_creation", seller_id=account.seller_id, sku=draft.sku)
                    return _as(ListingResult, uncertain(safe=False, causes=(Cause("unexpected_answer", ""),))), None
                return ListingResult(outcome=Outcome.DONE, listing=listing), None
            if answer.status == 400:
                rebuilt = repaired(form, draft, read_error(answer.body))
                return _as(ListingResult, self._ending(answer, safe=False, sent=body)), rebuilt
        return _as(ListingResult, self._ending(answer, safe=False, sent=body)), None

    async def update_listing(self, account: Account, listing_id: str, draft: ListingDraft) -> ListingResult:
        """See the port. A listing that the marketplace does not know is REFUSED, ``listing_not_modifiable``.
        The category's limit of pictures is looked up first, as for a creation."""
        started = time.perf_counter()
        pictures = None
        if len(draft.image_urls) > 1 and LISTING_ID.fullmatch(listing_id):
            category = (await self._limits(account, draft.category_id)).category
            pictures = category and category.max_pictures
        body = update_body(draft, pictures or MAX_PICTURES)
        return self._told("update_listing", started, await self._change(account, listing_id, body))

    async def close_listing(self, account: Account, listing_id: str) -> ListingResult:
        """See the port. DONE too when it was closed before."""
        started = time.perf_counter()
        result = await self._change(account, listing_id, CLOSE_BODY)
        if result.outcome is Outcome.REFUSED and result.failure is not None and not result.failure.account_wide:
            # Closing what is closed is refused; that is what was wanted.
            states = await self._get_listings(account, [listing_id])
            listing = states.listings.get(listing_id)
            if listing is not None and not listing.is_open:
                result = ListingResult(outcome=Outcome.DONE, listing=listing)
        return self._told("close_listing", started, result)

    async def _change(self, account: Account, listing_id: str, body: bytes) -> ListingResult:
        if LISTING_ID.fullmatch(listing_id) is None:
            return _as(ListingResult, stopped("listing_not_modifiable"))
        answer = await self._call(account, "PUT", f"/items/{listing_id}", body)
        if type(answer) is Answer:
            if answer.status in _DONE_STATUSES:
                listing = read_listing(answer.body)
                if listing is None or listing.listing_id != listing_id:
                    return _as(ListingResult, _unreadable())
                return ListingResult(outcome=Outcome.DONE, listing=listing)
            if answer.status == 404:
                return _as(ListingResult, stopped("listing_not_modifiable", Cause("not_found", "", "listing_id")))
        return _as(ListingResult, self._ending(answer, safe=True, sent=body))

    async def set_description(self, account: Account, listing_id: str, text: str) -> Result:
        """See the port. A text of which nothing is left after cleaning is DONE without a call."""
        started = time.perf_counter()
        return self._told("set_description", started, await self._set_description(account, listing_id, text))

    async def _set_description(self, account: Account, listing_id: str, text: str) -> Result:
        if LISTING_ID.fullmatch(listing_id) is None:
            return stopped("listing_not_modifiable")
        plain = plain_description(text)
        if not plain:
            return Result(outcome=Outcome.DONE)
        body = description_body(plain)
        target = f"/items/{listing_id}/description"
        answer = await self._call(account, "POST", target, body)
        if type(answer) is Answer and answer.status == 400 and _may_exist(answer):
            answer = await self._call(account, "PUT", target + "?api_version=2", body)
        if type(answer) is Answer and answer.status in _DONE_STATUSES:
            return Result(outcome=Outcome.DONE)
        if type(answer) is Answer and answer.status == 404:
            # Right after a creation the listing may not have reached every part of the marketplace yet.
            return uncertain(safe=True, causes=(Cause("not_found", "", "listing_id"),))
        return self._ending(answer, safe=True, sent=body)


_LIMITED = frozenset({"title_refused", "pictures_refused"})


def _for_a_limit(result: Result) -> bool:
    """Whether a creation was refused for something that a category's limits decide."""
    failure = result.failure
    return result.outcome is Outcome.REFUSED and failure is not None and failure.code in _LIMITED


def _may_exist(answer: Answer) -> bool:
    """Whether a refused POST of a description may mean that there is one: that refusal has no code of its own."""
    failure = ending(answer, safe=True).failure
    if failure is None or failure.kind.retryable:
        return False
    return failure.code != "description_refused" or read_error(answer.body).mentions("exist")


def _as(kind: type[R], result: Result) -> R:
    """The same ending as the operation's own kind of result."""
    return kind(outcome=result.outcome, failure=result.failure, retry_after=result.retry_after)


def _unreadable() -> Result:
    """A 2xx to a call that is safe to repeat, whose body is not what it should be."""
    return uncertain(safe=True, causes=(Cause("unexpected_answer", ""),))


@lru_cache(maxsize=256)
def _form(model: SellerModel, title_limit: int, max_pictures: int) -> Form:
    """The first form of a draft; the same few for all."""
    return Form(model=model, title_limit=title_limit, max_pictures=max_pictures)


# Rebuilding.

_TITLE_CAUSES = frozenset({134, 462})
_TITLE_CODES = frozenset({"item.title.length.invalid", "item.family_name.length_invalid"})
_GTIN_CAUSES = frozenset({7710, 7711, 7712, 7714})
_GTIN_NAMES = frozenset({"GTIN", "EMPTY_GTIN_REASON"})
_TITLE_WORD = re.compile(r"\btitle\b", re.ASCII)
_NUMBER = re.compile(r"(?<![0-9A-Za-z])([0-9]{2,3})(?![0-9A-Za-z])", re.ASCII)


def repaired(form: Form, draft: ListingDraft, error: ErrorBody) -> Form | None:
    """The form in which a refused body may pass, None when there is none.

    A refusal made nothing, so sending another body is no repeat. Only when every refusing cause can be
    met: otherwise the second refusal is certain.
    """
    refusing = [cause for cause in error.causes if not cause.is_warning]
    if not refusing:
        # The variant without causes: the code in the message, the sentence in the error.
        refusing = [ErrorCause(None, error.message, error.error, is_warning=False, references=())]
    changed = form
    for cause in refusing:
        better = _met(changed, draft, cause)
        if better is None:
            return None
        changed = better
    return changed if changed != form else None


def _met(form: Form, draft: ListingDraft, cause: ErrorCause) -> Form | None:
    text = f"{cause.message} {' '.join(cause.references)}".lower()
    family_name, title = "family_name" in text, _TITLE_WORD.search(text) is not None
    if cause.cause_id == 369 or cause.code == "body.required_fields":
        wanted = SellerModel.USER_PRODUCT if family_name else SellerModel.CLASSIC if title else None
        return None if wanted is None or not draft.title.strip() else replace(form, model=wanted)
    if cause.cause_id == 374 or cause.code == "body.invalid_fields":
        wanted = SellerModel.USER_PRODUCT if title else SellerModel.CLASSIC if family_name else None
        return None if wanted is None else replace(form, model=wanted)
    if cause.cause_id in _TITLE_CAUSES or cause.code in _TITLE_CODES:
        limit = _shorter_limit(form, draft, cause.message)
        return None if limit is None else replace(form, title_limit=limit)
    return _met_without_gtin(form, draft, cause)


def _shorter_limit(form: Form, draft: ListingDraft, message: str) -> int | None:
    """The limit that the message names, else the usual one; only if it is shorter than what was sent."""
    sent = min(len(plain_title(draft.title)), form.title_limit)
    named = [number for number in map(int, _NUMBER.findall(message)) if 20 <= number < sent]
    if named:
        return max(named)
    return DEFAULT_TITLE_LENGTH if sent > DEFAULT_TITLE_LENGTH else None


def _met_without_gtin(form: Form, draft: ListingDraft, cause: ErrorCause) -> Form | None:
    names = named_attributes(cause)
    if cause.cause_id == 147 or cause.code == "item.attributes.missing_required":
        concerned = not draft.gtin and bool(names) and names <= _GTIN_NAMES
    elif cause.cause_id == 7810 or cause.code == "item.attribute.missing_conditional_required":
        concerned = not draft.gtin and (not names or bool(names & _GTIN_NAMES))
    else:
        concerned = draft.gtin is not None and (
            cause.cause_id in _GTIN_CAUSES or "product_identifier.invalid" in cause.code
        )
    already = form.without_gtin or (draft.gtin and not gtin_is_valid(draft.gtin))
    return replace(form, without_gtin=True) if concerned and not already else None


def _change(before: Form, after: Form) -> str:
    """What a rebuild changed, for the log."""
    return ", ".join(
        f"{name}={getattr(after, name)}"
        for name in ("model", "title_limit", "without_gtin")
        if getattr(after, name) != getattr(before, name)
    )
