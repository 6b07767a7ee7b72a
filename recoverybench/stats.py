"""Per cell: how often it recovered, and how long that took. Pure; needs only the records.

Times are of recovered trials only, so the rate of recovery always stands beside them. A
trial that was not back at the deadline is right-censored: its time is not known, only that
it is longer; it is counted in `censored` and never dropped from the rate.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from recoverybench.cells import Cell
from recoverybench.records import TrialRecord
from recoverybench.vocabulary import OUTCOMES, SHOWN_PHASES

CENSORED: Final = ("timeout", "undetected")
"""Outcomes that mean: not back at the deadline."""


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


@dataclass(frozen=True, slots=True)
class Spread:
    """Values of one quantity over the recovered trials of a cell.

    Attributes:
        values: one a trial, in the order of the trials.
        median, minimum, maximum: of them. lower, upper: quartiles, linearly interpolated.
        interval: of the median, from order statistics: no assumption about the distribution.
    """

    values: tuple[float, ...]
    median: float
    minimum: float
    lower: float
    upper: float
    maximum: float
    interval: Interval

    @property
    def n(self) -> int:
        """How many values."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class CellSummary:
    """All trials of one cell. Seconds, except `lost_steps`.

    Attributes:
        cell: the combination of factors.
        n: trials, whatever became of them.
        outcomes: outcome -> trials, those that occurred, in the order of the vocabulary.
        recovered: trials that recovered.
        judged: trials that say something about recovery: all but the `invalid` ones and
            those with `no_effect`, in which there was nothing to recover from.
        rate: `recovered` of `judged`, Wilson's interval; None if nothing could be judged.
        censored: trials that were not back at the deadline.
        recovery_s, time_to_progress_s, unattributed_s, verify_s, lost_steps: over the
            recovered trials; None if there is none.
        phases: phase -> the same, in their order, those that occurred.
    """

    cell: Cell
    n: int
    outcomes: dict[str, int]
    recovered: int
    judged: int
    rate: Interval | None
    censored: int
    recovery_s: Spread | None
    time_to_progress_s: Spread | None
    unattributed_s: Spread | None
    verify_s: Spread | None
    lost_steps: Spread | None
    phases: dict[str, Spread]


def summarise(records: Iterable[TrialRecord], confidence: float = 0.95) -> list[CellSummary]:
    """One summary a cell, in the order in which the cells first appear.

    A factor that is None is a value like any other: no cell is left out.
    """
    by_cell: dict[Cell, list[TrialRecord]] = defaultdict(list)
    for record in records:
        by_cell[record.cell].append(record)
    return [_summary(cell, trials, confidence) for cell, trials in by_cell.items()]


def _summary(cell: Cell, trials: Sequence[TrialRecord], confidence: float) -> CellSummary:
    counts = {name: sum(t.outcome == name for t in trials) for name in OUTCOMES}
    back = [trial for trial in trials if trial.outcome == "recovered"]
    judged = len(trials) - counts["invalid"] - counts["no_effect"]

    def of(name: str) -> Spread | None:
        return spread((getattr(trial, name) for trial in back), confidence)

    phases = {
        phase: values
        for phase in SHOWN_PHASES
        if (values := spread((t.phases.get(phase) for t in back), confidence)) is not None
    }
    return CellSummary(
        cell=cell,
        n=len(trials),
        outcomes={name: count for name, count in counts.items() if count},
        recovered=len(back),
        judged=judged,
        rate=wilson(len(back), judged, confidence) if judged else None,
        censored=sum(counts[name] for name in CENSORED),
        recovery_s=of("recovery_s"),
        time_to_progress_s=of("time_to_progress_s"),
        unattributed_s=of("unattributed_s"),
        verify_s=of("verify_s"),
        lost_steps=of("lost_steps"),
        phases=phases,
    )


def spread(values: Iterable[float | None], confidence: float = 0.95) -> Spread | None:
    """Median, quartiles and range; None if no value is there. A None among them is left out."""
    known = tuple(float(v) for v in values if v is not None)
    if not known:
        return None
    ordered = sorted(known)
    return Spread(
        values=known,
        median=quantile(ordered, 0.5),
        minimum=ordered[0],
        lower=quantile(ordered, 0.25),
        upper=quantile(ordered, 0.75),
        maximum=ordered[-1],
        interval=median_interval(ordered, confidence),
    )


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
