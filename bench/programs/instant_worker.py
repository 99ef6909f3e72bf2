"""A worker of the service before a marketplace port that answers at once: what is left is the service's own cost.

Settings come from LISTINGS_* variables.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence

import uvloop

from core import log
from core.app import Application
from core.ports.marketplace import (
    Account,
    CategoryResult,
    Listing,
    ListingDraft,
    ListingResult,
    NewestResult,
    Outcome,
    PredictionResult,
    Profile,
    ProfileResult,
    Result,
    SearchResult,
    SellerModel,
    StatesResult,
)
from core.settings import Settings
from listings.signals import calm_collector


class InstantMarketplace:
    """Every creation succeeds at once."""

    def __init__(self) -> None:
        # Two processes must not make the same ids.
        self._next = os.getpid() * 10**9

    async def profile(self, account: Account) -> ProfileResult:
        """See the port."""
        return ProfileResult(
            outcome=Outcome.DONE,
            profile=Profile(nickname="bench", site_id=account.site_id, may_list=True, model=SellerModel.USER_PRODUCT),
        )

    async def predict_category(self, account: Account, title: str) -> PredictionResult:
        """See the port."""
        return PredictionResult(outcome=Outcome.DONE)

    async def category_name(self, account: Account, category_id: str) -> CategoryResult:
        """See the port."""
        return CategoryResult(outcome=Outcome.DONE, name="Category")

    async def create_listing(
        self, account: Account, draft: ListingDraft, may_send: Callable[[], bool]
    ) -> ListingResult:
        """See the port."""
        if not may_send():
            return ListingResult(outcome=Outcome.NOT_SENT)
        self._next += 1
        listing_id = f"MCO{self._next}"
        return ListingResult(
            outcome=Outcome.DONE,
            listing=Listing(
                listing_id=listing_id,
                sku=draft.sku,
                status="active",
                permalink=f"https://articulo.example.com/{listing_id}",
                title=draft.title,
                price=draft.price,
                category_id=draft.category_id,
                listing_type_id=draft.listing_type_id,
            ),
        )

    async def update_listing(self, account: Account, listing_id: str, draft: ListingDraft) -> ListingResult:
        """See the port."""
        listing = Listing(
            listing_id=listing_id, sku=draft.sku, status="active", price=draft.price, category_id=draft.category_id
        )
        return ListingResult(outcome=Outcome.DONE, listing=listing)

    async def close_listing(self, account: Account, listing_id: str) -> ListingResult:
        """See the port."""
        return ListingResult(outcome=Outcome.DONE, listing=Listing(listing_id=listing_id, sku="", status="closed"))

    async def set_description(self, account: Account, listing_id: str, text: str) -> Result:
        """See the port."""
        return Result(outcome=Outcome.DONE)

    async def find_by_sku(self, account: Account, sku: str) -> SearchResult:
        """See the port."""
        return SearchResult(outcome=Outcome.DONE)

    async def newest_listings(self, account: Account, offset: int) -> NewestResult:
        """See the port."""
        return NewestResult(outcome=Outcome.DONE)

    async def get_listings(self, account: Account, listing_ids: Sequence[str]) -> StatesResult:
        """See the port. Nothing new of any listing."""
        return StatesResult(outcome=Outcome.DONE)

    async def aclose(self) -> None:
        """See the port."""


async def main() -> None:
    """Work until SIGTERM."""
    settings = Settings.load()
    log.configure(level=settings.log_level)
    assert settings.database_url is not None
    assert settings.secret_key is not None
    application = Application(
        settings,
        name="worker",
        database_url=settings.database_url.get_secret_value(),
        secret_key=settings.secret_key.get_secret_value(),
    )
    await application.open()
    worker = application.worker(InstantMarketplace())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.context.stopping.set)
    sys.stdout.write("instant worker ready\n")
    sys.stdout.flush()
    await worker.run()
    await application.close()


if __name__ == "__main__":
    calm_collector()
    uvloop.run(main())
