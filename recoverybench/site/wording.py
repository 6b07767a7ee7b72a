"""What a site says: its answer, points and changes in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recoverybench.cells import FACTORS
from recoverybench.compare.key import Key
from recoverybench.effects import ENOUGH
from recoverybench.labels import FACTOR_NAMES, NONE, factor_value, seconds
from recoverybench.site.catalogue import Catalogue, Change, Shown, Step
from recoverybench.site.comparisons import Compared
from recoverybench.site.releases import natural
from recoverybench.site.trends import Point, Release, Trend
from recoverybench.site.verdicts import BETTER, WORSE
from recoverybench.stats import Interval, Survival

_NAMED = 2
"""Cells that the answer names; of more it gives the number."""


def median_text(recovery: Survival | None) -> str:
    """The median recovery time: ``1.2 s``, ``> 60 s`` where it lies beyond the deadline."""
    if recovery is None:
        return NONE
    if recovery.median is not None:
        return seconds(recovery.median)
    return f"> {seconds(recovery.bound)}"


def interval_text(recovery: Survival | None) -> str:
    """Its interval: ``1.1 s to 1.4 s``; none where too few trials give one of 95 %."""
    found = shown_interval(recovery)
    return NONE if found is None else f"{_time(found.low)} to {_time(found.high)}"


def shown_interval(recovery: Survival | None) -> Interval | None:
    """The interval of a median; None: too few trials for one of 95 %."""
    if recovery is None or recovery.interval.confidence < ENOUGH:
        return None
    return recovery.interval


def _time(value: float) -> str:
    return "any" if value == float("inf") else seconds(value)


def point_text(point: Point) -> str:
    """A point on one line."""
    said = f"{point.release.name}: {median_text(point.recovery)}"
    if shown_interval(point.recovery) is not None:
        said += f" ({interval_text(point.recovery)})"
    return f"{said}, recovered {point.recovered} of {point.judged}"


def step_text(step: Step) -> str:
    """A change on one line, for its mark."""
    assert step.verdict is not None
    what = "; ".join(step.verdict.reasons)
    return (
        f"{step.verdict.verdict} from {step.base.release.name} to {step.new.release.name}: {what}"
    )


def cell_text(change: Change) -> str:
    """The cell that changed, and under which conditions where it was measured under several."""
    condition = conditions(change.shown.trend)[change.step.line]
    return change.shown.name + (f" ({condition})" if condition else "")


def factor_text(step: Step) -> str:
    """How many times as long: ``× 1.45``."""
    ratio = None if step.verdict is None else step.verdict.ratio
    return NONE if ratio is None else f"× {ratio:.2f}"


def conditions(trend: Trend) -> list[str]:
    """What tells the lines of a trend from one another, a phrase each; one line has none."""
    if len(trend.lines) == 1:
        return [""]
    each = []
    for line in trend.lines:
        key = line.points[-1].key
        files = None if key.workload is None else key.workload[:8]
        factors = {FACTOR_NAMES[f]: factor_value(f, getattr(key.cell, f)) for f in FACTORS}
        each.append({**_common(key), **factors, "the workload’s files": files})
    return [text or "measured beside the others" for text in _told_apart(each)]


def parts(compared: Sequence[Compared]) -> list[tuple[str, Compared]]:
    """Several comparisons of two releases, each with what it is of."""
    told = _told_apart([_common(one.pair.key) for one in compared])
    named = [
        (", ".join(filter(None, (one.pair.environment, text))) or "all other cells", one)
        for text, one in zip(told, compared, strict=True)
    ]
    return sorted(named, key=lambda pair: (natural(pair[0]), pair[1].page))


def _common(key: Key) -> dict[str, Any]:
    return {**dict(key.machine), **dict(key.settings)}


def _told_apart(each: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each of some properties by name, those in which they differ."""
    names = list(dict.fromkeys(name for one in each for name in one))
    differ = [n for n in names if len({str(one.get(n)) for one in each}) > 1]
    return [
        ", ".join(f"{n} {'unknown' if one.get(n) is None else one[n]}" for n in differ)
        for one in each
    ]


