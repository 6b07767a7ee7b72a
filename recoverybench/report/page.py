"""The report as one HTML page: a template, filled; nothing in it is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from recoverybench import garbage
from recoverybench.labels import one_controller
from recoverybench.report.answer import answer, verified
from recoverybench.report.data import packed
from recoverybench.report.figures import MOST_DOTS, recovery_figure
from recoverybench.report.filters import filters_of
from recoverybench.report.prose import basis, chart_in_words, limit, marks_in_words, notices
from recoverybench.report.rows import Row, rows_of
from recoverybench.report.section import Material
from recoverybench.report.sections import sections_of
from recoverybench.results.store import Run
from recoverybench.web.charts import packed_plotly, plotly
from recoverybench.web.embed import as_json, pack
from recoverybench.web.policy import policy
from recoverybench.web.templating import asset
from recoverybench.web.templating import render as fill

_SCRIPTS: Final = ("rows", "trials", "waterfall", "facts", "table", "choices", "downloads", "start")
"""Files of ``report/script``, in the order in which they run."""


@garbage.kept()
def render(runs: Sequence[Run], *, chart_script: str | None = None, home: str | None = None) -> str:
    """The page of these runs, as text.

    Every string of a run is text, wherever it stands: the template escapes it, the data is
    embedded compressed, and a policy in the page lets no script run but those that it names
    by their hashes.

    Args:
        runs: one or several.
        chart_script: address of plotly.js beside the page, for a site in which many pages share
            it; None: it is inside the page.
        home: address of the first page of that site.
    """
    rows = rows_of(runs)
    material = Material(runs, rows)
    sections = list(sections_of(material))
    figures = {"recovery": recovery_figure(rows, several=material.several)}
    for section in sections:
        figures |= section.figures
    script = page_script()
    return fill(
        "report/report.html.j2",
        policy=policy(script, plotly(), shared=chart_script is not None),
        title=_title(runs),
        question=_question(rows),
        answer=answer(rows),
        verified=verified(rows),
        basis=basis(runs),
        notices=notices(runs),
        alt=chart_in_words(rows),
        several=material.several,
        limit=limit(runs),
        logarithmic=figures["recovery"]["layout"]["xaxis"].get("type") == "log",
        marks=marks_in_words(rows),
        thinned=max((len(row.trials) for row in rows), default=0) > MOST_DOTS,
        most=MOST_DOTS,
        rows=rows,
        filters=filters_of(rows, runs),
        near=any(row.losses_within for row in rows),
        sections=sections,
        data=packed(runs, rows),
        figures=pack(as_json(figures).encode("utf-8", "backslashreplace")),
        plotly=packed_plotly() if chart_script is None else None,
        chart_script=chart_script,
        home=home,
        script=Markup(script),
    )


def page_script() -> str:
    """The script of the page: one function, so that nothing of it is global."""
    parts = [asset("web", "script", "core.js")]
    parts += [asset("report", "script", f"{name}.js") for name in _SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n\n".join(parts) + "\n})();"


def _question(rows: Sequence[Row]) -> str:
    """What the report answers; a machine that dies is not what every fault stands for."""
    slices = [one_controller(row.cell) for row in rows]
    dies = all(row.cell.fault.partition(":")[0] == "kill" for row in rows)
    what = "A worker dies" if dies else "A worker fails"
    if any(slices):
        what = "A worker or a slice is lost"
    if slices and all(slices):
        what = "A slice is lost" if dies else "A slice or the controller is lost"
    return f"{what} during distributed JAX training: what does it cost?"


def _title(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(run.info.suite.name for run in runs))
    return f"{', '.join(names) or 'no run'} · recoverybench"
