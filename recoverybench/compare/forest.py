"""Ratios with their intervals, as a drawing: SVG that needs no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from recoverybench.compare.model import Comparison, Row
from recoverybench.visible import clean

_WIDTH: Final = 1000
_LEFT: Final = 300
_RIGHT: Final = 150
_ROW: Final = 30
_TOP: Final = 14
_BOTTOM: Final = 40
_TICKS: Final = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
_COLOURS: Final = {"worse": "var(--bad)", "better": "var(--good)", "same": "var(--good)"}


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the drawing: ``ratio`` with its interval; either may be missing."""

    label: str
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str


def forest(comparison: Comparison) -> Markup | None:
    """The recovery time's ratio of every cell on a logarithmic axis; None: there is none.

    Left of 1 is faster. The band is the margin. An interval that leaves the axis ends in an
    arrow's place, at its edge.
    """
    lines = [_line(cell.label, cell.rows[0]) for cell in comparison.cells]
    if not any(line.ratio for line in lines):
        return None
    low, high = _axis(lines, comparison.margin)
    height = _TOP + _ROW * len(lines) + _BOTTOM

    def x(ratio: float) -> float:
        part = math.log(ratio / low) / math.log(high / low)
        return _LEFT + min(max(part, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)

    bottom = _TOP + _ROW * len(lines)
    margin = 1 + comparison.margin
    parts = [
        f'<svg class="forest" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'aria-label="Ratio of the median recovery times with its interval, a line a cell; '
        'the same numbers are in the table below">',
        f'<rect x="{x(1 / margin):.1f}" y="{_TOP}" width="{x(margin) - x(1 / margin):.1f}" '
        f'height="{bottom - _TOP}" fill="var(--faint)"/>',
    ]
    for tick in _TICKS:
        if low < tick < high:
            stroke = "var(--soft)" if tick == 1.0 else "var(--line)"
            parts.append(
                f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP}" y2="{bottom}" '
                f'stroke="{stroke}"/><text x="{x(tick):.1f}" y="{bottom + 18}" '
                f'text-anchor="middle" class="tick">{tick:g}</text>'
            )
    parts.append(
        f'<text x="{_LEFT}" y="{bottom + 36}" class="tick">faster</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{bottom + 36}" text-anchor="end" class="tick">'
        "slower</text>"
    )
    for number, line in enumerate(lines):
        parts.append(_drawn(line, _TOP + _ROW * number + _ROW / 2, x))
    return Markup("".join([*parts, "</svg>"]))


def _line(label: str, row: Row) -> _Line:
    found = row.effect
    interval = found.interval if found is not None else None
    ratio = found.ratio if found is not None else None
    if interval is None:
        return _Line(label, ratio, None, None, row.verdict)
    return _Line(label, ratio, interval.low, interval.high, row.verdict)


def _axis(lines: Sequence[_Line], margin: float) -> tuple[float, float]:
    """Ends of the axis: symmetric about 1, wide enough for the ratios and most intervals."""
    values = [v for line in lines for v in (line.ratio, line.low, line.high) if v]
    widest = max(abs(math.log(v)) for v in values if math.isfinite(v))
    reach = min(max(1.15 * widest, 2.5 * math.log(1 + margin)), math.log(12))
    return math.exp(-reach), math.exp(reach)


def _drawn(line: _Line, y: float, place: Callable[[float], float]) -> str:
    colour = _COLOURS.get(line.verdict, "var(--soft)")
    whole = clean(line.label)
    label = whole if len(whole) <= 42 else whole[:41] + "…"
    parts = [
        f'<text x="{_LEFT - 14}" y="{y + 5:.1f}" text-anchor="end" class="name">'
        f"{escape(label)}<title>{escape(whole)}</title></text>"
    ]
    if line.low is not None and line.high is not None:
        ends = place(line.low), place(line.high)
        parts.append(
            f'<line x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{colour}" stroke-width="2.5" stroke-linecap="round"/>'
        )
    if line.ratio is not None:
        parts.append(f'<circle cx="{place(line.ratio):.1f}" cy="{y:.1f}" r="5.5" fill="{colour}"/>')
    parts.append(
        f'<text x="{_WIDTH - _RIGHT + 14}" y="{y + 5:.1f}" style="fill:{colour}" class="name">'
        f"{escape(line.verdict)}</text>"
    )
    return "".join(parts)
