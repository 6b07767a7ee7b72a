"""Reading a run, of any version, finished or cut off anywhere, by whomever it was made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recoverybench import garbage
from recoverybench.errors import UsageError, bad_value, shorten
from recoverybench.received import is_file_name, is_trial_id, read_file, read_lines
from recoverybench.records import TrialRecord
from recoverybench.results.decoding import quick, read_json
from recoverybench.results.migrations import migrate
from recoverybench.results.run_info import STATUSES, RunInfo
from recoverybench.results.shapes import ShapeError, check_shape
from recoverybench.vocabulary import OUTCOMES

if TYPE_CHECKING:
    import pandas as pd

RUN, TRIALS, DROPPED = "run.json", "trials.jsonl", "trials.jsonl.dropped"


@dataclass(frozen=True, slots=True)
class Soak:
    """What a record says of a job with many injections, the same in all but `index`.

    Attributes:
        index: which injection this is, from 0. injections: how many there were.
        goodput: the part of the time in which a job without faults would have done as many steps;
            null: not known.
        wall_s: first completed step to the end of training. steps: distinct steps completed.
    """

    index: int
    injections: int
    goodput: float | None
    wall_s: float | None
    steps: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """A run as read.

    Attributes:
        info: `run.json`. trials: finished trials in the order in which they ended: those that
            statistics are made of.
        dropped: lines that do not count, those of earlier sessions included: half-written ones,
            and records of soaks that were cut off and measured again.
        path: its directory.
        profiled: finished trials that ran under a profiler, which are in no statistic.
    """

    info: RunInfo
    trials: tuple[TrialRecord, ...]
    dropped: int
    path: Path
    profiled: tuple[TrialRecord, ...] = ()

    @property
    def jobs(self) -> int:
        """Jobs that came to their end; one with many injections has a trial for each."""
        return len({t.trial.partition(".")[0] if t.soak else t.trial for t in self.trials})

    def frame(self) -> pd.DataFrame:
        """A row a trial, whatever its factors or outcome; docs/schema.md has the columns."""
        from recoverybench.results.columns import table

        return table([self])


def load(path: str | Path) -> Run:
    """Reads a run, finished or cut off anywhere, of this version or any earlier one.

    Nothing in it is executed, and no file outside its directory is read; see `received` for the
    sizes that are read.

    Raises:
        UsageError: it is no run, a newer release wrote it, or a file in it is damaged; names
            the file and the line.
    """
    path = Path(path)
    info = _read_info(path)
    with garbage.kept():
        every, cut = read_trials(path)
    trials = tuple(record for record in every if not record.profiled)
    profiled = tuple(record for record in every if record.profiled)
    return Run(info, trials, _count_aside(path) + cut, path, profiled)


def read_object(path: Path, kind: str, *, within: Path) -> dict[str, Any]:
    """An object from a JSON file of a run, brought to the present version.

    Args:
        path: the file. kind: what it holds, see `migrations.KINDS`. within: the run's directory.

    Raises:
        UsageError: it is no JSON object, or of a version that is not known.
        OSError: it cannot be read, or is not there.
    """
    try:
        data = read_json(read_file(path, within=within))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {shorten(str(error))}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: it = {shorten(data)}: expected an object")
    return migrate(kind, data, str(path))


def read_record(line: bytes, where: str) -> TrialRecord:
    """A trial record from its line, without the newline; `where` is its file and number.

    Raises:
        UsageError: the line is no record.
    """
    record = quick().record(line, where)
    if record is None:
        record = _slow(line, where)
    if record.outcome not in OUTCOMES:
        raise bad_value(f"{where}: outcome", record.outcome, "one of " + ", ".join(OUTCOMES))
    if not is_trial_id(record.trial):
        allowed = "letters, digits, '_' and '-', such as 0007, or 0007.003 in a soak"
        raise bad_value(f"{where}: trial", record.trial, allowed)
    try:
        if record.harness:
            check_shape({"harness": record.harness}, _Harness)
        if record.soak is not None:
            check_shape({"soak": record.soak}, _Soak)
    except ShapeError as error:
        raise UsageError(f"{where}: not a trial record: {error}") from None
    return record


@dataclass(frozen=True, slots=True)
class _Harness:
    harness: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Soak:
    soak: Soak


def _slow(line: bytes, where: str) -> TrialRecord:
    """As `read_record`, of any version, and with words for what is wrong."""
    try:
        data = read_json(line)
    except (ValueError, RecursionError):
        text = shorten(line[:200].decode("utf-8", errors="replace"))
        raise UsageError(f"{where}: {text}: expected a trial record as one line of JSON") from None
    try:
        if isinstance(data, dict):
            data = migrate("trial", data, where)
            del data["schema"]
        check_shape(data, TrialRecord)
    except ShapeError as error:
        raise UsageError(f"{where}: not a trial record: {error}") from None
    return TrialRecord.from_dict(data)


def _read_info(path: Path) -> RunInfo:
    shown = str(path / RUN)
    try:
        data = read_object(path / RUN, "run", within=path)
        info = RunInfo.from_dict(data)
    except (FileNotFoundError, NotADirectoryError):
        raise bad_value("RUN", str(path), f"a run's directory, with {RUN} in it") from None
    except (OSError, RuntimeError) as error:
        raise _unreadable(shown, error) from None
    except (ShapeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{shown}: {error}") from None
    if info.status not in STATUSES:
        raise bad_value(f"{shown}: status", info.status, "one of " + ", ".join(STATUSES))
    if not is_file_name(info.run_id):
        raise bad_value(f"{shown}: run_id", info.run_id, "the name of a directory")
    return info


def read_trials(path: Path) -> tuple[tuple[TrialRecord, ...], int]:
    """All finished trials of the run in that directory, profiled ones included, and the lines that
    were cut off, 0 or 1.

    Raises:
        UsageError: as `load`.
    """
    trials: dict[str, TrialRecord] = {}
    cut, shown = 0, str(path / TRIALS)
    for number, line in enumerate(_lines(path / TRIALS, path), start=1):
        if not line.endswith(b"\n"):
            cut = 1
            break
        where = f"{shown}:{number}"
        record = read_record(line[:-1], where)
        if record.trial in trials:
            raise bad_value(f"{where}: trial", record.trial, "each trial once")
        trials[record.trial] = record
    return tuple(trials.values()), cut


def _lines(path: Path, within: Path) -> Iterator[bytes]:
    try:
        yield from read_lines(path, within=within)
    except (OSError, RuntimeError) as error:
        raise _unreadable(str(path), error) from None


def _unreadable(shown: str, error: Exception) -> UsageError:
    """A link that leads to itself is a `RuntimeError` in some versions of Python."""
    return UsageError(f"{shown}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _count_aside(path: Path) -> int:
    try:
        return sum(line.endswith(b"\n") for line in read_lines(path / DROPPED, within=path))
    except FileNotFoundError:
        return 0
    except (OSError, RuntimeError) as error:
        raise _unreadable(str(path / DROPPED), error) from None
