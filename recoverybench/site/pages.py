"""The pages of a site that are neither reports nor comparisons: templates, filled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from recoverybench.labels import FACTOR_NAMES, constant_factors, short_digests
from recoverybench.site import addresses, wording
from recoverybench.site.catalogue import Catalogue, Shown
from recoverybench.site.comparisons import Compared
from recoverybench.site.drawing import draw, legend_mark
from recoverybench.site.search import entries
from recoverybench.site.summary import RunSummary
from recoverybench.site.trends import Point, Release
from recoverybench.web.embed import embed
from recoverybench.web.policy import policy
from recoverybench.web.templating import asset, render
from recoverybench.workload_name import short_name

RECENT: Final = 24
"""Releases in a trend of the first page; the workload's page has all."""

_HOME: Final = f"../{addresses.INDEX}"

_CHANGES: Final = 12
_RUNS: Final = 40
"""Rows of the first page that are shown at once; the others are folded."""

_OPEN: Final = 12
"""Rows up to which a table of numbers is open from the start."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the table of runs.

    Attributes:
        release: its release's name; empty where the row above has it. run: the run.
        page: its report. compared: address of each comparison of the release with one that was
            before it, and the name of that. name: of the release.
    """

    release: str
    run: RunSummary
    page: str
    compared: tuple[tuple[str, str], ...]
    name: str


@dataclass(frozen=True, slots=True)
class PointRow:
    """A point in a table of numbers.

    Attributes:
        point: what it shows. line: number of its line. runs: ids and addresses of its reports.
        verdict: on what became of the cell since the point before; empty for a first one.
        detail: in words. page: the comparison, or None.
    """

    point: Point
    line: int
    runs: tuple[tuple[str, str], ...]
    verdict: str
    detail: str
    page: str | None


def index_page(catalogue: Catalogue) -> str:
    """The first page."""
    script = asset("site", "script", "search.js")
    rows = _run_rows(catalogue)
    changes = catalogue.changes
    return render(
        "site/index.html.j2",
        **_common("Recovery, release by release", script),
        answer=wording.answer(catalogue),
        basis=wording.basis(catalogue),
        changes=changes[:_CHANGES],
        older_changes=changes[_CHANGES:],
        workloads=[
            {
                "name": short_name(name),
                "page": addresses.workload_page(name),
                "trends": _cards(shown),
                "older": max(0, len(_columns(shown)) - RECENT),
            }
            for name, shown in sorted(catalogue.workloads.items(), key=_newest_workload)
        ],
        recent=RECENT,
        runs=rows[:_RUNS],
        older_runs=rows[_RUNS:],
        skipped=(*catalogue.skipped, *catalogue.failed),
        search=embed(entries(catalogue)),
        script=Markup(script),
    )


def workload_page(catalogue: Catalogue, workload: str) -> str:
    """All cells of a workload over all releases."""
    shown = catalogue.workloads[workload]
    columns = _columns(shown)
    same = constant_factors(one.trend.cell for one in shown)
    return render(
        "site/workload.html.j2",
        **_common(f"{short_name(workload)} · recovery, release by release"),
        home=_HOME,
        name=short_name(workload),
        answer=wording.latest(catalogue.releases[columns[-1]], shown),
        count=wording.cells_text(len(shown)),
        releases=len(columns),
        all_releases=len(catalogue.releases),
        same={FACTOR_NAMES[f]: value for f, value in same.items() if f != "workload"},
        trends=[
            {
                "shown": one,
                "drawing": draw(one, columns, up="../", wide=True),
                "phone": draw(one, columns, up="../") if len(columns) <= RECENT else None,
                "legend": _legend(one),
                "rows": _point_rows(one),
                "several": len(one.trend.lines) > 1,
            }
            for one in shown
        ],
        opened=_OPEN,
    )


def choice_page(compared: Sequence[Compared]) -> str:
    """What leads to each of several comparisons of two releases."""
    pair = compared[0].pair
    return render(
        "site/choice.html.j2",
        **_common(f"{pair.base.name} and {pair.new.name}, compared"),
        home=_HOME,
        base=pair.base.name,
        new=pair.new.name,
        compared=wording.parts(compared),
    )


def not_found_page(url: str | None) -> str:
    """What a web server shows where there is nothing."""
    script = asset("site", "script", "root.js")
    return render(
        "site/404.html.j2",
        **_common("Not here", script),
        root=url or "./",
        script=Markup(script),
    )


def _common(title: str, *scripts: str) -> dict[str, Any]:
    """What every template asks for."""
    return {
        "title": title,
        "policy": policy(*scripts),
        "site_css": Markup(asset("site", "style", "site.css")),
        "w": wording,
        "short": short_digests,
        "legend_mark": legend_mark,
        "name_of": short_name,
    }


def _cards(shown: Sequence[Shown]) -> list[dict[str, Any]]:
    columns = _columns(shown)[-RECENT:]
    found = []
    for one in sorted(shown, key=_newest_first):
        points = [p for p in one.trend.points if p.release.at in set(columns)]
        found.append(
            {
                "shown": one,
                "drawing": draw(one, columns) if points else None,
                "legend": _legend(one),
                "last": one.trend.points[-1],
            }
        )
    return found


def _newest_first(shown: Shown) -> tuple[int, int]:
    """What was measured last comes first, and of those what was measured most often."""
    points = shown.trend.points
    return -points[-1].release.at, -len(points)


def _newest_workload(item: tuple[str, Sequence[Shown]]) -> tuple[int, int]:
    return min(map(_newest_first, item[1]))


def _columns(shown: Iterable[Shown]) -> list[int]:
    """Places of the releases in which any of these cells was measured."""
    return sorted({point.release.at for one in shown for point in one.trend.points})


def _legend(shown: Shown) -> list[tuple[int, str]]:
    """Number of each line, and what tells it from the others; empty where there is one."""
    if len(shown.trend.lines) == 1:
        return []
    return list(enumerate(wording.conditions(shown.trend)))


def _point_rows(shown: Shown) -> list[PointRow]:
    """The points of a trend, the newest first."""
    steps = {id(step.new): step for step in shown.steps}
    rows = []
    for number, line in enumerate(shown.trend.lines):
        for point in line.points:
            step = steps.get(id(point))
            first = point is line.points[0]
            verdict, detail = ("", "first") if first else ("", "not compared")
            if step is not None and step.verdict is not None:
                verdict, detail = step.verdict.verdict, "; ".join(step.verdict.reasons)
            runs = tuple((run, f"../{addresses.run_page(run)}") for run in point.runs)
            page = None if step is None else f"../{step.page}"
            rows.append(PointRow(point, number, runs, verdict, detail, page))
    return sorted(rows, key=lambda row: (-row.point.release.at, row.line))


def _run_rows(catalogue: Catalogue) -> list[RunRow]:
    """The runs, those of the newest release first."""
    compared: dict[int, dict[str, str]] = {}
    for one in catalogue.compared:
        base, new = one.pair.base, one.pair.new
        page = addresses.comparison_page(base.address, new.address)
        compared.setdefault(new.at, {})[page] = base.name
    return [
        RunRow(
            release=_name(release) if number == 0 else "",
            run=run,
            page=addresses.run_page(run.run_id),
            compared=tuple(compared.get(release.at, {}).items()) if number == 0 else (),
            name=release.name,
        )
        for release in reversed(catalogue.releases)
        for number, run in enumerate(release.runs)
    ]


def _name(release: Release) -> str:
    return release.name if release.labelled else "no label"
