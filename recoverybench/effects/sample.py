"""Values of one quantity on one side, those that are only known to be longer among them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from recoverybench.stats import quantile

LEAST_S: Final = 1e-9
MOST_S: Final = 1e9
"""Between which a time, in seconds, can be counted with: no clock that is read here tells less
than a nanosecond, and 1e9 s are 31 years. Beyond them ratios leave what a float can hold.
"""


def countable(time_s: float) -> bool:
    """Whether a time can be counted with: 0 s, or from `LEAST_S` to `MOST_S`.

    A file that somebody else made may say -1, 5e-324 or 1e308; such a time is no time.
    """
    return time_s == 0 or LEAST_S <= time_s <= MOST_S


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one quantity on one side.

    Attributes:
        times: seconds.
        censored: seconds at which a trial was given up: its time is longer than that.
    """

    times: tuple[float, ...]
    censored: tuple[float, ...] = ()

    @property
    def values(self) -> list[float]:
        """Every value in order; a censored one is infinite."""
        return [*sorted(self.times), *[math.inf] * len(self.censored)]

    @property
    def median(self) -> float | None:
        """Seconds; None: there is no value, or it lies beyond the deadline (see `bound`)."""
        values = self.values
        if not values:
            return None
        low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
        return None if math.isinf(high) else quantile([low, high], 0.5)

    @property
    def bound(self) -> float | None:
        """What the median is longer than, where it lies beyond the deadline: what it would be if
        the trials that were given up had been back right then.
        """
        if not self.censored or self.median is not None:
            return None
        return quantile(sorted([*self.times, *self.censored]), 0.5)
