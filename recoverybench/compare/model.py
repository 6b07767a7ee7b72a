"""A comparison as plain data: what every form of it, text, Markdown, JSON or HTML, is made from."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from recoverybench.cells import Cell
from recoverybench.effects import Effect


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one cell, on both sides.

    Attributes:
        quantity: ``recovery_s``, ``time_to_progress_s`` or a phase.
        effect: medians in seconds, their ratio (new over base), interval, test.
        p_adjusted: the test's p, corrected for the whole table; None: not tested.
        verdict: ``better`` | ``worse`` | ``same`` | ``inconclusive`` | ``negligible`` (a phase
            too short to count, or both medians below what clocks may be wrong by: not tested) |
            ``no base`` | ``no new`` (no value on that side).
        detectable: the smallest slowdown, as a ratio, that these trials would have shown in this
            table with 80 % power; None: none whatever, or not tested.
        bounds: how far clocks of several hosts may make a time of each side wrong, seconds.
    """

    quantity: str
    effect: Effect | None
    p_adjusted: float | None
    verdict: str
    detectable: float | None = None
    bounds: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a cell recovered, on both sides.

    Attributes:
        base, new: trials that recovered, and trials that say something about recovery.
        p, p_adjusted: of the exact test, and corrected for the whole table; None: not tested.
        verdict: ``better`` | ``worse`` | ``same`` | ``inconclusive``.
    """

    base: tuple[int, int]
    new: tuple[int, int]
    p: float | None
    p_adjusted: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Distribution:
    """The recovery times of one cell on one side.

    Attributes:
        times_s: of the trials that recovered, seconds, in the order of the trials.
        censored: trials that were not back at the deadline: they took longer than `limit_s`.
        limit_s: the deadline, seconds from the injection on.
    """

    times_s: tuple[float, ...]
    censored: int
    limit_s: float


@dataclass(frozen=True, slots=True)
class CellComparison:
    """One cell that is on both sides and comparable.

    Attributes:
        label: for people. cell: of the base, without its environment.
        trials: on the base's and on the new side.
        outcomes: outcome -> trials, for each side.
        rate: of recovery. samples: the recovery times, for each side.
        rows: the quantities; the recovery time comes first.
        notes: what a reader has to know, a sentence each.
    """

    label: str
    cell: Cell
    trials: tuple[int, int]
    outcomes: tuple[dict[str, int], dict[str, int]]
    rate: Rate
    samples: tuple[Distribution, Distribution]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """Of the cell: that of its rate where that is worse, else that of its recovery time."""
        return "worse" if self.rate.verdict == "worse" else self.rows[0].verdict


@dataclass(frozen=True, slots=True)
class OutcomeChange:
    """What became of trials on the new side and of none on the base's.

    Attributes:
        label: the cell. outcome: the new one.
        kind: ``divergence`` (the training is no longer the same, and nothing said so) |
            ``broken`` (it always recovered, and never does now) | ``lost`` (some trials no
            longer recover).
        base, new: trials with this outcome, of how many.
    """

    label: str
    outcome: str
    kind: str
    base: tuple[int, int]
    new: tuple[int, int]


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A cell that was not compared: no pass, and no failure either.

    Attributes:
        label: the cell. side: ``base`` | ``new`` | ``both``: where it is.
        reason: one phrase.
    """

    label: str
    side: str
    reason: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What is said of one side.

    Attributes:
        name: as it was named. runs: ids of its runs. trials: how many count.
        created: of its runs, ISO 8601. load: median 1-minute load average at the start of trials.
        skipped: what lies beside its runs and could not be used: path and reason.
        busy: runs whose machine had other work meanwhile: id, and what a reader has to know of it.
    """

    name: str
    runs: tuple[str, ...]
    trials: int
    created: tuple[str, ...]
    load: float | None
    skipped: tuple[tuple[str, str], ...]
    busy: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides, compared.

    Attributes:
        base, new: what they are.
        versions: package -> versions on either side, those that differ.
        changes: outcomes that are new; they come first wherever this is shown.
        cells: those that were compared. not_compared: the others.
        tests: how many tests the correction is for. alpha: their level, all together.
        margin: a ratio of medians within 1/(1 + margin) to 1 + margin counts as the same.
        confidence: of the intervals.
    """

    base: Facts
    new: Facts
    versions: dict[str, tuple[str, str]]
    changes: tuple[OutcomeChange, ...]
    cells: tuple[CellComparison, ...]
    not_compared: tuple[NotCompared, ...]
    tests: int
    alpha: float
    margin: float
    confidence: float

    def found(self, kind: str) -> list[str]:
        """What there is to complain of, a line each.

        Args:
            kind: ``divergence``: training that is no longer the same, with nothing said.
                ``regression``: that, cells that no longer recover, everything that is worse, and
                sides without one cell in common. ``any``: that, every trial that no longer
                recovers, every cell that was not compared, and every run that was skipped.
        """
        lines = [
            f"{c.label}: {c.outcome} {c.new[0]} of {c.new[1]}, was {c.base[0]} of {c.base[1]}"
            for c in self.changes
            if c.kind == "divergence" or (kind != "divergence" and c.kind == "broken")
        ]
        if kind == "divergence":
            return lines
        for cell in self.cells:
            lines += [
                f"{cell.label}: {r.quantity} is worse" for r in cell.rows if r.verdict == "worse"
            ]
            if cell.rate.verdict == "worse":
                lines.append(f"{cell.label}: it recovers less often")
        if not self.cells:
            lines.append("no cell could be compared")
        if kind == "any":
            lines += [f"{n.label}: not compared: {n.reason}" for n in self.not_compared]
            skipped = (*self.base.skipped, *self.new.skipped)
            lines += [f"{path}: skipped: {reason}" for path, reason in skipped]
            lines += [
                f"{c.label}: {c.outcome} {c.new[0]} of {c.new[1]}, was {c.base[0]} of {c.base[1]}"
                for c in self.changes
                if c.kind == "lost"
            ]
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data; a number that is not finite is None."""
        plain: dict[str, Any] = _finite(dataclasses.asdict(self))
        for shown, cell in zip(plain["cells"], self.cells, strict=True):
            shown["verdict"] = cell.verdict
        return plain


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
