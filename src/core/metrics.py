"""Every metric of the service: name, help text and labels in one place.

Labels never hold a seller's data, a key or an address: cardinality stays small and nothing leaks.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from collections.abc import Callable, Iterator

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics, start_http_server

from core.settings import SettingsError, split_address

# When each series was made is of no use to anybody and doubles what a scrape reads.
disable_created_metrics()  # type: ignore[no-untyped-call]

_LATENCY = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

build_info = Gauge("listings_build_info", "Always 1: what runs here, as labels.", ["role", "version", "python_version"])

http_requests = Counter(
    "listings_http_requests_total", "REST requests by route, method and status.", ["route", "method", "status"]
)
http_seconds = Histogram("listings_http_request_seconds", "Time to answer a REST request.", ["route"], buckets=_LATENCY)
grpc_calls = Counter("listings_grpc_calls_total", "gRPC calls by method and status.", ["method", "status"])
grpc_seconds = Histogram("listings_grpc_call_seconds", "Time to answer a gRPC call.", ["method"], buckets=_LATENCY)
refusals = Counter("listings_refusals_total", "Refused requests by error code.", ["code"])

jobs_accepted = Counter("listings_jobs_accepted_total", "Jobs accepted.", ["environment", "kind"])
replays = Counter("listings_idempotent_replays_total", "Answers replayed for an idempotency key.")
watchers = Gauge("listings_watchers", "Open watch streams of this process.")

jobs_finished = Counter(
    "listings_jobs_finished_total", "Jobs ended by the result of their last item, by status.", ["status"]
)
jobs_stopped = Counter(
    "listings_jobs_stopped_total", "Jobs ended because their account cannot go on, by reason.", ["reason"]
)

items_finished = Counter(
    "listings_items_finished_total", "Items that got a result, by status.", ["environment", "status"]
)
items_failed = Counter("listings_items_failed_total", "Items that failed, by reason.", ["code"])
runs_claimed = Counter("listings_runs_claimed_total", "Runs of items claimed by this worker.")
runs_held = Gauge("listings_runs_held", "Runs this worker holds a lease on.")
leases_lost = Counter("listings_leases_lost_total", "Runs abandoned because the lease could not be renewed.")
runs_rescued = Counter("listings_runs_rescued_total", "Runs taken back from a holder whose lease had ended.")
fenced_writes = Counter("listings_fenced_writes_total", "Results dropped because the writer no longer held the item.")
intents_unknown = Counter("listings_intents_unknown_total", "Sends whose outcome is not known, by cause.", ["cause"])
reconciliations = Counter(
    "listings_reconciliations_total", "Unknown outcomes resolved, by what was found.", ["outcome"]
)
duplicates_closed = Counter(
    "listings_duplicates_closed_total", "Listings closed because another open one had the same SKU."
)
marketplace_calls = Counter(
    "listings_marketplace_calls_total", "Calls to the marketplace by operation and outcome.", ["operation", "outcome"]
)
marketplace_seconds = Histogram(
    "listings_marketplace_call_seconds", "Time of a marketplace call.", ["operation"], buckets=_LATENCY
)
marketplace_wait_seconds = Histogram(
    "listings_marketplace_wait_seconds", "Time calls waited for the application's rate.", buckets=_LATENCY
)
token_refreshes = Counter("listings_token_refreshes_total", "Refreshes of marketplace tokens by outcome.", ["outcome"])
accounts_resting = Gauge("listings_accounts_resting", "Accounts that this worker lets rest now.")
accounts_paused = Counter("listings_account_pauses_total", "Times an account was paused, by reason.", ["reason"])
runs_due = Gauge("listings_runs_due", "Runs that are due and held by nobody.")
oldest_due_seconds = Gauge("listings_oldest_due_run_seconds", "Age of the longest-due run held by nobody.")
oldest_pending_seconds = Gauge("listings_oldest_pending_job_seconds", "Age of the oldest job with pending items.")
jobs_by_status = Gauge("listings_active_jobs", "Jobs not done, by status.", ["status"])
reconciling_items = Gauge("listings_reconciling_items", "Items whose outcome is being searched for.")
audit_findings = Counter("listings_audit_findings_total", "Books that did not add up. Alarm on any.")
database_up = Gauge("listings_database_up", "1 while a write-capable database answers this process.", ["role"])
database_connections = Gauge(
    "listings_database_connections", "Connections of this process to its database, by what they do.", ["state"]
)
database_waiting = Gauge("listings_database_waiting", "Callers that wait for a connection.")
oldest_transaction_seconds = Gauge("listings_oldest_transaction_seconds", "Age of the oldest open transaction.")
dead_rows = Gauge("listings_dead_rows", "Rows that wait to be vacuumed, in the table that has most of them.")


def follow_pool(usage: Callable[[], tuple[int, int, int]]) -> None:
    """Show a pool of connections from now on.

    Args:
        usage: connections in use, idle ones, and callers that wait for one; asked at each scrape.
    """
    database_connections.labels("in_use").set_function(lambda: usage()[0])
    database_connections.labels("idle").set_function(lambda: usage()[1])
    database_waiting.set_function(lambda: usage()[2])


def describe_process(role: str) -> None:
    """Tell what runs here. Once per process, before anything is shown.

    Args:
        role: serve, core, gateway or worker.
    """
    build_info.labels(role, importlib.metadata.version("listing-publication"), platform.python_version()).set(1)


@contextlib.contextmanager
def showing(address: str | None) -> Iterator[None]:
    """Show this process's metrics at ``HOST:PORT`` for the length of the block; nowhere when absent.

    Raises:
        SettingsError: the address cannot be had.
    """
    if address is None:
        yield
        return
    host, port = split_address(address)
    try:
        server, thread = start_http_server(port, host)
    except OSError:
        raise SettingsError(f"LISTINGS_METRICS_ADDR: cannot listen on {address}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
