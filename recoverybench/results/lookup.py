"""One trial of a run by its id, as people type it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from recoverybench.errors import UsageError, bad_value, shorten
from recoverybench.records import TrialRecord
from recoverybench.results.reading import Run

_NAMED = 6
"""Ids that an error names: a run has thousands."""


def find_trial(run: Run, trial: str, *, option: str = "--trial") -> TrialRecord:
    """The record of a trial by its id; zeros before a number may be left out (``7``, ``7.3``).

    Args:
        run: where to look. trial: the id. option: what an error calls it.

    Raises:
        UsageError: the run has no such trial, or it is a job with several injections.
    """
    by_id = {record.trial: record for record in (*run.trials, *run.profiled)}
    wanted = trial if trial in by_id else _filled(trial)
    if wanted in by_id:
        return by_id[wanted]
    if parts := [name for name in by_id if name.startswith(f"{wanted}.")]:
        raise bad_value(option, trial, f"one of its injections: {_some(parts)}")
    close = difflib.get_close_matches(wanted, by_id, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise UsageError(f"{option} = {shorten(trial)}: {hint}known: {_some(list(by_id)) or 'none'}")


def _filled(trial: str) -> str:
    job, dot, injection = trial.partition(".")
    if not job.isascii() or not job.isdigit():
        return trial
    if injection.isascii() and injection.isdigit():
        injection = injection.zfill(3)
    return f"{job.zfill(4)}{dot}{injection}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    if len(names) <= _NAMED:
        return shown
    return f"{shown} and {len(names) - _NAMED} more, up to {names[-1]}"
