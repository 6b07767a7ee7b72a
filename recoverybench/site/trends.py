"""Summaries of runs -> releases, and the trend of each cell over them. Pure.

Only what `compare.key` says is comparable is put on one line: a cell that was measured on two
machines has two. Where several environments were measured for one release, each is a trend of its
own; where it was one, that is the release's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from recoverybench.cells import Cell
from recoverybench.compare.key import Key, differences, same_cell
from recoverybench.plan.environments import THIS
from recoverybench.site import addresses
from recoverybench.site.releases import Dated, in_order, instant
from recoverybench.site.summary import CellSummary, RunSummary
from recoverybench.stats import Survival, survival


@dataclass(frozen=True, slots=True)
class Release:
    """All runs with one label, or one run without a label.

    Attributes:
        name: the label, or the run's id. labelled: which of the two.
        runs: at least one, the oldest first. at: its place in the order, from 0.
    """

    name: str
    labelled: bool
    runs: tuple[RunSummary, ...]
    at: int

    @property
    def address(self) -> str:
        """Its part of the address of a comparison."""
        make = addresses.label_name if self.labelled else addresses.unlabelled_name
        return make(self.name)

    @property
    def created(self) -> str:
        """When its first run was made, ISO 8601."""
        return self.runs[0].created


@dataclass(frozen=True, slots=True)
class Point:
    """A cell in a release: the trials of all its runs that are comparable.

    Attributes:
        release: where. runs: ids of the runs that it is of. key: what has to agree.
        trials, recovered, judged: as of `CellSummary`, summed.
        times: recovery times, seconds. recovery: their median; None: no trial has a time.
        outcomes: outcome -> trials.
    """

    release: Release
    runs: tuple[str, ...]
    key: Key
    trials: int
    recovered: int
    judged: int
    times: tuple[float, ...]
    recovery: Survival | None
    outcomes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Line:
    """Points that are comparable, each with the one before it, in the order of releases."""

    points: tuple[Point, ...]

    @property
    def cell(self) -> Cell:
        """What is measured, as it last was, without its environment."""
        return self.points[-1].key.cell


@dataclass(frozen=True, slots=True)
class Trend:
    """One cell over all releases.

    Attributes:
        cells: what is measured: one, or the same under settings that changed on the way.
        environment: which one, where a release has several; else None.
        lines: at least one; a point is on one of them.
    """

    cells: tuple[Cell, ...]
    environment: str | None
    lines: tuple[Line, ...]

    @property
    def cell(self) -> Cell:
        """The cell, as it was measured last."""
        return max(self.lines, key=lambda line: line.points[-1].release.at).cell

    @property
    def points(self) -> list[Point]:
        """All of them, in the order of releases."""
        found = [point for line in self.lines for point in line.points]
        return sorted(found, key=lambda point: point.release.at)

    def key(self, cell: Cell) -> str:
        """What names it, by one of its cells."""
        return cell.key if self.environment is None else f"{cell.key}@{self.environment}"


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared: two releases, under the conditions and in the environments of one line.

    Attributes:
        base, new: the releases.
        runs: ids of the runs of either side.
        environment: as `Trend`. part: its name among several of these releases.
        key: of one of the cells; machine and settings are those of all of them.
    """

    base: Release
    new: Release
    runs: tuple[tuple[str, ...], tuple[str, ...]]
    environment: str | None
    part: str
    key: Key


def releases_of(runs: Iterable[RunSummary]) -> list[Release]:
    """Runs by their labels, in the order of releases."""
    groups: dict[tuple[bool, str], list[RunSummary]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (instant(run.created), run.run_id)):
        groups[(run.label is not None, run.run_id if run.label is None else run.label)].append(run)
    items: dict[str, tuple[bool, str]] = {}
    dated = []
    for (labelled, name), found in groups.items():
        item = Dated(name if labelled else None, f"{labelled}{name}", instant(found[0].created))
        items[item.name] = (labelled, name)
        dated.append(item)
    ordered = [items[item.name] for item in in_order(dated)]
    return [
        Release(name, labelled, tuple(groups[(labelled, name)]), at)
        for at, (labelled, name) in enumerate(ordered)
    ]


