"""Two samples of one quantity, base and new: their ratio, its interval, and whether chance explains
it. Pure; scipy is imported when a test is made.

A trial that was not back at its deadline enters as longer than every time that was measured.

* The test is Mann and Whitney's, two-sided and exact, equal values included; the normal
  approximation stands in only beyond 50 values a side.
* The interval is of the factor between the two distributions (which is the ratio of their medians
  where only the scale differs): the test inverted, that is, a pair of order statistics of all
  ratios new / base (Hodges and Lehmann 1963; Bauer 1972). What it covers is exact and is stated
  with it. A bootstrap of the ratio of two medians covers 95 % only on paper; docs/statistics.md
  has the measurement.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from statistics import NormalDist, fmean
from typing import Final

from recoverybench.stats import Interval, quantile

_EXACT: Final = 50
"""Values of a side up to which the null distribution is counted out."""

ENOUGH: Final = 0.945
"""What an interval must cover to be called one of 95 %: an exact one cannot hit that."""

_POWER: Final = 0.8

_ALL: Final = 20_000
"""Pairs of values, one of either side, of which all are looked at one by one."""


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


@dataclass(frozen=True, slots=True)
class Effect:
    """What two samples say about the difference between their sides.

    Attributes:
        base_median, new_median: seconds; None: beyond the deadline, or no value.
        base_bound, new_bound: what such a median is longer than.
        ratio: of the medians, new over base; None: one of them is not known, or the base's is 0.
        interval: of the factor between the sides; None: one side has no value, or a time of 0.
        p: two-sided, of the hypothesis that both sides are alike; None: one side has no value.
        least_p: the smallest p that samples of these sizes can give.
        spread: standard deviation of the logarithm of the times within a side, both sides pooled;
            None: not to be had from so few values.
        base_n, new_n: values on either side.
        base_bimodal, new_bimodal: the times come in two groups, see `bimodal`.
    """

    base_median: float | None
    new_median: float | None
    base_bound: float | None
    new_bound: float | None
    ratio: float | None
    interval: Interval | None
    p: float | None
    least_p: float
    spread: float | None
    base_n: int
    new_n: int
    base_bimodal: bool
    new_bimodal: bool


def effect(base: Sample, new: Sample, *, confidence: float = 0.95) -> Effect:
    """Compare two samples.

    Args:
        base, new: of one quantity, times of at least 0.
        confidence: of the interval; few values reach less, and the interval says what it covers.
    """
    a, b = base.values, new.values
    medians = base.median, new.median
    ratio = None
    if medians[0] and medians[1] is not None:
        ratio = medians[1] / medians[0]
    return Effect(
        base_median=medians[0],
        new_median=medians[1],
        base_bound=base.bound,
        new_bound=new.bound,
        ratio=ratio,
        interval=ratio_interval(a, b, confidence),
        p=rank_test(a, b),
        least_p=2 / math.comb(len(a) + len(b), len(a)) if a and b else 1.0,
        spread=_spread(base.times, new.times),
        base_n=len(a),
        new_n=len(b),
        base_bimodal=bimodal(base.times),
        new_bimodal=bimodal(new.times),
    )


def rank_test(base: Sequence[float], new: Sequence[float]) -> float | None:
    """Two-sided p of Mann and Whitney's test; None: one side is empty.

    Args:
        base, new: in any order; infinite where censored, all of these being equal.
    """
    if not base or not new:
        return None
    if max(len(base), len(new)) > _EXACT:
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
    k, tail = _depth(n, m, (1 - confidence) / 2)
    if n * m > _ALL:
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


def _depth(n: int, m: int, most: float) -> tuple[int, float]:
    """How many ratios lie outside each end, and the probability of being beyond that end.

    The largest k with P(U <= k) at most `most`; the outermost ratios where even that of 0 is more.
    """
    if max(n, m) > _EXACT:
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


def detectable(found: Effect, alpha: float) -> float | None:
    """The smallest slowdown that samples of these sizes and this spread show with 80 % power,
    where the logarithms of times are normal.

    Args:
        found: the two samples. alpha: level of the test, corrected for the table.

    Returns:
        A ratio above 1; None: no slowdown whatever could have been significant, or the spread is
        not known.
    """
    if found.least_p > alpha or found.spread is None:
        return None
    shift = _shift(found.base_n, found.new_n, alpha)
    return math.exp(found.spread * shift) if math.isfinite(shift) else None


@lru_cache(maxsize=256)
def _shift(n: int, m: int, alpha: float) -> float:
    """By how many standard deviations two normal samples must lie apart for a rank test at level
    `alpha` to see it with 80 % power.

    Of each simulated pair of samples it is known exactly: the test rejects from the shift on that
    leaves as few differences on the wrong side as the level allows.
    """
    if n * m > _ALL:
        return _shift_of_many(n, m, alpha)
    import numpy as np

    k, _ = _depth(n, m, alpha / 2)
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


def _spread(*sides: Sequence[float]) -> float | None:
    logs = [[math.log(t) for t in side if t > 0] for side in sides]
    freedom = sum(len(side) - 1 for side in logs if side)
    if freedom < 2:
        return None
    means = [fmean(side) if side else 0.0 for side in logs]
    total = sum((v - mean) ** 2 for side, mean in zip(logs, means, strict=True) for v in side)
    return math.sqrt(total / freedom)


def rate_test(base: tuple[int, int], new: tuple[int, int]) -> float | None:
    """Two-sided p of Fisher's exact test of two rates, each as successes and trials; None: a side
    has no trial.
    """
    if not base[1] or not new[1]:
        return None
    from scipy.stats import fisher_exact

    table = [[base[0], base[1] - base[0]], [new[0], new[1] - new[0]]]
    return float(fisher_exact(table).pvalue)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's correction (1979): each p as it counts among all of them, in their order."""
    order = sorted(range(len(ps)), key=ps.__getitem__)
    found = [0.0] * len(ps)
    least = 0.0
    for rank, at in enumerate(order):
        least = max(least, min(1.0, (len(ps) - rank) * ps[at]))
        found[at] = least
    return found


