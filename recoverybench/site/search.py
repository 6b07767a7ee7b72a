"""What can be searched for on a site: an entry a run, release, workload, cell and comparison."""

from __future__ import annotations

from recoverybench.labels import FACTOR_NAMES, factor_value
from recoverybench.site import addresses
from recoverybench.site.catalogue import Catalogue
from recoverybench.site.wording import cells_text, median_text
from recoverybench.visible import clean
from recoverybench.workload_name import short_name


def entries(catalogue: Catalogue) -> list[dict[str, str]]:
    """Each with ``kind``, ``title``, ``detail`` and ``href``; all of it text but the address."""
    found = [
        *_workloads(catalogue),
        *_cells(catalogue),
        *_runs(catalogue),
        *_comparisons(catalogue),
    ]
    return [{name: clean(value) for name, value in entry.items()} for entry in found]


def _entry(kind: str, title: str, detail: str, href: str) -> dict[str, str]:
    return {"kind": kind, "title": title, "detail": detail, "href": href}


def _workloads(catalogue: Catalogue) -> list[dict[str, str]]:
    return [
        _entry("workload", short_name(name), cells_text(len(shown)), addresses.workload_page(name))
        for name, shown in catalogue.workloads.items()
    ]


def _cells(catalogue: Catalogue) -> list[dict[str, str]]:
    found = []
    for shown in catalogue.shown:
        cell, last = shown.trend.cell, shown.trend.points[-1]
        said = {f: factor_value(f, getattr(cell, f)) for f in _SOUGHT}
        factors = ", ".join(f"{FACTOR_NAMES[f]} {value}" for f, value in said.items())
        detail = f"{median_text(last.recovery)} in {last.release.name}; {factors}"
        found.append(_entry("cell", shown.name, detail, shown.page))
    return found


_SOUGHT = ("strategy", "fault", "trigger", "topology", "state_source", "interval")


def _runs(catalogue: Catalogue) -> list[dict[str, str]]:
    return [
        _entry(
            "run",
            run.run_id if run.label is None else f"{run.label} · {run.run_id}",
            f"{run.suite}, {run.created[:10]}, {run.trials} trials, {run.status}",
            addresses.run_page(run.run_id),
        )
        for release in reversed(catalogue.releases)
        for run in release.runs
    ]


def _comparisons(catalogue: Catalogue) -> list[dict[str, str]]:
    return [
        _entry(
            "comparison",
            f"{one.pair.new.name} against {one.pair.base.name}"
            + ("" if one.pair.environment is None else f" on {one.pair.environment}"),
            one.answer,
            one.page,
        )
        for one in reversed(catalogue.compared)
    ]
