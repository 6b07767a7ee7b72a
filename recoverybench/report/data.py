"""The data behind a report, as it lies compressed inside the page.

Trials are columns: a list of values for each field of a record, one a trial, so that what is
the same in many of them costs next to nothing. Times of milestones are whole microseconds from
the injection. The page makes records of them again, for one trial that is looked at and for
the download. Lanes, which are most of a record, are there for `MOST_LANES` trials at most.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
from markupsafe import Markup

from recoverybench.cells import Cell
from recoverybench.damage import damage_words
from recoverybench.labels import (
    EXIT_REASONS,
    mechanism_name,
    notice_words,
    outcome_name,
    stop_words,
    struck_again,
    tier_words,
    transition_words,
    victim_words,
)
from recoverybench.records import Evidence, Exit, Span, TrialRecord, Verification
from recoverybench.report.rows import Row
from recoverybench.results.store import Run
from recoverybench.vocabulary import EVIDENCE, MILESTONES, OUTCOMES, PHASES, SHOWN_PHASES
from recoverybench.web.embed import as_json, pack

MOST_LANES: Final = 500
"""Trials with lanes in one page: 300 spans each are 1.5 kB, compressed."""

_DIGITS: Final = 6
"""Microseconds: further digits are noise, and do not compress."""

_ELSEWHERE: Final = ("cell", "spans", "milestones")
"""Fields of a record that have a form of their own here."""

_FIELDS: Final = tuple(f for f in dataclasses.fields(TrialRecord) if f.name not in _ELSEWHERE)

_DEFAULTS: Final[dict[str, Any]] = {
    f.name: f.default if f.default is not dataclasses.MISSING else None for f in _FIELDS
}


def packed(runs: Sequence[Run], rows: Sequence[Row]) -> Markup:
    """`payload`, compressed, for an element of the page."""
    data = payload(runs, rows)
    try:
        return pack(msgspec.json.encode(data, enc_hook=str))
    except (UnicodeEncodeError, ValueError):  # half of a character pair, in somebody's string
        return pack(as_json(data).encode("utf-8", "backslashreplace"))


def payload(runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Any]:
    """Everything that the page's scripts read, but the figures: see the module."""
    of_row = {(row.run, row.cell): row.index for row in rows}
    measured = [(p, run, trial) for p, run in enumerate(runs) for trial in run.trials]
    # Behind the others, where only those who look at one trial see them.
    profiled = [
        (p, run, trial)
        for p, run in enumerate(runs)
        for trial in run.profiled
        if (p, trial.cell) in of_row
    ]
    trials = measured + profiled
    cells: dict[Cell, int] = {}
    of_cell = [cells.setdefault(trial.cell, len(cells)) for _, _, trial in trials]
    return {
        "phases": PHASES,
        "shown_phases": SHOWN_PHASES,
        "milestones": MILESTONES,
        "reasons": EXIT_REASONS,
        "mechanisms": {name: mechanism_name(name) for name in EVIDENCE},
        "outcomes": {name: outcome_name(name) for name in OUTCOMES},
        "runs": [run.info.as_dict() for run in runs],
        "cells": [cell.as_dict() for cell in cells],
        "labels": [row.label for row in rows],
        "middles": _middles(rows, trials),
        "count": len(measured),
        "all": len(trials),
        "run": [position for position, _, _ in trials],
        "cell": of_cell,
        "row": [of_row[position, trial.cell] for position, _, trial in trials],
        "victims": [victim_words(trial) for _, _, trial in trials],
        "notes": {
            str(i): notes
            for i, (_, run, trial) in enumerate(trials)
            if (notes := _notes(run, trial))
        },
        "milestones_us": [_milestones(trial) for _, _, trial in trials],
        "columns": _columns([trial for _, _, trial in trials]),
        "defaults": _DEFAULTS,
        "lanes": _lanes([trial for _, _, trial in trials], rows),
    }


def _middles(
    rows: Sequence[Row], trials: Sequence[tuple[int, Run, TrialRecord]]
) -> list[int | None]:
    """Of each row the position of its middle trial; None: none recovered."""
    places = {id(trial): i for i, (_, _, trial) in enumerate(trials)}
    return [None if row.middle is None else places[id(row.middle)] for row in rows]


def _columns(trials: Sequence[TrialRecord]) -> dict[str, list[Any]]:
    """Field -> its values; a field that holds its default in every trial is left out."""
    found = {}
    for field in _FIELDS:
        values = [_plain(getattr(trial, field.name)) for trial in trials]
        default = _plain(_DEFAULTS[field.name])
        if any(value != default for value in values):
            found[field.name] = values
    return found


