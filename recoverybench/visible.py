"""Strings of a run on their way to people: no character that acts instead of being read."""

from __future__ import annotations

import unicodedata

_HARMFUL = ("Cc", "Cf", "Cs", "Zl", "Zp")


def clean(text: str) -> str:
    """`text` with every control and formatting character as a visible escape.

    A name with an escape sequence, a carriage return or a right-to-left override in it could
    otherwise rewrite what stands around it.
    """
    return "".join(
        char if unicodedata.category(char) not in _HARMFUL else ascii(char)[1:-1] for char in text
    )
