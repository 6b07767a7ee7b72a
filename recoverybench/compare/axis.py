"""An axis of times: where a value is on it, and where its ticks are. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LOG_FROM: Final = 10.0
"""An axis is logarithmic where the largest value is at least so many times the smallest."""

_ZERO_FROM: Final = 3.0
"""A linear one begins at 0 where the largest is at least so many times the smallest."""

_LEAST: Final = 1.6
"""Ratio of the ends of an axis, at least: a spread of 1 % is not to look like one of 50 %."""

_ROOM: Final = 0.04
"""What is left free beyond the outermost values, as a part of what lies between them."""

_MOST: Final = 6
"""Ticks, at most, so that their numbers fit beside one another on a phone."""

_WITHIN_DECADE: Final = ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))
"""Ticks of a decade; the first that gives no more than `_MOST` ticks."""

_UNITS: Final = (
    (0.0995, 1e-3, "milliseconds"),
    (600.0, 1.0, "seconds"),
    (4 * 3600.0, 60.0, "minutes"),
    (math.inf, 3600.0, "hours"),
)
"""Up to which largest value, in seconds, an axis has a unit; what one of it is; its name. The first
is where `labels.seconds` leaves milliseconds.
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of times.

    Attributes:
        start, end: its ends, seconds; their decimal logarithms where it is logarithmic.
        logarithmic: equal distances are equal ratios.
        unit: of the ticks. ticks: seconds, and as they are written.
    """

    start: float
    end: float
    logarithmic: bool
    unit: str
    ticks: tuple[tuple[float, str], ...]

    @property
    def label(self) -> str:
        """What is on it, in words."""
        if self.logarithmic:
            return f"recovery time, {self.unit} (logarithmic)"
        return f"recovery time, {self.unit}" + (" (not from 0)" if self.start > 0 else "")

    def part(self, value: float) -> float:
        """Where a time, in seconds, is: 0 at the start, 1 at the end, nothing beyond them."""
        at = math.log10(max(value, 1e-300)) if self.logarithmic else value
        return min(max((at - self.start) / (self.end - self.start), 0.0), 1.0)


def axis_of(values: Sequence[float]) -> Axis:
    """The axis for these times: finite, at least 0, in seconds."""
    if not values or max(values) <= 0:
        return Axis(0.0, 1.0, False, "seconds", ((0.0, "0"),) if values else ())
    low, high = min(values), max(values)
    size, unit = next((size, unit) for most, size, unit in _UNITS if high < most)
    if low > 0 and high >= LOG_FROM * low:
        start, end = math.log10(low), math.log10(high)
        room = _ROOM * (end - start)
        start, end = start - room, end + room
        return Axis(start, end, True, unit, _log_ticks(start, end, size))
    if high >= _ZERO_FROM * low:
        start, end = 0.0, high * (1 + _ROOM)
    else:
        room = max(math.sqrt(_LEAST * low / high), 1 + _ROOM)
        start, end = low / room, high * room
    return Axis(start, end, False, unit, _linear_ticks(start, end, size))


def _linear_ticks(start: float, end: float, size: float) -> tuple[tuple[float, str], ...]:
    start, end = start / size, end / size
    least = (end - start) / _MOST
    decade = 10.0 ** math.floor(math.log10(least))
    step = next(f * decade for f in (1.0, 2.0, 2.5, 5.0, 10.0) if f * decade >= least)
    first, last = math.ceil(start / step), math.floor(end / step)
    return tuple((k * step * size, _number(k * step)) for k in range(first, last + 1))


def _log_ticks(start: float, end: float, size: float) -> tuple[tuple[float, str], ...]:
    shift = math.log10(size)
    decades = range(math.floor(start - shift), math.ceil(end - shift) + 1)
    for digits in _WITHIN_DECADE:
        found = [
            digit * 10.0**power
            for power in decades
            for digit in digits
            if start <= math.log10(digit) + power + shift <= end
        ]
        if len(found) <= _MOST:
            break
    each = math.ceil(len(found) / _MOST)
    return tuple((value * size, _number(value)) for value in found[::each])


def _number(value: float) -> str:
    return f"{value:,.10g}"
