"""Median recovery time by topology and one more factor, as tables whose fields are coloured.

A table with coloured fields is the heat map and its numbers at once: it needs no script, and a
screen reader reads it like any other.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from recoverybench.cells import Cell
from recoverybench.labels import (
    FACTOR_NAMES,
    cell_label,
    factor_value,
    outcome_name,
    seconds,
    varying_factors,
)
from recoverybench.report.rows import Row
from recoverybench.report.section import Material, Section
from recoverybench.topology import Topology

MOST: Final = 4
"""Maps of one page: those with most fields that were measured."""

ACROSS: Final = ("strategy", "fault", "state_source", "workload", "checkpoint", "environment")
"""Factors that may stand across, the preferred one first; the one with most values does."""

_DOWN: Final = ("topology", "restore_topology")

_CIVIDIS: Final = (
    (0x00, 0x22, 0x4E),
    (0x12, 0x35, 0x70),
    (0x3B, 0x49, 0x6C),
    (0x57, 0x5D, 0x6D),
    (0x70, 0x71, 0x73),
    (0x8A, 0x86, 0x78),
    (0xA5, 0x9C, 0x74),
    (0xC3, 0xB3, 0x69),
    (0xE1, 0xCC, 0x55),
    (0xFE, 0xE8, 0x38),
)
"""Ten colours of cividis (Nuñez, Anderton and Renslow, PLOS ONE 13(7), 2018), evenly: lightness
grows along it, and it looks alike with and without a colour-vision deficiency."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: a cell.

    Attributes:
        row: of the report. colour: of the ground, CSS; None: no trial recovered.
        ink: of the text on it.
    """

    row: Row
    colour: str | None
    ink: str | None

    @property
    def median(self) -> str:
        """Of the recovery time, or that there is none."""
        return "none recovered" if self.colour is None else self.row.median_text

    @property
    def said(self) -> str:
        """How many recovered, or what became of those that did not."""
        if self.colour is not None or not self.row.outcomes:
            return self.row.rate
        return ", ".join(f"{n} {outcome_name(o)}" for o, n in self.row.outcomes.items())

    @property
    def trials(self) -> str:
        """Which trials its link leads to, as the page's address says it."""
        most = max(self.row.outcomes, key=self.row.outcomes.__getitem__)
        outcome = "recovered" if self.row.recovered else most
        return f"{self.row.index}:{outcome}"


@dataclass(frozen=True, slots=True)
class Map:
    """One map.

    Attributes:
        label: what tells it from the other maps; empty where there is one.
        across: the name of the factor whose values are the columns. columns: these, in words.
        lines: topology in words, and the field of each column; None: not measured.
    """

    label: str
    across: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Field | None, ...]], ...]

    @property
    def count(self) -> int:
        """Fields that were measured."""
        return sum(field is not None for _, fields in self.lines for field in fields)


def maps(rows: Sequence[Row]) -> list[Map]:
    """All maps with several topologies, the one with most fields first."""
    by_run: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row.run].append(row)
    scale = _scale(rows)
    several = len(by_run) > 1
    made = [one for own in by_run.values() for one in _of_run(own, scale, several)]
    return sorted(made, key=lambda one: -one.count)


def _of_run(rows: Sequence[Row], scale: tuple[float, float], several: bool) -> Iterator[Map]:
    factors = varying_factors(row.cell for row in rows)
    counts = {f: len({getattr(row.cell, f) for row in rows}) for f in factors if f in ACROSS}
    across = max(sorted(counts, key=ACROSS.index), key=counts.__getitem__, default="strategy")
    rest = [f for f in factors if f not in (*_DOWN, across)]
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(getattr(row.cell, f) for f in rest)].append(row)
    for own in groups.values():
        if len({_shape(row.cell) for row in own}) > 1:
            yield _map(_label(own[0], rest, several), own, across, scale)


def _map(label: str, rows: Sequence[Row], across: str, scale: tuple[float, float]) -> Map:
    shapes = sorted({_shape(row.cell) for row in rows}, key=_order)
    columns = list(dict.fromkeys(getattr(row.cell, across) for row in rows))
    fields = {(_shape(r.cell), getattr(r.cell, across)): _field(r, scale) for r in rows}
    return Map(
        label=label,
        across=FACTOR_NAMES[across],
        columns=tuple(factor_value(across, column) for column in columns),
        lines=tuple(
            (_words(shape), tuple(fields.get((shape, column)) for column in columns))
            for shape in shapes
        ),
    )


def _label(row: Row, rest: Sequence[str], several: bool) -> str:
    run = [row.label_parts[0]] if several else []
    return " · ".join([*run, *([cell_label(row.cell, rest)] if rest else [])])


def _shape(cell: Cell) -> tuple[str, str | None]:
    """What a job runs on, and comes back on where that is another one."""
    back = cell.restore_topology
    return cell.topology, None if back == cell.topology else back


def _words(shape: tuple[str, str | None]) -> str:
    return shape[0] if shape[1] is None else f"{shape[0]} → {shape[1]}"


def _order(shape: tuple[str, str | None]) -> tuple[tuple[int, int, str], ...]:
    return tuple(_size(text) for text in shape if text is not None)


def _size(text: str) -> tuple[int, int, str]:
    """Workers and devices of a topology; one of another release comes first."""
    try:
        topology = Topology.of(text)
    except ValueError:
        return 0, 0, text
    return topology.workers, topology.devices, text


def _scale(rows: Sequence[Row]) -> tuple[float, float]:
    """The shortest and the longest median, seconds."""
    medians = [row.at_least_s for row in rows if row.at_least_s]
    return (min(medians), max(medians)) if medians else (1.0, 1.0)


def _field(row: Row, scale: tuple[float, float]) -> Field:
    if not row.at_least_s:
        return Field(row, None, None)
    low, high = (math.log(end) for end in scale)
    part = (math.log(row.at_least_s) - low) / (high - low) if high > low else 0.0
    colour = cividis(part)
    return Field(row, _css(colour), "#000000" if _light(colour) else "#ffffff")


def cividis(part: float) -> tuple[int, int, int]:
    """The colour at a part (0 to 1) of the scale: red, green and blue, 0 to 255."""
    place = min(max(part, 0.0), 1.0) * (len(_CIVIDIS) - 1)
    below = min(int(place), len(_CIVIDIS) - 2)
    rest = place - below
    pairs = zip(_CIVIDIS[below], _CIVIDIS[below + 1], strict=True)
    red, green, blue = (round(a + (b - a) * rest) for a, b in pairs)
    return red, green, blue


def _light(colour: tuple[int, int, int]) -> bool:
    """Black is easier to read on it than white: its relative luminance (WCAG 2) is above 0.179."""
    parts = [c / 255 for c in colour]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179


def _css(colour: tuple[int, int, int]) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)


def topologies_section(material: Material) -> Section | None:
    """The section; None where there is one topology only."""
    found = maps(material.rows)
    if not found:
        return None
    shown = found[:MOST]
    if len(found) == 1:
        shown = [dataclasses.replace(found[0], label="")]
    low, high = _scale(material.rows)
    stops = ", ".join(_css(colour) for colour in _CIVIDIS)
    data = {
        "maps": shown,
        "left_out": len(found) - len(shown),
        "scale": (seconds(low), seconds(high)) if high > low else None,
        "stops": stops,
    }
    return Section("topologies", "Topologies", data)
