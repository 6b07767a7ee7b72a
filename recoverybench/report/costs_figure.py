"""Overhead against the checkpoint interval as Plotly figures, one a mean time between failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from recoverybench.labels import seconds
from recoverybench.report.costs import Best, Group, percent
from recoverybench.report.section import Figure
from recoverybench.web.charts import chart_text

MOST: Final = 5
"""Groups that one figure shows: as many as the page has colours for series."""

_POINTS: Final = 80
"""Of a curve."""

_TICKS: Final = (
    *((10.0**power, f"{10.0**power * 1e6:g} µs") for power in (-6, -5, -4)),
    *((10.0**power, f"{10.0**power * 1e3:g} ms") for power in (-3, -2)),
    *((10.0**power, f"{10.0**power:g} s") for power in (-1, 0, 1)),
    *((120.0, "2 min"), (1200.0, "20 min"), (3 * 3600.0, "3 h")),
    *((86400.0, "1 day"), (10 * 86400.0, "10 days"), (100 * 86400.0, "100 days")),
)


def drawn(found: Sequence[Group]) -> list[Group]:
    """The groups that a figure shows: those with most intervals, in their order."""
    varied = [group for group in found if group.varied]
    most = sorted(varied, key=lambda group: -len(group.costs))[:MOST]
    return [group for group in varied if any(group is one for one in most)]


def cost_figure(shown: Sequence[Group], between_s: float) -> Figure:
    """A curve a group, the measured intervals on it as dots, and what costs least as marks.

    The curve is made of the medians over all of the group's trials, a dot of its own interval's.
    """
    bests = [group.best(between_s) for group in shown]
    low, high = _range(shown, bests)
    data: list[dict[str, Any]] = []
    for number, (group, best) in enumerate(zip(shown, bests, strict=True)):
        colour = f"--run-{number}"
        traces = (
            _curve(group, between_s, low, high, colour),
            _formula(group, best, "Young", best.young_s, colour),
            _formula(group, best, "Daly", best.daly_s, colour),
            _measured(group, best, colour),
        )
        rows = [cost.row.index for cost in group.costs]
        data += [trace | {"meta": rows} for trace in traces]
    costs = [y for trace in data for y in trace["y"]]
    return {"data": data, "layout": _layout(low, high, min(costs), max(costs))}


def _range(shown: Sequence[Group], bests: Sequence[Best]) -> tuple[float, float]:
    """From below the shortest to above the longest interval that has a mark."""
    marks = [cost.interval_s for group in shown for cost in group.costs]
    marks += [time for best in bests for time in (best.young_s, best.daly_s)]
    return min(marks) / 2, max(marks) * 4


def _curve(group: Group, between_s: float, low: float, high: float, colour: str) -> dict[str, Any]:
    x = [low * (high / low) ** (i / (_POINTS - 1)) for i in range(_POINTS)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": chart_text(group.label),
        "hoverinfo": "skip",
        "x": [_short(one) for one in x],
        "y": [_short(100 * group.overhead(one, between_s)) for one in x],
        "line": {"color": colour, "width": 2},
    }


def _measured(group: Group, best: Best, colour: str) -> dict[str, Any]:
    """The dots; the cheapest one has a ring around it."""
    priced = [(cost, cost.overhead(best.between_s)) for cost in group.costs]
    known = [(cost, price) for cost, price in priced if price is not None]
    cheapest = [cost is best.measured for cost, _ in known]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": chart_text(group.label),
        "x": [_short(cost.interval_s) for cost, _ in known],
        "y": [_short(100 * price) for _, price in known],
        "customdata": [
            [
                chart_text(group.label),
                f"{cost.steps:,} steps, {seconds(cost.interval_s)}",
                percent(price),
                seconds(cost.save_s),
                seconds(cost.recovery_s),
                " – the cheapest that was measured" if one else "",
            ]
            for (cost, price), one in zip(known, cheapest, strict=True)
        ],
        "hovertemplate": "<b>%{customdata[2]}</b> with a save every %{customdata[1]}"
        "%{customdata[5]}<br>%{customdata[0]}<br>a save holds up %{customdata[3]}, "
        "a recovery takes %{customdata[4]}<extra></extra>",
        "marker": {
            "size": [13 if one else 9 for one in cheapest],
            "color": colour,
            "opacity": 1,
            "line": {
                "width": [3 if one else 1 for one in cheapest],
                "color": ["--ink" if one else "--card" for one in cheapest],
            },
        },
    }


def _formula(group: Group, best: Best, name: str, at_s: float, colour: str) -> dict[str, Any]:
    """A diamond for Young, a cross for Daly: one shows through the other where both agree."""
    price = group.overhead(at_s, best.between_s)
    is_young = name == "Young"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [_short(at_s)],
        "y": [_short(100 * price)],
        "customdata": [
            [
                chart_text(group.label),
                f"{group.in_steps(at_s):,} steps, {seconds(at_s)}",
                percent(price),
            ]
        ],
        "hovertemplate": f"<b>%{{customdata[2]}}</b> by {name}'s formula: a save every "
        "%{customdata[1]}<br>%{customdata[0]}<extra></extra>",
        "marker": {
            "symbol": "diamond" if is_young else "x-thin",
            "size": 17 if is_young else 9,
            "color": "--card" if is_young else colour,
            "opacity": 1,
            "line": {"width": 2, "color": colour if is_young else "--ink"},
        },
    }


def _layout(low: float, high: float, cheapest: float, dearest: float) -> dict[str, Any]:
    ticks = [(at, text) for at, text in _TICKS if low <= at <= high]
    bottom, top = math.log10(cheapest) - 0.15, math.log10(dearest) + 0.1
    shares = [
        digit * 10.0**power
        for power in range(math.floor(bottom), math.ceil(top) + 1)
        for digit in ((1, 2, 5) if top - bottom < 2 else (1,))
        if bottom <= math.log10(digit * 10.0**power) <= top
    ]
    return {
        "height": 430,
        "showlegend": False,
        "hovermode": "closest",
        "margin": {"l": 8, "r": 16, "t": 12, "b": 46},
        "xaxis": {
            "title": {"text": "training between two saves (logarithmic)"},
            "type": "log",
            "range": [math.log10(low), math.log10(high)],
            "tickvals": [at for at, _ in ticks],
            "ticktext": [text for _, text in ticks],
        },
        "yaxis": {
            "title": {"text": "time lost, % of the training"},
            "type": "log",
            "range": [bottom, top],
            "tickvals": shares,
            "ticktext": [f"{share:,g} %" for share in shares],
            "showgrid": True,
        },
    }


def _short(value: float) -> float:
    """Enough digits to draw."""
    return float(f"{value:.5g}")
