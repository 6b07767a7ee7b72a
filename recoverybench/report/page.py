"""The report as one HTML page: a template, filled; nothing in it is fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from recoverybench import __version__
from recoverybench.labels import (
    NONE,
    OUTCOME_MEANING,
    PHASE_MEANING,
    fixed,
    one_controller,
    outcome_name,
    phase_name,
    seconds,
    short_digests,
    unmeasured,
)
from recoverybench.report.answer import answer, verified
from recoverybench.report.data import embed, payload
from recoverybench.report.detection import detection_figure, settings_tried
from recoverybench.report.figures import phases_figure, recovery_figure
from recoverybench.report.prose import (
    LIMITS,
    basis,
    chart_in_words,
    marks_in_words,
    method,
    method_head,
    notices,
)
from recoverybench.report.restores import fraction_figure, restores, size_figure
from recoverybench.report.rows import LEVEL, Row, rows_of
from recoverybench.report.saves import sweeps
from recoverybench.report.settings import constants_of, settings_of
from recoverybench.results.store import Run
from recoverybench.soaks import soaks_of
from recoverybench.vocabulary import OUTCOMES, SHOWN_PHASES, UNNAMED
from recoverybench.web.templating import asset

_FAILURES_SHOWN = 50


def render(runs: Sequence[Run]) -> str:
    """The page of these runs, as text.

    Every string of a run is text, wherever it stands: the template escapes it, the data is
    embedded by `embed`, and a policy in the page lets no script run but the two that it
    names by their hashes.
    """
    rows = rows_of(runs)
    tried = settings_tried(runs)
    read = restores(rows)
    by_size = size_figure(rows)
    plotly, script = _plotly(), _asset("report.js")
    failures = _failures(rows)
    page: str = _template().render(
        version=__version__,
        policy=_policy(plotly, script),
        title=_title(runs),
        css=Markup(_asset("report.css")),
        question=_question(rows),
        answer=answer(rows),
        verified=verified(rows),
        basis=basis(runs),
        notices=notices(runs),
        alt=chart_in_words(rows),
        several=len(runs) > 1,
        rows=rows,
        phases=_phases(rows),
        outcomes=_outcomes(rows),
        unmeasured=_unmeasured(runs),
        detection=tried,
        latency=seconds,
        sweeps=sweeps(runs),
        restores=read,
        by_size=by_size is not None,
        soaks=soaks_of(runs),
        near=any(row.losses_within for row in rows),
        grown=any(row.grown != NONE for row in rows),
        failures=failures[:_FAILURES_SHOWN],
        more_failures=len(failures[_FAILURES_SHOWN:]),
        constants=constants_of(runs),
        runs=[settings_of(run) for run in runs],
        marks=marks_in_words(rows),
        method=method(rows),
        method_head=method_head(rows),
        limits=LIMITS,
        level=LEVEL,
        fixed=fixed,
        payload=Markup(embed(payload(runs))),
        figures=Markup(
            embed(
                {
                    "recovery": recovery_figure(rows, several=len(runs) > 1),
                    "phases": phases_figure(rows),
                    "detection": detection_figure(tried),
                    "restores": fraction_figure(read),
                    "sizes": by_size,
                }
            )
        ),
        plotly=Markup(plotly),
        script=Markup(script),
    )
    return page


def _question(rows: Sequence[Row]) -> str:
    """What the report answers; a machine that dies is not what every fault stands for."""
    slices = [one_controller(row.cell) for row in rows]
    dies = all(row.cell.fault.partition(":")[0] == "kill" for row in rows)
    what = "A machine dies" if dies else "A worker fails"
    if any(slices):
        what = "A worker or a slice is lost"
    if slices and all(slices):
        what = "A slice is lost" if dies else "A slice or the controller is lost"
    return f"{what} during distributed JAX training: what does it cost?"


def _title(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(run.info.suite.name for run in runs))
    return f"{', '.join(names) or 'no run'} · recoverybench"


def _phases(rows: Sequence[Row]) -> list[dict[str, str]]:
    unnamed = any(UNNAMED in row.phases for row in rows)
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


def _outcomes(rows: Sequence[Row]) -> list[dict[str, str]]:
    """`recovered`, and every other outcome that occurred."""
    found = {outcome for row in rows for outcome in row.outcomes}
    return [
        {"id": o, "name": outcome_name(o), "meaning": OUTCOME_MEANING[o]}
        for o in OUTCOMES
        if o in found or o == "recovered"
    ]


def _unmeasured(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Cells of the suites that could not be measured, and why."""
    found = []
    for run in runs:
        suite = run.info.suite
        for reason, names in unmeasured(suite.cells, suite.unsupported).items():
            found += [{"run": run.info.run_id, "label": n, "reason": reason} for n in names]
    return found


def _failures(rows: Sequence[Row]) -> list[dict[str, str]]:
    return [
        {
            "trial": trial.trial,
            "key": row.trial_key(trial),
            "label": row.label,
            "outcome": outcome_name(trial.outcome),
            "error": short_digests(trial.error or ""),
        }
        for row in rows
        for trial in row.trials
        if trial.outcome not in ("recovered", "no_effect")
    ]


def _policy(*scripts: str) -> str:
    """A content security policy: these scripts, styles of the page, images it made itself."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _template() -> Any:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("report.html.j2"))


@cache
def _asset(name: str) -> str:
    if name == "report.css":
        return asset("web", "style", "base.css")
    text = files("recoverybench.report").joinpath("templates", name).read_text("utf-8")
    return text.rstrip("\n")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    if "</script" in text.lower():
        raise AssertionError("this plotly.js cannot stand inside a page")
    return text.replace("\r\n", "\n").replace("\r", "\n")
