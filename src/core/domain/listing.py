"""What a listing's status means to us (reference, section 3.9; decisions, section 6)."""

from __future__ import annotations

from collections.abc import Sequence

ACTIVE = 1
INACTIVE = 0

UNSETTLED = frozenset({"paused", "under_review", "not_yet_active", "payment_required", "pending", "programmed"})
"""Statuses that are expected to move by themselves soon."""


def app_status(status: str, sub_status: Sequence[str]) -> int:
    """0 when the seller paused the listing or it was deleted or closed, else 1; a listing whose pictures
    are still loading counts as 1."""
    if status == "closed" or "deleted" in sub_status:
        return INACTIVE
    if status == "paused" and "paused_by_seller" in sub_status:
        return INACTIVE
    return ACTIVE
