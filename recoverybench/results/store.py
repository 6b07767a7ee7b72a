"""The results store: one directory a run, written so that a cut anywhere loses nothing.

History of the format (`SCHEMA_VERSION`, in run.json):

* 1: run.json, trials.jsonl with one record a line, journal/, logs/. The first one.
* 2: records say more (`workers`, `recoveries`, `transitions`, `restore_tier`,
  `restore_received_bytes`, `harmless`, `false_alarms`, `preemption_save`, `stopped`, `soak`;
  `losses_within`, `losses_beyond`, `tolerance`, `largest_difference` in `verify`), cells have
  three factors more (`watchdog_factor`, `replica_check`, `agreement`), and a suite keeps its
  `unsupported` cells. Version 1 is
  read with values that say nothing in their place.
* 3: records say more (`checkpoint_bytes`, `raw_read_cold_s`, `raw_read_warm_s`,
  `restore_read_s`, `save_stall_s`, `save_s`, `block`, `position`), cells have four factors more
  (`restore_topology`, `checkpoint`, `page_cache`, `environment`), a suite has a `precision` and a
  `budget_s`, and run.json tells of `environments`, fingerprints of `workloads` and of what `ended`
  each cell. Every line of trials.jsonl and every other JSON file has a `schema` of its own.
* 4: a suite may ask for a `profile`, records say whether they are `profiled`, and a profiled trial
  has a summary, profile/<trial>/summary.json.
* 5: records say how far clocks of several hosts may make a time wrong (`clock_bound_s`, and
  `bound_s` of each evidence).
* 6: trials may run side by side: a suite has an `isolation`, and records say how many `neighbours`
  they had. Records say what `devices` were and how they were (`health`); of accelerators run.json's
  `machine` has a `device_kind` and `devices`. `lost_steps` is of all recoveries.

Earlier versions are read through `results.migrations`, later ones are refused.

``run.json`` is replaced as a whole, by a rename. A line of ``trials.jsonl`` is one write and
an fsync; what follows the last newline was never finished. It is dropped and counted when
reading, and moved to ``trials.jsonl.dropped`` before a resumed run appends again. So are the
records of a soak of which the last is missing: a soak is measured as a whole.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from recoverybench.errors import HarnessError, UsageError, bad_value, shorten
from recoverybench.plan.suite import Suite
from recoverybench.records import TrialRecord
from recoverybench.results.inside import check_inside
from recoverybench.results.reading import DROPPED, RUN, TRIALS, Run, load, read_trials
from recoverybench.results.run_info import (
    STATUSES,
    RunInfo,
    default_run_id,
    describe_run,
    with_devices,
)
from recoverybench.vocabulary import SCHEMA_VERSION

__all__ = [
    "STATUSES",
    "Run",
    "RunDir",
    "RunInfo",
    "default_run_id",
    "describe_run",
    "load",
    "new_directory",
    "record_line",
    "replace_file",
    "whole_trials",
]


_BEGINNING = 60
"""Characters of a file's name that are in that of its temporary one."""


