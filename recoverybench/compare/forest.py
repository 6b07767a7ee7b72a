"""Ratios with their intervals: where everything is on one logarithmic axis. Pure.

The template draws it, a line a cell; left of 1 is faster, and places are per cent of the width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recoverybench.compare.model import CellComparison
from recoverybench.compare.words import shown_interval

_TICKS: Final = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_WIDEST: Final = 12.0
"""Ratio at the end of the axis, at most."""
_FROM: Final = 3.0
_TO: Final = 97.0
_APART: Final = 10.0
"""Of two ticks, per cent of the width."""


@dataclass(frozen=True, slots=True)
class Line:
    """One cell.

    Attributes:
        cell: what it is. dot: where its ratio is; None: there is none, or it lies beyond.
        arrow: 1 where it lies beyond the axis' end, -1 beyond its start, else 0.
        ends: of the interval; None: there is none of 95 %. beyond: which of them lie beyond the
            axis, or are open.
    """

    cell: CellComparison
    dot: float | None
    arrow: int
    ends: tuple[float, float] | None
    beyond: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class Forest:
    """All of them.

    Attributes:
        lines: in the order of the cells. band: where the margin begins, and how wide it is.
        one: where the ratio of 1 is. ticks: where each is, and its number.
    """

    lines: tuple[Line, ...]
    band: tuple[float, float]
    one: float
    ticks: tuple[tuple[float, str], ...]


def forest(cells: Sequence[CellComparison], margin: float) -> Forest | None:
    """The recovery time's ratio of every cell; None: no cell has one."""
    reach = _reach(cells, margin)
    if reach is None:
        return None

    def x(ratio: float) -> float:
        part = 0.5 if ratio == 1 else (math.log(ratio) / reach + 1) / 2 if ratio > 0 else 0.0
        return round(_FROM + min(max(part, 0.0), 1.0) * (_TO - _FROM), 2)

    low, high = math.exp(-reach), math.exp(reach)
    ticks = [(x(tick), f"{tick:g}") for tick in _TICKS if low <= tick <= high]
    band = x(1 / (1 + margin)), x(1 + margin)
    lines = []
    for cell in cells:
        found = cell.rows[0].effect
        ratio = found.ratio if found is not None else None
        interval = shown_interval(cell.rows[0])
        arrow = 0 if ratio is None else (ratio > high) - (ratio < low)
        lines.append(
            Line(
                cell,
                x(ratio) if ratio is not None and not arrow else None,
                arrow,
                (x(interval.low), x(interval.high)) if interval is not None else None,
                (interval.low < low, interval.high > high) if interval else (False, False),
            )
        )
    return Forest(tuple(lines), (band[0], round(band[1] - band[0], 2)), x(1.0), _apart(ticks))


def _reach(cells: Sequence[CellComparison], margin: float) -> float | None:
    """Logarithm of the axis' end, wide enough for the ratios and most intervals; it is symmetric
    about 1.
    """
    values: list[float] = []
    ratios = 0
    for cell in cells:
        found = cell.rows[0].effect
        if found is None:
            continue
        ratios += found.ratio is not None and found.ratio > 0
        values += [found.ratio] if found.ratio else []
        interval = shown_interval(cell.rows[0])
        values += [interval.low, interval.high] if interval else []
    if not ratios:
        return None
    widest = max(abs(math.log(v)) for v in values if v > 0 and math.isfinite(v))
    return min(max(1.15 * widest, 2.5 * math.log(1 + margin)), math.log(_WIDEST))


def _apart(ticks: Sequence[tuple[float, str]]) -> tuple[tuple[float, str], ...]:
    """Ticks whose numbers do not touch on a phone; 1 is among them."""
    middle = next(i for i, (_, text) in enumerate(ticks) if text == "1")
    kept = [ticks[middle]]
    for tick in ticks[middle + 1 :]:
        if tick[0] - kept[-1][0] >= _APART:
            kept.append(tick)
    for tick in reversed(ticks[:middle]):
        if kept[0][0] - tick[0] >= _APART:
            kept.insert(0, tick)
    return tuple(kept)
