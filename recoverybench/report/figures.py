"""The two overview charts as Plotly figures: plain dicts that the page embeds as JSON.

Colours are names of the page's CSS variables (``--phase-detect``), which the page puts in
place, so that light, dark and print share one figure. Every row has a number on the axis
and its label as tick text: a release named ``0.10`` or ``1e10`` never becomes a number.
The waterfall of a trial is built by the page itself, only when it is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from recoverybench.labels import outcome_name, phase_name, seconds, short_digests
from recoverybench.records import TrialRecord
from recoverybench.report.rows import LEVEL, Row, mark_of
from recoverybench.report.section import Figure
from recoverybench.stats import Interval
from recoverybench.vocabulary import SHOWN_PHASES, UNNAMED
from recoverybench.web.charts import chart_text

MOST_DOTS = 120
"""Trials that one row of the first chart shows as dots. Of more, these: by rank, evenly, the
shortest and the longest among them.
"""

_LOG_FROM = 10.0
"""The time axis is logarithmic when the longest and the shortest differ by more than this."""
_JITTER = 0.16
"""How far dots of one row are spread around its middle, in rows."""
_RUN_COLOURS = 5
"""Colours that the page has for runs; a sixth run begins again."""
_MEDIAN = 0.33
"""Half the height of the bar at the median, in rows."""
_SYMBOLS = {
    "cross": "x-thin",
    "wrong": "circle",
    "nothing": "circle-open",
    "dot": "circle",
}
"""What `rows.mark_of` says -> Plotly's name of the symbol."""
_ROW_PX = 58
"""Height of a row, in pixels."""


def recovery_figure(rows: Sequence[Row], *, several: bool = False) -> Figure:
    """Recovery time per cell: a dot for every trial, a bar at the median, the rate beside it.

    A line through the bar is the interval of the median, where there are trials enough for one.
    With `several` runs, each has a colour. Trials without a recovery time stand in a lane of
    their own at the right: a cross only where the training never went on.
    """
    times = [t for r in rows for t in r.times]
    failed = any(len(r.trials) > len(r.times) for r in rows)
    data: list[dict[str, Any]] = []
    for y, row in enumerate(rows):
        data.append(_dots(y, row, f"--run-{row.run % _RUN_COLOURS}" if several else "--accent"))
        if row.interval is not None:
            data.append(_interval(y, row, row.interval, max(times)))
        if row.median_s is not None:
            data.append(_median(y, row))
        if len(row.trials) > len(row.times):
            data.append(_without(y, row))
    layout = _layout(rows)
    layout["xaxis"] = _time_axis(times) | {"domain": [0, 0.86 if failed else 1]}
    if failed:
        layout["xaxis2"] = {
            "domain": [0.88, 1],
            "range": [0, 1],
            "showticklabels": False,
            "showgrid": False,
            "title": {"text": "no recovery time"},
        }
    layout["annotations"] = [_beside(y, r.rate, _main(r)) for y, r in enumerate(rows)]
    return {"data": data, "layout": layout, "rows": [r.index for r in rows]}


def phases_figure(rows: Sequence[Row]) -> Figure:
    """The phases of each cell's middle trial, stacked; catching up is hatched: it comes after."""
    data = []
    shown = [{} if r.middle is None else r.middle.phases for r in rows]
    for phase in SHOWN_PHASES:
        values = [phases.get(phase) for phases in shown]
        if phase == UNNAMED and not any(values):
            continue
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": phase_name(phase),
                "legendgroup": phase,
                "x": values,
                "y": list(range(len(rows))),
                "width": 0.56,
                "customdata": [
                    [chart_text(r.label), seconds(v, r.bounds.get(phase, 0.0))]
                    for r, v in zip(rows, values, strict=True)
                ],
                "hovertemplate": f"{phase_name(phase)}: <b>%{{customdata[1]}}</b>"
                "<br>%{customdata[0]}<extra></extra>",
                "marker": {
                    "color": f"--phase-{phase}",
                    "line": {"color": "--card", "width": 1},
                }
                | ({} if phase != "catch_up" else {"pattern": {"shape": "/", "size": 6}}),
            }
        )
    layout = _layout(rows)
    layout["barmode"] = "stack"
    layout["xaxis"] = {"title": {"text": "seconds since the failure"}, "rangemode": "tozero"}
    layout["annotations"] = [_beside(y, *_own(r)) for y, r in enumerate(rows)]
    return {"data": data, "layout": layout, "rows": [r.index for r in rows]}


def _dots(y: int, row: Row, colour: str) -> dict[str, Any]:
    back = _thinned([t for t in row.trials if t.recovery_s is not None])
    return {
        "type": "scatter",
        "meta": y,
        "mode": "markers",
        "name": chart_text(row.label),
        "x": [t.recovery_s for t in back],
        "y": [y + _spread(i, len(back)) for i in range(len(back))],
        "customdata": [
            [
                chart_text(t.trial),
                seconds(t.recovery_s),
                outcome_name(t.outcome),
                chart_text(row.label),
                row.trial_key(t),
            ]
            for t in back
        ],
        "hovertemplate": "<b>%{customdata[1]}</b> %{customdata[3]}"
        "<br>trial %{customdata[0]}: %{customdata[2]}<extra></extra>",
        "marker": {
            "size": 11 if len(row.trials) <= 30 else 6,
            "opacity": 0.75,
            "color": [colour if t.outcome == "recovered" else "--bad" for t in back],
            "line": {"width": 1, "color": "--card"},
        },
    }


