"""The offset of a clock over time, from series of exchanges before and after what was measured.

Between two series the offset is a straight line from one to the other: quartz clocks drift, and
steadily within minutes. How far it may be wrong there:

1. The series agree (they differ by no more than both bounds together): the line between the two
   bounds. It holds for every clock whose offset changes steadily.
2. They agree, and lie so close together that their difference cannot be drift, being more than
   `MOST_RATE_PPM` of the time between them: the tighter one counts alone, as in 4.
3. They do not agree: the clock was changed in between, and nobody knows how. The bound is so
   wide that it holds for every course that goes from one to the other without turning back: a
   steady drift, a slew, a step. At the part w of the way from the first to the second, D apart,
   with bounds b1 and b2, that is max((1 - w) |D| + b2, w |D| + b1).
4. Before the first series and after the last one: the offset of that series, with a bound that
   grows by `MOST_RATE_PPM` of the distance in time.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from recoverybench.clocks.exchange import Offset

MOST_RATE_PPM: Final = 1000
"""How fast two clocks move apart at the most, in millionths: Linux slews CLOCK_MONOTONIC by up to
500 (MAXFREQ in adjtimex(2) and RFC 5905), and two clocks may be slewed apart."""


def drift_ns(length: int) -> int:
    """How far two clocks move apart within that time at the most, ns, rounded up."""
    return -(-abs(length) * MOST_RATE_PPM // 1_000_000)


@dataclass(frozen=True, slots=True)
class _Point:
    """A series, by the clock that is measured: its instant there, offset and bound, ns."""

    at: int
    offset: int
    bound: int


class Course:
    """The offset of one clock as a function of what it shows.

    Args:
        series: at least one, in any order.

    Raises:
        ValueError: there is none.
    """

    def __init__(self, series: Iterable[Offset]) -> None:
        points = (_Point(s.at + s.offset, s.offset, s.bound) for s in series)
        self._points = sorted(points, key=lambda p: (p.at, p.bound, -p.offset))
        if not self._points:
            raise ValueError("a clock's course needs a series of exchanges")
        self._instants = [point.at for point in self._points]

    def at(self, t: int) -> tuple[int, int]:
        """Offset and bound, ns, when the clock that was measured shows `t`, ns."""
        after = bisect.bisect_right(self._instants, t)
        if after == 0:
            return _alone(self._points[0], t)
        if after == len(self._points):
            return _alone(self._points[-1], t)
        return _between(self._points[after - 1], self._points[after], t)


def _alone(point: _Point, t: int) -> tuple[int, int]:
    return point.offset, point.bound + drift_ns(t - point.at)


def _between(a: _Point, b: _Point, t: int) -> tuple[int, int]:
    length, done = b.at - a.at, t - a.at
    apart = b.offset - a.offset
    agree = abs(apart) <= a.bound + b.bound
    if agree and abs(apart) > drift_ns(length):
        return _alone(min(a, b, key=lambda point: point.bound), t)
    # Whole numbers, rounded up where it is a bound: instants have more digits than a float.
    offset = a.offset + apart * done // length
    if agree:
        bound = -(-(a.bound * (length - done) + b.bound * done) // length)
    else:
        ahead = -(-abs(apart) * (length - done) // length) + b.bound
        bound = max(ahead, -(-abs(apart) * done // length) + a.bound)
    return offset, bound + 1
