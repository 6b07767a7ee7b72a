"""Trials as a table: one row a trial, flat columns, nothing left out for a missing value.

`COLUMNS` is what a trial has: name, type, meaning and where the value is taken from; what is said
of its run comes before it. A frame's types are
set, and never guessed from what happens to be in a run: whole numbers that may be missing are
``Int64`` (a float would lose nanoseconds), texts ``str``, durations ``float64`` with NaN, flags
that may be missing ``boolean``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter, itemgetter, methodcaller
from typing import TYPE_CHECKING, Any

from recoverybench.cells import FACTORS, Cell
from recoverybench.records import TrialRecord
from recoverybench.results.run_columns import (
    RUN_COLUMNS,
    VERSION_COLUMNS,
    names_of,
    versions_of,
)
from recoverybench.vocabulary import EVIDENCE, MILESTONES, SHOWN_PHASES

if TYPE_CHECKING:
    import pandas as pd

    from recoverybench.results.reading import Run

Value = Callable[[TrialRecord], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        dtype: its type in pandas. of: its value in what `source` takes from a record.
        meaning: for people; empty: that of the record's field, or the cell's factor, of the same
            name.
        source: what several columns are taken from; None: the record itself.
    """

    dtype: str
    of: Callable[[Any], Any]
    meaning: str = ""
    source: Value | None = None

    def value(self, record: TrialRecord) -> Any:
        """Its value in a record."""
        return self.of(record if self.source is None else self.source(record))


def _fields(dtype: str, *names: str) -> dict[str, Column]:
    """Columns that hold a field of the record under its own name."""
    return {name: Column(dtype, attrgetter(name)) for name in names}


def _factor(name: str) -> Column:
    dtype = "Int64" if name in ("interval", "victim") else "float64"
    text = name not in ("interval", "victim", "heartbeat_s", "watchdog_s", "watchdog_factor")
    meaning = "the worker that the cell asks to break; null: the seed chose" * (name == "victim")
    return Column("str" if text else dtype, attrgetter(name), meaning, _CELL)


def _noticed(record: TrialRecord) -> dict[str, float]:
    """Mechanism -> seconds until it noticed, the first time."""
    return {e.mechanism: e.after_s for e in reversed(record.detection_evidence)}


_CELL, _PHASES, _INSTANTS, _VERIFY = map(attrgetter, ("cell", "phases", "milestones", "verify"))
_LOAD, _MEMORY = map(attrgetter, ("load", "memory_available_bytes"))


def _verify(name: str, absent: int | None) -> Column:
    kinds = {"samples_ok": "boolean", "first_difference": "str"}
    floats = ("tolerance", "largest_difference")
    return Column(
        kinds.get(name, "float64" if name in floats else "Int64"),
        lambda verify: absent if verify is None else getattr(verify, name),
        f"`{name}` of `verify`",
        _VERIFY,
    )


def _paused(kind: str) -> Value:
    """What the transitions of one kind held the training up for, all together."""

    def of(record: TrialRecord) -> float | None:
        if not record.transitions:
            return None
        times = [t.paused_s for t in record.transitions if t.kind == kind]
        known = [time for time in times if time is not None]
        return sum(known) if known else None

    return of


@lru_cache(maxsize=1024)
def _key(cell: Cell) -> str:
    return cell.key


_START, _END = "when the trial began", "when the trial was over"

