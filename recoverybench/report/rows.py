"""One row of the report: a cell of a run, with its name and the numbers that are shown of it."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from recoverybench.cells import Cell
from recoverybench.labels import (
    NONE,
    cell_label,
    fixed,
    mechanism_name,
    outcome_name,
    seconds,
    short_digests,
    varying_factors,
)
from recoverybench.records import TrialRecord, Verification
from recoverybench.results.store import Run
from recoverybench.stats import CellSummary, Interval, Spread, Survival, summarise
from recoverybench.visible import clean

LEVEL = 95
"""Per cent of the interval beside a success rate."""


_UNTRUE = ("diverged", "silent_corruption", "restarted_from_scratch", "invalid")
"""Outcomes of trials that may have trained to their end, and of which the time says nothing."""


def mark_of(trial: TrialRecord) -> str:
    """How a trial stands in the first chart: ``dot`` | ``wrong`` | ``nothing`` | ``cross``.

    A cross never trained again; what was not the same training, or is not to be trusted, is
    wrong; in nothing there was nothing to recover.
    """
    if trial.outcome == "recovered":
        return "dot"
    if trial.outcome == "no_effect":
        return "nothing"
    return "wrong" if trial.recovery_s is not None or trial.outcome in _UNTRUE else "cross"


@dataclass(frozen=True, slots=True)
class Row:
    """A cell of a run, as every chart and table of the report shows it.

    Attributes:
        index: position among the rows. run: position of its run in the report. run_id: its id.
        label_parts: what tells it from the other rows: the run where there are several, the cell.
        summary: its statistics. trials: all of its trials.
    """

    index: int
    run: int
    run_id: str
    label_parts: tuple[str, ...]
    summary: CellSummary
    trials: tuple[TrialRecord, ...]

    @property
    def cell(self) -> Cell:
        """The combination of factors."""
        return self.summary.cell

    @property
    def label(self) -> str:
        """Its name on one line."""
        return " · ".join(self.label_parts)

    @property
    def label_lines(self) -> tuple[str, ...]:
        """Its name for a narrow column: at most about 24 characters a line where words allow."""
        lines = [""]
        for word in self.label.split(" · "):
            joined = f"{lines[-1]} · {word}" if lines[-1] else word
            if len(joined) <= 24 or not lines[-1]:
                lines[-1] = joined
            else:
                lines.append(word)
        return tuple(lines)

    @property
    def times(self) -> tuple[float, ...]:
        """Recovery time of every trial that has one, whatever became of it, seconds."""
        return tuple(t.recovery_s for t in self.trials if t.recovery_s is not None)

    @property
    def n(self) -> int:
        """Trials that say something about recovery: all but those invalid or without effect."""
        return self.summary.judged

    @property
    def recovered(self) -> int:
        """How many of them recovered."""
        return self.summary.recovered

    @property
    def rate(self) -> str:
        """The success rate in words: ``3/3 recovered``, and what could not be judged."""
        said = [f"{self.recovered}/{self.n} recovered"]
        for outcome in ("invalid", "no_effect"):
            if count := self.summary.outcomes.get(outcome):
                said.append(f"{count} {outcome_name(outcome)}")
        return ", ".join(said)

    @property
    def interval_text(self) -> str:
        """Interval of the success rate, per cent."""
        return _percent(self.summary.rate)

    def outcome_interval(self, outcome: str) -> str:
        """Interval of how often an outcome occurs, per cent; nothing for one that did not."""
        return _percent(self.summary.rates.get(outcome))

    @property
    def median_s(self) -> float | None:
        """Median recovery time, seconds, of the trials that recovered and of those that were not
        back at the deadline. None: it lies beyond the deadline, or none recovered.
        """
        return self._recovery.median if self._recovery else None

    @property
    def interval(self) -> Interval | None:
        """Interval of the median recovery time, seconds; None: too few trials for one of 95 %."""
        found = self._recovery
        if found is None or found.interval.confidence < LEVEL / 100:
            return None
        return found.interval

    @property
    def at_least_s(self) -> float | None:
        """The median, or what it is longer than, seconds; None: none recovered."""
        found = self._recovery
        return (found.bound if found.median is None else found.median) if found else None

    @property
    def timed(self) -> int:
        """How many trials the median is of."""
        return self._recovery.n if self._recovery else 0

    @property
    def median_text(self) -> str:
        """The median in words: ``1.4 s``, ``more than 31 s``."""
        beyond = self.median_s is None and self.at_least_s is not None
        bound_s = 0.0 if beyond else self.bounds.get("recovery_s", 0.0)
        return ("more than " if beyond else "") + seconds(self.at_least_s, bound_s)

    @property
    def median_fixed(self) -> str:
        """The median for a column of seconds: ``1.40``, ``> 31.00``."""
        return _fixed(self._recovery, self.bounds.get("recovery_s", 0.0))

    @property
    def progress_text(self) -> str:
        """Median time to progress in words."""
        found = self.summary.progress if self.recovered else None
        if found is None or found.median is not None:
            bound_s = self.bounds.get("time_to_progress_s", 0.0)
            return seconds(found.median if found else None, bound_s)
        return f"more than {seconds(found.bound)}"

    @property
    def progress_fixed(self) -> str:
        """Median time to progress, likewise."""
        found = self.summary.progress if self.recovered else None
        return _fixed(found, self.bounds.get("time_to_progress_s", 0.0))

    @property
    def _recovery(self) -> Survival | None:
        """Nothing where no trial recovered: then there is no time, only outcomes."""
        return self.summary.recovery if self.recovered else None

    @property
    def unattributed_s(self) -> float | None:
        """Median unattributed time, seconds."""
        return _median(self.summary.unattributed_s)

    @property
    def phases(self) -> dict[str, float]:
        """Phase -> its median, seconds; those that any recovered trial has."""
        return {phase: values.median for phase, values in self.summary.phases.items()}

    @property
    def middle(self) -> TrialRecord | None:
        """The recovered trial in the middle: its phases sum up to its recovery time, which of an
        odd number of trials is the median. One that was not back in time counts as longer than any.
        """
        back = [t for t in self.trials if t.outcome == "recovered" and t.recovery_s is not None]
        back.sort(key=lambda t: t.recovery_s or 0.0)
        place = (max(self.timed, len(back)) - 1) // 2
        return back[min(place, len(back) - 1)] if back else None

    @property
    def bounds(self) -> dict[str, float]:
        """Name of a duration -> how far clocks may make it wrong, seconds; those that they do."""
        return self.summary.bounds

    @property
    def outcomes(self) -> dict[str, int]:
        """Outcome -> number of trials, those that occurred."""
        return self.summary.outcomes

    @property
    def range_text(self) -> str:
        """Shortest and longest recovery time."""
        times = self.summary.recovery_s
        return f"{fixed(times.minimum)} – {fixed(times.maximum)}" if times else NONE

    @property
    def lost_text(self) -> str:
        """Lost steps: one number, or the range."""
        lost = self.summary.lost_steps
        if lost is None:
            return NONE
        low, high = f"{lost.minimum:.0f}", f"{lost.maximum:.0f}"
        return low if low == high else f"{low} – {high}"

    @property
    def detected_text(self) -> str:
        """The mechanisms that noticed first, the most frequent one in front."""
        counts = Counter(t.detected_by for t in self.trials if t.detected_by)
        names = [mechanism_name(m) for m, _ in counts.most_common()]
        return ", ".join(names) or NONE

    def outcome_share(self, outcome: str) -> float:
        """Part of its trials that ended so, 0 to 1."""
        return self.outcomes.get(outcome, 0) / max(len(self.trials), 1)

    @property
    def grown(self) -> str:
        """What growing back held the training up for: the median, where the job did so."""
        paused = [
            t.paused_s
            for trial in self.trials
            for t in trial.transitions
            if t.kind == "grow" and t.paused_s is not None
        ]
        return fixed(statistics.median(paused)) if paused else NONE

    @property
    def checks(self) -> tuple[Verification, ...]:
        """The verifications that came to a result."""
        found = (t.verify for t in self.trials)
        return tuple(v for v in found if v is not None and v.passed is not None)

    @property
    def verified_text(self) -> str:
        """In how many trials the training was proven to be the same."""
        checks = self.checks
        if not checks:
            return "nothing to compare"
        passed = sum(v.passed is True for v in checks)
        near = (
            ", in part within a tolerance" if any(v.tolerance is not None for v in checks) else ""
        )
        return f"equal in {passed} of {len(checks)}{near}"

    @property
    def losses(self) -> int:
        """Losses compared, all trials together."""
        return sum(v.losses_compared for v in self.checks)

    @property
    def losses_within(self) -> int:
        """Those of them that were compared within a tolerance, and not bit for bit."""
        return sum(v.losses_within for v in self.checks)

    @property
    def digests(self) -> int:
        """State digests compared."""
        return sum(v.digests_compared for v in self.checks)

    @property
    def samples(self) -> int:
        """Samples in the account."""
        return sum(v.samples_checked for v in self.checks)

    @property
    def first_difference(self) -> str | None:
        """The first difference that any of its trials found, with short digests."""
        found = next((v.first_difference for v in self.checks if v.first_difference), None)
        return None if found is None else short_digests(found)

    def trial_key(self, trial: TrialRecord) -> str:
        """What the page's address calls a trial: ``RUN/TRIAL``, the run by its position."""
        return f"{self.run}/{trial.trial}"


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """Every cell of every run, the fastest cell first, and runs side by side within a cell.

    Cells that never recovered come last. A cell of the suite without a trial is no row.
    """
    varying = varying_factors(t.cell for run in runs for t in run.trials)
    named = [(name,) if len(runs) > 1 else () for name in run_names(runs)]
    trials: dict[tuple[int, Cell], list[TrialRecord]] = defaultdict(list)
    for i, run in enumerate(runs):
        for trial in run.trials:
            trials[i, trial.cell].append(trial)
    rows = [
        Row(
            index=0,
            run=i,
            run_id=run.info.run_id,
            label_parts=tuple(map(clean, (*named[i], cell_label(s.cell, varying)))),
            summary=s,
            trials=tuple(trials[i, s.cell]),
        )
        for i, run in enumerate(runs)
        for s in summarise(run.trials, LEVEL / 100, deadline_s=run.info.suite.deadline_s)
    ]
    best: dict[Cell, float] = {}
    for row in rows:
        time = float("inf") if row.at_least_s is None else row.at_least_s
        best[row.cell] = min(time, best.get(row.cell, time))
    order = {cell: i for i, cell in enumerate(best)}
    ranked = sorted(rows, key=lambda r: (best[r.cell], order[r.cell], r.run))
    return [dataclasses.replace(row, index=i) for i, row in enumerate(ranked)]


def run_names(runs: Sequence[Run]) -> list[str]:
    """What the report calls each run: its label, or its id, and its position too where two would be
    called the same.
    """
    names = [run.info.label or run.info.run_id for run in runs]
    counts = Counter(names)
    return [f"{n} ({i + 1})" if counts[n] > 1 else n for i, n in enumerate(names)]


def _percent(rate: Interval | None) -> str:
    return f"{100 * rate.low:.0f} – {100 * rate.high:.0f} %" if rate else ""


def _fixed(found: Survival | None, bound_s: float) -> str:
    if found is None:
        return NONE
    return fixed(found.median, bound_s) if found.median is not None else f"> {fixed(found.bound)}"


def _median(values: Spread | None) -> float | None:
    return values.median if values else None
