"""Dots of one row: which of many trials are drawn, and how those that would cover one another are
stacked. Pure, and the same every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MOST_DOTS: Final = 120
"""Trials of a row that are drawn as dots; of more, so many by rank, evenly."""


def thinned(times: Sequence[float]) -> list[float]:
    """The times in order; at most `MOST_DOTS` of them, the shortest and the longest among them."""
    ordered = sorted(times)
    if len(ordered) <= MOST_DOTS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(i * last / (MOST_DOTS - 1))] for i in range(MOST_DOTS)]


def stacked(places: Sequence[float], width: float) -> list[int]:
    """The level of each dot: 0 on the line, 1 below it, -1 above, and so on; on one level no two
    are closer than `width`.

    Args:
        places: in order. width: of a dot, in the same unit.
    """
    ends: list[float] = []
    found = []
    for place in places:
        at = next((i for i, end in enumerate(ends) if place - end >= width), len(ends))
        if at == len(ends):
            ends.append(place)
        ends[at] = place
        found.append((at + 1) // 2 * (1 if at % 2 else -1))
    return found
