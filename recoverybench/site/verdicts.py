"""What a comparison says of each of its cells, as a site keeps it and in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.compare import words
from recoverybench.compare.model import CellComparison, Comparison, Row
from recoverybench.labels import outcome_name
from recoverybench.vocabulary import SHOWN_PHASES

WORSE: Final = "worse"
BETTER: Final = "better"

_NAMED: Final = 3

_TOLD: Final = ("divergence", "broken")
"""New outcomes that are a change by themselves; single trials that are lost are not."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a cell between two releases.

    Attributes:
        verdict: as of `CellComparison`, or ``worse`` where training is no longer the same, a cell
            that always recovered never does, or a part of the recovery is worse.
        reasons: what it rests on, a phrase each; empty where nothing changed.
        ratio: of the median recovery times, new over base, or None.
    """

    verdict: str
    reasons: tuple[str, ...]
    ratio: float | None

    @property
    def changed(self) -> bool:
        """Whether it is marked on the trend."""
        return self.verdict in (WORSE, BETTER)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"verdict": self.verdict, "reasons": list(self.reasons), "ratio": self.ratio}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verdict:
        """The inverse of `as_dict`."""
        return cls(data["verdict"], tuple(data["reasons"]), data["ratio"])


def verdicts_of(comparison: Comparison) -> dict[str, Verdict]:
    """Key of each cell that was compared -> what became of it."""
    return {cell.cell.key: _verdict(cell, comparison) for cell in comparison.cells}


def _verdict(cell: CellComparison, comparison: Comparison) -> Verdict:
    reasons = []
    bad = cell.verdict == WORSE
    for change in comparison.changes:
        if change.label == cell.label and change.kind in _TOLD:
            bad = True
            count, of = change.new
            reasons.append(f"{outcome_name(change.outcome)} in {count} of {of} trials")
    if cell.rate.verdict in (WORSE, BETTER):
        less = "less" if cell.rate.verdict == WORSE else "more"
        reasons.append(f"recovers {less} often, {words.rate_text(cell.rate)}")
    whole, parts = cell.rows[0], [row for row in cell.rows[1:] if row.verdict == WORSE]
    if whole.verdict in (WORSE, BETTER):
        reasons.append(_medians(whole))
    if parts:
        bad = True
        reasons += _parts(parts, whole.verdict == WORSE)
    found = cell.rows[0].effect
    verdict = WORSE if bad else cell.verdict
    changed = verdict in (WORSE, BETTER)
    return Verdict(verdict, tuple(reasons) if changed else (), found.ratio if found else None)


def _parts(rows: Sequence[Row], explain: bool) -> list[str]:
    """Parts of the recovery that are worse; the one that grew most where they explain the whole."""
    if not explain:
        more = [f"{len(rows) - _NAMED} more parts"] if len(rows) > _NAMED else []
        return [*map(_medians, rows[:_NAMED]), *more]
    phases = [row for row in rows if row.quantity in SHOWN_PHASES]
    if not phases:
        return []
    return [f"most of it in {_medians(max(phases, key=_growth))}"]


def _growth(row: Row) -> float:
    found = row.effect
    return (found.new_median or 0.0) - (found.base_median or 0.0) if found else 0.0


def _medians(row: Row) -> str:
    name = words.quantity_name(row.quantity)
    return f"{name} {words.median_text(row, 0)} → {words.median_text(row, 1)}"
