"""Intervals: of a median, by order statistics; of a rate, by Wilson's score. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval.

    Attributes:
        low, high: its ends.
        confidence: what it really covers. For a median of few values no interval reaches
            what was asked for; then this is the most that they give.
    """

    low: float
    high: float
    confidence: float


def quantile(ordered: Sequence[float], q: float) -> float:
    """Quantile of sorted values, linear between neighbours (the default of numpy and R)."""
    at = q * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    low, high = ordered[below], ordered[above]
    # Held inside its neighbours: rounding may put the sum a bit beyond one of them.
    return min(max(low + (high - low) * (at - below), low), high)


def median_interval(ordered: Sequence[float], confidence: float = 0.95) -> Interval:
    """Interval of the median of sorted values, from the k-th smallest to the k-th largest.

    The narrowest that covers `confidence`, and if none does, the whole range. What it covers
    is exact for any continuous distribution: with n = 3 the range covers 75 %, with 6 it
    covers 97 %.
    """
    n = len(ordered)
    tail, k = 0.5**n, 1
    while 2 * (k + 1) <= n + 1:
        wider = tail + _half_and_half(n, k)
        if 1 - 2 * wider < confidence:
            break
        tail, k = wider, k + 1
    return Interval(ordered[k - 1], ordered[n - k], max(0.0, 1 - 2 * tail))


def _half_and_half(n: int, k: int) -> float:
    """Probability of k heads in n tosses; by logarithms, as the counts outgrow a float."""
    log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log - n * math.log(2))


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a rate; `n` at least 1."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / n
    scale = 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / scale
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / scale
    # The ends are exact where all or none succeeded; rounding would leave 1e-17 there.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(low, high, confidence)