def _plain(value: Any) -> Any:
    """A value as JSON data, with times to the microsecond."""
    kind = type(value)
    if kind is float:
        return round(value, _DIGITS)
    if kind in _ALREADY:
        return value
    if kind is dict:
        return {key: _plain(one) for key, one in value.items()}
    if kind is list or kind is tuple:
        return [_plain(one) for one in value]
    if kind is Evidence:
        known = [value.mechanism, round(value.after_s, _DIGITS), value.observer, value.detail]
        return [*known, round(value.bound_s, _DIGITS)] if value.bound_s else known
    if kind is Exit:
        return _EXIT(value)
    if kind is Verification:
        return {name: getattr(value, name) for name in _COMPARED}
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value  # type: ignore[arg-type]


_ALREADY: Final = frozenset((str, int, bool, type(None)))
_EXIT: Final = attrgetter(*(f.name for f in dataclasses.fields(Exit)))
_COMPARED: Final = tuple(f.name for f in dataclasses.fields(Verification))


def _milestones(trial: TrialRecord) -> dict[str, int]:
    start = trial.t_inject or 0
    return {name: (t - start + 500) // 1000 for name, t in trial.milestones.items()}


def _notes(run: Run, trial: TrialRecord) -> list[str]:
    """What only some trials have, in words."""
    again = struck_again(trial) if trial.soak is not None else 0
    return [
        *damage_words(run.path, trial.trial),
        *([] if trial.stopped is None else [stop_words(trial.stopped)]),
        *([f"further kills that struck in the recovery: {again}"] if again else []),
        *filter(None, (tier_words(trial), notice_words(trial))),
        *(transition_words(t) for t in trial.transitions),
    ]


# ---- lanes ---------------------------------------------------------------------------------


def _lanes(trials: Sequence[TrialRecord], rows: Sequence[Row]) -> dict[str, Any]:
    """Lanes of some trials: numbers of the worker's attempt and of the name, start and length.

    Starts are microseconds since the one before, lengths are microseconds.
    """
    names: dict[str, int] = {}
    attempts: dict[tuple[int | None, int], int] = {}
    chosen = _with_lanes(trials, rows)
    return {
        "of": {
            str(i): _coded(trial.spans, names, attempts)
            for i, trial in enumerate(trials)
            if chosen is None or id(trial) in chosen
        },
        "names": list(names),
        "attempts": list(attempts),
        "whole": chosen is None,
    }


def _coded(
    spans: Iterable[Span], names: dict[str, int], attempts: dict[tuple[int | None, int], int]
) -> list[list[int]]:
    columns: list[list[int]] = [[], [], [], []]
    before = 0
    order = sorted(
        spans, key=lambda s: (-1 if s.worker is None else s.worker, s.attempt, s.start_s)
    )
    for span in order:
        start, end = _us(span.start_s), _us(span.end_s)
        columns[0].append(attempts.setdefault((span.worker, span.attempt), len(attempts)))
        columns[1].append(names.setdefault(span.name, len(names)))
        columns[2].append(start - before)
        columns[3].append(end - start)
        before = start
    return columns


def _us(time_s: float) -> int:
    """Whole microseconds, as far as a number of JavaScript counts them."""
    return round(min(max(time_s * 1e6, -_FARTHEST), _FARTHEST))


_FARTHEST: Final = 2.0**52


def _with_lanes(trials: Sequence[TrialRecord], rows: Sequence[Row]) -> set[int] | None:
    """Which trials have lanes, by identity; None: all of them.

    Of every cell the first that did not recover, the one in the middle, the slowest and the
    fastest come first, then all others, one of each cell in turn.
    """
    if len(trials) <= MOST_LANES:
        return None
    turns = itertools.zip_longest(*(_telling(row.trials) for row in rows))
    ranked = (trial for turn in turns for trial in turn if trial is not None)
    return {id(trial) for trial in itertools.islice(ranked, MOST_LANES)}


def _telling(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """These trials, those that say most first."""
    wrong = [t for t in trials if t.outcome not in ("recovered", "no_effect")]
    back = sorted(
        (t for t in trials if t.outcome == "recovered"), key=lambda t: t.recovery_s or 0.0
    )
    middle = back[len(back) // 2 : len(back) // 2 + 1]
    first = [*wrong[:1], *middle, *back[-1:], *back[:1]]
    seen: dict[int, TrialRecord] = {id(t): t for t in [*first, *wrong, *back, *trials]}
    return list(seen.values())
