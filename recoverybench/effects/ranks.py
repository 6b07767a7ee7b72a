"""Mann and Whitney's test, two-sided and exact, equal values included; the normal approximation
stands in only beyond `EXACT` values a side. Pure; scipy is imported when a large test is made.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import Final

EXACT: Final = 50
"""Values of a side up to which the null distribution is counted out."""

ALL_PAIRS: Final = 20_000
"""Pairs of values, one of either side, of which all are looked at one by one."""


def rank_test(base: Sequence[float], new: Sequence[float]) -> float | None:
    """Two-sided p of Mann and Whitney's test; None: one side is empty.

    Args:
        base, new: in any order; infinite where censored, all of these being equal.
    """
    if not base or not new:
        return None
    if max(len(base), len(new)) > EXACT:
        from scipy.stats import mannwhitneyu, rankdata

        ranks = [float(rank) for rank in rankdata([*base, *new])]
        x, y = ranks[: len(base)], ranks[len(base) :]
        return float(mannwhitneyu(x, y, method="asymptotic").pvalue)
    whole = sorted([*base, *new])
    if any(a == b for a, b in pairwise(whole)):
        return _tied_test([_midrank(whole, value) for value in (*base, *new)], len(base))
    shorter = sorted(base)
    longer = sum(bisect_left(shorter, value) for value in new)
    return min(1.0, 2 * _tails(len(base), len(new))[min(longer, len(base) * len(new) - longer)])


def _midrank(ordered: Sequence[float], value: float) -> float:
    """The mean of the places, from 1, that values equal to this one have in order."""
    return (bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2


def _tied_test(ranks: Sequence[float], n: int) -> float:
    """Two-sided p of the first `n` of some ranks having the sum that they have: the share of all
    choices of `n` ranks whose sum is as far from the middle, or further.
    """
    doubled = [round(2 * rank) for rank in ranks]  # midranks are halves
    # The others' sum is as far from their middle: the smaller side is counted out.
    side = doubled[:n] if 2 * n <= len(ranks) else doubled[n:]
    least, unit, parts = _tied_null(tuple(sorted(doubled)), len(side))
    middle = len(side) * (len(ranks) + 1)
    far = abs(sum(side) - middle)
    totals = (least + unit * at for at in range(len(parts)))
    found = sum(p for total, p in zip(totals, parts, strict=True) if abs(total - middle) >= far)
    return min(1.0, found)


@lru_cache(maxsize=64)
def _tied_null(doubled: tuple[int, ...], n: int) -> tuple[int, int, list[float]]:
    """The sum of `n` out of some doubled ranks, all choices alike: the least sum, the step from
    one sum to the next, and the probability of each.
    """
    import numpy as np

    least = doubled[0]
    unit = math.gcd(*(rank - least for rank in doubled)) or 1
    steps = [(rank - least) // unit for rank in doubled]
    ways = np.zeros((n + 1, sum(steps[-n:]) + 1))
    ways[0, 0] = 1.0
    for step in steps:
        ways[1:, step:] += ways[:-1, : ways.shape[1] - step]
    return n * least, unit, (ways[n] / math.comb(len(doubled), n)).tolist()


def depth(n: int, m: int, most: float) -> tuple[int, float]:
    """How many ratios lie outside each end, and the probability of being beyond that end.

    The largest k with P(U <= k) at most `most`; the outermost ratios where even that of 0 is more.
    """
    if max(n, m) > EXACT:
        sd = math.sqrt(n * m * (n + m + 1) / 12)
        k = max(0, math.floor(n * m / 2 + NormalDist().inv_cdf(most) * sd - 0.5))
        return k, NormalDist().cdf((k + 0.5 - n * m / 2) / sd)
    tails = _tails(n, m)
    k = next((k for k, tail in enumerate(tails) if tail > most), len(tails))
    return (k - 1, tails[k - 1]) if k else (0, tails[0])


@cache
def _tails(n: int, m: int) -> tuple[float, ...]:
    """P(U <= k) for k = 0, 1, … where both sides are alike (Mann and Whitney 1947)."""
    counts = [1]
    # The generating function is a product of (1 - q^(m + i)) / (1 - q^i), i = 1 … n.
    for i in range(1, n + 1):
        longer = counts + [0] * m
        for at in range(len(longer) - 1, m + i - 1, -1):
            longer[at] -= longer[at - m - i]
        for at in range(i, len(longer)):
            longer[at] += longer[at - i]
        counts = longer
    whole = math.comb(n + m, n)
    return tuple(count / whole for count in accumulate(counts[: n * m // 2 + 1]))
