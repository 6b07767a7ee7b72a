"""Reading the profiles of a run, by whomever it was made, and what profiling cost.

`profiles_of` is what a report takes: plain data, a `CellProfile` for each profiled trial.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recoverybench.cells import Cell
from recoverybench.errors import UsageError
from recoverybench.profiles.model import KINDS, PARTS, Summary, WorkerProfile
from recoverybench.received import is_file_name
from recoverybench.records import TrialRecord
from recoverybench.results.reading import Run, read_object
from recoverybench.results.shapes import LONGEST_S, ShapeError, check_shape

SUMMARY: Final = "summary.json"
DIRECTORY: Final = "profile"

MOST_WORKERS: Final = 4096
"""Profiles of a trial that are taken from a summary."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What profiling cost in one phase: the profiled trial against those without, of its cell.

    Attributes:
        phase: a name from `vocabulary.PHASES`. profiled_s: in the profiled trial.
        median_s: of the others. trials: how many these are.
    """

    phase: str
    profiled_s: float
    median_s: float
    trials: int

    @property
    def extra_s(self) -> float:
        """Seconds that the profiled trial took longer; negative: it was faster."""
        return self.profiled_s - self.median_s

    @property
    def ratio(self) -> float | None:
        """How many times as long it took; None: the others took no time at all."""
        return self.profiled_s / self.median_s if self.median_s > 0 else None


@dataclass(frozen=True, slots=True)
class CellProfile:
    """The profiled trial of a cell.

    Attributes:
        cell, trial: what was profiled, and its id. record: of the trial.
        directory: of its profiles, below the run's.
        workers: their profiles, by worker, attempt and generation.
        problem: why there is nothing to say; None: there is.
        overhead: for the phases that were profiled, where the cell has other trials.
    """

    cell: Cell
    trial: str
    record: TrialRecord
    directory: str
    workers: tuple[WorkerProfile, ...]
    problem: str | None
    overhead: tuple[Overhead, ...]


def profiles_of(run: Run) -> list[CellProfile]:
    """Every profiled trial of a run, in the order in which they ended."""
    return [_of(run, record) for record in run.profiled]


def directory_of(run: Path, trial: str) -> Path:
    """Where the profiles of a trial are."""
    return run / DIRECTORY / trial


def load_summary(run: Path, trial: str) -> Summary:
    """The summary of a trial's profiles.

    Args:
        run: the run's directory. trial: id, of a record that was read.

    Raises:
        UsageError: it is damaged, of a later version or too large; names file and field.
        FileNotFoundError: there is none.
        OSError: it cannot be read.
    """
    path = directory_of(run, trial) / SUMMARY
    data = dict(read_object(path, "profile", within=run))
    del data["schema"]
    try:
        check_shape(data, Summary)
        summary = Summary.from_dict(data)
        _check(summary, trial)
    except ShapeError as error:
        raise UsageError(f"{path}: not a summary of profiles: {error}") from None
    return summary


def _check(summary: Summary, trial: str) -> None:
    """What the types do not say. Raises `ShapeError`."""
    if summary.trial != trial:
        raise ShapeError(f" = {summary.trial[:40]!r}: expected {trial!r}", ".trial")
    if len(summary.profiles) > MOST_WORKERS:
        raise ShapeError(f" has more than {MOST_WORKERS} entries", ".profiles")
    for number, profile in enumerate(summary.profiles):
        for place, problem in _problems(profile):
            raise ShapeError(problem, f".profiles[{number}]{place}")


def _problems(profile: WorkerProfile) -> Iterator[tuple[str, str]]:
    if profile.file is not None:
        names = profile.file.split("/")
        if names[0] != DIRECTORY or not all(is_file_name(name) for name in names):
            yield ".file", f" = {profile.file[:80]!r}: expected a file below {DIRECTORY}/"
    for number, part in enumerate(profile.parts):
        if part.name not in PARTS:
            yield f".parts[{number}].name", f" = {part.name[:40]!r}: expected one of {PARTS}"
        if foreign := sorted(part.split.keys() - set(KINDS)):
            yield f".parts[{number}].split", f" has {foreign[0][:40]!r}: expected {KINDS}"
        for operation in part.operations:
            if operation.kind not in KINDS:
                found = f" has the kind {operation.kind[:40]!r}: expected one of {KINDS}"
                yield f".parts[{number}].operations", found
        seconds = [part.seconds, *part.split.values(), *part.spans.values()]
        seconds += [operation.seconds for operation in part.operations]
        if min(seconds) < -1e-6:
            yield f".parts[{number}]", " has a negative time"
        if max(seconds) > LONGEST_S:
            yield f".parts[{number}]", f" has a time of more than {LONGEST_S:.0e} s"


def _of(run: Run, record: TrialRecord) -> CellProfile:
    workers: tuple[WorkerProfile, ...] = ()
    problem = None
    try:
        workers = load_summary(run.path, record.trial).profiles
        if not workers:
            problem = "nobody came as far as a restore"
    except FileNotFoundError:
        problem = "its profiles are not with the run"
    except OSError as error:
        problem = f"its profiles cannot be read: {error.strerror or error}"
    except UsageError as error:
        problem = str(error)
    directory = f"{DIRECTORY}/{record.trial}"
    overhead = tuple(_overhead(run, record)) if record.outcome == "recovered" else ()
    return CellProfile(record.cell, record.trial, record, directory, workers, problem, overhead)


def _overhead(run: Run, record: TrialRecord) -> Iterator[Overhead]:
    others = [t for t in run.trials if t.cell == record.cell and t.outcome == "recovered"]
    for phase in PARTS:
        times = [t.phases[phase] for t in others if phase in t.phases]
        if times and phase in record.phases:
            yield Overhead(phase, record.phases[phase], statistics.median(times), len(times))
