"""Restore time against the size of the state, a series for each number of workers."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.cells import Cell
from recoverybench.labels import seconds
from recoverybench.records import TrialRecord
from recoverybench.report.figures import MOST_DOTS
from recoverybench.report.rows import Row
from recoverybench.report.section import Figure
from recoverybench.web.charts import chart_text

_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross")
"""One for each colour that the page has for series."""

_ALIKE: Final = 1.1
"""Sizes within this factor of one another are one size: a line between them says nothing."""

_BYTES: Final = tuple(
    (10.0**power, f"{10 ** (power % 3)} {unit}")
    for power, unit in enumerate(unit for unit in ("B", "kB", "MB", "GB", "TB") for _ in range(3))
)
"""Ticks of the axis of sizes."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Trials that recovered with one number of workers and about one size of state.

    Attributes:
        workers: their number. size: the median, bytes. trials: how many.
        median_s, low_s, high_s: of their phase "restore".
    """

    workers: int
    size: float
    trials: int
    median_s: float
    low_s: float
    high_s: float

    @property
    def size_text(self) -> str:
        """The size for people."""
        return _bytes(self.size)


@dataclass(frozen=True, slots=True)
class _Point:
    size: int
    taken_s: float
    row: Row
    trial: TrialRecord


def restored(rows: Sequence[Row]) -> list[Restored]:
    """By workers, then size; empty where there is one size and one number of workers only."""
    series = _series(rows)
    found = [_restored(n, group) for n, points in series for group in _alike(points)]
    return found if len(found) > 1 else []


def size_figure(rows: Sequence[Row]) -> Figure | None:
    """A dot a trial, and lines that join medians; None where `restored` is empty."""
    if not restored(rows):
        return None
    data: list[dict[str, Any]] = []
    for number, (workers, points) in enumerate(_series(rows)):
        place = number % len(_SYMBOLS)
        name = f"{workers} worker{'' if workers == 1 else 's'}"
        data += [_medians(name, place, workers, points), _points(name, place, points)]
    sizes = [x for trace in data for x in trace["x"]]
    times = [y for trace in data for y in trace["y"]]
    return {
        "data": data,
        "layout": {
            "height": 420,
            "margin": {"l": 8, "r": 16, "t": 6, "b": 46},
            "showlegend": True,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "hovermode": "closest",
            "xaxis": {"title": {"text": "size of the state"}} | _axis(sizes, _BYTES),
            "yaxis": {"title": {"text": "restore"}, "showgrid": True}
            | _axis(times, [(tick, seconds(tick)) for tick in _steps(min(times), max(times))]),
        },
    }


def _series(rows: Sequence[Row]) -> list[tuple[int, list[_Point]]]:
    series: dict[int, list[_Point]] = defaultdict(list)
    for row in rows:
        for trial in row.trials:
            taken = trial.phases.get("restore")
            workers = trial.workers or _workers(row.cell)
            if trial.outcome != "recovered" or workers is None:
                continue
            if (trial.restore_bytes or 0) > 0 and taken is not None and taken > 0:
                series[workers].append(_Point(trial.restore_bytes or 0, taken, row, trial))
    return sorted(series.items())


def _workers(cell: Cell) -> int | None:
    """As its topology says; None: that is none that is known here."""
    try:
        return cell.mesh.workers
    except ValueError:
        return None


def _alike(points: Sequence[_Point]) -> list[list[_Point]]:
    """Points of about one size together, the smallest first."""
    groups: list[list[_Point]] = []
    for point in sorted(points, key=lambda p: p.size):
        if groups and point.size <= _ALIKE * groups[-1][0].size:
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def _restored(workers: int, points: Sequence[_Point]) -> Restored:
    times = [point.taken_s for point in points]
    return Restored(
        workers=workers,
        size=statistics.median(point.size for point in points),
        trials=len(points),
        median_s=statistics.median(times),
        low_s=min(times),
        high_s=max(times),
    )


def _points(name: str, place: int, points: Sequence[_Point]) -> dict[str, Any]:
    shown = [p for group in _alike(points) for p in _spread(group)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": name,
        "x": [p.size for p in shown],
        "y": [p.taken_s for p in shown],
        "customdata": [
            [
                chart_text(p.row.label),
                seconds(p.taken_s),
                _bytes(p.size),
                chart_text(p.trial.trial),
            ]
            for p in shown
        ],
        "hovertemplate": f"<b>%{{customdata[1]}}</b> for %{{customdata[2]}}, {name}"
        "<br>%{customdata[0]}, trial %{customdata[3]}<extra></extra>",
        "marker": {
            "symbol": _SYMBOLS[place],
            "size": 10,
            "opacity": 0.75,
            "color": f"--run-{place}",
            "line": {"width": 1, "color": "--card"},
        },
    }


def _spread(points: Sequence[_Point]) -> list[_Point]:
    """At most `MOST_DOTS` of them, evenly from the fastest to the slowest."""
    ranked = sorted(points, key=lambda p: p.taken_s)
    if len(ranked) <= MOST_DOTS:
        return ranked
    return [ranked[round(i * (len(ranked) - 1) / (MOST_DOTS - 1))] for i in range(MOST_DOTS)]


def _medians(name: str, place: int, workers: int, points: Sequence[_Point]) -> dict[str, Any]:
    found = [_restored(workers, group) for group in _alike(points)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": False,
        "hoverinfo": "skip",
        "x": [one.size for one in found],
        "y": [one.median_s for one in found],
        "line": {"color": f"--run-{place}", "width": 2},
    }


def _axis(values: Sequence[float], ticks: Sequence[tuple[float, str]]) -> dict[str, Any]:
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.06 * (high - low), 0.15)
    return {
        "type": "log",
        "range": [low - room, high + room],
        "tickvals": [at for at, _ in ticks],
        "ticktext": [text for _, text in ticks],
    }


def _steps(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 … of a range; of a long one, tens alone."""
    digits = (1, 2, 5) if high < 300 * low else (1,)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    return [float(f"{digit}e{power}") for power in powers for digit in digits]


def _bytes(size: float) -> str:
    """With three digits: ``118 MB``."""
    power = min(max(int(math.log10(size) / 3), 0), 4)
    return f"{size / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
