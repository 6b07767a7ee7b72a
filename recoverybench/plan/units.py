"""Durations: ``"60s"``, ``"1.5h"``, ``"250ms"``, ``"1m30s"`` or a plain number of seconds."""

from __future__ import annotations

import itertools
import math
import re

from recoverybench.errors import bad_value

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")

DURATION = 'a positive duration such as "250ms", "60s", "10m" or "1.5h", or seconds'
"""What is allowed where a duration is read, for messages."""


def parse_duration(value: object, where: str, allowed: str = DURATION) -> float:
    """Seconds of a duration as a person writes it.

    Args:
        value: text with units, text or a number in seconds.
        where: the key or option that holds it, for the message.
        allowed: what the message says is allowed.

    Returns:
        Seconds, positive and finite.

    Raises:
        UsageError: it is nothing of the kind, not positive, or not finite.
    """
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        raise bad_value(where, value, allowed)
    return seconds


def _seconds(value: object) -> float | None:
    """Seconds, or None where `value` is no duration; the range is the caller's to check."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _WHOLE.fullmatch(text):
        return None
    parts = _PART.findall(text)
    scales = [_UNITS[unit] for _, unit in parts]
    if any(a <= b for a, b in itertools.pairwise(scales)):
        return None  # "5s1m", "1s1s": more likely a slip than a sum
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """A duration for people: ``250ms``, ``1.52s``, ``1m30s``, ``2h05m``.

    Three significant digits below a minute, whole seconds below an hour, whole minutes above.
    Negative durations keep their sign; what is not finite is spelt as Python does.
    """
    if not math.isfinite(seconds):
        return str(seconds)
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 0.9995:
        return f"{float(f'{seconds * 1000:.3g}'):g}ms"
    if seconds < 59.95:
        return f"{float(f'{seconds:.3g}'):g}s"
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours}h{rest:02d}m" if rest else f"{hours}h"
