"""By what a reader can narrow the page down: the run and the factors in which its cells differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recoverybench.labels import FACTOR_NAMES, factor_value, varying_factors
from recoverybench.report.rows import Row
from recoverybench.results.store import Run

_MOST: int = 60
"""Of values that a list offers; a factor with more tells each cell from every other."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One list to choose from.

    Attributes:
        name: of the factor, for people. values: in the order in which they are met in the rows.
        of_row: for each row, which of the values it has.
    """

    name: str
    values: tuple[str, ...]
    of_row: tuple[int, ...]


def filters_of(rows: Sequence[Row], runs: Sequence[Run]) -> list[Filter]:
    """A filter for each factor in which rows differ, and for the run where there are several."""
    found = []
    if len(runs) > 1:
        found.append(_filter("run", [row.label_parts[0] for row in rows]))
    for factor in varying_factors(row.cell for row in rows):
        values = [factor_value(factor, getattr(row.cell, factor)) for row in rows]
        found.append(_filter(FACTOR_NAMES[factor], values))
    return [one for one in found if 1 < len(one.values) <= _MOST]


def _filter(name: str, values: Sequence[str]) -> Filter:
    numbers = {value: i for i, value in enumerate(dict.fromkeys(values))}
    return Filter(name, tuple(numbers), tuple(numbers[value] for value in values))
