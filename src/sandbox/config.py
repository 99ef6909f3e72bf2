"""Configuration of one sandbox process, and the part of it that can change while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SellerModel = Literal["user_product", "classic"]


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """Everything a sandbox is started with. All times are seconds, all prices whole COP.

    host, port: where to listen; port 0 takes a free one.
    data_dir: folder of the effects log; None keeps everything in memory.
    fsync: with a data folder, whether a change is on disk (not only handed to the operating system)
        before the answer is sent. Off survives the death of the process, not that of the machine.
    access_token_seconds: life of an access token issued here, told as ``expires_in``.
    rotation_invalidates: whether a refresh makes every older access token of the user invalid at once.
    client_id, client_secret: the only pair ``/oauth/token`` takes; None takes any non-empty pair.
    seller_model: model of a user seen for the first time.
    picture_delay_seconds: how long a new item stays ``paused/picture_download_pending``.
    index_lag_seconds: how long a new item is invisible to the search.
    delete_conflict_seconds: how long after closing an item its deletion answers 409.
    latency_seconds: added before every marketplace answer.
    requests_per_second: ceiling of the whole application; above it 429. None: no ceiling.
    usd_to_cop: the rate of ``/currency_conversions/search``.
    free_shipping_from: price from which the platform switches free shipping on (warning 350).
    search_returns_closed: whether a search without a status filter also returns closed items.
    first_item_number: number of the first item id. None: 1,000,000,001 with a data folder, else derived
        from the start time, so that a restarted memory-only sandbox does not hand out old ids again.
    seed: seed of everything random here (order of causes, probabilities of fault rules without a seed).
    notification_url: http address that gets a webhook for each item change. None: none are sent.
    clock: wall clock in seconds since the epoch; tests replace it.
    """

    host: str = "127.0.0.1"
    port: int = 8090
    data_dir: Path | None = None
    fsync: bool = True
    access_token_seconds: int = 21600
    rotation_invalidates: bool = False
    client_id: str | None = None
    client_secret: str | None = None
    seller_model: SellerModel = "user_product"
    picture_delay_seconds: float = 1.0
    index_lag_seconds: float = 2.0
    delete_conflict_seconds: float = 0.0
    latency_seconds: float = 0.0
    requests_per_second: float | None = None
    usd_to_cop: float = 4012.5
    free_shipping_from: int = 60_000
    search_returns_closed: bool = True
    first_item_number: int | None = None
    seed: int = 0
    notification_url: str | None = None
    clock: Callable[[], float] = time.time


@dataclass(slots=True)
class LiveSettings:
    """The settings that ``POST /sandbox/settings`` changes at run time; meanings as in SandboxConfig."""

    access_token_seconds: int
    rotation_invalidates: bool
    picture_delay_seconds: float
    index_lag_seconds: float
    delete_conflict_seconds: float
    latency_seconds: float
    requests_per_second: float | None
    usd_to_cop: float
    free_shipping_from: int
    search_returns_closed: bool

    @classmethod
    def of(cls, config: SandboxConfig) -> LiveSettings:
        """The settings a sandbox starts with."""
        return cls(
            access_token_seconds=config.access_token_seconds,
            rotation_invalidates=config.rotation_invalidates,
            picture_delay_seconds=config.picture_delay_seconds,
            index_lag_seconds=config.index_lag_seconds,
            delete_conflict_seconds=config.delete_conflict_seconds,
            latency_seconds=config.latency_seconds,
            requests_per_second=config.requests_per_second,
            usd_to_cop=config.usd_to_cop,
            free_shipping_from=config.free_shipping_from,
            search_returns_closed=config.search_returns_closed,
        )