def trends_of(releases: Sequence[Release]) -> list[Trend]:
    """The trend of every cell, in the order in which the cells first appear."""
    lines: dict[tuple[Cell, str | None], list[list[Point]]] = defaultdict(list)
    for release in releases:
        for environment, point in _points(release):
            known = lines[(point.key.cell, environment)]
            for line in known:
                last = line[-1]
                if last.release is not release and not differences(last.key, point.key):
                    line.append(point)
                    break
            else:
                known.append([point])
    return [
        Trend(
            cells=tuple(cells),
            environment=environment,
            lines=tuple(Line(tuple(line)) for cell in cells for line in lines[(cell, environment)]),
        )
        for environment, cells in _families(lines)
    ]


def pairs_of(trends: Iterable[Trend]) -> dict[tuple[int, int], dict[str, Pair]]:
    """What has to be compared for these trends: places of two releases -> part -> pair."""
    found: dict[tuple[int, int], dict[str, Pair]] = defaultdict(dict)
    for trend in trends:
        for line in trend.lines:
            for base, new in zip(line.points, line.points[1:], strict=False):
                pair = pair_of(base, new, trend.environment)
                found[(base.release.at, new.release.at)].setdefault(pair.part, pair)
    return dict(sorted(found.items()))


def pair_of(base: Point, new: Point, environment: str | None) -> Pair:
    """What two neighbours on a line are compared in."""
    key = new.key
    part = addresses.part_name([key.machine, key.settings, environment])
    runs = (_alike(base.release, key), _alike(new.release, key))
    return Pair(base.release, new.release, runs, environment, part, key)


def _alike(release: Release, key: Key) -> tuple[str, ...]:
    """The runs of a release that were made under these conditions."""
    same = (key.machine, key.settings)
    return tuple(run.run_id for run in release.runs if (run.machine, run.settings) == same)


def _points(release: Release) -> Iterable[tuple[str | None, Point]]:
    """Each point of a release, with its environment where the release has several of it."""
    buckets: dict[Cell, list[tuple[Key, list[tuple[RunSummary, CellSummary]]]]] = defaultdict(list)
    for run in release.runs:
        for cell in run.cells:
            key = run.key(cell)
            for known, members in buckets[key.cell]:
                if not differences(known, key):
                    members.append((run, cell))
                    break
            else:
                buckets[key.cell].append((key, [(run, cell)]))
    for of_cell in buckets.values():
        for key, members in of_cell:
            by: dict[str | None, list[tuple[RunSummary, CellSummary]]] = defaultdict(list)
            for run, cell in members:
                by[cell.cell.environment].append((run, cell))
            for environment, found in by.items():
                yield (environment or THIS) if len(by) > 1 else None, _point(release, key, found)


def _point(release: Release, key: Key, members: Sequence[tuple[RunSummary, CellSummary]]) -> Point:
    times = [time for _, cell in members for time in cell.times]
    late = [cell.deadline_s for _, cell in members for _ in range(cell.late)]
    outcomes: dict[str, int] = defaultdict(int)
    for _, cell in members:
        for name, count in cell.outcomes.items():
            outcomes[name] += count
    return Point(
        release=release,
        runs=tuple(dict.fromkeys(run.run_id for run, _ in members)),
        key=key,
        trials=sum(cell.trials for _, cell in members),
        recovered=sum(cell.recovered for _, cell in members),
        judged=sum(cell.judged for _, cell in members),
        times=tuple(times),
        recovery=survival(times, late),
        outcomes=dict(outcomes),
    )


def _families(
    lines: dict[tuple[Cell, str | None], list[list[Point]]],
) -> list[tuple[str | None, list[Cell]]]:
    """Cells that are one trend: the same but for settings that no release has two of."""
    groups: dict[tuple[Any, str | None], list[Cell]] = defaultdict(list)
    for cell, environment in lines:
        groups[(same_cell(cell), environment)].append(cell)
    found: list[tuple[str | None, list[Cell]]] = []
    for (_, environment), cells in groups.items():
        places = [
            {point.release.at for line in lines[(cell, environment)] for point in line}
            for cell in cells
        ]
        if sum(map(len, places)) == len(set().union(*places)):
            found.append((environment, cells))
        else:
            found += [(environment, [cell]) for cell in cells]
    return found
