"""Strings of a run on their way to a terminal: no markup, and no control characters."""

from __future__ import annotations

import unicodedata

from rich.text import Text

_HARMFUL = ("Cc", "Cf", "Cs", "Zl", "Zp")


def clean(text: str) -> str:
    """`text` with every control and formatting character as a visible escape.

    A name with an escape sequence, a carriage return or a right-to-left override in it could
    otherwise rewrite what stands around it.
    """
    return "".join(
        char if unicodedata.category(char) not in _HARMFUL else ascii(char)[1:-1] for char in text
    )


def plain(text: str, style: str = "") -> Text:
    """`text`, cleaned, as Rich text in which ``[bold]`` is six characters."""
    return Text(clean(text), style=style)
