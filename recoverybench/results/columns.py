"""Trials as a table: one row a trial, flat columns, nothing left out for a missing value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from recoverybench.cells import FACTORS, Cell
from recoverybench.records import TrialRecord
from recoverybench.vocabulary import EVIDENCE, MILESTONES, SHOWN_PHASES

if TYPE_CHECKING:
    import pandas as pd

_WHOLE = (
    "interval",
    "victim",
    "rep",
    "seed",
    "broken",
    "t_inject_ns",
    "step_before",
    "restored_step",
    "lost_steps",
    "restore_bytes",
    "restore_received_bytes",
    "checkpoint_bytes",
    "workers",
    "recoveries",
    "false_alarms",
    *(f"milestone_{name}_ns" for name in MILESTONES),
)
"""Columns of whole numbers that may be missing; a float would lose nanoseconds."""


def row(record: TrialRecord) -> dict[str, Any]:
    """One trial, flat.

    The factors stand under their own names (`victim`: as the cell asks; None: the seed
    chose), so the worker that was broken is `broken`. Phases are ``phase_<name>_s``, milestones
    ``milestone_<name>_ns``, mechanisms ``evidence_<name>_s``.
    """
    verify = record.verify
    first: dict[str, float] = {}
    for evidence in record.detection_evidence:
        first.setdefault(evidence.mechanism, evidence.after_s)
    return {
        "trial": record.trial,
        **record.cell.as_dict(),
        "cell": record.cell.key,
        "rep": record.rep,
        "seed": record.seed,
        "outcome": record.outcome,
        "recovered": record.outcome == "recovered",
        "error": record.error,
        "broken": record.victim,
        "recovery_s": record.recovery_s,
        "time_to_progress_s": record.time_to_progress_s,
        "unattributed_s": record.unattributed_s,
        "verify_s": record.verify_s,
        **{f"phase_{name}_s": record.phases.get(name) for name in SHOWN_PHASES},
        "step_before": record.step_before,
        "restored_step": record.restored_step,
        "lost_steps": record.lost_steps,
        "detected_by": record.detected_by,
        **{f"evidence_{name}_s": first.get(name) for name in EVIDENCE},
        "recoveries": record.recoveries,
        "harmless": record.harmless,
        "false_alarms": record.false_alarms,
        "preemption_save": record.preemption_save,
        **{f"paused_{kind}_s": _paused(record, kind) for kind in ("resume", "grow")},
        "restore_bytes": record.restore_bytes,
        "restore_tier": record.restore_tier,
        "restore_received_bytes": record.restore_received_bytes,
        "compile_cache_states": ",".join(sorted(set(record.compile_cache.values()))),
        "verified": verify.passed if verify else None,
        "losses_compared": verify.losses_compared if verify else 0,
        "digests_compared": verify.digests_compared if verify else 0,
        "samples_checked": verify.samples_checked if verify else 0,
        "samples_ok": verify.samples_ok if verify else None,
        "first_difference": verify.first_difference if verify else None,
        "tolerance": verify.tolerance if verify else None,
        "largest_difference": verify.largest_difference if verify else None,
        "t_inject_ns": record.t_inject,
        **{f"milestone_{name}_ns": record.milestones.get(name) for name in MILESTONES},
        "load_start": record.load[0],
        "load_end": record.load[1],
        "memory_start_bytes": record.memory_available_bytes[0],
        "memory_end_bytes": record.memory_available_bytes[1],
        "wall_s": record.wall_s,
        "window_s": record.window_s,
        "steady_step_s": record.steady_step_s,
        "simulated": record.simulated,
        "workers": record.workers,
        "stopped_at": record.stopped.kind if record.stopped else None,
        "checkpoint_bytes": record.checkpoint_bytes,
        "raw_read_cold_s": record.raw_read_cold_s,
        "raw_read_warm_s": record.raw_read_warm_s,
        "restore_read_s": record.restore_read_s,
        "restore_fraction": record.restore_fraction,
        "save_stall_s": record.save_stall_s,
        "save_s": record.save_s,
        "soak_goodput": record.soak["goodput"] if record.soak else None,
    }


def _paused(record: TrialRecord, kind: str) -> float | None:
    """What the transitions of one kind held the training up for, all together."""
    times = [t.paused_s for t in record.transitions if t.kind == kind and t.paused_s is not None]
    return sum(times) if times else None


def frame(trials: Iterable[TrialRecord]) -> pd.DataFrame:
    """A row a trial in their order; every column is there even with no trial at all."""
    import pandas as pd

    rows = [row(record) for record in trials]
    columns: dict[str, Any] = {}
    for name in row(_BLANK):
        values = [one[name] for one in rows]
        if name in _WHOLE:
            columns[name] = pd.array(values, dtype="Int64")
        elif name.endswith("_s"):
            columns[name] = pd.Series(values, dtype="float64")
        else:
            columns[name] = values
    return pd.DataFrame(columns)


_BLANK = TrialRecord(
    trial="",
    cell=Cell(**dict.fromkeys(FACTORS)),  # type: ignore[arg-type]  # only its names are used
    rep=0,
    seed=0,
    outcome="invalid",
    error=None,
    victim=None,
    t_inject=None,
    milestones={},
    phases={},
    recovery_s=None,
    time_to_progress_s=None,
    unattributed_s=None,
    verify_s=None,
    step_before=None,
    restored_step=None,
    lost_steps=None,
    detected_by=None,
    detection_evidence=(),
    compile_cache={},
    restore_bytes=None,
    restore_tried=(),
    verify=None,
    exits=(),
    spans=(),
    pids={},
    load=(0.0, 0.0),
    memory_available_bytes=(0, 0),
    wall_s=0.0,
    window_s=None,
    steady_step_s=None,
)
"""A record that is never shown: a table without trials takes its columns from it."""
