"""A trend as a drawing: SVG that needs no script. Pure.

Of each point: its trials as dots, the interval of the median as a line, the median as a mark whose
shape says which line it is on. A change has a triangle over it, up for worse and down for better,
so that nothing is told by a colour alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from recoverybench.site.catalogue import Shown, Step
from recoverybench.site.trends import Point, Trend
from recoverybench.site.wording import (
    conditions,
    median_text,
    point_text,
    shown_interval,
    step_text,
)
from recoverybench.visible import clean

_LEFT: Final = 50
_RIGHT: Final = 50
_TOP: Final = 34
_BOTTOM: Final = 28
_LETTER: Final = 6.4
"""Width of a letter of a tick, at most."""

_NARROW: Final = (344, 190)
_WIDE: Final = 980
_HIGH: Final = 270
_ONE: Final = 120
"""Height where there is one point: it says no more than its number."""

_LEAST: Final = 2.0
"""Ratio of the ends of an axis, at least: a change of 1 % is not to look like one of 50 %."""

_DOTS: Final = 40
"""Dots of a point, at most; of more trials that many quantiles are drawn."""

_FACTORS: Final = (
    (1,),
    (1, 3),
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 8, 9),
)
"""Of ticks within a decade: the first that gives enough of them."""

_LABEL: Final = 13.0
"""Height of the number beside a point."""

LINES: Final = 5
"""Colours, and shapes, of lines; more lines begin again."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where things are in a drawing.

    Attributes:
        width, height: of the drawing. releases: place of a release -> column from 0.
        low, high: ends of the axis, which is logarithmic, seconds.
    """

    width: float
    height: float
    releases: dict[int, int]
    low: float
    high: float

    @property
    def step(self) -> float:
        """Width of a column."""
        return (self.width - _LEFT - _RIGHT) / max(len(self.releases), 1)

    def x(self, point: Point) -> float:
        """Middle of the column of a point."""
        return _LEFT + (self.releases[point.release.at] + 0.5) * self.step

    def y(self, value: float) -> float:
        """Height of a time; beyond the axis it is at its edge."""
        part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return self.height - _BOTTOM - min(part, 1.0) * (self.height - _TOP - _BOTTOM)


def draw(shown: Shown, releases: Sequence[int], *, up: str = "", wide: bool = False) -> Markup:
    """The trend over these releases.

    Args:
        shown: the trend. releases: places of the releases that have a column, in order.
        up: what leads from the page to the site's root: ``""`` or ``"../"``.
        wide: as wide as the number of releases asks for.
    """
    columns = {place: at for at, place in enumerate(releases)}
    lines = [
        [point for point in line.points if point.release.at in columns]
        for line in shown.trend.lines
    ]
    frame = _frame([point for line in lines for point in line], columns, wide)
    name = escape(clean(f"Recovery time of {shown.name}, by release; the numbers are in a table"))
    parts = [
        f'<svg class="trend" viewBox="0 0 {frame.width:.0f} {frame.height:.0f}" '
        f'width="{frame.width:.0f}" height="{frame.height:.0f}" role="group" aria-label="{name}">',
        '<g aria-hidden="true">',
        *_axes(frame, releases, lines),
    ]
    parts += _gaps(frame, shown.trend)
    for number, line in enumerate(lines):
        parts += _line(frame, line, number % LINES)
    parts += _newest(frame, lines)
    parts.append("</g>")
    seen: Counter[int] = Counter()
    for step in shown.changes:
        place = step.new.release.at
        if place in columns:
            parts.append(_mark(frame, step, up, seen[place]))
            seen[place] += 1
    return Markup("".join([*parts, "</svg>"]))


def shape(number: int, x: float, y: float, size: float = 4.2) -> str:
    """The mark of a line: the path of a circle, square, diamond or triangle around a point."""
    r = size
    if number == 0:
        return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
    if number == 1:
        return f"M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z"
    if number == 2:
        d = f"{1.3 * r:.1f}"
        return f"M{x:.1f} {y - 1.3 * r:.1f}l{d} {d}l-{d} {d}l-{d} -{d}z"
    if number == 3:
        return f"M{x:.1f} {y - 1.2 * r:.1f}l{1.2 * r:.1f} {2.2 * r:.1f}h{-2.4 * r:.1f}z"
    return f"M{x - r:.1f} {y - 1.6:.1f}h{2 * r}v3.2h{-2 * r}z"


def legend_mark(number: int) -> Markup:
    """The same as a little drawing, for a legend."""
    return Markup(
        '<svg class="key" viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">'
        f'<path d="{shape(number % LINES, 7, 7)}" fill="var(--run-{number % LINES})"/></svg>'
    )


def _frame(points: Sequence[Point], columns: dict[int, int], wide: bool) -> Frame:
    width, height = _NARROW
    if wide:
        width = max(_NARROW[0], min(_WIDE, 86 * len(columns)), 7 * len(columns))
        height = _HIGH
    if len(points) < 2:
        height = _ONE
    known = [v for point in points for v in _values(point) if v > 0]
    low, high = min(known, default=0.5), max(known, default=1.0)
    room = max(1.12, math.sqrt(_LEAST * low / high))
    return Frame(width, height, columns, low / room, high * room)


def _values(point: Point) -> list[float]:
    if point.recovery is None:
        return []
    interval = shown_interval(point.recovery)
    ends = () if interval is None else (interval.low, interval.high)
    known = (point.recovery.median, point.recovery.bound, *ends)
    return [*point.times, *(v for v in known if v is not None and math.isfinite(v))]


def _axes(frame: Frame, releases: Sequence[int], lines: Sequence[Sequence[Point]]) -> list[str]:
    parts = []
    right = frame.width - _RIGHT
    for tick in _ticks(frame):
        y = frame.y(tick)
        parts.append(
            f'<path d="M{_LEFT} {y:.1f}H{right}" class="grid"/>'
            f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end" class="tick">'
            f"{_tick_text(tick)}</text>"
        )
        if frame.width > _WIDE:  # it is scrolled, and begins at its end
            parts.append(
                f'<text x="{right}" y="{y - 5:.1f}" text-anchor="end" class="tick">'
                f"{_tick_text(tick)}</text>"
            )
    names = {p.release.at: p.release.name for line in lines for p in line}
    last_at = len(releases) - 1
    labels = []
    for column in dict.fromkeys([last_at, 0, *range(last_at - 1, 0, -1)]):
        place = releases[column] if releases else None
        if place is None or place not in names:
            continue
        labels.append((column, clean(names[place])))
    taken: list[tuple[float, float]] = []
    for column, name in labels:
        text = name if len(name) <= 16 else name[:15] + "…"
        half = len(text) * _LETTER / 2
        x = _LEFT + (column + 0.5) * frame.step
        x = min(max(x, half), frame.width - half)
        if any(x - half < high + 8 and x + half > low - 8 for low, high in taken):
            continue
        taken.append((x - half, x + half))
        parts.append(
            f'<text x="{x:.1f}" y="{frame.height - 8:.1f}" text-anchor="middle" class="tick">'
            f"{escape(text)}</text>"
        )
    return parts


def _ticks(frame: Frame) -> list[float]:
    """Two to six round values on the axis, whose numbers do not touch; the lowest is among them."""
    first, last = math.floor(math.log10(frame.low)), math.ceil(math.log10(frame.high))
    for factors in _FACTORS:
        values = [f * 10.0**n for n in range(first, last + 1) for f in factors]
        found = [value for value in values if frame.low * 1.03 <= value <= frame.high / 1.03]
        if len(found) >= 3:
            break
    kept: list[float] = []
    for value in found[:: math.ceil(len(found) / 6)]:
        if not kept or frame.y(kept[-1]) - frame.y(value) >= _LABEL:
            kept.append(value)
    return kept


def _tick_text(tick: float) -> str:
    """Shorter than elsewhere: it is a round number of seconds, and there is little room."""
    return f"{tick * 1e3:g} ms" if tick < 0.1 else f"{tick:g} s"


def _line(frame: Frame, points: Sequence[Point], number: int) -> list[str]:
    colour = f"var(--run-{number})"
    known = [p for p in points if p.recovery is not None and p.recovery.median is not None]
    joined = "L".join(
        f"{frame.x(p):.1f} {frame.y(p.recovery.median):.1f}"
        for p in known
        if p.recovery is not None and p.recovery.median is not None
    )
    parts = [f'<path d="M{joined}" class="joined" stroke="{colour}"/>'] if len(known) > 1 else []
    parts += [_point(frame, point, number, colour) for point in points]
    return parts


def _newest(frame: Frame, lines: Sequence[Sequence[Point]]) -> list[str]:
    """The number beside the newest point, and beside others of its release where there is room;
    the newest line goes first.
    """
    newest = max((p.release.at for line in lines for p in line), default=-1)
    parts: list[str] = []
    taken: list[float] = []
    for number, line in reversed(list(enumerate(lines))):
        last = line[-1] if line else None
        if last is None or last.release.at != newest or last.recovery is None:
            continue
        y = frame.y(last.recovery.median or last.recovery.bound or frame.low)
        if any(abs(y - other) < _LABEL for other in taken):
            continue
        taken.append(y)
        parts.append(
            f'<text x="{frame.x(last) + 9:.1f}" y="{y + 4:.1f}" class="latest" '
            f'style="fill:var(--run-{number % LINES})">{escape(median_text(last.recovery))}</text>'
        )
    return parts


def _point(frame: Frame, point: Point, number: int, colour: str) -> str:
    x = frame.x(point)
    size = min(4.2, max(2.4, frame.step / 2.4))
    parts = [f"<g><title>{escape(clean(point_text(point)))}</title>"]
    if dots := _dots(point.times):
        beside = x - min(6.5, frame.step / 3)
        at = "".join(f"M{beside:.1f} {frame.y(value):.1f}h0" for value in dots)
        parts.append(f'<path d="{at}" class="dots"/>')
    if point.recovery is not None:
        interval = shown_interval(point.recovery)
        if interval is not None:
            top = frame.y(min(interval.high, frame.high))
            # One that has no end ends in an arrow.
            open_end = "m-4 5l4 -5l4 5" if math.isinf(interval.high) else ""
            parts.append(
                f'<path d="M{x:.1f} {frame.y(interval.low):.1f}V{top:.1f}{open_end}" '
                f'stroke="{colour}" class="interval"/>'
            )
        median = point.recovery.median
        if median is not None:
            parts.append(f'<path d="{shape(number, x, frame.y(median), size)}" fill="{colour}"/>')
        else:
            top = frame.y(point.recovery.bound or frame.high)
            parts.append(f'<path d="M{x - 5:.1f} {top:.1f}l5 -8l5 8z" class="late"/>')
    if point.recovered < point.judged:
        parts.append(f'<path d="M{x - 3:.1f} {_TOP - 9}l6 6m0 -6l-6 6" class="lost"/>')
    return "".join([*parts, "</g>"])


def _dots(times: Sequence[float]) -> list[float]:
    ordered = sorted(times)
    if len(ordered) <= _DOTS:
        return ordered
    return [ordered[round(n * (len(ordered) - 1) / (_DOTS - 1))] for n in range(_DOTS)]


def _gaps(frame: Frame, trend: Trend) -> list[str]:
    """Where something begins that is not comparable with what was there before."""
    named = zip(trend.lines, conditions(trend), strict=True)
    starts = sorted((line.points[0].release.at, name) for line, name in named)
    parts = []
    for place, name in starts[1:]:
        if place == starts[0][0] or place not in frame.releases:
            continue
        x = _LEFT + frame.releases[place] * frame.step
        said = escape(clean(f"from here on also: {name}; not compared with what was before"))
        parts.append(
            f'<g><title>{said}</title><path d="M{x:.1f} {_TOP - 6}V{frame.height - _BOTTOM:.1f}" '
            'class="gap"/></g>'
        )
    return parts


def _mark(frame: Frame, step: Step, up: str, beside: int) -> str:
    """The triangle over a change, which leads to the comparison; `beside` others are there."""
    assert step.verdict is not None
    x, verdict = frame.x(step.new) - 15 * beside, step.verdict.verdict
    said = escape(clean(step_text(step)))
    triangle = f"M{x - 6:.1f} 18h12l-6 -11z" if verdict == "worse" else f"M{x - 6:.1f} 7h12l-6 11z"
    return (
        f'<a href="{escape(up + step.page)}" class="mark {verdict}" aria-label="{said}">'
        f'<title>{said}</title><path d="M{x:.1f} 20L{frame.x(step.new):.1f} 32'
        f'V{frame.height - _BOTTOM:.1f}" class="at"/>'
        f'<path d="{triangle}"/><rect x="{x - 12:.1f}" y="0" width="24" height="24" '
        'class="touch"/></a>'
    )