def verdict(found: Effect, p_adjusted: float | None, alpha: float, margin: float) -> str:
    """``worse`` | ``better`` | ``same`` | ``inconclusive``.

    Worse and better need both: a test that chance does not explain, and medians that differ by more
    than the margin (or one beyond the deadline). Same needs the whole interval, at 95 % or more,
    within the margin.
    """
    low, high = 1 / (1 + margin), 1 + margin
    interval = found.interval
    if p_adjusted is not None and p_adjusted < alpha:
        late = found.base_bound is not None, found.new_bound is not None
        if late[0] != late[1]:
            return "worse" if late[1] else "better"
        if found.base_median == 0 and found.new_median:
            return "worse"
        if found.ratio is not None and found.ratio > high:
            return "worse"
        if found.ratio is not None and found.ratio < low:
            return "better"
    if interval is not None and interval.confidence >= ENOUGH:
        return "same" if low <= interval.low and interval.high <= high else "inconclusive"
    return "inconclusive"


_GROUPS: Final = {
    8: 0.036,
    10: 0.051,
    12: 0.073,
    15: 0.090,
    20: 0.110,
    30: 0.135,
    50: 0.159,
    100: 0.185,
}
"""Values -> share of the variance that is left within the two groups. Data in one group fall below
it in 1 % of cases: whether normal, uniform or exponential, the least of the three
(benchmarks/intervals.py makes the table).
"""

_LEAST_GROUP: Final = 0.2
"""Part of the values that the smaller group holds at least: outliers are no group."""


def bimodal(times: Sequence[float]) -> bool:
    """Whether times come in two groups, see `modes`."""
    return modes(times) is not None


def modes(times: Sequence[float]) -> tuple[float, float] | None:
    """The medians of the two groups that times come in; None: they do not.

    They do if, cut in two where that leaves the least variance of their logarithms within the
    parts (Otsu 1979), less of it is left than data in one group would leave 99 times of 100.

    Never for fewer than 8 values.
    """
    whole = sorted(t for t in times if t > 0)
    values = [math.log(t) for t in whole]
    n = len(values)
    if n < min(_GROUPS):
        return None
    cut = _cut(values)
    limit = _GROUPS[max(size for size in _GROUPS if size <= n)]
    if cut is None or cut[1] >= limit:
        return None
    parts = whole[: cut[0]], whole[cut[0] :]
    return quantile(parts[0], 0.5), quantile(parts[1], 0.5)


def two_groups(values: Sequence[float]) -> float | None:
    """Share of the variance of sorted values that the best cut in two leaves; None: no variance."""
    cut = _cut(values)
    return None if cut is None else cut[1]


def _cut(values: Sequence[float]) -> tuple[int, float] | None:
    """How many values lie below the best cut, and what it leaves of the variance."""
    n = len(values)
    centre = fmean(values)
    total = sum((v - centre) ** 2 for v in values)
    if total <= 1e-18:
        return None
    least = max(2, math.ceil(_LEAST_GROUP * n))
    sums = [0.0, *accumulate(v - centre for v in values)]
    between, k = max(
        (sums[k] ** 2 / k + sums[k] ** 2 / (n - k), k) for k in range(least, n - least + 1)
    )
    return k, max(0.0, 1 - between / total)
