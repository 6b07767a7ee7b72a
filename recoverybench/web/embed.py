"""Data inside a page: JSON that no string can break out of, and compressed bytes."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

from markupsafe import Markup

_LEVEL = 6
"""Of gzip: higher ones take three times as long for 1 % less."""


def embed(value: Any) -> Markup:
    """JSON that can stand inside a ``<script>`` element, whatever strings it holds.

    ``<``, ``>`` and ``&`` are written as escapes, so that neither ``</script>`` nor ``<!--``
    can end or change the element; the two line separators that JavaScript knows and JSON
    does not are escaped too. A value that JSON cannot hold (NaN, a path) becomes text.
    """
    text = as_json(value)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def pack(content: bytes) -> Markup:
    """Bytes as base64 of their gzip, which ``unpack`` of ``core.js`` reads again.

    The same bytes give the same text: no time is written into it.
    """
    return Markup(base64.b64encode(gzip.compress(content, _LEVEL, mtime=0)).decode())


def as_json(value: Any) -> str:
    """Compact JSON; a value that JSON cannot hold becomes text."""
    try:
        return _dump(value)
    except ValueError:
        return _dump(_finite(value))


def _dump(value: Any) -> str:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str
    )


def _finite(value: Any) -> Any:
    """The same value with NaN and infinities, which JSON does not know, as text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
