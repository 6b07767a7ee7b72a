"""Two sides -> a comparison: cells are matched, tested and judged. Pure but for scipy."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from recoverybench.busy import busy_words
from recoverybench.cells import Cell
from recoverybench.compare.key import Key, differences, key_of, same_cell
from recoverybench.compare.model import (
    CellComparison,
    Comparison,
    Distribution,
    Facts,
    NotCompared,
    OutcomeChange,
    Rate,
    Row,
)
from recoverybench.compare.sides import Side
from recoverybench.effects import (
    MOST_S,
    Effect,
    Sample,
    countable,
    detectable,
    effect,
    holm,
    modes,
    rate_test,
    verdict,
)
from recoverybench.labels import cell_label, seconds, varying_factors
from recoverybench.records import TrialRecord
from recoverybench.stats import CENSORED
from recoverybench.stats.summary import clock_bounds
from recoverybench.vocabulary import OUTCOMES, SHOWN_PHASES

ALPHA: Final = 0.05
MARGIN: Final = 0.10
CONFIDENCE: Final = 0.95

QUANTITIES: Final = ("recovery_s", "time_to_progress_s", *SHOWN_PHASES)
"""What is compared of every cell, in the order in which it is shown."""

NEGLIGIBLE: Final = 0.01
"""A phase whose median, over both sides together, is a smaller part of the recovery time is not
tested: whatever becomes of it, the recovery does not change. Both sides count alike, so that
which phases are tested says nothing about which side is slower.
"""

SILENT: Final = ("diverged", "silent_corruption", "restarted_from_scratch")
"""Outcomes in which training goes on and is no longer the same."""

_LEAST_BROKEN: Final = 3
"""Trials of a side from which "always" and "never" mean something: with 3 on either side a cell
that recovers every other time looks broken once in 64 comparisons, with 5 once in 1,024.
"""


@dataclass(frozen=True, slots=True)
class _Cell:
    """The trials of one cell on one side, with the keys of the runs that they are from."""

    cell: Cell
    keys: tuple[Key, ...]
    trials: tuple[TrialRecord, ...]
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Level:
    """What the verdicts of a table go by.

    Attributes:
        alpha, margin: as of `compare`. tests: how many the table has.
    """

    alpha: float
    margin: float
    tests: int


def compare(
    base: Side,
    new: Side,
    *,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Compare every cell of two sides.

    Args:
        base, new: the sides.
        alpha: probability of any false alarm in the whole table, where nothing has changed.
        margin: a ratio of medians within 1/(1 + margin) to 1 + margin counts as the same.
        confidence: of the intervals.
    """
    names = base.called, new.called
    if names[0] == names[1]:
        names = base.name, new.name
    sides = _cells_of(base), _cells_of(new)
    pairs, not_compared = _match(*sides)
    varying = varying_factors([*sides[0], *sides[1]])
    refused = [*_refused(base, "base"), *_refused(new, "new")]
    drafts = [_draft(a, b, confidence) for a, b in pairs]
    tested = [p for draft in drafts for p in draft.ps()]
    adjusted = iter(holm(tested))
    level = Level(alpha, margin, len(tested))
    cells = [d.judged(adjusted, cell_label(d.base.cell, varying), level) for d in drafts]
    return Comparison(
        base=_facts(base, names[0]),
        new=_facts(new, names[1]),
        versions=_versions(base, new),
        changes=tuple(c for cell in cells for c in _changes(cell)),
        cells=tuple(cells),
        not_compared=tuple(
            NotCompared(cell_label(cell, varying), side, reason)
            for cell, side, reason in (*not_compared, *refused)
        ),
        tests=len(tested),
        alpha=alpha,
        margin=margin,
        confidence=confidence,
    )


def _cells_of(side: Side) -> dict[Cell, _Cell]:
    """The cells of a side, those of several runs put together; without their environment."""
    trials: dict[Cell, list[TrialRecord]] = defaultdict(list)
    keys: dict[Cell, dict[Key, None]] = defaultdict(dict)
    deadlines: dict[Cell, float] = {}
    for info, trial in side.trials():
        key = key_of(info, trial.cell)
        trials[key.cell].append(trial)
        keys[key.cell][key] = None
        deadlines[key.cell] = min(max(info.suite.deadline_s, 0.0), MOST_S)
    return {
        cell: _Cell(cell, tuple(keys[cell]), tuple(found), deadlines[cell])
        for cell, found in trials.items()
    }


def _match(
    base: Mapping[Cell, _Cell], new: Mapping[Cell, _Cell]
) -> tuple[list[tuple[_Cell, _Cell]], list[tuple[Cell, str, str]]]:
    """Pairs that can be compared; and cell, side and reason of every other cell."""
    pairs: list[tuple[_Cell, _Cell]] = []
    rest: list[tuple[Cell, str, str]] = []
    taken: set[Cell] = set()
    alike: dict[Any, list[Cell]] = defaultdict(list)
    for cell in new:
        if cell not in base:
            alike[same_cell(cell)].append(cell)
    for cell, one in base.items():
        other = new.get(cell)
        if other is None and (near := alike.get(same_cell(cell))):
            other = new[near.pop(0)]
        if other is None:
            rest.append((cell, "base", "only in the base"))
            continue
        taken.add(other.cell)
        reason = _mixed(one, "base") or _mixed(other, "new") or _apart(one, other)
        if reason := reason or _says_nothing(one, "base") or _says_nothing(other, "new"):
            rest.append((cell, "both", reason))
        else:
            pairs.append((one, other))
    rest += [(cell, "new", "only in the new") for cell in new if cell not in taken]
    return pairs, rest


