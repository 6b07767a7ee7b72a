"""Plotly inside a page: compressed, once, and run by a script of ours that the policy names."""

from __future__ import annotations

import html
from functools import cache

from markupsafe import Markup

from recoverybench.visible import clean
from recoverybench.web.embed import pack


@cache
def plotly() -> str:
    """The text of plotly.js as it runs in the page; its hash is what the policy names."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text.replace("\r\n", "\n").replace("\r", "\n")


@cache
def packed_plotly() -> Markup:
    """The same as base64 of its gzip: 2.0 MB instead of 4.8."""
    return pack(plotly().encode())


def chart_text(text: str) -> str:
    """A string of a run as Plotly shows it: Plotly reads some tags in texts, and links."""
    return html.escape(clean(text), quote=False)
