"""What becomes of a crash at each file operation of a save: the table of a sweep over them."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from recoverybench.labels import NONE, cell_label, fixed, outcome_name, varying_factors
from recoverybench.plan.triggers import MOMENTS, Trigger, parse_trigger
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run


@dataclass(frozen=True, slots=True)
class Struck:
    """The trials of one operation and moment.

    Attributes:
        outcomes: in words, with their counts where there are several trials.
        good: every one of them recovered.
        restored: the steps that came back. recovery: median seconds of those that recovered.
    """

    outcomes: str
    good: bool
    restored: str
    recovery: str


@dataclass(frozen=True, slots=True)
class Line:
    """One file operation of a save.

    Attributes:
        operation: its number. what: what it was, as far as it is known.
        moments: what came of it, for each of `MOMENTS`; None: not tried.
    """

    operation: int
    what: str
    moments: tuple[Struck | None, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """The operations of a save in one kind of job.

    Attributes:
        label: what tells it from other sweeps; empty where there is one.
        lines: by the number of the operation.
    """

    label: str
    lines: tuple[Line, ...]


def sweeps(runs: Sequence[Run]) -> list[Sweep]:
    """Every sweep of these runs: trials whose trigger names a file operation of a save."""
    found: dict[tuple[str, ...], list[tuple[Trigger, TrialRecord]]] = defaultdict(list)
    trials = [(run, t) for run in runs for t in run.trials if t.cell.trigger.startswith("save:")]
    varying = [f for f in varying_factors(t.cell for _, t in trials) if f != "trigger"]
    for run, trial in trials:
        label = (
            *([run.info.label or run.info.run_id] if len(runs) > 1 else []),
            *([cell_label(trial.cell, varying)] if varying else []),
        )
        found[label].append((parse_trigger(trial.cell.trigger), trial))
    return [Sweep(" · ".join(label), _lines(struck)) for label, struck in found.items()]


def _lines(struck: Sequence[tuple[Trigger, TrialRecord]]) -> tuple[Line, ...]:
    numbers = sorted({t.operation for t, _ in struck if t.operation is not None})
    lines = []
    for number in numbers:
        own = [(t, trial) for t, trial in struck if t.operation == number]
        moments = tuple(_struck([r for t, r in own if t.moment == moment]) for moment in MOMENTS)
        lines.append(Line(number, _what([trial for _, trial in own]), moments))
    return tuple(lines)


def _what(trials: Sequence[TrialRecord]) -> str:
    stops = [t.stopped for t in trials if t.stopped is not None]
    if not stops:
        return NONE
    kinds = Counter(
        "after the save" if s.kind is None else f"{s.kind} {(s.path or '').rpartition('/')[2]}"
        for s in stops
    )
    return kinds.most_common(1)[0][0].strip()


def _struck(trials: Sequence[TrialRecord]) -> Struck | None:
    if not trials:
        return None
    counts = Counter(t.outcome for t in trials)
    several = len(trials) > 1
    times = [t.recovery_s for t in trials if t.outcome == "recovered" and t.recovery_s is not None]
    steps = sorted({t.restored_step for t in trials if t.restored_step is not None})
    return Struck(
        outcomes=", ".join(
            f"{n} × {outcome_name(o)}" if several else outcome_name(o)
            for o, n in counts.most_common()
        ),
        good=counts["recovered"] == len(trials),
        restored=", ".join(map(str, steps)) or NONE,
        recovery=fixed(statistics.median(times) if times else None),
    )
