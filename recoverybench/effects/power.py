"""What so many trials with this spread could have shown. Pure."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from recoverybench.effects.difference import Effect
from recoverybench.effects.ranks import ALL_PAIRS, depth

_POWER: Final = 0.8

_LARGEST: Final = math.log(1e6)
"""Logarithm of the largest slowdown that is said to be shown: beyond a million nothing is."""


def detectable(found: Effect, alpha: float) -> float | None:
    """The smallest slowdown that samples of these sizes and this spread show with 80 % power,
    where the logarithms of times are normal.

    Args:
        found: the two samples. alpha: level of the test, corrected for the table.

    Returns:
        A ratio above 1; None: no slowdown whatever could have been significant, none below a
        million times would be seen so often, or the spread is not known.
    """
    if found.least_p > alpha or found.spread is None:
        return None
    shift = _shift(found.base_n, found.new_n, alpha)
    size = found.spread * shift
    return math.exp(size) if size < _LARGEST else None


@lru_cache(maxsize=256)
def _shift(n: int, m: int, alpha: float) -> float:
    """By how many standard deviations two normal samples must lie apart for a rank test at level
    `alpha` to see it with 80 % power.

    Of each simulated pair of samples it is known exactly: the test rejects from the shift on that
    leaves as few differences on the wrong side as the level allows.
    """
    if n * m > ALL_PAIRS:
        return _shift_of_many(n, m, alpha)
    import numpy as np

    k, _ = depth(n, m, alpha / 2)
    rng = np.random.default_rng(0)
    count = min(4000, max(400, 4_000_000 // (n * m)))
    gaps = rng.normal(size=(count, n, 1)) - rng.normal(size=(count, 1, m))
    needed = np.partition(gaps.reshape(count, n * m), n * m - 1 - k, axis=1)[:, n * m - 1 - k]
    return float(np.quantile(needed, _POWER))


def _shift_of_many(n: int, m: int, alpha: float) -> float:
    """The same of many values, by Noether's formula (1987); infinite: too few on one side."""
    normal = NormalDist()
    z = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(_POWER)
    larger = 0.5 + z * math.sqrt((n + m + 1) / (12 * n * m))  # P(a new value is the larger one)
    return math.sqrt(2) * normal.inv_cdf(larger) if larger < 1 else math.inf
