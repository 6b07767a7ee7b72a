"""What the design of a campaign did to its numbers, in words: blocks, precision, budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from recoverybench.plan.launchers import EXCLUSIVE, SHARED
from recoverybench.plan.suite import Suite
from recoverybench.plan.units import format_duration
from recoverybench.records import TrialRecord
from recoverybench.results.run_info import RunInfo
from recoverybench.stats import Spread, spread

_REASONS: Final = {
    "precision": "known to {precision:.0%} of the median",
    "trials": "not known to {precision:.0%} after {trials} trials",
    "unreached": "with a median beyond the deadline",
    "budget": "cut by the budget",
}
"""Why a cell got no more trials -> the same for people."""

_ISOLATION: Final = {EXCLUSIVE: "one trial at a time", SHARED: "trials side by side"}


@dataclass(frozen=True, slots=True)
class FirstEffect:
    """How trials that open a block differ from those that follow.

    Attributes:
        ratio: recovery time of a block's first trial over the median of its cell's other
            trials, one value for each block in which both are known.
    """

    ratio: Spread


def first_effect(trials: Iterable[TrialRecord]) -> FirstEffect | None:
    """The effect of coming first in a block; None: no first trial has others to stand beside.

    A run of one cell has blocks of one trial, and nothing to compare.
    """
    first: dict[object, list[float]] = defaultdict(list)
    later: dict[object, list[float]] = defaultdict(list)
    for trial in trials:
        if trial.outcome != "recovered" or trial.recovery_s is None or trial.position is None:
            continue
        (later if trial.position else first)[trial.cell].append(trial.recovery_s)
    ratios = [
        value / median(later[cell])
        for cell, values in first.items()
        if later[cell] and median(later[cell]) > 0
        for value in values
    ]
    found = spread(ratios)
    return None if found is None else FirstEffect(found)


def open_ended(suite: Suite) -> bool:
    """Nobody can say beforehand how many trials it will have."""
    return suite.precision is not None or suite.budget_s is not None


def trials_text(suite: Suite) -> str:
    """How many trials of each cell were asked for."""
    said = str(suite.trials)
    if suite.precision is not None:
        said = (
            f"until its median is known to {suite.precision:.3g} of itself, at most {suite.trials}"
        )
    if suite.budget_s is not None:
        said += f", for {format_duration(suite.budget_s)} in all"
    return said


def isolation_words(isolation: str) -> str:
    """A suite's isolation, for people."""
    return f"{isolation}: {_ISOLATION.get(isolation, 'not known to this release')}"


def neighbours_line(info: RunInfo, trials: Sequence[TrialRecord]) -> str | None:
    """Whether trials ran beside others; None: the suite did not ask for it."""
    if info.suite.isolation == EXCLUSIVE or not trials:
        return None
    most = max(trial.neighbours for trial in trials)
    if not most:
        return (
            "cells could run side by side, and there was no room for that: no trial had a neighbour"
        )
    return (
        f"trials ran side by side, up to {most + 1} at a time, and may have disturbed one another"
    )


def design_lines(info: RunInfo, trials: Sequence[TrialRecord]) -> list[str]:
    """One line on how the cells ended, where that was open, on neighbours, and on first trials."""
    found: list[str] = []
    suite = info.suite
    if open_ended(suite) and info.ended:
        counts = Counter(info.ended.values())
        words = {**_REASONS, "trials": "complete"} if suite.precision is None else _REASONS
        told = {"precision": suite.precision or 0.0, "trials": suite.trials}
        parts = [f"{counts[r]} {words[r].format(**told)}" for r in words if counts[r]]
        found.append(f"cells: {', '.join(parts)}")
    if (beside := neighbours_line(info, trials)) is not None:
        found.append(beside)
    effect = first_effect(trials)
    if effect is not None:
        ratio = effect.ratio
        found.append(
            f"first trials of a block took {ratio.median:.2f} of what the others of their cell "
            f"took ({ratio.minimum:.2f} to {ratio.maximum:.2f} in {ratio.n})"
        )
    return found
