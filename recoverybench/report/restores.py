"""Restores against what their storage gives: for large checkpoints, or with options asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.labels import NONE, fixed, outcome_name, seconds
from recoverybench.reads import TARGET, Read, read_of, reads_of
from recoverybench.report.figures import MOST_DOTS
from recoverybench.report.rows import Row
from recoverybench.web.charts import chart_text

_ROW_PX: Final = 58
_JITTER: Final = 0.16
_MEDIAN: Final = 0.33
"""Height of a row in pixels, spread of its dots and half the height of its bar in rows: as in
the first chart of the page."""


@dataclass(frozen=True, slots=True)
class Restore:
    """A cell of a run that read a checkpoint from storage, as the table shows it."""

    row: Row
    read: Read

    @property
    def stall(self) -> str:
        """What a save held the training up for, seconds."""
        return fixed(self.read.stall_s)

    @property
    def save(self) -> str:
        """How long a save took until it was durable, seconds."""
        return fixed(self.read.save_s)

    @property
    def size(self) -> str:
        """Of the checkpoint, GB."""
        return f"{self.read.size / 1e9:.3f}"

    @property
    def seconds(self) -> str:
        """How long the checkpoint was read."""
        return fixed(self.read.read_s)

    @property
    def rate(self) -> str:
        """How fast that is, GB/s of what lies on the disk."""
        return f"{self.read.size / self.read.read_s / 1e9:.2f}"

    @property
    def raw_rate(self) -> str:
        """How fast a raw read was, GB/s."""
        raw_s = self.read.raw_s
        return f"{self.read.size / raw_s / 1e9:.2f}" if raw_s else NONE

    @property
    def page_cache(self) -> str:
        """Whether the files were in memory."""
        return self.row.cell.page_cache

    @property
    def fraction(self) -> str:
        """The median part of a raw read."""
        return NONE if self.read.fraction is None else f"{self.read.fraction:.2f}"


def restores(rows: Sequence[Row]) -> list[Restore]:
    """Every row that read a checkpoint, the largest part of a raw read first; empty where there
    is nothing to see, by `reads.reads_of`.
    """
    if not reads_of(trial for row in rows for trial in row.trials):
        return []
    found = [Restore(row, read) for row in rows if (read := read_of(row.trials)) is not None]
    return sorted(found, key=lambda one: -(one.read.fraction or 0.0))


def fraction_figure(shown: Sequence[Restore]) -> dict[str, Any] | None:
    """A dot for each trial: its restore as a part of a raw read; None where nothing is shown."""
    if not shown:
        return None
    data: list[dict[str, Any]] = []
    for y, one in enumerate(shown):
        data.append(_dots(y, one))
        if one.read.fraction is not None:
            data.append(_bar(y, one))
    lines = max(len(one.row.label_lines) for one in shown)
    highest = max([1.0, *(f for one in shown for _, f in one.read.fractions)])
    return {
        "data": data,
        "rows": [one.row.index for one in shown],
        "layout": {
            "height": max(_ROW_PX, 18 * lines + 14) * len(shown) + 84,
            "showlegend": False,
            "hovermode": "closest",
            "xaxis": {
                "title": {"text": "speed of the restore, as a part of a raw read"},
                "range": [0, 1.05 * highest],
            },
            "yaxis": {
                "tickmode": "array",
                "tickvals": list(range(len(shown))),
                "ticktext": ["<br>".join(map(chart_text, one.row.label_lines)) for one in shown],
                "range": [len(shown) - 0.5, -0.5],
                "fixedrange": True,
            },
            "shapes": [_upright(1.0, "solid"), _upright(TARGET, "dot")],
            "annotations": [_beside(y, one) for y, one in enumerate(shown)],
        },
    }


def _dots(y: int, one: Restore) -> dict[str, Any]:
    found = one.read.fractions[:MOST_DOTS]
    return {
        "type": "scatter",
        "meta": y,
        "mode": "markers",
        "name": chart_text(one.row.label),
        "x": [fraction for _, fraction in found],
        "y": [y + _offset(i, len(found)) for i in range(len(found))],
        "customdata": [
            [chart_text(t.trial), f"{part:.2f}", seconds(t.restore_read_s), outcome_name(t.outcome)]
            for t, part in found
        ],
        "hovertemplate": "<b>%{customdata[1]}</b> of a raw read, read in %{customdata[2]}"
        "<br>trial %{customdata[0]}: %{customdata[3]}<extra></extra>",
        "marker": {
            "size": 11 if len(found) <= 30 else 6,
            "opacity": 0.75,
            "color": "--accent",
            "line": {"width": 1, "color": "--card"},
        },
    }


def _offset(i: int, count: int) -> float:
    """Where the i-th of `count` dots stands above or below its row, evenly."""
    return 0.0 if count < 2 else _JITTER * (2 * i / (count - 1) - 1)


def _bar(y: int, one: Restore) -> dict[str, Any]:
    return {
        "type": "scatter",
        "meta": y,
        "mode": "lines",
        "name": "median",
        "x": [one.read.fraction] * 2,
        "y": [y - _MEDIAN, y + _MEDIAN],
        "hovertemplate": f"median <b>{one.fraction}</b><extra></extra>",
        "line": {"width": 3, "color": "--ink"},
    }


def _upright(x: float, dash: str) -> dict[str, Any]:
    line = {"color": "--soft", "width": 1.5, "dash": dash}
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _beside(y: int, one: Restore) -> dict[str, Any]:
    first = f"{one.fraction} of a {one.page_cache} read"
    return {
        "xref": "paper",
        "x": 1,
        "xshift": 12,
        "xanchor": "left",
        "y": y,
        "yanchor": "middle",
        "align": "left",
        "showarrow": False,
        "text": f"<b>{chart_text(first)}</b><br>{one.rate} of {one.raw_rate} GB/s",
    }
