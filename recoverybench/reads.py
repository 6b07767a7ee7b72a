"""Restores against the limit of their storage, cell by cell: what report and terminal show."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from recoverybench.cells import Cell
from recoverybench.records import TrialRecord

SMALL_BYTES: Final = 50_000_000
"""Below that a restore is opening files and setting things up, whatever the storage gives."""

TARGET: Final = 0.8
"""The part of a raw read that a restore of at least a gigabyte can be expected to reach."""


@dataclass(frozen=True, slots=True)
class Read:
    """What the trials of a cell that read a checkpoint from storage came to; medians.

    Attributes:
        cell: the combination of factors. trials: how many.
        size: bytes of the checkpoint. stall_s, save_s, read_s: as in the record.
        raw_s: of a raw read, with the page cache as it is in this cell; None: not measured.
        fractions: of every trial that has one, with the trial.
    """

    cell: Cell
    trials: int
    size: int
    stall_s: float | None
    save_s: float | None
    read_s: float
    raw_s: float | None
    fractions: tuple[tuple[TrialRecord, float], ...]

    @property
    def fraction(self) -> float | None:
        """Median fraction of a raw read."""
        return _median(fraction for _, fraction in self.fractions)

    @property
    def small(self) -> bool:
        """Too small for the fraction to say much."""
        return self.size < SMALL_BYTES


def reads_of(trials: Iterable[TrialRecord]) -> list[Read]:
    """One for each cell, in the order in which they are met.

    Empty where there is nothing to see: all states are small, and nothing about checkpoints or
    their interval was asked for.
    """
    groups: dict[Cell, list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        groups[trial.cell].append(trial)
    found = [read for own in groups.values() if (read := read_of(own)) is not None]
    asked = any((r.cell.checkpoint, r.cell.page_cache) != ("default", "warm") for r in found)
    asked |= len({r.cell.interval for r in found}) > 1  # what saves cost is wanted
    return found if asked or any(not read.small for read in found) else []


def read_of(trials: Iterable[TrialRecord]) -> Read | None:
    """What the trials of one cell came to; None: none of them read a checkpoint from storage."""
    trials = [
        t for t in trials if t.checkpoint_bytes and t.restore_read_s and t.outcome != "invalid"
    ]
    read_s = _median(t.restore_read_s for t in trials)
    if read_s is None:
        return None
    cell = trials[0].cell
    cold = cell.page_cache == "cold"
    raws = (t.raw_read_cold_s if cold else t.raw_read_warm_s for t in trials)
    return Read(
        cell=cell,
        trials=len(trials),
        size=int(statistics.median(t.checkpoint_bytes or 0 for t in trials)),
        stall_s=_median(t.save_stall_s for t in trials),
        save_s=_median(t.save_s for t in trials),
        read_s=read_s,
        raw_s=_median(raws),
        fractions=tuple((t, f) for t in trials if (f := t.restore_fraction) is not None),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
