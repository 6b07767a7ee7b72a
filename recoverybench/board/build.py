"""Runs to what TensorBoard is to show of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from recoverybench.board.model import (
    FLAG,
    NUMBER,
    TEXT,
    Board,
    Kind,
    Parameter,
    Point,
    Session,
    Status,
    Value,
)
from recoverybench.board.names import safe_name, unique_names
from recoverybench.board.scalars import METRICS, metrics_of, outcomes_of, scalars_of
from recoverybench.cells import FACTORS, Cell
from recoverybench.errors import UsageError
from recoverybench.labels import cell_label, varying_factors
from recoverybench.records import TrialRecord
from recoverybench.results.columns import COLUMNS
from recoverybench.results.reading import Run
from recoverybench.results.run_columns import names_of
from recoverybench.stats import CellSummary, summarise
from recoverybench.visible import clean

_LAST_S = 253_402_300_799.0
"""The end of the year 9999: a run may say that a trial took for ever, and TensorBoard's fast loader
drops what follows an instant that is not finite.
"""


@dataclass(frozen=True, slots=True)
class _Place:
    """A trial of a cell, its step, and when at the earliest it was begun and over."""

    trial: TrialRecord
    step: int
    began_s: float
    wall_time_s: float


@dataclass(frozen=True, slots=True)
class _Told:
    """What is told apart, the same for all runs.

    Attributes:
        runs: which run it is. label: of the run. factors: those that are in a cell's name.
        outcomes: those that have a scalar. simulated: which cells are simulated.
    """

    runs: bool
    label: bool
    factors: tuple[str, ...]
    outcomes: tuple[str, ...]
    simulated: bool


def board_of(runs: Sequence[Run]) -> Board:
    """What TensorBoard is to show of these runs; profiled trials are in none of it.

    Raises:
        UsageError: none of the runs has a finished trial.
    """
    trials = [trial for run in runs for trial in run.trials]
    if not trials:
        shown = ", ".join(str(run.path) for run in runs[:1]) or "no run"
        raise UsageError(f"{shown}: no finished trial, so TensorBoard would show nothing")
    told = _Told(
        runs=len(runs) > 1,
        label=len({run.info.label for run in runs}) > 1,
        factors=varying_factors(trial.cell for trial in trials),
        outcomes=outcomes_of(trials),
        simulated=any(trial.simulated for trial in trials),
    )
    names = names_of(runs)
    folders = unique_names(safe_name(name, empty="run") for name in names)
    sessions = tuple(
        session
        for run, name, folder in zip(runs, names, folders, strict=True)
        for session in _sessions(run, name, folder, told)
    )
    metrics = {tag for session in sessions for tag in session.summary.values}
    return Board(
        created_s=min(moment_s(run.info.created) for run in runs),
        parameters=_parameters([session.hparams for session in sessions]),
        metrics=tuple(tag for tag in METRICS if tag in metrics),
        sessions=sessions,
    )


def moment_s(created: str) -> float:
    """The instant of an ISO-8601 text, seconds since 1970; 0 where it names none."""
    try:
        found = datetime.fromisoformat(created)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _places(run: Run) -> dict[Cell, list[_Place]]:
    """The trials of each cell, by step: the repetition, or where these repeat the place.

    A record has no time of day. A run began at `created`, and its trials took what they took one
    after another, so the end of each was at least so much later.
    """
    found: dict[Cell, list[tuple[TrialRecord, float, float]]] = {}
    now_s = moment_s(run.info.created)
    for trial in run.trials:
        began_s, now_s = now_s, min(max(now_s + trial.wall_s, now_s), _LAST_S)
        found.setdefault(trial.cell, []).append((trial, began_s, now_s))
    places = {}
    for cell, timed in found.items():
        reps = [trial.rep for trial, _, _ in timed]
        # The injections of a soak have one repetition between them.
        steps = reps if len(set(reps)) == len(reps) else range(len(reps))
        placed = [
            _Place(trial, step, began_s, over_s)
            for step, (trial, began_s, over_s) in zip(steps, timed, strict=True)
        ]
        places[cell] = sorted(placed, key=lambda place: place.step)
    return places


def _sessions(run: Run, name: str, folder: str, told: _Told) -> Iterator[Session]:
    """A session for each cell of a run that has a trial, in the order of the suite."""
    of_run: dict[str, Value] = {"run": clean(name)} if told.runs else {}
    if told.label and run.info.label is not None:
        of_run["label"] = clean(run.info.label)
    order = {cell: at for at, cell in enumerate(run.info.suite.cells)}
    summaries = sorted(
        summarise(run.trials, deadline_s=run.info.suite.deadline_s),
        key=lambda summary: order.get(summary.cell, len(order)),
    )
    labels = [cell_label(summary.cell, told.factors) for summary in summaries]
    cells = unique_names(safe_name(label, empty="cell") for label in labels)
    places = _places(run)
    for summary, cell in zip(summaries, cells, strict=True):
        own = places[summary.cell]
        hparams = of_run | _factors(summary.cell)
        if told.simulated:
            hparams["simulated"] = any(place.trial.simulated for place in own)
        ended_s = max(place.wall_time_s for place in own)
        directory = f"{folder}/{cell}"
        yield Session(
            directory=directory,
            name=directory if told.runs else cell,
            status=_status(summary),
            started_s=min(place.began_s for place in own),
            ended_s=ended_s,
            hparams=hparams,
            summary=Point(0, ended_s, metrics_of(summary)),
            trials=tuple(
                Point(place.step, place.wall_time_s, scalars_of(place.trial, told.outcomes))
                for place in own
            ),
        )


def _status(summary: CellSummary) -> Status:
    if not summary.judged:
        return "unknown"
    return "success" if summary.recovered == summary.judged else "failure"


def _factors(cell: Cell) -> dict[str, Value]:
    """The factors that the cell sets, in the types of their columns."""
    values = {name: getattr(cell, name) for name in FACTORS}
    return {
        name: clean(str(value)) if COLUMNS[name].dtype == "str" else float(value)
        for name, value in values.items()
        if value is not None
    }


def _parameters(hparams: Iterable[Mapping[str, Value]]) -> tuple[Parameter, ...]:
    """What the sessions differ in, and where that is nothing, the strategy.

    TensorBoard shows five columns at first, and would fill them with what is the same in all.
    """
    sessions = list(hparams)
    names = dict.fromkeys(name for session in sessions for name in session)
    found = []
    for name in names:
        values = [session[name] for session in sessions if name in session]
        distinct = tuple(dict.fromkeys(values))
        kind = _kind(distinct[0])
        if kind == NUMBER:
            distinct = tuple(sorted(distinct, key=float))
        if len(distinct) > 1 or len(values) < len(sessions):
            found.append(Parameter(name, kind, distinct))
    return tuple(found) or (Parameter("strategy", TEXT, (sessions[0]["strategy"],)),)


def _kind(value: Value) -> Kind:
    if isinstance(value, bool):
        return FLAG
    return TEXT if isinstance(value, str) else NUMBER