def _median(y: int, row: Row) -> dict[str, Any]:
    return {
        "type": "scatter",
        "meta": y,
        "mode": "lines",
        "name": "median",
        "x": [row.median_s, row.median_s],
        "y": [y - _MEDIAN, y + _MEDIAN],
        "hovertemplate": f"median <b>{seconds(row.median_s)}</b><extra></extra>",
        "line": {"width": 3, "color": "--ink"},
    }


def _interval(y: int, row: Row, interval: Interval, latest: float) -> dict[str, Any]:
    """The interval of the median; one without an upper end goes on to the last time there is."""
    open_ended = not math.isfinite(interval.high)
    end = seconds(latest if open_ended else interval.high)
    return {
        "type": "scatter",
        "meta": y,
        "mode": "lines",
        "name": "interval",
        "x": [interval.low, latest if open_ended else interval.high],
        "y": [y, y],
        "hovertemplate": f"{LEVEL} % interval of the median: {seconds(interval.low)} to "
        f"{'more than ' if open_ended else ''}{end}<extra></extra>",
        "line": {"width": 3, "color": "--ink"},
    }


def _thinned(trials: list[TrialRecord]) -> list[TrialRecord]:
    """At most `MOST_DOTS` of them, evenly by rank; of what did not recover, as many as fit."""
    if len(trials) <= MOST_DOTS:
        return trials
    wrong = [t for t in trials if t.outcome != "recovered"][: MOST_DOTS // 2]
    back = sorted((t for t in trials if t.outcome == "recovered"), key=lambda t: t.recovery_s or 0)
    room = min(MOST_DOTS - len(wrong), len(back))
    picked = {round(i * (len(back) - 1) / max(room - 1, 1)) for i in range(room)}
    return [*wrong, *(back[i] for i in sorted(picked))]


def _without(y: int, row: Row) -> dict[str, Any]:
    """Trials that have no recovery time."""
    found = [t for t in row.trials if t.recovery_s is None][:MOST_DOTS]
    kinds = [mark_of(t) for t in found]
    return {
        "type": "scatter",
        "meta": y,
        "mode": "markers",
        "name": "no recovery time",
        "xaxis": "x2",
        "x": [(i + 1) / (len(found) + 1) for i in range(len(found))],
        "y": [y] * len(found),
        "customdata": [
            [
                chart_text(t.trial),
                outcome_name(t.outcome),
                chart_text(short_digests(t.error or "")),
                chart_text(row.label),
                row.trial_key(t),
            ]
            for t in found
        ],
        "hovertemplate": "<b>%{customdata[1]}</b><br>trial %{customdata[0]}"
        "<br>%{customdata[2]}<extra></extra>",
        "marker": {
            "symbol": [_SYMBOLS[kind] for kind in kinds],
            "size": [9 if kind == "cross" else 11 for kind in kinds],
            "color": ["--soft" if kind == "nothing" else "--bad" for kind in kinds],
            "line": {
                "width": [2.5 if kind == "cross" else 1 for kind in kinds],
                "color": ["--bad" if kind == "cross" else "--soft" for kind in kinds],
            },
        },
    }


def _time_axis(times: Sequence[float]) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": {"text": "recovery time, seconds"}}
    positive = [t for t in times if t > 0]
    if not times:
        return axis | {"range": [0, 1], "showticklabels": False, "showgrid": False}
    if len(positive) == len(times) and max(times) > _LOG_FROM * min(times):
        axis["title"]["text"] += " (logarithmic: each step is a factor)"
        low, high = math.log10(min(times)) - 0.12, math.log10(max(times)) + 0.12
        ticks = [
            digit * 10.0**power
            for power in range(max(math.floor(low), -300), math.ceil(high) + 1)
            for digit in (1, 2, 5)
            if low <= math.log10(digit * 10.0**power) <= high
        ]
        texts = [f"{tick:g}" for tick in ticks]
        return axis | {"type": "log", "range": [low, high], "tickvals": ticks, "ticktext": texts}
    return axis | {"range": [0, max(1.08 * max(times), 1e-6)]}


def _layout(rows: Sequence[Row]) -> dict[str, Any]:
    count = len(rows)
    return {
        "height": _ROW_PX * max(count, 1) + 84,
        "showlegend": False,
        "hovermode": "closest",
        "yaxis": {
            "tickmode": "array",
            "tickvals": list(range(count)),
            "ticktext": [_label(r) for r in rows],
            "range": [max(count, 1) - 0.5, -0.5],
            "fixedrange": True,
        },
    }


def _beside(y: int, first: str, second: str) -> dict[str, Any]:
    """Two lines of text at the right of a row."""
    return {
        "xref": "paper",
        "x": 1,
        "xshift": 12,
        "xanchor": "left",
        "y": y,
        "yanchor": "middle",
        "align": "left",
        "showarrow": False,
        "text": f"<b>{chart_text(first)}</b><br>{chart_text(second)}",
    }


def _main(row: Row) -> str:
    if not row.recovered:
        return "none recovered"
    return ("median " if row.timed > 1 else "") + row.median_text


def _own(row: Row) -> tuple[str, str]:
    """What a bar of phases is of: its own time, and the trial."""
    trial = row.middle
    if trial is None or not trial.recovery_s:
        return "none recovered", ""
    part = (trial.unattributed_s or 0.0) / trial.recovery_s
    said = f"trial {trial.trial}, {100 * part:.1f} % unattributed"
    own = seconds(trial.recovery_s)
    if row.timed % 2:
        return own, said
    return f"{own}, median {row.median_text.replace('more than ', '> ')}", said


def _label(row: Row) -> str:
    return "<br>".join(chart_text(part) for part in row.label_lines)


def _spread(i: int, n: int) -> float:
    """A fixed, even offset: neighbours in time land on different heights."""
    return 0.0 if n < 2 else _JITTER * (2 * ((i * 0.618) % 1) - 1)
