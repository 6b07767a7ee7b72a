"""Tags of the scalars, and their values: of a trial from the columns of its table, of a cell from
its statistics. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from recoverybench.records import TrialRecord
from recoverybench.results.columns import COLUMNS
from recoverybench.stats import CellSummary, Spread, Survival
from recoverybench.vocabulary import EVIDENCE, OUTCOMES, SHOWN_PHASES

_RESTORE: Final = (
    "restore_bytes",
    "restore_received_bytes",
    "restore_read_s",
    "restore_fraction",
    "checkpoint_bytes",
    "raw_read_cold_s",
    "raw_read_warm_s",
)
_TRIAL: Final = (
    "lost_steps",
    *(f"evidence_{name}_s" for name in EVIDENCE),
    "false_alarms",
    "recoveries",
    "unattributed_s",
    "verify_s",
    "steady_step_s",
    "window_s",
    "wall_s",
    "paused_resume_s",
    "paused_grow_s",
    "soak_goodput",
)

COLUMN_OF: Final = {
    "recovery_s": "recovery_s",
    "time_to_progress_s": "time_to_progress_s",
    **{f"phases/{name}_s": f"phase_{name}_s" for name in SHOWN_PHASES},
    **{f"restore/{name}": name for name in _RESTORE},
    **{f"save/{name}": name for name in ("save_stall_s", "save_s")},
    **{f"trial/{name}": name for name in _TRIAL},
}
"""Tag of a trial's scalar -> the column of the table (docs/schema.md) that it is.

TensorBoard groups tags by what is before the slash, sorts the groups by name and opens the first
two: outcomes and phases.
"""

OUTCOME: Final = "outcome/"
"""Before the name of an outcome: 1 for trials that came to it, 0 for the others."""

MEDIAN: Final = "summary/median_"
"""Before the name of a column: the cell's median of it."""

METRICS: Final = (
    f"{MEDIAN}recovery_s",
    f"{MEDIAN}time_to_progress_s",
    "summary/rate",
    "summary/trials",
    f"{MEDIAN}lost_steps",
    *(f"{MEDIAN}phase_{name}_s" for name in SHOWN_PHASES),
    "summary/recovered",
    "summary/judged",
)
"""Every tag that a cell can have, in the order of the columns of HParams, which at first shows
five of them.
"""


def outcomes_of(trials: Iterable[TrialRecord]) -> tuple[str, ...]:
    """``recovered``, and every outcome that one of the trials came to."""
    found = {trial.outcome for trial in trials} | {"recovered"}
    return tuple(name for name in OUTCOMES if name in found)


def scalars_of(trial: TrialRecord, outcomes: Sequence[str]) -> dict[str, float]:
    """Tag -> value, for what the trial has a value of; `outcomes` are those to be told apart."""
    found = {tag: COLUMNS[column].value(trial) for tag, column in COLUMN_OF.items()}
    told = {f"{OUTCOME}{name}": float(trial.outcome == name) for name in outcomes}
    return {tag: float(value) for tag, value in found.items() if value is not None} | told


def metrics_of(summary: CellSummary) -> dict[str, float]:
    """Tag (of `METRICS`) -> value, for what there is.

    A median that is only known to be longer than the deadline has no value.
    """
    rate = summary.recovered / summary.judged if summary.judged else None
    found: dict[str, float | None] = {
        f"{MEDIAN}recovery_s": _whole(summary.recovery),
        f"{MEDIAN}time_to_progress_s": _whole(summary.progress),
        f"{MEDIAN}lost_steps": _median(summary.lost_steps),
        **{f"{MEDIAN}phase_{name}_s": _median(of) for name, of in summary.phases.items()},
        "summary/rate": rate,
        "summary/trials": summary.n,
        "summary/recovered": summary.recovered,
        "summary/judged": summary.judged,
    }
    return {tag: float(value) for tag in METRICS if (value := found.get(tag)) is not None}


def _whole(times: Survival | None) -> float | None:
    return None if times is None else times.median


def _median(values: Spread | None) -> float | None:
    return None if values is None else values.median
