"""Clocks of several hosts: offsets, how far they may be wrong, and journals on one clock. Pure."""

from recoverybench.clocks.course import MOST_RATE_PPM, Course
from recoverybench.clocks.exchange import Exchange, Offset, offset_of
from recoverybench.clocks.joining import Clock, clock_problem, on_one_clock
from recoverybench.clocks.reading import (
    OWN,
    SEVERAL,
    Moved,
    Reading,
    apart_ns,
    reading_of,
    surely_before,
)

__all__ = [
    "MOST_RATE_PPM",
    "OWN",
    "SEVERAL",
    "Clock",
    "Course",
    "Exchange",
    "Moved",
    "Offset",
    "Reading",
    "apart_ns",
    "clock_problem",
    "offset_of",
    "on_one_clock",
    "reading_of",
    "surely_before",
]
