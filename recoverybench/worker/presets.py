"""Checks on a preset with the user's changes, before anything is made of it.

What the plan cannot know without importing a family is said here in one line: which entry,
what it holds, what is allowed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from recoverybench import errors


def require(key: str, value: object, holds: bool, allowed: str) -> None:
    """Raises `UsageError` unless `holds`.

    Args:
        key: entry of the preset. value: what it is. allowed: what it may be.
    """
    if not holds:
        raise errors.bad_value(f"workload: {key}", value, allowed)


def positive(config: Any, *, or_zero: tuple[str, ...] = ()) -> None:
    """Every number of a dataclass is above 0, or at least 0 where it is named."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            least = "at least 0" if field.name in or_zero else "above 0"
            holds = 0 < value < float("inf") or (value == 0 and field.name in or_zero)
            require(field.name, value, holds, f"a number {least}")


def divides(config: Any, part: str, whole: str) -> None:
    """Entry `part` divides entry `whole`."""
    small, large = getattr(config, part), getattr(config, whole)
    require(part, small, large % small == 0, f"a divisor of {whole} = {large}")


def one_of(config: Any, key: str, names: tuple[str | int, ...]) -> None:
    """Entry `key` is one of these."""
    value = getattr(config, key)
    require(key, value, value in names, " or ".join(map(str, names)))
