"""Whether times come in two groups, of which one median says little. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean
from typing import Final

from recoverybench.stats import quantile

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
