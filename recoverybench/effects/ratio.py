"""The factor between two sides, as an interval: the rank test inverted, that is, a pair of order
statistics of all ratios new / base (Hodges and Lehmann 1963; Bauer 1972). Pure.

What it covers is exact and is stated with it. A bootstrap of the ratio of two medians covers 95 %
only on paper; docs/statistics.md has the measurement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from recoverybench.effects.ranks import ALL_PAIRS, depth
from recoverybench.stats import Interval


def ratio_interval(
    base: Sequence[float], new: Sequence[float], confidence: float = 0.95
) -> Interval | None:
    """Interval of the factor between two sides: the ratios that `rank_test` would not reject.

    Two censored values are in the ratio 0 to infinity: nothing is known of it. None where a side
    is empty or holds a 0.
    """
    n, m = len(base), len(new)
    if not n or not m or min(*base, *new) <= 0:
        return None
    k, tail = depth(n, m, (1 - confidence) / 2)
    if n * m > ALL_PAIRS:
        return Interval(*_far_ratios(base, new, k), 1 - 2 * tail)
    lows = sorted(0.0 if math.isinf(b) else a / b for b in base for a in new)
    highs = sorted(math.inf if math.isinf(a) else a / b for b in base for a in new)
    return Interval(lows[k], highs[n * m - 1 - k], 1 - 2 * tail)


def _far_ratios(base: Sequence[float], new: Sequence[float], k: int) -> tuple[float, float]:
    """The ratio new / base with `k` below it, and the one with `k` above it, without making all.

    How many ratios are at most some number takes one pass over both sides; the number itself is
    found by bisection, to the last digits of a float.
    """
    import numpy as np

    late = sum(map(math.isinf, base)), sum(map(math.isinf, new))
    a = np.log(sorted(v for v in base if not math.isinf(v)))
    b = np.log(sorted(v for v in new if not math.isinf(v)))

    def find(which: int, below: int) -> float:
        """The ratio with so many before it, of which `below` are 0 for a base that is late."""
        if which < below:
            return 0.0
        if which >= below + len(a) * len(b):
            return math.inf
        low, high = float(b[0] - a[-1]), float(b[-1] - a[0])
        for _ in range(60):
            middle = (low + high) / 2
            count = below + int(np.searchsorted(b, a + middle, side="right").sum())
            low, high = (low, middle) if count > which else (middle, high)
        return math.exp(high)

    whole = len(base) * len(new)
    return find(k, late[0] * len(new)), find(whole - 1 - k, late[0] * len(b))
