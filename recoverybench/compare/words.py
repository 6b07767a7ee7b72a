"""A comparison in words: the lines that its text, Markdown and HTML forms share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from recoverybench.compare.model import CellComparison, Comparison, Facts, OutcomeChange, Rate, Row
from recoverybench.effects import ENOUGH
from recoverybench.labels import NONE, outcome_name, phase_name, seconds
from recoverybench.stats import Interval

VERDICTS: Final = (
    "worse",
    "better",
    "same",
    "inconclusive",
    "negligible",
    "no base",
    "no new",
)
"""In the order in which they are counted."""

_QUANTITIES: Final = {"recovery_s": "recovery", "time_to_progress_s": "to progress"}


def quantity_name(quantity: str) -> str:
    """A quantity as it is written."""
    return _QUANTITIES.get(quantity) or phase_name(quantity)


def answer(comparison: Comparison) -> str:
    """The answer, as one sentence; a second one says which parts are worse."""
    cells = comparison.cells
    if not cells:
        return "Nothing could be compared: no cell is on both sides under the same conditions."
    counts = Counter(cell.verdict for cell in cells)
    found = [f"{counts[v]} {v}" for v in VERDICTS if counts[v]]
    said = f"{len(cells)} {_cells(len(cells))} compared: {', '.join(found)}."
    slower = Counter(row.quantity for c in cells for row in c.rows[1:] if row.verdict == "worse")
    if slower:
        named = ", ".join(f"{quantity_name(q)} in {n}" for q, n in slower.items())
        said += f" Parts that are worse: {named}."
    if comparison.changes:
        count = len(comparison.changes)
        said += f" {count} new {'outcome' if count == 1 else 'outcomes'}."
    if comparison.not_compared:
        count = len(comparison.not_compared)
        said += f" {count} {_cells(count)} not compared."
    return said


def worst_line(cell: CellComparison) -> str | None:
    """What the worst change comes to, as a sentence that goes on after the cell's name; None: its
    recovery is not worse.
    """
    said = []
    if cell.rows[0].verdict == "worse":
        before, after = (median_text(cell.rows[0], side) for side in (0, 1))
        ratio = ratio_text(cell.rows[0])
        times = "" if ratio == NONE else f"{ratio} times as long: "
        said.append(
            f"takes {times}{before} became {after}" if times else f"{before} became {after}"
        )
    if cell.rate.verdict == "worse":
        (before_k, before_n), (after_k, after_n) = cell.rate.base, cell.rate.new
        said.append(
            f"recovered in {after_k} of {after_n} trials, before in {before_k} of {before_n}"
        )
    return "; ".join(said) + "." if said else None


def flags(cell: CellComparison, changes: Sequence[OutcomeChange]) -> list[str]:
    """What is worse about a cell beside its verdict: a new outcome, parts that are slower."""
    found = ["new outcome"] if any(change.label == cell.label for change in changes) else []
    slower = [quantity_name(row.quantity) for row in cell.rows[1:] if row.verdict == "worse"]
    if slower and cell.rows[0].verdict != "worse":
        found.append(f"{slower[0]} slower" if len(slower) == 1 else f"{len(slower)} parts slower")
    return found


def failures(cell: CellComparison) -> str:
    """Trials that did not recover, on either side: ``new: 1 timeout``; empty: there is none."""
    sides = []
    for name, outcomes in zip(("base", "new"), cell.outcomes, strict=True):
        found = [f"{n} {outcome_name(o)}" for o, n in outcomes.items() if o != "recovered"]
        sides += [f"{name}: {', '.join(found)}"] if found else []
    return "; ".join(sides)


def side_line(what: str, facts: Facts) -> str:
    """One side on one line."""
    runs = ", ".join(facts.runs) if len(facts.runs) <= 3 else f"{len(facts.runs)} runs"
    load = "" if facts.load is None else f", load {facts.load:.1f}"
    return f"{what}: {facts.name} ({runs}; {facts.trials} trials{load})"


def busy_lines(comparison: Comparison) -> list[str]:
    """Runs whose machine had other work, a line each: what is slower may be slower for that."""
    sides = (("Base", comparison.base), ("New", comparison.new))
    return [f"{what}, run {run}: {said}" for what, facts in sides for run, said in facts.busy]


def version_lines(comparison: Comparison) -> list[str]:
    """What differs between the sides, and is what is being compared."""
    return [f"{name} {a} -> {b}" for name, (a, b) in comparison.versions.items()]


def change_line(change: OutcomeChange) -> str:
    """A new outcome on one line."""
    what = {
        "divergence": "training is no longer the same",
        "broken": "it always recovered, and never does now",
        "lost": "trials that no longer recover",
    }[change.kind]
    count, of = change.new
    return (
        f"{change.label}: {outcome_name(change.outcome)} in {count} of {of} trials, "
        f"in {change.base[0] or 'none'} of {change.base[1]} before ({what})"
    )


def median_text(row: Row, side: int) -> str:
    """The median of one side; ``> 60 s`` where it lies beyond the deadline."""
    found = row.effect
    if found is None:
        return NONE
    value, bound = (
        (found.base_median, found.base_bound) if side == 0 else (found.new_median, found.new_bound)
    )
    if value is not None:
        return seconds(value, row.bounds[side])
    return NONE if bound is None else f"> {seconds(bound)}"


def ratio_text(row: Row) -> str:
    """New over base: ``1.21``."""
    found = row.effect
    return NONE if found is None or found.ratio is None else _factor(found.ratio)


def interval_text(row: Row) -> str:
    """The interval of the ratio: ``1.05 to 1.40``."""
    interval = shown_interval(row)
    if interval is None:
        return NONE
    return f"{_factor(interval.low)} to {_factor(interval.high)}"


def shown_interval(row: Row) -> Interval | None:
    """The interval of the ratio; None: too few trials for one of 95 %, or none at all."""
    interval = row.effect.interval if row.effect is not None else None
    return interval if interval is not None and interval.confidence >= ENOUGH else None


def _factor(value: float) -> str:
    """A ratio with two decimals where these are digits that count; infinite is "any"."""
    if math.isinf(value):
        return "any"
    return f"{value:.2f}" if value == 0 or 0.01 <= value < 1000 else f"{value:.2g}"


def p_text(p: float | None) -> str:
    """A probability with two digits that count: ``0.031``, ``< 0.001``."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def detectable_text(row: Row) -> str:
    """The smallest slowdown that these trials could have shown: ``+20 %``, or ``none``."""
    if row.effect is None or row.p_adjusted is None:
        return NONE
    if row.detectable is None:
        return "nothing"
    if row.detectable < 10:
        return f"+{100 * (row.detectable - 1):.0f} %"
    return f"× {row.detectable:.0f}" if row.detectable < 1000 else f"× {row.detectable:.0e}"


