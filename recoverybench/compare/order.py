"""In which order cells are shown: the worst change first, what did not change last. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from recoverybench.compare.model import CellComparison, Comparison, OutcomeChange, Row

GROUPS: Final = {
    "worse": "Worse: recovery, a part of it, or outcome",
    "undecided": "Undecided",
    "better": "Better",
    "same": "The same",
}
"""Group -> its heading, in the order in which they are shown."""

_SEVERITY: Final = {"divergence": 0, "broken": 1, "lost": 3}
"""Kind of a new outcome -> its place among what is worse; 2 is a cell that is slower or recovers
less often, 4 one of which only a part is slower.
"""


def worst_first(comparison: Comparison) -> list[tuple[str, CellComparison]]:
    """Every cell with its group, the worst change first.

    Within what is worse, outcomes come before times: training that is no longer the same, cells
    that never recover any more, cells that are slower or recover less often, single trials that
    were lost, and cells of which only a part is slower. Then the factor decides, the largest
    first; a side that was not back at its deadline is slower than any that was. Equal ones keep
    their order.
    """
    kinds: dict[str, int] = {}
    for change in comparison.changes:
        severity = _SEVERITY[change.kind]
        kinds[change.label] = min(severity, kinds.get(change.label, severity))
    groups = list(GROUPS)
    ranked = [(_group(cell, kinds), _rank(cell, kinds), cell) for cell in comparison.cells]
    ranked.sort(key=lambda one: (groups.index(one[0]), one[1]))
    return [(group, cell) for group, _, cell in ranked]


def gravest_first(changes: Iterable[OutcomeChange]) -> list[OutcomeChange]:
    """New outcomes: training that is no longer the same, cells that are broken, and the rest."""
    return sorted(changes, key=lambda change: _SEVERITY[change.kind])


def grouped(ordered: Iterable[tuple[str, CellComparison]]) -> dict[str, list[CellComparison]]:
    """The cells of each group that has any, in the order of `GROUPS`."""
    found: dict[str, list[CellComparison]] = {group: [] for group in GROUPS}
    for group, cell in ordered:
        found[group].append(cell)
    return {group: cells for group, cells in found.items() if cells}


def _group(cell: CellComparison, kinds: Mapping[str, int]) -> str:
    if _severity(cell, kinds) is not None:
        return "worse"
    return cell.verdict if cell.verdict in ("better", "same") else "undecided"


def _severity(cell: CellComparison, kinds: Mapping[str, int]) -> int | None:
    found = [kinds[cell.label]] if cell.label in kinds else []
    if cell.verdict == "worse":
        found.append(2)
    if any(row.verdict == "worse" for row in cell.rows):
        found.append(4)
    return min(found, default=None)


def _rank(cell: CellComparison, kinds: Mapping[str, int]) -> tuple[float, float]:
    severity = _severity(cell, kinds)
    return math.inf if severity is None else severity, -_factor(cell.rows[0])


def _factor(row: Row) -> float:
    """By how much it grew: infinite where the new side's median lies beyond the deadline, 0 where
    the base's does, 1 where neither is known.
    """
    found = row.effect
    if found is None:
        return 1.0
    if found.ratio is not None:
        return found.ratio
    late = found.base_bound is not None, found.new_bound is not None
    if late[0] != late[1]:
        return math.inf if late[1] else 0.0
    return math.inf if found.base_median == 0 and found.new_median else 1.0