class RunDir:
    """A run that is being written; one process at a time, which a lock sees to.

    Use `create` or `resume`, and `close` (or a with statement) when done.
    """

    def __init__(self, path: Path, info: RunInfo, descriptor: int) -> None:
        """Takes over an open and locked descriptor of ``trials.jsonl``."""
        self.path = path
        self.info = info
        self._trials = descriptor

    @classmethod
    def create(cls, out: Path, info: RunInfo) -> RunDir:
        """Makes the directory, parents included.

        Raises:
            UsageError: `out` is a file, is not empty, or cannot be made.
        """
        _check_out(out)
        try:
            out.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(out / TRIALS, flags, 0o644)
        except FileExistsError:  # another process was faster
            raise _holds_run(out) from None
        except OSError as error:
            raise _unwritable(out, error) from None
        run = cls(out, info, _locked(descriptor, out))
        try:
            for name in ("journal", "logs"):
                (out / name).mkdir(exist_ok=True)
            run._write_info()
        except OSError:
            run._undo()  # a directory that is neither empty nor a run could not be used again
            raise
        return run

    @classmethod
    def resume(
        cls, path: Path, suite: Suite, launcher: str | None = None
    ) -> tuple[RunDir, tuple[TrialRecord, ...]]:
        """Opens a run that exists, to go on with the trials that it has not finished.

        Args:
            launcher: how workers would be started; None: as they were.

        Returns:
            The run, with status ``running``, and its finished trials, profiled ones included.

        Raises:
            UsageError: it is no run, is being written by another process, was made from a
                suite that differs or with another launcher, or something in it is not what could
                be written on.
        """
        if not (path / RUN).is_file():
            raise bad_value("--out", str(path), "a run to resume (a directory with run.json)")
        check_inside(path)
        try:
            descriptor = os.open(
                path / TRIALS, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            )
        except OSError as error:
            raise _unwritable(path / TRIALS, error) from None
        descriptor = _locked(descriptor, path)
        try:
            run = load(path)
            _check_same(run.info.suite, suite, path)
            if launcher not in (None, run.info.launcher):
                allowed = f"{run.info.launcher!r}, with which {path} was begun"
                raise bad_value("--launcher", launcher, allowed)
            trials, _ = read_trials(path)
            cut = _cut_soak(trials)
            _set_aside(path, descriptor, cut)
        except BaseException:
            os.close(descriptor)
            raise
        resumed = cls(path, dataclasses.replace(run.info, status="running"), descriptor)
        try:
            resumed._write_info()
        except OSError:
            resumed.close()
            raise
        return resumed, trials[: len(trials) - cut]

    def append(self, record: TrialRecord) -> None:
        """Adds one trial: one line, one write, on disk when this returns.

        Raises:
            HarnessError: it could not be written; the file is as it was.
        """
        try:
            line = record_line(record)
        except ValueError as error:
            raise HarnessError(f"trial {record.trial}: not a record to keep: {error}") from error
        before = os.fstat(self._trials).st_size
        try:
            written = os.write(self._trials, line)
            if written < len(line):
                raise OSError(f"only {written} of {len(line)} bytes were written")
            os.fsync(self._trials)
        except OSError as error:
            os.ftruncate(self._trials, before)
            raise HarnessError(f"{self.path / TRIALS}: trial {record.trial}: {error}") from error
        described = with_devices(self.info, record)
        if described is not self.info:
            self.info = described
            self._write_info()

    def finish(self, status: str, wall_s: float) -> None:
        """Says how this session ended; `wall_s` is added to that of earlier sessions."""
        if status not in STATUSES:
            raise ValueError(f"status {status!r} is none of {STATUSES}")
        total = self.info.wall_s + wall_s
        self.info = dataclasses.replace(self.info, status=status, wall_s=total)
        self._write_info()

    def trial_dirs(self, trial: str) -> tuple[Path, Path]:
        """New directories for one trial's journals and logs.

        What an interrupted session left of the same trial is kept, as ``<trial>.cut-N``.
        """
        return new_directory(self.path, "journal", trial), new_directory(self.path, "logs", trial)

    def close(self) -> None:
        """Gives up the lock; may be called twice."""
        if self._trials >= 0:
            os.close(self._trials)
            self._trials = -1

    def __enter__(self) -> RunDir:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _undo(self) -> None:
        """Removes what `create` made, as far as that can be."""
        self.close()
        with suppress(OSError):
            (self.path / TRIALS).unlink()
            for name in ("journal", "logs"):
                (self.path / name).rmdir()

    def _write_info(self) -> None:
        text = json.dumps(self.info.as_dict(), indent=2, allow_nan=False) + "\n"
        replace_file(self.path / RUN, text.encode())


def new_directory(run: Path, name: str, trial: str) -> Path:
    """A new directory of one trial in a run's directory, below `name`.

    What an interrupted session left of the same trial is kept, as ``<trial>.cut-N``.
    """
    path = run / name / trial
    number = 1
    while os.path.lexists(path):
        aside = path.with_name(f"{trial}.cut-{number}")
        if not os.path.lexists(aside):
            path.rename(aside)
        number += 1
    path.mkdir(parents=True)
    return path