def undecided(cell: CellComparison, comparison: Comparison) -> str:
    """Why a recovery time is inconclusive where its medians or its interval lie apart, as one
    sentence; empty: it is not, or what is there says it.
    """
    row = cell.rows[0]
    found = row.effect
    if row.verdict != "inconclusive" or found is None or row.p_adjusted is None:
        return ""
    level = f"{comparison.alpha:g}"
    if blind(row, comparison):
        needed = _needed(comparison)
        more = f"; from {needed} trials a side on it can" if needed else ""
        return (
            f"Inconclusive: {found.base_n} and {found.new_n} trials cannot give a p below {level} "
            f"among {_tests(comparison.tests)}, whatever the times are{more}."
        )
    interval = shown_interval(row)
    if interval is not None and (interval.low > 1 or interval.high < 1):
        return (
            f"Inconclusive although the interval leaves 1 out: that is of this row alone, and p "
            f"counts all {_tests(comparison.tests)} of the table; it is not below {level}."
        )
    return ""


def blind(row: Row, comparison: Comparison) -> bool:
    """Whether so few trials cannot give a corrected p below the level, whatever the times are."""
    found = row.effect
    return found is not None and found.least_p * comparison.tests >= comparison.alpha


def _needed(comparison: Comparison) -> int | None:
    """Trials a side from which a test of this table can be below its level."""
    counts = (
        n for n in range(2, 60) if 2 / math.comb(2 * n, n) < comparison.alpha / comparison.tests
    )
    return next(counts, None)


def cannot_fail(comparison: Comparison) -> str:
    """That no slowdown, however large, would be found, as one sentence; empty: one would."""
    rows = [row for cell in comparison.cells for row in cell.rows if row.p_adjusted is not None]
    timed = [row for row in rows if row.effect is not None]
    if not comparison.cells:
        return ""  # that nothing could be compared is said already
    if not timed:
        return "no times could be compared: only outcomes could have failed this"
    if not all(blind(row, comparison) for row in timed):
        return ""
    needed = _needed(comparison)
    more = f"; from {needed} trials a side on one can" if needed else ""
    return (
        "no slowdown, however large, could have failed this: with so few trials no p is below "
        f"{comparison.alpha:g} among {_tests(comparison.tests)}{more}"
    )


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"


def rate_text(rate: Rate) -> str:
    """Recovered trials on both sides: ``5/5 -> 4/5``, once where they agree."""
    before, after = (f"{k}/{n}" for k, n in (rate.base, rate.new))
    return before if before == after else f"{before} -> {after}"


def basis(comparison: Comparison) -> str:
    """What the verdicts rest on, in a few sentences; empty: nothing was tested."""
    if not comparison.tests:
        return ""
    margin = 100 * comparison.margin
    return (
        f"Worse or better: the {_tests(comparison.tests)} of this table together would say so "
        f"falsely in at most {100 * comparison.alpha:.0f} of 100 comparisons in which nothing "
        f"has changed, and the medians differ by more than {margin:.0f} %. Same: the whole "
        f"{100 * comparison.confidence:.0f} % interval of the ratio lies within {margin:.0f} %. "
        "Inconclusive is neither: more trials would tell. Would show is the smallest slowdown "
        "that this many trials would show four times of five, with this spread. An interval that "
        f"few trials leave below {100 * comparison.confidence:.0f} % is not shown."
    )


def shown_rows(cell: CellComparison) -> list[Row]:
    """The rows that a person wants to see: all but the negligible ones."""
    return [row for row in cell.rows if row.verdict != "negligible"]


def _cells(count: int) -> str:
    return "cell" if count == 1 else "cells"
