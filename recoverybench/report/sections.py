"""The sections of the report, in their order; each is there only where a run has what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from recoverybench.labels import (
    NONE,
    OUTCOME_MEANING,
    PHASE_MEANING,
    fixed,
    outcome_name,
    phase_name,
    seconds,
    unmeasured,
)
from recoverybench.report.costs_section import costs_section
from recoverybench.report.detection import detection_figure, settings_tried
from recoverybench.report.figures import phases_figure
from recoverybench.report.losses import losses_section
from recoverybench.report.profiles import profiles_section
from recoverybench.report.prose import limits, method, method_head
from recoverybench.report.restore_sizes import restored, size_figure
from recoverybench.report.restores import fraction_figure, restores
from recoverybench.report.rows import LEVEL, run_names
from recoverybench.report.saves import sweeps
from recoverybench.report.section import Material, Section
from recoverybench.report.settings import constants_of, differences, settings_of
from recoverybench.report.topologies import topologies_section
from recoverybench.soaks import soaks_of
from recoverybench.vocabulary import OUTCOMES, SHOWN_PHASES, UNNAMED


def sections_of(material: Material) -> Iterator[Section]:
    """The sections of this report."""
    for make in _MAKERS:
        section = make(material)
        if section is not None:
            yield section


def _phases(material: Material) -> Section | None:
    if not any(row.phases for row in material.rows):
        return None  # nothing recovered: there is no time that went anywhere
    shown = phases_shown(material)
    return Section(
        "phases",
        "Where the time goes",
        {
            "phases": shown,
            "fixed": fixed,
            "even": any(r.middle and not r.timed % 2 for r in material.rows),
        },
        {"phases": phases_figure(material.rows)},
    )


def _cells(material: Material) -> Section:
    constants = constants_of(material.runs)
    grown = any(row.grown != NONE for row in material.rows)
    return Section("cells", "All numbers", {"level": LEVEL, "constants": constants, "grown": grown})


def _outcomes(material: Material) -> Section:
    """`recovered`, and every other outcome that occurred."""
    found = {outcome for row in material.rows for outcome in row.outcomes}
    shown = [
        {"id": o, "name": outcome_name(o), "meaning": OUTCOME_MEANING[o]}
        for o in OUTCOMES
        if o in found or o == "recovered"
    ]
    return Section("outcomes", "Outcomes", {"outcomes": shown, "level": LEVEL})


def _trials(material: Material) -> Section | None:
    return Section("trials", "Trials") if material.rows else None


def _noticing(material: Material) -> Section | None:
    tried = settings_tried(material.runs)
    figure = detection_figure(tried)
    figures = {} if figure is None else {"detection": figure}
    data = {"settings": tried, "seconds": seconds, "drawn": figure is not None}
    return Section("noticing", "Noticing", data, figures) if tried else None


def _restores(material: Material) -> Section | None:
    read = restores(material.rows)
    figure = fraction_figure(read)
    if figure is None:
        return None
    return Section(
        "restores", "Restore against the limit", {"restores": read}, {"restores": figure}
    )


def _sizes(material: Material) -> Section | None:
    figure = size_figure(material.rows)
    if figure is None:
        return None
    data = {"restored": restored(material.rows), "seconds": seconds}
    return Section("sizes", "Restore by size", data, {"sizes": figure})


def _saves(material: Material) -> Section | None:
    found = sweeps(material.runs)
    return Section("saves", "Crashes in a save", {"sweeps": found}) if found else None


def _soaks(material: Material) -> Section | None:
    found = soaks_of(material.runs)
    return Section("soaks", "Soaks", {"soaks": found}) if found else None


def _unmeasured(material: Material) -> Section | None:
    """Cells of the suites that could not be measured, and why."""
    found = []
    for run in material.runs:
        suite = run.info.suite
        for reason, names in unmeasured(suite.cells, suite.unsupported).items():
            found += [{"run": run.info.run_id, "label": n, "reason": reason} for n in names]
    if not found:
        return None
    return Section("unmeasured", "Not measured", {"cells": found, "several": material.several})


def _verification(material: Material) -> Section:
    return Section("verification", "Verification")


def _waterfall(material: Material) -> Section:
    return Section("waterfall", "One trial in detail", {"phases": phases_shown(material)})


def _settings(material: Material) -> Section:
    names = run_names(material.runs)
    runs = [settings_of(run) | {"name": n} for run, n in zip(material.runs, names, strict=True)]
    apart = differences(runs)
    marked = {(one.group, one.name) for one in apart}
    data = {"runs": runs, "several": material.several, "differences": apart, "marked": marked}
    return Section("settings", "Settings", data)


def _method(material: Material) -> Section:
    return Section(
        "method",
        "Method",
        {
            "head": method_head(material.rows),
            "lines": method(material.rows),
            "phases": phases_shown(material),
            "limits": limits(material.runs),
        },
    )


def _data(material: Material) -> Section:
    return Section("data", "Data")


_MAKERS: Final[tuple[Callable[[Material], Section | None], ...]] = (
    _phases,
    profiles_section,
    _cells,
    _outcomes,
    _trials,
    _noticing,
    _restores,
    _sizes,
    costs_section,
    topologies_section,
    _saves,
    _soaks,
    _unmeasured,
    _verification,
    losses_section,
    _waterfall,
    _settings,
    _method,
    _data,
)


def phases_shown(material: Material) -> list[dict[str, str]]:
    """The phases in their order; `unnamed` only where a trial has some."""
    unnamed = any(UNNAMED in row.phases for row in material.rows)
    return [
        {
            "id": phase,
            "name": phase_name(phase),
            "start": PHASE_MEANING[phase][0],
            "end": PHASE_MEANING[phase][1],
        }
        for phase in SHOWN_PHASES
        if unnamed or phase != UNNAMED
    ]
