"""What a site keeps of a run: its cells with the times of their trials, and no trial. Pure.

A site of hundreds of runs is made from these, so that the trials of one run are in memory at a
time, and those of a run that is on the site already are not read at all.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recoverybench.cells import Cell
from recoverybench.compare.key import Key, key_of
from recoverybench.effects import MOST_S, countable
from recoverybench.errors import UsageError
from recoverybench.records import TrialRecord
from recoverybench.results.run_info import RunInfo
from recoverybench.results.store import Run
from recoverybench.stats.summary import CENSORED, UNJUDGED
from recoverybench.vocabulary import OUTCOMES


@dataclass(frozen=True, slots=True)
class CellSummary:
    """The trials of one cell of a run.

    Attributes:
        cell: with its environment. workload: fingerprint of its files, or None.
        trials: how many. outcomes: outcome -> trials, those that occurred.
        times: recovery times of those that recovered, seconds, as far as they can be counted with.
        deadline_s: how long a trial was waited for.
    """

    cell: Cell
    workload: str | None
    trials: int
    outcomes: dict[str, int]
    times: tuple[float, ...]
    deadline_s: float

    @property
    def late(self) -> int:
        """Trials that were not back at the deadline."""
        return sum(self.outcomes.get(name, 0) for name in CENSORED)

    @property
    def recovered(self) -> int:
        """Trials that recovered."""
        return self.outcomes.get("recovered", 0)

    @property
    def judged(self) -> int:
        """Trials that say something about recovery."""
        return self.trials - sum(self.outcomes.get(name, 0) for name in UNJUDGED)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run.

    Attributes:
        run_id, label, created, status, launcher: as in run.json. suite: its name.
        wall_s: seconds spent on it.
        machine, settings: of every cell's `Key`. versions: package -> version.
        dropped: lines that do not count. unsupported: cells that could not be measured.
        cells: those of which there are trials, in the order in which they first appear.
    """

    run_id: str
    label: str | None
    created: str
    status: str
    launcher: str
    suite: str
    wall_s: float
    machine: tuple[tuple[str, Any], ...]
    settings: tuple[tuple[str, Any], ...]
    versions: dict[str, str | None]
    dropped: int
    unsupported: int
    cells: tuple[CellSummary, ...]

    @property
    def trials(self) -> int:
        """How many trials it has."""
        return sum(cell.trials for cell in self.cells)

    @property
    def recovered(self) -> int:
        """How many of them recovered."""
        return sum(cell.recovered for cell in self.cells)

    def key(self, cell: CellSummary) -> Key:
        """What has to agree with another cell for the two to be compared."""
        bare = dataclasses.replace(cell.cell, environment=None)
        return Key(self.machine, self.settings, cell.workload, bare)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        cells = [
            {
                "cell": cell.cell.as_dict(),
                "workload_sha256": cell.workload,
                "trials": cell.trials,
                "outcomes": cell.outcomes,
                "deadline_s": cell.deadline_s,
                "recovery_s": list(cell.times),
            }
            for cell in self.cells
        ]
        return {
            **plain,
            "machine": dict(self.machine),
            "settings": dict(self.settings),
            "cells": cells,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunSummary:
        """The inverse of `as_dict`. KeyError, TypeError, ValueError: it is nothing of the kind."""
        cells = tuple(
            CellSummary(
                cell=Cell.from_dict(one["cell"]),
                workload=one["workload_sha256"],
                trials=one["trials"],
                outcomes=dict(one["outcomes"]),
                times=tuple(float(value) for value in one["recovery_s"]),
                deadline_s=one["deadline_s"],
            )
            for one in data["cells"]
        )
        pairs = {name: tuple(data[name].items()) for name in ("machine", "settings")}
        return cls(**{**data, **pairs, "versions": dict(data["versions"]), "cells": cells})


def summarise(run: Run) -> RunSummary:
    """What a site keeps of a run.

    Raises:
        UsageError: there is no cell in it.
    """
    info = run.info
    trials: dict[Cell, list[TrialRecord]] = defaultdict(list)
    for trial in run.trials:
        trials[trial.cell].append(trial)
    cells = [*trials, *info.suite.cells]
    if not cells:
        raise UsageError(f"{run.path}: its suite has no cell")
    common = key_of(info, cells[0])
    return RunSummary(
        run_id=info.run_id,
        label=info.label or None,
        created=info.created,
        status=info.status,
        launcher=info.launcher,
        suite=info.suite.name,
        wall_s=info.wall_s,
        machine=common.machine,
        settings=common.settings,
        versions=dict(info.environment),
        dropped=run.dropped,
        unsupported=len(info.suite.unsupported),
        cells=tuple(_cell(info, cell, found) for cell, found in trials.items()),
    )


def _cell(info: RunInfo, cell: Cell, trials: list[TrialRecord]) -> CellSummary:
    counts = Counter(trial.outcome for trial in trials)
    back = (trial.recovery_s for trial in trials if trial.outcome == "recovered")
    return CellSummary(
        cell=cell,
        workload=info.workloads.get(cell.workload),
        trials=len(trials),
        outcomes={name: counts[name] for name in OUTCOMES if counts[name]},
        times=tuple(time for time in back if time is not None and countable(time)),
        deadline_s=min(max(info.suite.deadline_s, 0.0), MOST_S),
    )
