"""What two samples of one quantity, base and new, say about the difference between their sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from recoverybench.effects.groups import bimodal
from recoverybench.effects.ranks import rank_test
from recoverybench.effects.ratio import ratio_interval
from recoverybench.effects.sample import Sample
from recoverybench.stats import Interval


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


def _spread(*sides: Sequence[float]) -> float | None:
    logs = [[math.log(t) for t in side if t > 0] for side in sides]
    freedom = sum(len(side) - 1 for side in logs if side)
    if freedom < 2:
        return None
    means = [fmean(side) if side else 0.0 for side in logs]
    total = sum((v - mean) ** 2 for side, mean in zip(logs, means, strict=True) for v in side)
    return math.sqrt(total / freedom)