def record_line(record: TrialRecord) -> bytes:
    """The line of ``trials.jsonl`` that holds a record. ValueError: it has no JSON."""
    data = {"schema": SCHEMA_VERSION, **record.as_dict()}
    return json.dumps(data, allow_nan=False).encode() + b"\n"


def replace_file(path: Path, content: bytes) -> None:
    """Writes a whole file so that a reader sees the old one or the new one, never a part.

    Raises:
        OSError: it could not be written, and is as it was; it is the file that the error names.
    """
    # By its beginning alone: a name may be as long as the file system allows.
    temporary = path.with_name(f".{path.name[:_BEGINNING]}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # of a process that had this number; or a link
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def check_profile(made: Suite, path: Path, option: str = "--resume: profile") -> None:
    """Raise a `UsageError` where a run was begun without profiles, which it is asked for now."""
    if not made.profile:
        allowed = (
            f"a run that was begun with it, which {path} was not: "
            "profile a new run, without --resume and with another --out"
        )
        raise bad_value(option, True, allowed)


def _check_out(out: Path) -> None:
    if out.is_dir():
        try:
            content = sorted(entry.name for entry in out.iterdir())
        except OSError as error:
            raise _unwritable(out, error) from None
        if RUN in content or TRIALS in content:
            raise _holds_run(out)
        if content:
            held = f"it holds {content[0]!r}"
            raise bad_value("--out", str(out), f"a directory that is new or empty ({held})")
    elif os.path.lexists(out):
        raise bad_value("--out", str(out), "a directory that is new or empty (it is a file)")


def _holds_run(out: Path) -> UsageError:
    allowed = "a directory that is new or empty (it holds another run: use --resume to go on)"
    return bad_value("--out", str(out), allowed)


def _unwritable(path: Path, error: OSError) -> UsageError:
    return bad_value("--out", str(path), f"a place that can be written ({error.strerror})")


def _locked(descriptor: int, path: Path) -> int:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise bad_value("--out", str(path), "a run that no other process is writing") from None
    return descriptor


def _check_same(made: Suite, wanted: Suite, path: Path) -> None:
    """Refuses to go on with another suite, naming the first thing that differs."""
    if made.fingerprint == wanted.fingerprint:
        return
    if wanted.profile:
        check_profile(made, path)
    old, new = made.as_dict(), wanted.as_dict()
    key = next(k for k in new if k != "source" and old[k] != new[k])
    found, allowed = new[key], shorten(old[key])
    if key == "cells":
        foreign = [cell for cell in wanted.cells if cell not in made.cells]
        found = foreign[0].key if foreign else f"{len(wanted.cells)} cells"
        allowed = f"the {len(made.cells)} cells"
    raise bad_value(f"--resume: {key}", found, f"{allowed} that {path} was made with")


def whole_trials(records: Sequence[TrialRecord]) -> frozenset[str]:
    """Ids of the trials that were measured to their end: one with the id ``0007.003`` is the
    fourth record of the soak ``0007``, which counts once its last record is there.
    """
    whole = records[: len(records) - _cut_soak(records)]
    return frozenset(record.trial.partition(".")[0] for record in whole)


def _cut_soak(records: Sequence[TrialRecord]) -> int:
    """How many of the last records belong to a soak that lacks its last one.

    Only the last soak of a session can lack any, because all records of a trial are appended
    before those of another.
    """
    soak = records[-1].soak if records else None
    if soak is None or soak["index"] + 1 >= soak["injections"]:
        return 0
    ours = records[-1].trial.partition(".")[0]
    return sum(record.trial.partition(".")[0] == ours for record in records)


def _set_aside(path: Path, descriptor: int, records: int) -> None:
    """Moves what follows the last newline of ``trials.jsonl``, and that many records before
    it, to a file of their own.
    """
    content = (path / TRIALS).read_bytes()
    keep = content.rfind(b"\n") + 1
    for _ in range(records):
        keep = content.rfind(b"\n", 0, keep - 1) + 1
    if keep == len(content):
        return
    with (path / DROPPED).open("ab") as file:
        file.write(content[keep:].removesuffix(b"\n") + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.ftruncate(descriptor, keep)
    os.fsync(descriptor)
