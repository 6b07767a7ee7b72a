"""Both distributions of one cell as a drawing: SVG without a script, as wide as its place is.

Everything is placed in parts of the width, so that dots stay round and text stays readable from a
phone to a page of paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from markupsafe import Markup, escape

from recoverybench.compare.axis import Axis, axis_of
from recoverybench.compare.model import Distribution
from recoverybench.compare.swarm import MOST_DOTS, stacked, thinned
from recoverybench.effects import ENOUGH, Sample
from recoverybench.labels import seconds
from recoverybench.stats import Interval, survival
from recoverybench.visible import clean

SIDES: Final = ("base", "new")

_REFERENCE: Final = 480.0
"""Width, in pixels, for which dots are stacked; on a narrower place neighbours overlap a bit."""

_DOT: Final = 7.6
"""Diameter of a dot, in pixels."""
_TRIANGLE: Final = 10.0
"""Room of a triangle, in pixels."""
_NAME: Final = 22
_NAME_BESIDE: Final = 15
"""Letters of a side's name that are shown, and where there is a number beside it; the page's head
has all of it.
"""
_LETTERS: Final = 50
"""Letters of the line below it: so many fit on a phone."""
_LINES: Final = 40.0
"""Height of the two lines of text over a row of dots, in pixels."""
_LEAST_ROOM: Final = 32.0
_USUAL_ROOM: Final = 62.0
"""Height of a row of dots: at least; and from which on dots of a stack move closer, in pixels."""
_CLOSEST: Final = 1.6
"""How close, in pixels: equal values can still be told apart."""
_TRACK: Final = 9.0
"""From the dots down to the line of the interval, in pixels: it hides none of them."""
_GAP: Final = 16.0
"""Between two rows, in pixels."""
_AXIS: Final = 46.0

_FROM: Final = 2.5
_TO: Final = 97.5
"""Where the axis begins and ends, per cent of the width."""
_TO_LANE: Final = 79.0
_LANE: Final = 83.0
_COLUMNS: Final = (87.5, 91.5, 95.5)
"""The same where trials were not back: the axis ends earlier, and these stand beyond it."""

_MOST_SECONDS: Final = 1e15
"""A time beyond that is drawn as that: no axis has an end that is not finite."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One row.

    Attributes:
        number: 0 for the base, 1 for the new side. name: of the side.
        found: what is drawn. dots: times that are drawn, in order, seconds.
        median, bound: seconds; what it is longer than, where it lies beyond the deadline.
        interval: of the median; None: too few trials for one of the wanted confidence.
    """

    number: int
    name: str
    found: Distribution
    dots: tuple[float, ...]
    median: float | None
    bound: float | None
    interval: Interval | None


def strip(
    label: str,
    names: tuple[str, str],
    samples: tuple[Distribution, Distribution],
    confidence: float = 0.95,
) -> Markup:
    """A row of dots for each side over one axis of recovery times.

    A dot is a trial, the upright bar the median, the line below the dots its interval. Trials that
    were not back at the deadline are open triangles beyond the axis, with their number in words.

    Args:
        label: the cell. names: of the sides. samples: of the base, and of the new side.
        confidence: of the medians' intervals.
    """
    rows = [
        _side(number, name, found, confidence)
        for number, (name, found) in enumerate(zip(names, samples, strict=True))
    ]
    axis = axis_of(list(chain.from_iterable(row.dots for row in rows)))
    late = any(row.found.censored for row in rows)
    end = _TO_LANE if late else _TO
    drawn, top = [], 0.0
    for row in rows:
        text, height = _row(row, axis, top, end)
        drawn.append(text)
        top += height
    said = clean(f"Recovery times of {label}. {' '.join(map(_in_words, rows))}")
    return Markup(
        f'<svg class="strip" width="100%" height="{top + _AXIS:.0f}" role="img" '
        f'aria-label="{escape(said)}">{_axis(axis, top, end, late)}{"".join(drawn)}</svg>'
    )


def _side(number: int, name: str, found: Distribution, confidence: float) -> _Side:
    limits = (found.limit_s,) * found.censored
    times = tuple(min(t, _MOST_SECONDS) for t in found.times_s)
    sample = Sample(times, limits)
    spread = survival(times, limits, confidence)
    known = spread is not None and spread.interval.confidence >= confidence - (0.95 - ENOUGH)
    return _Side(
        number,
        clean(name),
        found,
        tuple(thinned(times)),
        sample.median,
        sample.bound,
        spread.interval if spread is not None and known else None,
    )


def _axis(axis: Axis, bottom: float, end: float, late: bool) -> str:
    """Lines, numbers and the name of the axis; and the lane of those that were not back."""
    parts = [f'<line class="foot" x1="{_FROM}%" x2="{end}%" y1="{bottom:.0f}" y2="{bottom:.0f}"/>']
    for value, text in axis.ticks:
        x = _x(axis, value, end)
        parts.append(
            f'<line class="grid" x1="{x}" x2="{x}" y1="{_LINES:.0f}" y2="{bottom:.0f}"/>'
            f'<text class="tick" x="{x}" y="{bottom + 17:.0f}" text-anchor="middle">{text}</text>'
        )
    if axis.ticks:
        parts.append(f'<text class="tick" x="0" y="{bottom + 38:.0f}">{escape(axis.label)}</text>')
    if late:
        parts.append(
            f'<line class="lane" x1="{_LANE}%" x2="{_LANE}%" y1="{_LINES:.0f}" y2="{bottom:.0f}"/>'
            f'<text class="tick" x="100%" y="{bottom + 17:.0f}" text-anchor="end">not back</text>'
        )
    return "".join(parts)


def _row(row: _Side, axis: Axis, top: float, end: float) -> tuple[str, float]:
    """The drawing of one side, and its height in pixels."""
    width = _DOT / (_REFERENCE * (end - _FROM) / 100)
    levels = stacked([axis.part(t) for t in row.dots], width)
    deep = max(map(abs, levels), default=0)
    step = min(_DOT, max(_USUAL_ROOM / (2 * deep), _CLOSEST)) if deep else 0.0
    room = max(_LEAST_ROOM, 2 * deep * step + _DOT)
    middle = top + _LINES + room / 2
    parts = [_texts(row, top), _median(row, axis, middle, end, room)]
    if row.dots:
        parts.append(f'<g class="dots s{row.number}">')
        parts += [
            f'<circle cx="{_x(axis, t, end)}" cy="{middle + level * step:.1f}" r="3.8"/>'
            for t, level in zip(row.dots, levels, strict=True)
        ]
        parts.append("</g>")
    if row.found.censored:
        parts.append(_triangles(row, middle, room))
    return "".join(parts), _LINES + room + _TRACK + _GAP


def _texts(row: _Side, top: float) -> str:
    late = row.found.censored
    name, most = row.name, _NAME_BESIDE if late else _NAME
    if len(name) > most:  # sides often differ in their ends, as in RUN@jax==0.10.1
        name = f"{name[: most // 3]}…{name[most // 3 + 1 - most :]}"
    beside = (
        f'<text class="late" x="100%" y="{top + 16:.0f}" text-anchor="end">'
        f"{escape(_late_text(row))}</text>"
        if late
        else ""
    )
    return (
        f'<text class="who" x="0" y="{top + 16:.0f}">'
        f'<tspan class="s{row.number}">{SIDES[row.number]}</tspan> {escape(name)}</text>'
        f'<text class="tick" x="0" y="{top + 33:.0f}">{escape(_numbers(row, whole=False))}</text>'
        f"{beside}"
    )


def _median(row: _Side, axis: Axis, middle: float, end: float, room: float) -> str:
    """The bar at the median, behind the dots, and the line of its interval, below them."""
    lines, beyond = [], ""
    track = middle + room / 2 + _TRACK
    if row.interval is not None:
        ends = [_x(axis, v, end) for v in (row.interval.low, row.interval.high)]
        lines.append(f'x1="{ends[0]}" x2="{ends[1]}" y1="{track:.1f}" y2="{track:.1f}"')
        if row.interval.high > _MOST_SECONDS:  # it has no end
            beyond = (
                f'<svg x="{ends[1]}" y="{track:.1f}" overflow="visible">'
                '<path class="open" d="M0-4.5L7 0L0 4.5z"/></svg>'
            )
    if row.median is not None:
        x, top = _x(axis, row.median, end), middle - room / 2 - 3
        lines.append(f'x1="{x}" x2="{x}" y1="{top:.1f}" y2="{track + 5:.1f}"')
    if not lines:
        return ""
    return f'<g class="median">{"".join(f"<line {line}/>" for line in lines)}{beyond}</g>'


def _triangles(row: _Side, middle: float, room: float) -> str:
    high = max(1, int(room // _TRIANGLE))
    count = min(row.found.censored, high * len(_COLUMNS))
    high = min(high, -(-count // len(_COLUMNS)))
    parts = []
    for i in range(count):
        y = middle + (i // len(_COLUMNS) - (high - 1) / 2) * _TRIANGLE
        parts.append(
            f'<svg x="{_COLUMNS[i % len(_COLUMNS)]}%" y="{y:.1f}" overflow="visible">'
            '<path d="M-3.5-4L4 0L-3.5 4z"/></svg>'
        )
    return f'<g class="triangles">{"".join(parts)}</g>'


def _x(axis: Axis, value: float, end: float) -> str:
    return f"{_FROM + axis.part(value) * (end - _FROM):.5g}%"


def _numbers(row: _Side, *, whole: bool = True) -> str:
    """What the dots come to, on one line; the interval only where that is short, or `whole`."""
    found = row.found
    count = len(found.times_s) + found.censored
    if not count:
        return "no trial says how long it took"
    said = f"{count} {'trial' if count == 1 else 'trials'}"
    if row.median is None:
        return f"{said}, median > {seconds(row.bound)}"
    said += f", {'' if count == 1 else 'median '}{seconds(row.median)}"
    longer = said + _interval_text(row)
    return longer if whole or len(longer) <= _LETTERS else said


def _interval_text(row: _Side) -> str:
    if row.interval is None:
        return ""
    high = row.interval.high
    end = seconds(high) if high <= _MOST_SECONDS else f"> {row.found.limit_s:g} s"
    return f" ({seconds(row.interval.low)} to {end})"


def _late_text(row: _Side) -> str:
    return f"{row.found.censored} not back within {row.found.limit_s:g} s"


def _in_words(row: _Side) -> str:
    """One side as a sentence, for those who do not see it."""
    said = f"{SIDES[row.number].capitalize()}, {row.name}: {_numbers(row)}"
    if len(row.dots) > 1:
        said += f", from {seconds(row.dots[0])} to {seconds(row.dots[-1])}"
    if len(row.dots) < len(row.found.times_s):
        said += f", {len(row.dots)} of them drawn"
    if row.found.censored:
        said += f"; {_late_text(row)}"
    return said + "."


def thinned_words(samples: Sequence[Distribution]) -> str:
    """What is left out of a drawing, in words; empty: nothing is."""
    if all(len(found.times_s) <= MOST_DOTS for found in samples):
        return ""
    return (
        f"Of a side with more than {MOST_DOTS} times, {MOST_DOTS} are drawn, evenly from the "
        "fastest to the slowest; the numbers are of all."
    )
