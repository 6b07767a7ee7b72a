"""The content security policy of a page: what it may run and load."""

from __future__ import annotations

import base64
import hashlib


def policy(*scripts: str, styles: bool = True, shared: bool = False) -> str:
    """A policy under which nothing is fetched from anywhere else.

    Args:
        scripts: texts of the scripts that may run, inline or put in by one of them; none
            other may. styles: the page has styles of its own, and elements have some.
        shared: scripts of the page's own site may run, too. 'self' is no file to a browser
            that has opened a page from a disk, so that files are named as well.
    """
    rules = ["default-src 'none'"]
    allowed = [*(_hash(script) for script in scripts), *(["'self'", "file:"] if shared else [])]
    if allowed:
        rules.append("script-src " + " ".join(allowed))
    if styles:
        rules.append("style-src 'unsafe-inline'")
    return "; ".join([*rules, "img-src data: blob:", "base-uri 'none'", "form-action 'none'"])


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
