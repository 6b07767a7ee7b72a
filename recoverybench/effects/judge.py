"""From numbers to a verdict: what counts among many tests, and what is worse. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from recoverybench.effects.difference import Effect

ENOUGH: Final = 0.945
"""What an interval must cover to be called one of 95 %: an exact one cannot hit that."""


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's correction (1979): each p as it counts among all of them, in their order."""
    order = sorted(range(len(ps)), key=ps.__getitem__)
    found = [0.0] * len(ps)
    least = 0.0
    for rank, at in enumerate(order):
        least = max(least, min(1.0, (len(ps) - rank) * ps[at]))
        found[at] = least
    return found


def verdict(found: Effect, p_adjusted: float | None, alpha: float, margin: float) -> str:
    """``worse`` | ``better`` | ``same`` | ``inconclusive``.

    Worse and better need both: a test that chance does not explain, and medians that differ by more
    than the margin (or one beyond the deadline). Same needs the whole interval, at 95 % or more,
    within the margin.
    """
    low, high = 1 / (1 + margin), 1 + margin
    interval = found.interval
    if p_adjusted is not None and p_adjusted < alpha:
        late = found.base_bound is not None, found.new_bound is not None
        if late[0] != late[1]:
            return "worse" if late[1] else "better"
        if found.base_median == 0 and found.new_median:
            return "worse"
        if found.ratio is not None and found.ratio > high:
            return "worse"
        if found.ratio is not None and found.ratio < low:
            return "better"
    if interval is not None and interval.confidence >= ENOUGH:
        return "same" if low <= interval.low and interval.high <= high else "inconclusive"
    return "inconclusive"