def _mixed(one: _Cell, side: str) -> str | None:
    """Runs of one side that are not comparable with one another."""
    for other in one.keys[1:]:
        if found := differences(one.keys[0], other):
            return f"runs of the {side} differ: {'; '.join(found)}"
    environments = {trial.cell.environment for trial in one.trials}
    if len(environments) > 1:
        names = ", ".join(sorted(e or "this" for e in environments))
        return f"the {side} holds several environments ({names}): name one, as in RUN@ENVIRONMENT"
    return None


def _says_nothing(one: _Cell, side: str) -> str | None:
    """A side whose trials are all invalid or had nothing to recover from."""
    if _recovered(one)[1]:
        return None
    found = ", ".join(f"{count} {outcome}" for outcome, count in _outcomes(one).items())
    return f"no trial of the {side} says anything about a recovery: {found}"


def _apart(one: _Cell, other: _Cell) -> str | None:
    found = differences(one.keys[0], other.keys[0])
    return "; ".join(found) if found else None


def _refused(side: Side, name: str) -> Iterable[tuple[Cell, str, str]]:
    """Cells that could not be measured on a side."""
    for cell, reason in side.unsupported():
        bare = dataclasses.replace(cell, environment=None)
        yield bare, name, f"could not be measured: {reason}"


@dataclass(slots=True)
class _Draft:
    """A cell with its tests made, not yet corrected for one another."""

    base: _Cell
    new: _Cell
    rows: list[tuple[str, Effect | None, str | None]]
    rate: tuple[tuple[int, int], tuple[int, int], float | None]

    def ps(self) -> list[float]:
        """Every p of the cell, in an order that `judged` keeps."""
        found = [e.p for _, e, state in self.rows if e is not None and state is None]
        return [p for p in (*found, self.rate[2]) if p is not None]

    def judged(self, corrected: Iterator[float], label: str, level: Level) -> CellComparison:
        """The cell with its verdicts; takes as many of the corrected ps as `ps` gave."""
        rows = []
        for quantity, found, state in self.rows:
            bounds = _bound(self.base, quantity), _bound(self.new, quantity)
            if found is None or state is not None:
                rows.append(Row(quantity, found, None, state or "inconclusive", None, bounds))
                continue
            p = None if found.p is None else next(corrected)
            said = verdict(found, p, level.alpha, level.margin)
            shows = detectable(found, level.alpha / level.tests)
            rows.append(Row(quantity, found, p, said, shows, bounds))
        before, after, p_rate = self.rate
        p = None if p_rate is None else next(corrected)
        return CellComparison(
            label=label,
            cell=self.base.cell,
            trials=(len(self.base.trials), len(self.new.trials)),
            outcomes=(_outcomes(self.base), _outcomes(self.new)),
            rate=Rate(before, after, p_rate, p, _rate_verdict(before, after, p, level.alpha)),
            samples=(_distribution(self.base), _distribution(self.new)),
            rows=tuple(rows),
            notes=tuple(_notes(self)),
        )


def _draft(base: _Cell, new: _Cell, confidence: float) -> _Draft:
    rows: list[tuple[str, Effect | None, str | None]] = []
    whole = [t.recovery_s for c in (base, new) for t in c.trials if t.recovery_s is not None]
    whole = [time for time in whole if countable(time)]
    scale = median(whole) if whole else 0.0
    for quantity in QUANTITIES:
        a, b = _sample(base, quantity), _sample(new, quantity)
        values = (*a.times, *b.times)
        if not values and quantity != "recovery_s":
            continue
        if not (a.times or a.censored):
            rows.append((quantity, None, "no base"))
        elif not (b.times or b.censored):
            rows.append((quantity, None, "no new"))
        else:
            found = effect(a, b, confidence=confidence)
            small = quantity in SHOWN_PHASES and median(values) < NEGLIGIBLE * scale
            small = small or _unknown(found, _bound(base, quantity), _bound(new, quantity))
            rows.append((quantity, found, "negligible" if small else None))
    before, after = _recovered(base), _recovered(new)
    return _Draft(base, new, rows, (before, after, rate_test(before, after)))


def _bound(cell: _Cell, quantity: str) -> float:
    """How far clocks of several hosts may make a quantity wrong, seconds."""
    back = (trial for trial in cell.trials if trial.outcome == "recovered")
    return clock_bounds(back).get(quantity, 0.0)