COLUMNS: dict[str, Column] = {
    **_fields("str", "trial"),
    **{name: _factor(name) for name in FACTORS},
    "cell": Column("str", _key, "all factors in one text, the same for one cell", _CELL),
    **_fields("Int64", "rep", "seed"),
    **_fields("str", "outcome"),
    "recovered": Column("bool", lambda r: r.outcome == "recovered", "whether `outcome` is that"),
    **_fields("str", "error"),
    "broken": Column("Int64", attrgetter("victim"), "the worker that was broken"),
    **_fields("float64", "recovery_s", "time_to_progress_s", "unattributed_s", "verify_s"),
    **{
        f"phase_{name}_s": Column("float64", methodcaller("get", name), f"phase `{name}`", _PHASES)
        for name in SHOWN_PHASES
    },
    **_fields("Int64", "step_before", "restored_step", "lost_steps"),
    **_fields("str", "detected_by"),
    **{
        f"evidence_{name}_s": Column(
            "float64",
            methodcaller("get", name),
            f"seconds until `{name}` noticed, the first time",
            _noticed,
        )
        for name in EVIDENCE
    },
    **_fields("Int64", "recoveries"),
    **_fields("bool", "harmless"),
    **_fields("Int64", "false_alarms"),
    **_fields("boolean", "preemption_save"),
    **{
        f"paused_{kind}_s": Column(
            "float64", _paused(kind), f"training stood still for transitions `{kind}`, in all"
        )
        for kind in ("resume", "grow")
    },
    **_fields("Int64", "restore_bytes"),
    **_fields("str", "restore_tier"),
    **_fields("Int64", "restore_received_bytes"),
    "compile_cache_states": Column(
        "str",
        lambda r: ",".join(sorted(set(r.compile_cache.values()))) or None,
        "states of the workers' compile caches, each once, joined by commas",
    ),
    "verified": Column("boolean", lambda r: r.verify and r.verify.passed, "`passed` of `verify`"),
    **{
        name: _verify(name, 0)
        for name in ("losses_compared", "digests_compared", "samples_checked")
    },
    **{
        name: _verify(name, None)
        for name in ("samples_ok", "first_difference", "tolerance", "largest_difference")
    },
    "t_inject_ns": Column("Int64", attrgetter("t_inject"), "`t_inject`"),
    **{
        f"milestone_{name}_ns": Column(
            "Int64", methodcaller("get", name), f"instant of milestone `{name}`", _INSTANTS
        )
        for name in MILESTONES
    },
    "load_start": Column("float64", itemgetter(0), f"1-minute load average {_START}", _LOAD),
    "load_end": Column("float64", itemgetter(1), f"1-minute load average {_END}", _LOAD),
    "memory_start_bytes": Column("Int64", itemgetter(0), f"available memory {_START}", _MEMORY),
    "memory_end_bytes": Column("Int64", itemgetter(1), f"available memory {_END}", _MEMORY),
    **_fields("float64", "wall_s", "window_s", "steady_step_s"),
    **_fields("bool", "simulated"),
    **_fields("Int64", "workers"),
    "stopped_at": Column(
        "str",
        lambda r: r.stopped and r.stopped.kind,
        "the file operation of a save at which the fault struck",
    ),
    **_fields("Int64", "checkpoint_bytes"),
    **_fields("float64", "raw_read_cold_s", "raw_read_warm_s", "restore_read_s"),
    "restore_fraction": Column(
        "float64",
        attrgetter("restore_fraction"),
        "how fast the state was read, as a part of what reading its files raw gives",
    ),
    **_fields("float64", "save_stall_s", "save_s"),
    "soak_goodput": Column(
        "float64",
        lambda r: r.soak and r.soak["goodput"],
        "`goodput` of the whole soak that the trial is of",
    ),
    **_fields("Int64", "block", "position", "neighbours"),
    "clock_bound_s": Column(
        "float64",
        lambda r: max(r.clock_bound_s.values(), default=0.0),
        "clocks of several hosts make no time of the trial wrong by more than this",
    ),
}
"""Every column, in the order of the table."""


def row(record: TrialRecord) -> dict[str, Any]:
    """One trial, flat: a value for each of `COLUMNS`, None where there is none."""
    return {name: column.value(record) for name, column in COLUMNS.items()}


def rows(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """A row a trial, of each run in turn: what is said of its run, then `COLUMNS`.

    A text that has no UTF-8 (part of a path, say) has escapes in its place.
    """
    for run, name in zip(runs, names_of(runs), strict=True):
        of_run = {n: column.of(run) for n, column in RUN_COLUMNS.items()} | {"run": name}
        versions: dict[str | None, dict[str, Any]] = {}
        for trial in run.trials:
            environment = trial.cell.environment
            if environment not in versions:
                found = versions_of(run, environment)
                versions[environment] = {VERSION_COLUMNS[n]: v for n, v in found.items()}
            flat = of_run | versions[environment] | row(trial)
            yield {n: _utf8(v) if isinstance(v, str) else v for n, v in flat.items()}


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def dtypes() -> dict[str, str]:
    """The type in pandas of each column, for a reader of a format that does not keep types."""
    return {
        **{name: column.dtype for name, column in RUN_COLUMNS.items()},
        **dict.fromkeys(VERSION_COLUMNS.values(), "str"),
        **{name: column.dtype for name, column in COLUMNS.items()},
    }


def table(runs: Sequence[Run]) -> pd.DataFrame:
    """What `rows` gives as a DataFrame; every column is there even with no trial at all."""
    import pandas as pd

    trials = [trial for run in runs for trial in run.trials]
    data: dict[str, Any] = {}
    named = list(zip(runs, names_of(runs), strict=True))
    for name, column in RUN_COLUMNS.items():
        each = [(called if name == "run" else column.of(run), run) for run, called in named]
        data[name] = _array([v for v, run in each for _ in run.trials], column.dtype)
    known = [
        {e: versions_of(run, e) for e in {t.cell.environment for t in run.trials}} for run in runs
    ]
    for package, name in VERSION_COLUMNS.items():
        pairs = zip(runs, known, strict=True)
        found = [of[t.cell.environment][package] for run, of in pairs for t in run.trials]
        data[name] = _array(found, "str")
    sources: dict[Value | None, list[Any]] = {None: trials}
    for name, of_trial in COLUMNS.items():
        source = of_trial.source
        if source not in sources:
            assert source is not None
            sources[source] = list(map(source, trials))
        data[name] = _array(list(map(of_trial.of, sources[source])), of_trial.dtype)
    return pd.DataFrame(data)


def _array(values: list[Any], dtype: str) -> Any:
    import pandas as pd

    if dtype == "str" and not "".join(filter(None, values)).isascii():
        values = [value if value is None else _utf8(value) for value in values]
    return pd.array(values, dtype=dtype)  # type: ignore[call-overload]
