"""How far an instant of a journal may be wrong, and the time between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from recoverybench.clocks.course import drift_ns


@dataclass(frozen=True, slots=True)
class Reading:
    """What an instant was read from.

    Attributes:
        clock: which one; None: the supervisor's.
        offset: what it was moved back by, ns. bound: it is wrong by at most so much, ns.
    """

    clock: str | None = None
    offset: int = 0
    bound: int = 0


class Moved(TypedDict, total=False):
    """Fields of a line whose instant is by another clock than that of who writes it, ns: what it
    was moved back by, and by how much it may be wrong. Both or none.
    """

    clock_offset_ns: int
    clock_bound_ns: int


OWN: Final = Reading()
"""Of the supervisor's clock, to which all others are moved."""

SEVERAL: Final = "several"
"""In place of a clock's name, where it is not known which of several set a milestone."""


def reading_of(line: Mapping[str, Any]) -> Reading:
    """That of a journal's line; `joining.on_one_clock` writes it there."""
    if "clock_bound_ns" not in line or line["event"] == "journal":
        return OWN
    return Reading(line.get("clock"), line["clock_offset_ns"], line["clock_bound_ns"])


def apart_ns(a: Reading, b: Reading, length: int) -> int:
    """How far the time between two instants may be wrong, ns.

    Two clocks are wrong by both bounds at the most. One clock is wrong by what it may have drifted
    meanwhile, and by what its instants were moved differently.

    Args:
        length: the time between them, ns.
    """
    if a.clock == b.clock is None:
        return a.bound + b.bound
    both = a.bound + b.bound
    if a.clock == b.clock != SEVERAL:
        return min(both, drift_ns(length) + abs(a.offset - b.offset))
    return both


def surely_before(line: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a line is before another one, also if the clocks are as wrong as they may be."""
    gap: int = other["t"] - line["t"]
    return gap > 0 and gap > apart_ns(reading_of(line), reading_of(other), gap)
