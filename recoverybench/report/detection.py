"""How fast a failure is noticed, against how often there is an alarm where there is none.

Only for runs that vary what a detector waits for: the step watchdog, its factor, the
coordination service's heartbeat. A setting that notices sooner also cries wolf sooner; faults
that lose nothing (``slow``) count the false alarms, all others the time until the first evidence.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.labels import FACTOR_NAMES, NONE, factor_value, seconds, varying_factors
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from recoverybench.web.charts import chart_text

KNOBS: Final = ("heartbeat_s", "watchdog_s", "watchdog_factor")
"""Factors that say how long a detector waits."""

_COLOURS: Final = 5
"""Colours that the page has for series."""


@dataclass(frozen=True, slots=True)
class Latency:
    """How fast the failures of one fault were noticed at one setting.

    Attributes:
        fault: what it was. noticed, trials: how many of how many.
        median_s: from the injection to the first evidence; None: nobody noticed any.
    """

    fault: str
    noticed: int
    trials: int
    median_s: float | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the detectors.

    Attributes:
        label: the settings that differ, in words.
        latencies: one a fault, in the order in which they were met.
        alarmed, harmless: trials with a false alarm, of those in which nothing was lost.
    """

    label: str
    latencies: tuple[Latency, ...]
    alarmed: int
    harmless: int

    @property
    def share(self) -> float | None:
        """Part of the harmless trials with a false alarm; None: there was none."""
        return self.alarmed / self.harmless if self.harmless else None

    @property
    def share_text(self) -> str:
        """The same for people: ``2 of 5``."""
        return f"{self.alarmed} of {self.harmless}" if self.harmless else NONE


def settings_tried(runs: Sequence[Run]) -> list[Setting]:
    """Every setting of the runs that vary one; empty where none does."""
    groups: dict[tuple[str, ...], list[TrialRecord]] = defaultdict(list)
    for run in runs:
        varying = [f for f in varying_factors(t.cell for t in run.trials) if f in KNOBS]
        for trial in run.trials if varying else ():
            values = (f"{FACTOR_NAMES[f]} {_value(f, trial)}" for f in varying)
            groups[tuple(values)].append(trial)
    return [_setting(", ".join(names), trials) for names, trials in groups.items()]


def _value(factor: str, trial: TrialRecord) -> str:
    return factor_value(factor, getattr(trial.cell, factor))


def _setting(label: str, trials: Sequence[TrialRecord]) -> Setting:
    judged = [t for t in trials if t.outcome != "invalid"]
    harmless = [t for t in judged if t.harmless]
    by_fault: dict[str, list[TrialRecord]] = defaultdict(list)
    for trial in judged:
        if not trial.harmless and trial.t_inject is not None:
            by_fault[trial.cell.fault].append(trial)
    return Setting(
        label=label,
        latencies=tuple(_latency(fault, found) for fault, found in by_fault.items()),
        alarmed=sum(t.false_alarms > 0 for t in harmless),
        harmless=len(harmless),
    )


def _latency(fault: str, trials: Sequence[TrialRecord]) -> Latency:
    times = [min(e.after_s for e in t.detection_evidence) for t in trials if t.detection_evidence]
    return Latency(fault, len(times), len(trials), statistics.median(times) if times else None)


def detection_figure(settings: Sequence[Setting]) -> dict[str, Any] | None:
    """A point a setting and fault: how fast it is noticed, how often the alarm is false.

    None where no setting has both.
    """
    faults = dict.fromkeys(one.fault for s in settings for one in s.latencies)
    data = [
        series for i, fault in enumerate(faults) if (series := _series(settings, fault, i))["x"]
    ]
    if not data:
        return None
    # Names of settings stand at one series; at all of them they would cover one another.
    named = max(data, key=lambda series: (len(series["x"]), max(series["x"])))
    for series in data:
        series["mode"] = "lines+markers+text" if series is named else "lines+markers"
    return {
        "data": data,
        "layout": {
            "height": 380,
            "showlegend": len(data) > 1,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "hovermode": "closest",
            "xaxis": {
                "title": {"text": "until the first evidence, median seconds"},
                "rangemode": "tozero",
            },
            "yaxis": {
                "title": {"text": "harmless trials with a false alarm, %"},
                "range": [-6, 106],
                "fixedrange": True,
                "showgrid": True,
            },
        },
    }


def _series(settings: Sequence[Setting], fault: str, number: int) -> dict[str, Any]:
    points = [
        (s, one)
        for s in settings
        for one in s.latencies
        if one.fault == fault and one.median_s is not None and s.share is not None
    ]
    return {
        "type": "scatter",
        "name": chart_text(fault),
        "x": [one.median_s for _, one in points],
        "y": [100 * (s.share or 0.0) for s, _ in points],
        "text": [chart_text(s.label) for s, _ in points],
        "textposition": "top right",
        "cliponaxis": False,
        "customdata": [
            [
                chart_text(f"{fault}, {s.label}"),
                seconds(one.median_s),
                f"{one.noticed} of {one.trials}",
                s.share_text,
            ]
            for s, one in points
        ],
        "hovertemplate": "<b>%{customdata[0]}</b><br>noticed after %{customdata[1]} "
        "(%{customdata[2]} trials)<br>false alarms in %{customdata[3]}<extra></extra>",
        "line": {"color": f"--run-{number % _COLOURS}", "width": 1, "dash": "dot"},
        "marker": {"size": 11, "color": f"--run-{number % _COLOURS}"},
    }
