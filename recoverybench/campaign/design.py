"""The design of a campaign: which trials it runs, in which order, and when a cell has enough.

Trials come in blocks, each cell that has not enough yet once a block, in an order that the
suite's seed draws anew for each block: a slow drift of the machine, and whatever one trial
leaves behind for the next, falls on all cells alike. Trials under a profiler come last, one a
cell, and nothing here is concluded from them.

Everything here follows from the suite and the records, and from no clock: a campaign that was
cut off anywhere and goes on runs the same trials in the same order as one that was not.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from recoverybench.cells import Cell
from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord
from recoverybench.stats import median_interval, quantile

CONFIDENCE: Final = 0.95
"""Of the interval whose width is compared with the precision that was asked for. No interval of
fewer than 6 values has it.
"""

UNTIMED: Final = ("invalid", "no_effect")
"""Outcomes that say nothing about how long a recovery takes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trial stands in the design.

    Attributes:
        cell: what is run. rep: repetition in that cell, from 0.
        block, position: see `TrialRecord`.
        profiled: under a profiler.
    """

    cell: Cell
    rep: int
    block: int
    position: int
    profiled: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """What the records so far say about one cell.

    Attributes:
        trials: how many were run.
        wall_s: median time that one takes of the campaign's; None: none was run. spent_s: all
            together.
        times_s: recovery times of trials that say something about them; infinite where the job
            did not come back: that is longer than any.
    """

    trials: int
    wall_s: float | None
    spent_s: float
    times_s: tuple[float, ...]

    @property
    def width(self) -> float:
        """Width of the interval of the median as a part of the median; infinite where no
        interval has the confidence, or it has no upper end.
        """
        ordered = sorted(self.times_s)
        if not ordered:
            return math.inf
        found = median_interval(ordered, CONFIDENCE)
        if found.confidence < CONFIDENCE or math.isinf(found.high):
            return math.inf
        return (found.high - found.low) / quantile(ordered, 0.5)

    @property
    def unreached(self) -> bool:
        """The median is known to lie beyond what the deadline lets one see."""
        ordered = sorted(self.times_s)
        if not ordered:
            return False
        found = median_interval(ordered, CONFIDENCE)
        return found.confidence >= CONFIDENCE and math.isinf(found.low)


def next_places(suite: Suite, records: Sequence[TrialRecord]) -> list[Place]:
    """What is left to run of the block that is begun, or else the next block; nothing where
    every cell has enough, or the time is used up.

    Args:
        suite: what is run.
        records: of finished trials, in any order.
    """
    records = _measured(records)
    begun = max((_block(record) for record in records), default=-1)
    for block in (begun, begun + 1):
        if block < 0:
            continue
        before = known_of(suite.cells, [r for r in records if _block(r) < block])
        done = {(r.cell, r.rep) for r in records if _block(r) == block}
        members = [
            Place(cell, before[cell].trials, block, position)
            for position, cell in enumerate(_members(suite, before, block))
        ]
        if left := [place for place in members if (place.cell, place.rep) not in done]:
            return left
    return []


def profile_places(
    suite: Suite, records: Sequence[TrialRecord], cells: Iterable[Cell]
) -> list[Place]:
    """The trials under a profiler that are left to run: one of each of these cells, as a block of
    their own behind the last one. Each is the first trial of its cell over again, with its seed
    and its victim.

    Args:
        suite, records: as for `next_places`.
        cells: those that can be profiled.
    """
    done = {record.cell for record in records if record.profiled}
    block = 1 + max((_block(record) for record in _measured(records)), default=-1)
    order = list(cells)
    random.Random(f"{suite.seed}/profile").shuffle(order)
    places = [Place(cell, 0, block, i, profiled=True) for i, cell in enumerate(order)]
    return [place for place in places if place.cell not in done]


def _measured(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Those without a profiler."""
    return [record for record in records if not record.profiled]


def ended(suite: Suite, records: Sequence[TrialRecord], *, over: bool) -> dict[str, str]:
    """Why each cell that gets no more trials gets none: its key -> the reason.

    Args:
        suite, records: as for `next_places`.
        over: the time that the suite had is used up.

    Returns:
        ``trials`` (the number that was asked for, or the most of ``auto``), ``precision`` (its
        median is known as well as was asked for), ``unreached`` (its median lies beyond the
        deadline) or ``budget`` (the time was used up first).
    """
    known = known_of(suite.cells, _measured(records))
    rest = "budget" if over else None
    found = {cell.key: _enough(suite, known[cell]) or rest for cell in suite.cells}
    return {key: reason for key, reason in found.items() if reason is not None}


def known_of(cells: Iterable[Cell], records: Iterable[TrialRecord]) -> dict[Cell, Known]:
    """What the records say about each of the cells."""
    by_cell: dict[Cell, list[TrialRecord]] = defaultdict(list)
    for record in records:
        by_cell[record.cell].append(record)
    return {cell: _known(by_cell.get(cell, [])) for cell in cells}


def _known(records: Sequence[TrialRecord]) -> Known:
    # A soak's records share their job's wall time, and are one trial. Of what a trial took beside
    # others its part is counted, so that all together are the time that went by.
    walls = {(r.rep, r.trial.partition(".")[0]): r.wall_s / (1 + r.neighbours) for r in records}
    times = [
        r.recovery_s if r.outcome == "recovered" and r.recovery_s is not None else math.inf
        for r in records
        if r.outcome not in UNTIMED
    ]
    wall_s = median(walls.values()) if walls else None
    return Known(len(walls), wall_s, sum(walls.values()), tuple(times))


def _block(record: TrialRecord) -> int:
    """Its block. Before blocks were recorded each repetition of all cells was one."""
    return record.rep if record.block is None else record.block


def _enough(suite: Suite, known: Known) -> str | None:
    if known.trials >= suite.trials:
        return "trials"
    if suite.precision is None:
        return None
    if known.unreached:
        return "unreached"
    return "precision" if known.width <= suite.precision else None


def _members(suite: Suite, known: Mapping[Cell, Known], block: int) -> list[Cell]:
    """The cells of a block in the order in which they are run."""
    open_ = [cell for cell in suite.cells if _enough(suite, known[cell]) is None]
    if suite.budget_s is not None:
        spent_s = sum(k.spent_s for k in known.values())
        open_ = affordable(open_, known, suite.budget_s - spent_s)
    random.Random(f"{suite.seed}/block/{block}").shuffle(open_)
    return open_


def affordable(cells: Sequence[Cell], known: Mapping[Cell, Known], left_s: float) -> list[Cell]:
    """The cells that the time left is spent on: all if it lasts for all, else the least certain.

    The one that is the least certain is run whatever it takes, as long as any time is left.
    """
    if left_s <= 0:
        return []
    walls = [k.wall_s for k in known.values() if k.wall_s is not None]
    usual = median(walls) if walls else 0.0
    chosen: list[Cell] = []
    for cell in sorted(cells, key=lambda c: (-known[c].width, known[c].trials)):
        cost = known[cell].wall_s
        left_s -= usual if cost is None else cost
        if left_s < 0 and chosen:
            break
        chosen.append(cell)
    return [cell for cell in cells if cell in set(chosen)]
