"""Times of which some are only known to be longer than they were waited for (right-censored)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from recoverybench.stats.intervals import Interval, median_interval, quantile

_ROUNDING: Final = 1e-9
"""A product of as many fractions as there are trials misses one half by less than this."""


@dataclass(frozen=True, slots=True)
class Survival:
    """Times of trials, some of them censored. Seconds.

    Attributes:
        n: trials, the censored ones included. censored: how many were not back.
        median: Kaplan and Meier's (1958); the plain median where nothing is censored. None: half
            of the trials were not back for as long as anybody waited.
        bound: where there is no `median`, what it is longer than; else None.
        interval: of the median. `high` is infinite where it has no upper end. It covers exactly
            what it says where all censored trials were given up at one deadline and the true
            median lies before it; at least that otherwise.
    """

    n: int
    censored: int
    median: float | None
    bound: float | None
    interval: Interval


def survival(
    times: Iterable[float], censored: Iterable[float] = (), confidence: float = 0.95
) -> Survival | None:
    """The median of times of which some are censored; None where there is no trial.

    The interval's ends are order statistics. At the lower end a censored time counts as if it had
    ended where it was given up, at the upper end as if it never had: it ended somewhere between,
    so the interval of the whole times lies inside.

    Args:
        times: of trials that were back, seconds.
        censored: of the others, how long they were waited for, seconds.
        confidence: of the interval. Few trials reach less, see `median_interval`.
    """
    back, late = sorted(times), sorted(censored)
    if not back and not late:
        return None
    soonest, latest = sorted([*back, *late]), [*back, *[math.inf] * len(late)]
    lower = median_interval(soonest, confidence)
    upper = median_interval(latest, confidence)
    low, high = _half(back, late, latest)
    known = math.isfinite(high)
    return Survival(
        n=len(soonest),
        censored=len(late),
        median=quantile([low, high], 0.5) if known else None,
        bound=None if known else quantile(soonest, 0.5),
        interval=Interval(lower.low, upper.high, lower.confidence),
    )


def _half(
    back: Sequence[float], late: Sequence[float], latest: Sequence[float]
) -> tuple[float, float]:
    """When at most half of the trials, and when less than half, are not back; infinite: never."""
    if not back or not late or back[-1] <= late[0]:
        # All in one order: Kaplan and Meier's curve is that of the plain counts, without scipy.
        n = len(latest)
        return latest[(n - 1) // 2], latest[n // 2]
    from scipy.stats import CensoredData, ecdf

    curve = ecdf(CensoredData(uncensored=list(back), right=list(late))).sf
    steps = [
        (float(t), float(s)) for t, s in zip(curve.quantiles, curve.probabilities, strict=True)
    ]
    return (
        next((t for t, left in steps if left <= 0.5 + _ROUNDING), math.inf),
        next((t for t, left in steps if left < 0.5 - _ROUNDING), math.inf),
    )
