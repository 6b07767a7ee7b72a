"""The data behind a report, as JSON inside the page.

Cells stand once and trials point at them; spans are rows of
``[worker, attempt, name, start_s, end_s]``. The page expands both again for the
waterfall and for the download.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from recoverybench.cells import Cell
from recoverybench.damage import damage_words
from recoverybench.labels import (
    EXIT_REASONS,
    mechanism_name,
    notice_words,
    stop_words,
    struck_again,
    tier_words,
    transition_words,
    victim_words,
)
from recoverybench.records import TrialRecord
from recoverybench.results.store import Run
from recoverybench.vocabulary import EVIDENCE, MILESTONES, PHASES, SHOWN_PHASES

_DIGITS = 6
"""Spans are drawn from microseconds; the clock's last digits would only make the file larger."""


_SAYS_NOTHING: dict[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(TrialRecord)
    if field.default is None or field.default == ()
}
"""Fields that need not be there, with the nothing that they then hold."""


def payload(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything the page's scripts read: vocabulary, runs, cells and trials."""
    cells: dict[Cell, int] = {}
    trials = []
    for position, run in enumerate(runs):
        for trial in run.trials:
            cell = cells.setdefault(trial.cell, len(cells))
            trials.append(_compact(trial) | {"run": position, "cell": cell})
    return {
        "phases": PHASES,
        "shown_phases": SHOWN_PHASES,
        "milestones": MILESTONES,
        "reasons": EXIT_REASONS,
        "mechanisms": {name: mechanism_name(name) for name in EVIDENCE},
        "runs": [run.info.as_dict() for run in runs],
        "cells": [c.as_dict() for c in cells],
        "trials": trials,
        "victims": [victim_words(trial) for run in runs for trial in run.trials],
        "notes": [_notes(run, trial) for run in runs for trial in run.trials],
    }


def _notes(run: Run, trial: TrialRecord) -> list[str]:
    """What only some trials have, in words; one list a trial, in their order."""
    again = struck_again(trial) if trial.soak is not None else 0
    return [
        *damage_words(run.path, trial.trial),
        *([] if trial.stopped is None else [stop_words(trial.stopped)]),
        *([f"further kills that struck in the recovery: {again}"] if again else []),
        *filter(None, (tier_words(trial), notice_words(trial))),
        *(transition_words(t) for t in trial.transitions),
    ]


def embed(value: Any) -> str:
    """JSON that can stand inside a ``<script>`` element, whatever strings it holds.

    ``<``, ``>`` and ``&`` are written as escapes, so that neither ``</script>`` nor ``<!--``
    can end or change the element; the two line separators that JavaScript knows and JSON
    does not are escaped too. A value that JSON cannot hold (NaN, a path) becomes text.
    """
    try:
        text = _dump(value)
    except ValueError:
        text = _dump(_finite(value))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _dump(value: Any) -> str:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str
    )


def _compact(trial: TrialRecord) -> dict[str, Any]:
    data = dataclasses.replace(trial, spans=()).as_dict()
    for name, value in _SAYS_NOTHING.items():  # what a reader takes where a field is not there
        if data[name] == value:
            del data[name]
    data["spans"] = [
        [s.worker, s.attempt, s.name, round(s.start_s, _DIGITS), round(s.end_s, _DIGITS)]
        for s in trial.spans
    ]
    return data


def _finite(value: Any) -> Any:
    """The same value with NaN and infinities, which JSON does not know, as text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