def answer(catalogue: Catalogue) -> str:
    """What a reader wants to know first: what became of the newest release."""
    if not catalogue.compared:
        said = latest(catalogue.releases[-1], catalogue.shown)
        return f"{said} There is nothing yet to compare it with."
    changes = catalogue.changes
    newest = max(one.pair.new.at for one in catalogue.compared)
    release = catalogue.releases[newest].name
    steps = [s for one in catalogue.shown for s in one.steps if s.new.release.at == newest]
    if not changes:
        return _state(release, steps)
    at = changes[0].step.new.release.at
    last = _became([change for change in changes if change.step.new.release.at == at])
    if at == newest:
        return f"In {release}, recovery got {last}.{_doubt(steps)}"
    return (
        f"{_state(release, steps)} The last change was in {catalogue.releases[at].name}: recovery "
        f"got {last}."
    )


def _state(release: str, steps: Sequence[Step]) -> str:
    """What became of a release in which nothing is known to have changed."""
    judged = [step.verdict.verdict for step in steps if step.verdict is not None]
    same = judged.count("same")
    if judged and same == len(judged):
        every = "of the one cell" if same == 1 else f"of each of {cells_text(same)}"
        return f"In {release}, the recovery time {every} that was compared is the same as before."
    said = f"No cell is known to have become better or worse in {release}.{_doubt(steps)}"
    return said + (f" {cells_text(same).capitalize()} {_are(same)} the same." if same else "")


def _doubt(steps: Sequence[Step]) -> str:
    """How many cells nothing is known of, as sentences that go on after another one."""
    judged = [step.verdict.verdict for step in steps if step.verdict is not None]
    said = ""
    if count := judged.count("inconclusive"):
        said += (
            f" {count} of {cells_text(len(judged))} {_are(count)} inconclusive: too few trials to "
            "show a change."
        )
    if count := sum(verdict.startswith("no ") for verdict in judged):
        said += f" {count} of {cells_text(len(judged))} {_have(count)} no times to compare."
    if count := len(steps) - len(judged):
        said += f" {cells_text(count).capitalize()} could not be compared."
    return said


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _became(changes: Sequence[Change]) -> str:
    worse = [c for c in changes if c.step.verdict is not None and c.step.verdict.verdict == WORSE]
    better = [c for c in changes if c not in worse]
    return ", and ".join(part for part in (_some(worse, WORSE), _some(better, BETTER)) if part)


def latest(release: Release, shown: Iterable[Shown]) -> str:
    """How long recovery took in a release, over these cells."""
    points = [p for one in shown for p in one.trend.points if p.release.at == release.at]
    if not points:
        return f"In {release.name} nothing is measured yet."
    found = [point.recovery for point in points if point.recovery is not None]
    if not found:
        return f"In {release.name} no trial recovered."
    found.sort(key=lambda recovery: recovery.median or recovery.bound or 0.0)
    low, high = median_text(found[0]), median_text(found[-1])
    if low == high:
        return f"In {release.name} recovery took {low}."
    return f"In {release.name} recovery took {low} to {high}, by the cell."


def _some(changes: Sequence[Change], word: str) -> str:
    if not changes:
        return ""
    if len(changes) > _NAMED:
        return f"{word} in {len(changes)} cells"
    return f"{word} in " + " and ".join(
        f"{cell_text(c)} ({'; '.join(c.step.verdict.reasons[:1]).removeprefix('recovery ')})"
        for c in changes
        if c.step.verdict is not None
    )


def basis(catalogue: Catalogue) -> str:
    """What all of it rests on."""
    runs = [run for release in catalogue.releases for run in release.runs]
    trials = sum(run.trials for run in runs)
    said = f"{_count(len(runs), 'run')}, {_count(trials, 'trial')}"
    said += f", {_count(len(catalogue.releases), 'release')}"
    said += f", {_count(len(catalogue.shown), 'cell')}"
    said += f"; {_count(len(catalogue.compared), 'comparison')} of neighbours"
    if catalogue.skipped:
        said += f"; {_count(len(catalogue.skipped), 'directory')} skipped"
    return said + "."


def cells_text(number: int) -> str:
    """``1 cell``, ``3 cells``."""
    return _count(number, "cell")


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"
