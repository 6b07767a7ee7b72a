"""What saving costs and what a failure costs, against the steps between checkpoints.

A group is cells of one run that differ in the interval alone. Everything is measured but the mean
time between failures, which nobody can measure on one machine: the reader chooses it.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from recoverybench.cells import Cell
from recoverybench.labels import cell_label, seconds, varying_factors
from recoverybench.records import TrialRecord
from recoverybench.report.rows import Row
from recoverybench.stats.optimum import daly, overhead, young

BETWEEN: Final = (
    (600.0, "10 minutes"),
    (3600.0, "1 hour"),
    (6 * 3600.0, "6 hours"),
    (86400.0, "1 day"),
)
"""Mean times between failures that can be chosen, seconds, in words."""

DEFAULT: Final = 3600.0
"""The one that is shown at first."""

_SHORTEST_S: Final = 1e-9
_LONGEST_S: Final = 1e9
"""What a record may say that something took: a nanosecond to 30 years."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What was measured at one interval: medians over its trials.

    Attributes:
        row: the cell. steps: between checkpoints. step_s: a healthy step.
        save_s: what a save held the training up. durable_s: from its beginning until it would
            survive a failure; 0 where that was not measured.
        recovery_s: None: no trial recovered. lost_s: steps that were lost in the trials, as time.
    """

    row: Row
    steps: int
    step_s: float
    save_s: float
    durable_s: float
    recovery_s: float | None
    lost_s: float | None

    @property
    def interval_s(self) -> float:
        """Training between two saves."""
        return self.steps * self.step_s

    @property
    def failure_s(self) -> float | None:
        """What a failure costs beside half an interval: back to the last durable save, and a
        recovery.
        """
        return None if self.recovery_s is None else self.recovery_s + self.durable_s

    def overhead(self, between_s: float) -> float | None:
        """See `optimum.overhead`; None: no trial recovered."""
        failure_s = self.failure_s
        if failure_s is None:
            return None
        return overhead(self.interval_s, self.save_s, failure_s, between_s)


@dataclass(frozen=True, slots=True)
class Best:
    """The interval that costs least, seconds, by each formula, at one mean time between failures.

    Attributes:
        measured: the cheapest of the intervals that were measured; None: none recovered.
    """

    between_s: float
    young_s: float
    daly_s: float
    measured: Cost | None


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that differ in the interval alone, by the interval.

    Attributes:
        label: what tells it from the other groups. costs: one an interval.
        step_s, save_s, failure_s: medians over all of its trials; the curve is made of these.
    """

    label: str
    costs: tuple[Cost, ...]
    step_s: float
    save_s: float
    failure_s: float

    @property
    def varied(self) -> bool:
        """Several intervals were measured."""
        return len(self.costs) > 1

    def overhead(self, interval_s: float, between_s: float) -> float:
        """Of the group, at any interval."""
        return overhead(interval_s, self.save_s, self.failure_s, between_s)

    def best(self, between_s: float) -> Best:
        """What costs least."""
        priced = [(cost.overhead(between_s), cost) for cost in self.costs]
        known = [(price, cost) for price, cost in priced if price is not None]
        return Best(
            between_s,
            young(self.save_s, between_s),
            daly(self.save_s, between_s),
            min(known, key=lambda pair: pair[0])[1] if known else None,
        )

    def in_steps(self, interval_s: float) -> int:
        """An interval as the nearest whole number of steps, at least one."""
        return max(1, round(interval_s / self.step_s))


def groups(rows: Sequence[Row]) -> list[Group]:
    """Every group in which saves were timed and a trial recovered, in the order of the rows.

    A cell by itself is a group of one interval.
    """
    found: dict[tuple[int, Cell], list[Row]] = defaultdict(list)
    for row in rows:
        found[row.run, dataclasses.replace(row.cell, interval=1)].append(row)
    varying = [f for f in varying_factors(r.cell for r in rows) if f != "interval"]
    several = len({row.run for row in rows}) > 1
    made = (_group(own, varying, several) for own in found.values())
    return [group for group in made if group is not None]


def _group(rows: Sequence[Row], varying: Sequence[str], several: bool) -> Group | None:
    costs = [cost for row in rows if (cost := _cost(row)) is not None]
    trials = [trial for cost in costs for trial in cost.row.trials]
    step_s, save_s = _typical(trials, "steady_step_s"), _typical(trials, "save_stall_s")
    recovery_s = _typical(_recovered(trials), "recovery_s")
    if not step_s or not save_s or recovery_s is None:
        return None
    cell = rows[0].cell
    return Group(
        label=" · ".join(
            [*([rows[0].label_parts[0]] if several else []), cell_label(cell, varying)]
        ),
        costs=tuple(sorted(costs, key=lambda cost: cost.steps)),
        step_s=step_s,
        save_s=save_s,
        failure_s=recovery_s + (_typical(trials, "save_s") or 0.0),
    )


def _cost(row: Row) -> Cost | None:
    """None: a save, or a step, was not timed."""
    trials = [t for t in row.trials if t.outcome != "invalid"]
    step_s, save_s = _typical(trials, "steady_step_s"), _typical(trials, "save_stall_s")
    if not step_s or not save_s or row.cell.interval < 1:
        return None
    back = _recovered(trials)
    lost = [
        t.lost_steps * t.steady_step_s for t in back if t.lost_steps is not None and t.steady_step_s
    ]
    return Cost(
        row=row,
        steps=row.cell.interval,
        step_s=step_s,
        save_s=save_s,
        durable_s=_typical(trials, "save_s") or 0.0,
        recovery_s=_typical(back, "recovery_s"),
        lost_s=statistics.median(lost) if lost else None,
    )


def _recovered(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    return [t for t in trials if t.outcome == "recovered"]


def _typical(trials: Iterable[TrialRecord], name: str) -> float | None:
    """The median of a field; None: no trial has one that can be the time of something."""
    values = [v for v in (getattr(t, name) for t in trials) if v is not None]
    values = [v for v in values if _SHORTEST_S <= v <= _LONGEST_S]
    return statistics.median(values) if values else None


def percent(value: float | None) -> str:
    """An overhead for people: ``0.34 %``, ``44.1 %``, ``1,300 %``; ``–``: not known."""
    if value is None:
        return "–"
    part = 100 * value
    digits = 2 if part < 0.995 else 1 if part < 99.95 else 0
    return f"{part:,.{digits}f} %"


def interval_words(steps: int, interval_s: float) -> str:
    """An interval for people: ``20 steps (0.31 s)``."""
    return f"{steps:,} step{'' if steps == 1 else 's'} ({seconds(interval_s)})"
