"""Publication times (contract, "Shared publication options"; decisions, section 2)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

EARLIEST = timedelta(minutes=5)
LATEST = timedelta(days=30)
RULE = "must be YYYY-MM-DDTHH:MM in UTC, from 5 minutes to 30 days ahead"

_FORM = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})", re.ASCII)
_LONGER = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(Z|z|[+-][0-9]{2}:?[0-9]{2})?",
    re.ASCII,
)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)


class ScheduleError(ValueError):
    """Says which rule the text breaks; never quotes the text unless it was understood."""


def parse_publication_time(text: str, now: datetime) -> datetime:
    """The moment named by ``YYYY-MM-DDTHH:MM``, as an aware UTC time. The window is judged elsewhere.

    Raises:
        ScheduleError: another form or no real date. Where seconds or an offset were sent, the message
            tells the corrected text, unless that would be refused at ``now`` for lying outside the window.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ScheduleError(RULE + _correction(text, now))
    try:
        year, month, day, hour, minute = map(int, match.groups())
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        raise ScheduleError(f"{RULE}; this is no real date and time") from None


def check_window(moment: datetime, now: datetime) -> None:
    """Refuse a moment outside the window, both ends included, judged to the second.

    Raises:
        ScheduleError: names the window.
    """
    if not _inside(moment, now):
        raise ScheduleError(f"must lie {_window_in_words(now)} (5 minutes to 30 days ahead)")


def _window(now: datetime) -> tuple[datetime, datetime]:
    return (now + EARLIEST).replace(microsecond=0), now + LATEST


def _inside(moment: datetime, now: datetime) -> bool:
    first, last = _window(now)
    return first <= moment <= last


def _window_in_words(now: datetime) -> str:
    first, last = _window(now)
    return f"between {first:%Y-%m-%dT%H:%M:%SZ} and {last:%Y-%m-%dT%H:%M:%SZ}"


def parse_day(text: str) -> date:
    """The day named by ``YYYY-MM-DD``.

    Raises:
        ValueError: another form or no real date.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("must be YYYY-MM-DD")
    return date(*map(int, match.groups()))


def _correction(text: str, now: datetime) -> str:
    match = _LONGER.fullmatch(text)
    if match is None:
        return ""
    day, clock, offset = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC)
        if offset and offset not in ("Z", "z"):
            digits = offset[1:].replace(":", "")
            shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
            moment = moment - shift if offset[0] == "+" else moment + shift
    except (ValueError, OverflowError):
        return ""
    if not _inside(moment, now):
        return f"; the time sent, in this form, does not lie {_window_in_words(now)}"
    return f"; send {moment:%Y-%m-%dT%H:%M} (no seconds, no offset)"
