"""All that a site shows, put together: releases, trends, what changed and where it stands. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from recoverybench.labels import cell_label, varying_factors
from recoverybench.site import addresses
from recoverybench.site.comparisons import Compared
from recoverybench.site.scan import Skipped
from recoverybench.site.trends import Pair, Point, Release, Trend, pair_of
from recoverybench.site.verdicts import Verdict
from recoverybench.workload_name import short_name


@dataclass(frozen=True, slots=True)
class Step:
    """From one point of a line to the next.

    Attributes:
        base, new: the points. page: address of their comparison.
        verdict: what became of the cell; None: it could not be compared.
        line: number of the line in its trend.
    """

    base: Point
    new: Point
    page: str
    verdict: Verdict | None
    line: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A trend as it is shown.

    Attributes:
        trend: what is shown. label: among the cells of its workload. name: with the workload.
        anchor: its id on the workload's page, and `more` those of its cells under other settings.
        steps: of every line, in the order of releases.
    """

    trend: Trend
    label: str
    name: str
    anchor: str
    more: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def page(self) -> str:
        """Where it is shown with all its numbers."""
        return f"{addresses.workload_page(self.trend.cell.workload)}#{self.anchor}"

    @property
    def changes(self) -> list[Step]:
        """Where it changed."""
        return [step for step in self.steps if step.verdict is not None and step.verdict.changed]


@dataclass(frozen=True, slots=True)
class Change:
    """A cell that changed between two releases: its trend and the step."""

    shown: Shown
    step: Step


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything on a site.

    Attributes:
        releases: in their order. workloads: name -> trends of its cells.
        compared: every comparison. fingerprints: of the files of each run, by its id.
        skipped: what lies among the runs and is not shown. failed: pairs that cannot be compared.
    """

    releases: tuple[Release, ...]
    workloads: dict[str, tuple[Shown, ...]]
    compared: tuple[Compared, ...]
    fingerprints: Mapping[str, str]
    skipped: tuple[Skipped, ...]
    failed: tuple[Skipped, ...] = ()

    @property
    def shown(self) -> list[Shown]:
        """Every trend."""
        return [one for trends in self.workloads.values() for one in trends]

    @property
    def changes(self) -> list[Change]:
        """Every change, that of the newest release first."""
        found = [Change(shown, step) for shown in self.shown for step in shown.changes]
        return sorted(found, key=lambda c: -c.step.new.release.at)

    @property
    def choices(self) -> dict[str, list[Compared]]:
        """Address -> comparisons of two releases that have several of them."""
        pairs: dict[str, list[Compared]] = defaultdict(list)
        for one in self.compared:
            pairs[addresses.comparison_page(one.pair.base.address, one.pair.new.address)].append(
                one
            )
        return {page: found for page, found in pairs.items() if len(found) > 1}


def catalogue_of(
    releases: Sequence[Release],
    trends: Sequence[Trend],
    compared: Sequence[Compared],
    fingerprints: Mapping[str, str],
    skipped: Iterable[Skipped],
    failed: Iterable[Skipped] = (),
) -> Catalogue:
    """Put together what was made of the runs."""
    by_pair = {_place(one.pair): one for one in compared}
    groups: dict[str, list[Trend]] = defaultdict(list)
    for trend in trends:
        groups[trend.cell.workload].append(trend)
    return Catalogue(
        releases=tuple(releases),
        workloads={
            name: tuple(_shown(trend, found, by_pair) for trend in found)
            for name, found in groups.items()
        },
        compared=tuple(compared),
        fingerprints=fingerprints,
        skipped=tuple(skipped),
        failed=tuple(failed),
    )


def _place(pair: Pair) -> tuple[int, int, str]:
    return pair.base.at, pair.new.at, pair.part


def _shown(
    trend: Trend, siblings: Sequence[Trend], compared: Mapping[tuple[int, int, str], Compared]
) -> Shown:
    steps = []
    for number, line in enumerate(trend.lines):
        for base, new in zip(line.points, line.points[1:], strict=False):
            found = compared.get(_place(pair_of(base, new, trend.environment)))
            if found is not None:
                verdict = found.verdicts.get(base.key.cell.key)
                steps.append(Step(base, new, found.page, verdict, number))
    cell = trend.cell
    label = cell_label(cell, varying_factors(one.cell for one in siblings))
    if trend.environment is not None:
        label += f" · {trend.environment}"
    ids = [addresses.anchor(trend.key(one)) for one in trend.cells]
    ours = addresses.anchor(trend.key(cell))
    return Shown(
        trend=trend,
        label=label,
        name=f"{short_name(cell.workload)} · {label}",
        anchor=ours,
        more=tuple(one for one in ids if one != ours),
        steps=tuple(sorted(steps, key=lambda step: step.new.release.at)),
    )
