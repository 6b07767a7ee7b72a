"""Per cell: how often it recovered, and how long that took. Pure; needs only the records.

Phases and spreads are of recovered trials only, so the rate of recovery always stands beside
them. A trial that was not back at the deadline is right-censored: its time is not known, only
that it is longer. It is never dropped: it is in the rate, and in the medians `recovery` and
`progress`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from recoverybench.cells import Cell
from recoverybench.records import TrialRecord
from recoverybench.stats.intervals import Interval, median_interval, quantile, wilson
from recoverybench.stats.survival import Survival, survival
from recoverybench.vocabulary import OUTCOMES, SHOWN_PHASES

CENSORED: Final = ("timeout", "undetected")
"""Outcomes that mean: not back at the deadline."""

UNJUDGED: Final = ("invalid", "no_effect")
"""Outcomes that say nothing about recovery."""


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
        rates: outcome -> Wilson's interval of how often it occurs, for those that occurred:
            ``invalid`` and ``no_effect`` of all trials, the others of the judged ones.
        censored: trials that were not back at the deadline.
        recovery, progress: recovery time and time to progress of the trials that recovered and
            of those that were not back at the deadline; None if there is neither.
        recovery_s, time_to_progress_s, unattributed_s, verify_s, lost_steps: over the
            recovered trials; None if there is none.
        phases: phase -> the same, in their order, those that occurred.
        bounds: name of a duration -> how far clocks of several hosts may make it wrong in any
            recovered trial, seconds; empty: all is on one clock.
    """

    cell: Cell
    n: int
    outcomes: dict[str, int]
    recovered: int
    judged: int
    rate: Interval | None
    rates: dict[str, Interval]
    censored: int
    recovery: Survival | None
    progress: Survival | None
    recovery_s: Spread | None
    time_to_progress_s: Spread | None
    unattributed_s: Spread | None
    verify_s: Spread | None
    lost_steps: Spread | None
    phases: dict[str, Spread]
    bounds: dict[str, float] = field(default_factory=dict)


def summarise(
    records: Iterable[TrialRecord], confidence: float = 0.95, *, deadline_s: float | None = None
) -> list[CellSummary]:
    """One summary a cell, in the order in which the cells first appear.

    A factor that is None is a value like any other: no cell is left out.

    Args:
        records: of trials of one suite.
        confidence: of the intervals.
        deadline_s: how long a trial was waited for, `Suite.deadline_s`. None: it is not known,
            only that every time that was measured lies before it.
    """
    by_cell: dict[Cell, list[TrialRecord]] = defaultdict(list)
    for record in records:
        by_cell[record.cell].append(record)
    return [_summary(cell, trials, confidence, deadline_s) for cell, trials in by_cell.items()]


def _summary(
    cell: Cell, trials: Sequence[TrialRecord], confidence: float, deadline_s: float | None
) -> CellSummary:
    counts = {name: sum(t.outcome == name for t in trials) for name in OUTCOMES}
    back = [trial for trial in trials if trial.outcome == "recovered"]
    judged = len(trials) - sum(counts[name] for name in UNJUDGED)
    late = sum(counts[name] for name in CENSORED)

    def of(name: str) -> Spread | None:
        return spread((getattr(trial, name) for trial in back), confidence)

    def whole(name: str) -> Survival | None:
        times = [s for s in (getattr(trial, name) for trial in back) if s is not None]
        waited_s = max(times, default=0.0) if deadline_s is None else deadline_s
        return survival(times, [waited_s] * late, confidence)

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
        rates={
            name: wilson(count, len(trials) if name in UNJUDGED else judged, confidence)
            for name, count in counts.items()
            if count
        },
        censored=late,
        recovery=whole("recovery_s"),
        progress=whole("time_to_progress_s"),
        recovery_s=of("recovery_s"),
        time_to_progress_s=of("time_to_progress_s"),
        unattributed_s=of("unattributed_s"),
        verify_s=of("verify_s"),
        lost_steps=of("lost_steps"),
        phases=phases,
        bounds=clock_bounds(back),
    )


def clock_bounds(trials: Iterable[TrialRecord]) -> dict[str, float]:
    """Name of a duration -> the largest of the trials' `clock_bound_s`, where there is one."""
    found: dict[str, float] = {}
    for trial in trials:
        for name, bound_s in trial.clock_bound_s.items():
            found[name] = max(bound_s, found.get(name, 0.0))
    return found


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
