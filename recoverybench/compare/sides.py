"""The two sides of a comparison: a run, a directory of runs or a release's label, as it is named.

``NAME@ENVIRONMENT`` takes the trials of one environment of its runs, so that two releases which
were measured in one campaign can be compared with one another.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from recoverybench.cells import Cell
from recoverybench.compare.folder import found_in, is_run
from recoverybench.compare.key import scalar
from recoverybench.errors import UsageError, bad_value
from recoverybench.plan.environments import THIS
from recoverybench.records import TrialRecord
from recoverybench.results import store as results
from recoverybench.results.run_info import RunInfo
from recoverybench.results.store import Run


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: as it was named.
        runs: what it consists of, at least one.
        environment: the one whose trials count, as a `Cell` holds it; `everything` where all do.
        skipped: what lies beside the runs and could not be used: path and reason.
    """

    name: str
    runs: tuple[Run, ...]
    environment: str | None
    everything: bool
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def called(self) -> str:
        """Its name in what is forwarded: of a path, its last part, and the environment."""
        path, at, environment = ("", "", "") if self.everything else self.name.rpartition("@")
        return (Path(path or self.name).name or self.name) + at + environment

    def trials(self) -> Iterator[tuple[RunInfo, TrialRecord]]:
        """Every trial that counts, with what its run says of itself."""
        for run in self.runs:
            for trial in run.trials:
                if self.everything or trial.cell.environment == self.environment:
                    yield run.info, trial

    def same_trials(self, other: Side) -> bool:
        """Whether both are the same trials, so that there is nothing to compare."""
        places = [{run.path.resolve() for run in side.runs} for side in (self, other)]
        which = [(side.everything, side.environment) for side in (self, other)]
        return places[0] == places[1] and which[0] == which[1]

    def unsupported(self) -> Iterator[tuple[Cell, str]]:
        """Cells that could not be measured, with the reason."""
        for run in self.runs:
            for cell, reason in run.info.suite.unsupported:
                if self.everything or cell.environment == self.environment:
                    yield cell, reason

    def versions(self) -> dict[str, tuple[str, ...]]:
        """Package -> its versions in the trials that count, most frequent first."""
        found: dict[str, Counter[str]] = {}
        for info, trial in self.trials():
            for name, version in versions_of(info, trial.cell).items():
                found.setdefault(name, Counter())[version or "not installed"] += 1
        return {name: tuple(v for v, _ in c.most_common()) for name, c in found.items()}


def versions_of(info: RunInfo, cell: Cell) -> dict[str, str | None]:
    """Versions that a cell of a run was measured with; ``python`` is among them."""
    if cell.environment is None:
        return dict(info.environment)
    kept = info.environments.get(cell.environment, {})
    packages = kept.get("packages")
    named = packages if isinstance(packages, dict) else {}
    found = {
        "recoverybench": info.environment.get("recoverybench"),
        "python": kept.get("python"),
        **{name: named.get(name) for name in info.environment if name in named},
    }
    return {name: None if (v := scalar(value)) is None else str(v) for name, value in found.items()}


def read_side(name: str, where: str, folder: Path = Path("results")) -> Side:
    """The side that is named.

    Args:
        name: a run's directory or its id below `folder`; a directory that holds runs; or a label
            that runs below `folder` carry. With ``@ENVIRONMENT`` after it, trials of that one.
        where: the argument, for messages.
        folder: where runs are kept.

    Raises:
        UsageError: nothing of the kind is there, or it has no trial of that environment.
    """
    found = _read(name, folder)
    if found is not None:
        return Side(name, found[0], None, True, found[1])
    base, at, environment = name.rpartition("@")
    found = _read(base, folder) if at else None
    if found is None:
        labels = sorted(_labels(folder))
        known = f" ({', '.join(labels)})" if labels else ""
        allowed = f"a run, a directory with runs in it, or the label of runs in {folder}/{known}"
        raise bad_value(where, name, allowed)
    wanted = None if environment == THIS else environment
    side = Side(name, found[0], wanted, False, found[1])
    cells = [cell for run in side.runs for cell in run.info.suite.cells]
    if not any(cell.environment == wanted for cell in cells):
        known = ", ".join(sorted({c.environment or THIS for c in cells}))
        raise bad_value(where, name, f"an environment of these runs: {known}")
    return side


def _read(name: str, folder: Path) -> tuple[tuple[Run, ...], tuple[tuple[str, str], ...]] | None:
    """The runs of a side and what was left out of it; None: there is nothing of that name."""
    if not name:
        return None
    path = Path(name)
    below = folder / name
    if not os.path.exists(path) and os.path.isdir(below) and ".." not in path.parts:
        path = below
    if is_run(path):
        return (results.load(path),), ()
    if os.path.isdir(path):
        runs, skipped = _all_of(path)
        if not runs:
            raise UsageError(f"{name}: no run is in it{_first(skipped)}")
        return runs, skipped
    if not os.path.isdir(folder):
        return None
    runs, skipped = _all_of(folder)
    labelled = tuple(run for run in runs if run.info.label == name)
    return (labelled, skipped) if labelled else None


def _all_of(folder: Path) -> tuple[tuple[Run, ...], tuple[tuple[str, str], ...]]:
    runs: list[Run] = []
    paths, others = found_in(folder)
    skipped = [(str(folder / name), reason) for name, reason in others]
    for path in paths:
        try:
            run = results.load(path)
        except UsageError as error:
            skipped.append((str(path), str(error)))
            continue
        twin = next((other for other in runs if _same(run, other)), None)
        if twin is None:
            runs.append(run)
        else:
            skipped.append((str(path), f"a copy of the run in {twin.path}"))
    return tuple(runs), tuple(sorted(skipped))


def _same(run: Run, other: Run) -> bool:
    """Whether one is a copy of the other: each of its trials would count twice."""
    begun = [(each.info.run_id, each.info.created, each.trials[:1]) for each in (run, other)]
    return begun[0] == begun[1]


def _labels(folder: Path) -> set[str]:
    if not os.path.isdir(folder):
        return set()
    return {run.info.label for run in _all_of(folder)[0] if run.info.label}


def _first(skipped: Sequence[tuple[str, str]]) -> str:
    return f" ({skipped[0][1]})" if skipped else ""
