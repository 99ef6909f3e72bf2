"""What a name may be."""

from __future__ import annotations

import pytest

from core.domain.text import is_name


@pytest.mark.parametrize("text", ["Tienda Norte", "Ñandú & Cía.", "店", "x" * 200, "👩‍🔧"])
def test_names(text: str) -> None:
    assert is_name(text, 200)


@pytest.mark.parametrize(
    "text", ["", " ", "a\0", "a\x1b[31m", "a\nb", "a\x85", "a\u2028b", "a\ud800", "\x7f", "x" * 201]
)
def test_what_is_no_name(text: str) -> None:
    assert not is_name(text, 200)
