"""Strings of a run on their way to a terminal: no markup, and no control characters."""

from __future__ import annotations

from rich.text import Text

from recoverybench.visible import clean


def plain(text: str, style: str = "") -> Text:
    """`text`, cleaned, as Rich text in which ``[bold]`` is six characters."""
    return Text(clean(text), style=style)
