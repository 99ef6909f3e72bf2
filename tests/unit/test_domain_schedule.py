"""Publication times: one form, real dates, a window with both ends in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.schedule import EARLIEST, LATEST, ScheduleError, check_window, parse_day, parse_publication_time

NOW = datetime(2026, 12, 1, 10, 0, 30, tzinfo=UTC)


def test_the_form_of_the_contract_names_a_moment_in_utc() -> None:
    assert parse_publication_time("2026-12-31T23:59", NOW) == datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
    assert parse_publication_time("2028-02-29T00:00", NOW) == datetime(2028, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-12-31", "2026-12-31 23:59", "2026-12-31t23:59", "2026-12-31T24:00", "2026-02-29T10:00",
        "2026-13-01T10:00", "2026-1-1T1:00", "0000-01-01T00:00", "٢٠٢٦-12-31T23:59", "2026-12-31T23:59\n",
        "+2026-12-31T23:59", "20261231T2359", "2026-12-31T23:5９",
    ],
)  # fmt: skip
def test_another_form_is_refused_without_being_echoed(text: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        parse_publication_time(text, NOW)
    assert "YYYY-MM-DDTHH:MM" in str(refused.value)
    assert "send" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("2026-12-30T10:00:00", "2026-12-30T10:00"),
        ("2026-12-30 10:00", "2026-12-30T10:00"),
        ("2026-12-30T10:00:59.123", "2026-12-30T10:00"),
        ("2026-12-30T10:00Z", "2026-12-30T10:00"),
        ("2026-12-30T10:00:00-05:00", "2026-12-30T15:00"),
        ("2026-12-30T22:30+0530", "2026-12-30T17:00"),
        ("2026-12-30T23:30-05:00", "2026-12-31T04:30"),
        ("2026-12-31T10:00:59Z", "2026-12-31T10:00"),
        ("2026-12-01T10:06:00Z", "2026-12-01T10:06"),
    ],
)
def test_seconds_and_offsets_are_told_in_corrected_form(text: str, corrected: str) -> None:
    with pytest.raises(ScheduleError, match=f"send {corrected} "):
        parse_publication_time(text, NOW)
    check_window(parse_publication_time(corrected, NOW), NOW)


@pytest.mark.parametrize(
    "text", ["2020-01-01T00:00:00Z", "2026-12-01T10:05:59Z", "2026-12-31T10:01Z", "2027-01-01 00:00"]
)
def test_what_would_be_refused_again_is_not_suggested(text: str) -> None:
    with pytest.raises(
        ScheduleError, match=r"does not lie between 2026-12-01T10:05:30Z and 2026-12-31T10:00:30Z"
    ) as refused:
        parse_publication_time(text, NOW)
    assert "send" not in str(refused.value)


def test_both_ends_of_the_window_are_in_it_to_the_second() -> None:
    check_window(NOW + EARLIEST, NOW)
    check_window(NOW + LATEST, NOW)
    check_window(NOW + EARLIEST, NOW + timedelta(microseconds=999_999))
    for outside in (NOW + EARLIEST - timedelta(seconds=1), NOW + LATEST + timedelta(seconds=1), NOW, NOW - LATEST):
        with pytest.raises(ScheduleError, match=r"2026-12-01T10:05:30Z.*2026-12-31T10:00:30Z"):
            check_window(outside, NOW)


@pytest.mark.parametrize("text", ["", "2026-2-1", "20260201", "2026-02-30", "2026-02-01T00:00", "2026-02-01\n"])
def test_a_day_has_one_form_too(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_day(text)
