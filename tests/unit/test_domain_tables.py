"""The tables of core: states, item failures, errors."""

from __future__ import annotations

import pytest

from core.domain.failures import ACCOUNT_WIDE, KINDS, Cause, Failure
from core.domain.states import ACTIVE, ITEM_MOVES, JOB_MOVES, TERMINAL, ItemStatus, JobStatus, end_status
from core.errors import CATALOGUE, MAX_VIOLATIONS, ApiError, Violation, Who, internal, invalid
from core.use_cases.create_job import credits_exhausted

HTTP_OF_GRPC = {
    "UNAUTHENTICATED": {401},
    "PERMISSION_DENIED": {403},
    "RESOURCE_EXHAUSTED": {429},
    "ALREADY_EXISTS": {409},
    "INVALID_ARGUMENT": {422},
    "FAILED_PRECONDITION": {400},
    "NOT_FOUND": {404},
    "UNAVAILABLE": {503},
}


def test_every_status_is_either_active_or_terminal_and_has_moves() -> None:
    assert set(JobStatus) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL
    assert set(JOB_MOVES) == {None, *JobStatus}
    assert set(ITEM_MOVES) == set(ItemStatus)


def test_a_terminal_job_moves_by_retry_alone() -> None:
    assert all(JOB_MOVES[status] == {JobStatus.QUEUED} for status in TERMINAL)
    assert all(JobStatus.CANCELLED in JOB_MOVES[status] for status in ACTIVE)


@pytest.mark.parametrize(
    ("successful", "failed", "status"),
    [(0, 0, "completed"), (1, 0, "completed"), (1, 9, "completed"), (0, 1, "failed")],
)
def test_a_job_has_failed_when_not_one_item_succeeded_and_one_failed(successful: int, failed: int, status: str) -> None:
    assert end_status(successful=successful, failed=failed) == status


def test_every_failure_of_an_item_tells_who_must_act_in_plain_words() -> None:
    assert set(KINDS) >= ACCOUNT_WIDE
    for code, kind in KINDS.items():
        assert kind.code == code
        assert kind.message.endswith(".")
        assert kind.who in Who
    assert all(KINDS[code].retryable for code in ACCOUNT_WIDE)


def test_a_failure_is_stored_with_what_the_marketplace_said() -> None:
    stored = Failure("title_refused", [Cause("item.title.invalid", "too long", "title")]).stored()

    assert stored == {
        "code": "title_refused",
        "causes": [{"code": "item.title.invalid", "message": "too long", "field": "title"}],
    }


def test_a_failure_of_which_the_table_tells_all_is_stored_as_its_code() -> None:
    assert Failure("cancelled").stored() == {"code": "cancelled"}


def test_http_and_grpc_status_of_every_error_agree() -> None:
    for code, kind in CATALOGUE.items():
        assert kind.code == code
        assert kind.http_status in HTTP_OF_GRPC[kind.grpc_status]
        assert kind.type_uri == f"urn:listing-publication:error:{code[2:].lower()}"
        assert kind.retry_helps == (kind.http_status in (429, 503))


def test_a_refusal_of_many_places_has_the_code_of_the_first_and_lists_a_hundred() -> None:
    error = invalid([Violation("E_CATEGORY_INVALID", "rule", "/items/0/category_id")] * (MAX_VIOLATIONS + 1))

    assert error.code == "E_CATEGORY_INVALID"
    assert len(error.violations) == MAX_VIOLATIONS
    assert "/items/0/category_id" in error.detail


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "rule"),
        (2, "rule (2 places in all)"),
        (100, "rule (100 places in all)"),
        (101, "rule (more than 100 places; the first 100 are listed)"),
        (250, "rule (more than 100 places; the first 100 are listed)"),
    ],
)
def test_a_refusal_counts_its_places_truthfully(count: int, words: str) -> None:
    places = [Violation("E_PRODUCT_INVALID_SKU", "rule", f"/items/{index}/sku") for index in range(count)]
    assert invalid(places).detail == f"/items/0/sku: {words}"


@pytest.mark.parametrize(
    ("needed", "available", "words"),
    [
        (1, 0, "1 credit is needed, 0 are available."),
        (2, 1, "2 credits are needed, 1 is available."),
        (6, 5, "6 credits are needed, 5 are available."),
    ],
)
def test_missing_credits_are_told_in_plain_words(needed: int, available: int, words: str) -> None:
    assert credits_exhausted(needed=needed, available=available).detail == words


def test_what_time_heals_says_when_to_try_again() -> None:
    assert ApiError("E_RATE_LIMITED", "x").retry_after == 1
    assert ApiError("E_RATE_LIMITED", "x", retry_after=7).retry_after == 7
    assert ApiError("E_JOB_NOT_FOUND", "x").retry_after is None
    assert (internal().retry_after or 0) >= 1
