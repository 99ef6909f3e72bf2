"""Text that people read."""

from __future__ import annotations

import unicodedata
from typing import Final

_CONTROLS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Control characters, halves of surrogate pairs, line and paragraph separators."""


def is_control(character: str) -> bool:
    """Whether a character does something instead of showing something."""
    return unicodedata.category(character) in _CONTROLS


def is_name(text: str, longest: int) -> bool:
    """Whether this can be a name: 1 to ``longest`` characters on one line, not all blank, none of them a control
    character."""
    return 1 <= len(text) <= longest and not text.isspace() and not any(map(is_control, text))
