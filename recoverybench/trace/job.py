"""The job as a whole: the trial, its phases and milestones, the fault, and its losses. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from recoverybench.analysis.history import Line
from recoverybench.labels import (
    cell_label,
    fault_words,
    mechanism_name,
    outcome_name,
    phase_name,
    seconds,
    victim_words,
)
from recoverybench.pieces import Piece, pieces, unfinished
from recoverybench.records import TrialRecord
from recoverybench.trace.journals import Journals
from recoverybench.trace.model import FARTHEST_NS, Count, Instant, Process, Slice

PHASES, TRIAL, MILESTONES = "phases", "trial", "milestones"
"""Names of the job's tracks."""

_FACTS = (
    "outcome",
    "error",
    "recovery_s",
    "time_to_progress_s",
    "unattributed_s",
    "verify_s",
    "step_before",
    "restored_step",
    "lost_steps",
    "detected_by",
    "restore_bytes",
    "restore_tier",
    "recoveries",
    "simulated",
    "steady_step_s",
    "wall_s",
    "seed",
    "rep",
)


def facts_of(record: TrialRecord) -> dict[str, Any]:
    """What is said of the trial as a whole: its factors and what came of it."""
    factors = {name: value for name, value in record.cell.as_dict().items() if value is not None}
    found = {name: getattr(record, name) for name in _FACTS}
    return factors | {name: value for name, value in found.items() if value is not None}


def job_of(record: TrialRecord, journals: Journals, others: Iterable[Process]) -> Process:
    """The job, shown as a process of its own on top.

    Args:
        others: all processes, for where the trial begins and ends.
    """
    job = Process(f"trial {record.trial}: {outcome_name(record.outcome)}")
    job.labels.append(f"{record.cell.fault} at {record.cell.trigger}, {record.cell.strategy}")
    job.track(PHASES).slices.extend(_phases(record, journals))
    job.track(MILESTONES).instants.extend(_milestones(record))
    whole = job.track(TRIAL)
    whole.slices.extend(_recovery(record))
    begin, end = _extent(record, [job, *others])
    title = f"trial {record.trial}: {cell_label(record.cell, ('fault', 'strategy'))}"
    whole.slices.insert(0, Slice(title, begin, end, "trial", facts_of(record)))
    job.counts.extend(_losses(journals))
    return job


def _extent(record: TrialRecord, processes: Iterable[Process]) -> tuple[int, int]:
    """From the first that is known to the last; of what nothing is known, as long as it took."""
    times = [
        t
        for process in processes
        for track in process.tracks.values()
        for t in (
            *(one.start for one in track.slices),
            *(one.end for one in track.slices),
            *(one.t for one in track.instants),
        )
    ]
    median = sorted(times)[len(times) // 2] if times else 0
    around = median if record.t_inject is None else record.t_inject
    if times := [t for t in times if abs(t - around) <= FARTHEST_NS]:
        return min(times), max(times)
    return 0, round(record.wall_s * 1e9) if math.isfinite(record.wall_s) else 1


def _phases(record: TrialRecord, journals: Journals) -> Iterator[Slice]:
    for piece in pieces(record):
        yield Slice(phase_name(piece.phase), piece.start_ns, piece.end_ns, "phase", _said(piece))
    ends = [line["t"] for line in journals.supervisor if line["event"] in ("deadline", "end")]
    if (begun := unfinished(record)) and (later := [t for t in ends if t > begun[1]]):
        name = f"{phase_name(begun[0])}, not ended"
        yield Slice(name, begun[1], later[0], "phase", {"ended": False})


def _said(piece: Piece) -> dict[str, Any]:
    whole_s = (piece.end_ns - piece.start_ns) / 1e9
    if piece.duration_s is None:
        return {"whole_s": whole_s}
    return {
        "duration_s": piece.duration_s,
        "our_own_verification_s": max(0.0, round(whole_s - piece.duration_s, 9)),
    }


def _recovery(record: TrialRecord) -> Iterator[Slice]:
    at = record.milestones
    for name, last, value in (
        ("time to progress", "progress", record.time_to_progress_s),
        ("recovery", "first_step", record.recovery_s),
    ):
        if "inject" in at and last in at and value is not None:
            title = f"{name} {seconds(value)}"
            yield Slice(title, at["inject"], at[last], "recovery", {"seconds": value})


def _milestones(record: TrialRecord) -> Iterator[Instant]:
    for name, t in record.milestones.items():
        if name == "inject":
            broken = {"fault": record.cell.fault, "trigger": record.cell.trigger}
            broken |= {"victim": victim_words(record), "meaning": fault_words(record.cell.fault)}
            yield Instant(f"injection: {record.cell.fault}", t, "fault", broken)
        else:
            after = {} if record.t_inject is None else {"after_s": (t - record.t_inject) / 1e9}
            yield Instant(phase_name(name), t, "milestone", after)
    if record.t_inject is not None and "inject" not in record.milestones:
        yield Instant(f"injection: {record.cell.fault}", record.t_inject, "fault")
    for one in record.detection_evidence:
        if record.t_inject is not None and math.isfinite(one.after_s):
            t = record.t_inject + round(one.after_s * 1e9)
            by = "supervisor" if one.observer is None else f"worker {one.observer}"
            said: dict[str, Any] = {"after_s": one.after_s, "observer": by, "detail": one.detail}
            yield Instant(f"noticed: {mechanism_name(one.mechanism)}", t, "evidence", said)


def _losses(journals: Journals) -> Iterator[Count]:
    """The loss of each step as the lowest of its workers has it."""
    found: dict[tuple[int, Any], Line] = {}
    for attempt in sorted(journals.attempts, key=lambda a: (a.owner[0] or 0, a.owner[1])):
        for line in attempt.lines:
            if line["event"] == "step":
                found.setdefault((line["generation"], line["step"]), line)
    for line in journals.supervisor:
        if line["event"] == "mark" and line.get("what") in ("step", "loss"):
            step = line.get("step")
            found.setdefault((line["attempt"], step if isinstance(step, int) else line["t"]), line)
    for line in sorted(found.values(), key=lambda one: int(one["t"])):
        loss = _number(line.get("loss"))
        if loss is not None:
            yield Count("training", "loss", line["t"], loss)


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
