"""The content security policy of a page: what it may run and load."""

from __future__ import annotations

import base64
import hashlib


def policy(*scripts: str, styles: bool = True) -> str:
    """A policy under which nothing is fetched.

    Args:
        scripts: texts of the scripts that may run, inline or put in by one of them; none
            other may. styles: the page has styles of its own, and elements have some.
    """
    rules = ["default-src 'none'"]
    if scripts:
        rules.append("script-src " + " ".join(_hash(script) for script in scripts))
    if styles:
        rules.append("style-src 'unsafe-inline'")
    return "; ".join([*rules, "img-src data: blob:", "base-uri 'none'", "form-action 'none'"])


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