def _unknown(found: Effect, base_bound_s: float, new_bound_s: float) -> bool:
    """Whether both medians are below what clocks may be wrong by: nothing is known of them."""
    base, new = found.base_median, found.new_median
    if base is None or new is None:
        return False
    return base < base_bound_s and new < new_bound_s


def _sample(cell: _Cell, quantity: str) -> Sample:
    """The values of a quantity; trials that were not back at the deadline are censored there."""
    back = [t for t in cell.trials if t.outcome == "recovered"]
    known = (_time(trial, quantity) for trial in back)
    times = tuple(time for time in known if time is not None and countable(time))
    if quantity in SHOWN_PHASES:
        return Sample(times)
    late = sum(t.outcome in CENSORED for t in cell.trials)
    return Sample(times, (cell.deadline_s,) * late)


def _time(trial: TrialRecord, quantity: str) -> float | None:
    """A quantity of a trial, whatever it is; None: it has none."""
    found: float | None = (
        trial.phases.get(quantity) if quantity in SHOWN_PHASES else getattr(trial, quantity)
    )
    return found


def _left_out(cell: _Cell) -> int:
    """Trials of which a time cannot be counted with."""
    return sum(
        any((time := _time(t, q)) is not None and not countable(time) for q in QUANTITIES)
        for t in cell.trials
        if t.outcome == "recovered"
    )


def _distribution(cell: _Cell) -> Distribution:
    found = _sample(cell, QUANTITIES[0])
    return Distribution(found.times, len(found.censored), cell.deadline_s)


def _recovered(cell: _Cell) -> tuple[int, int]:
    judged = [t for t in cell.trials if t.outcome not in ("invalid", "no_effect")]
    return sum(t.outcome == "recovered" for t in judged), len(judged)


def _outcomes(cell: _Cell) -> dict[str, int]:
    counts = Counter(t.outcome for t in cell.trials)
    return {name: counts[name] for name in OUTCOMES if counts[name]}


def _rate_verdict(
    base: tuple[int, int], new: tuple[int, int], p: float | None, alpha: float
) -> str:
    if p is None:
        return "inconclusive"
    before, after = base[0] / base[1], new[0] / new[1]
    if p < alpha and before != after:
        return "worse" if after < before else "better"
    # Two rates of few trials are never known to be the same; equal ones are no reason to look.
    return "same" if before == after else "inconclusive"


def _notes(draft: _Draft) -> Iterable[str]:
    for name, cell in (("base", draft.base), ("new", draft.new)):
        if count := _left_out(cell):
            trials = "1 trial" if count == 1 else f"{count} trials"
            yield (
                f"{trials} of the {name} with times below 0 s, or not from 1 ns to 1e9 s: these "
                "times are left out"
            )
        if found := modes(_sample(cell, QUANTITIES[0]).times):
            around = " and ".join(map(seconds, found))
            yield (
                f"recovery times of the {name} come in two groups, around {around}: one median "
                "says little"
            )
    caches = [
        {state for t in side.trials for state in t.compile_cache.values()}
        for side in (draft.base, draft.new)
    ]
    if caches[0] and caches[1] and caches[0] != caches[1]:
        words = [", ".join(sorted(found)) for found in caches]
        yield f"the compile cache differs: {words[0]} in the base, {words[1]} in the new"


def _changes(cell: CellComparison) -> Iterable[OutcomeChange]:
    """Outcomes that are new, and silent ones that are more frequent; the worst first."""
    before, after = cell.outcomes
    base, new = cell.rate.base, cell.rate.new
    broken = min(base[1], new[1]) >= _LEAST_BROKEN and base[0] == base[1] and new[0] == 0
    order = (*SILENT, *(name for name in OUTCOMES if name not in SILENT))
    for outcome in order:
        count, known = after.get(outcome, 0), before.get(outcome, 0)
        if not count or outcome in ("recovered", "no_effect"):
            continue
        # Of silent failures a larger share is as bad as the first one; of others the test of the
        # rate says whether there are more.
        more = count * cell.trials[0] > known * cell.trials[1]
        if known and not (more and outcome in SILENT):
            continue
        kind = "divergence" if outcome in SILENT else "broken" if broken else "lost"
        yield OutcomeChange(
            cell.label, outcome, kind, (known, cell.trials[0]), (count, cell.trials[1])
        )


def _facts(side: Side, name: str) -> Facts:
    trials = [trial for _, trial in side.trials()]
    return Facts(
        name=name,
        runs=tuple(run.info.run_id for run in side.runs),
        trials=len(trials),
        created=tuple(run.info.created for run in side.runs),
        load=median(t.load[0] for t in trials) if trials else None,
        skipped=side.skipped,
        busy=tuple((run.info.run_id, said) for run in side.runs if (said := busy_words(run))),
    )


def _versions(base: Side, new: Side) -> dict[str, tuple[str, str]]:
    """Packages whose versions differ."""
    sides = base.versions(), new.versions()
    names: Sequence[str] = list(dict.fromkeys((*sides[0], *sides[1])))
    pairs = {n: tuple(", ".join(side.get(n, ("unknown",))) for side in sides) for n in names}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b}
