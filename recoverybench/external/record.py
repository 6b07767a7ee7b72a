"""Journals of a command's trial -> trial record. Pure, like `analysis.record`."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.analysis.history import History, Journal, Line
from recoverybench.analysis.lanes import exit_of, pids_of
from recoverybench.analysis.outcome import Facts, classify, doubt
from recoverybench.cells import Cell
from recoverybench.external.losses import CommandReference, Compared, compare
from recoverybench.external.marks import Mark, Split, marks_of, split, steps_of
from recoverybench.external.timeline import CommandTimeline, timeline
from recoverybench.records import Span, TrialRecord

SPANS_KEPT: Final = 400
WARM_UP: Final = 3
"""First steps of a rank that are no steady steps."""

NOTHING_TO_COMPARE: Final = (
    'nothing to compare: the command prints no loss (verify = "none" if that is meant)'
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a command's file says of how it is judged.

    Attributes:
        verify: ``losses`` | ``none``. tolerance: relative; None: as printed.
        back: ``all`` | ``any``. whole: it prints every step, each once.
        starts: commands that are started: one, or one a rank.
    """

    verify: str
    tolerance: float | None
    back: str
    whole: bool
    starts: int


def analyse_command(
    journals: Iterable[Journal],
    *,
    trial: str,
    cell: Cell,
    rep: int,
    seed: int,
    victim: int | None,
    terms: Terms,
    reference: CommandReference | None,
    load: tuple[float, float],
    memory_available_bytes: tuple[int, int],
    wall_s: float,
    problem: str | None = None,
    harness: Mapping[str, Any] | None = None,
) -> TrialRecord:
    """The record of one trial.

    Args:
        journals: all journals of the trial.
        trial, cell, rep, seed, victim: which one it is.
        terms: how it is judged. reference: of the same command without a fault.
        load, memory_available_bytes: at the start and the end. wall_s: the whole trial.
        problem: what the harness itself knows to be wrong; makes the trial `invalid`.
        harness: kept as it is.
    """
    journals = tuple(journals)
    history = History.of(journals)
    marks = marks_of(history)
    inject = next(iter(history.named("inject")), None)
    t = None if inject is None else int(inject["t"])
    splits = [] if t is None else split(marks, t, _gone(history, t))
    first = reference.first if reference is not None else 1
    line = (
        None
        if inject is None
        else timeline(history, inject, splits, marks, back=terms.back, first=first)
    )
    finished = t is not None and _finished(history, t, splits, terms, reference)
    compared = compare(
        splits,
        reference if terms.verify == "losses" else None,
        tolerance=terms.tolerance,
        whole=terms.whole and terms.back == "all",
        finished=finished,
    )
    problem = problem or history.problem or _began_late(splits, reference, cell.interval)
    facts = _facts(problem, history, line, compared, terms, finished)
    outcome = classify(facts)
    trusted = outcome not in ("invalid", "no_effect")
    return TrialRecord(
        trial=trial,
        cell=cell,
        rep=rep,
        seed=seed,
        outcome=outcome,
        error=_explain(outcome, facts, history, line, compared, terms),
        victim=victim,
        t_inject=t,
        milestones=dict(line.milestones) if line else {},
        phases=line.phases if line and trusted else {},
        recovery_s=line.recovery_s if line and trusted else None,
        time_to_progress_s=line.time_to_progress_s if line and trusted else None,
        unattributed_s=None,
        verify_s=None,
        step_before=line.step_before if line else None,
        restored_step=line.restored_step if line else None,
        lost_steps=_lost(line),
        detected_by=line.evidence[0].mechanism if line and line.evidence else None,
        detection_evidence=line.evidence if line else (),
        compile_cache={},
        restore_bytes=None,
        restore_tried=(),
        verify=compared.verification,
        exits=tuple(exit_of(e) for e in history.named("exit")),
        spans=spans_of(history, marks, t),
        pids=pids_of(journals, history, cell.mesh.workers),
        load=load,
        memory_available_bytes=memory_available_bytes,
        wall_s=wall_s,
        window_s=None if t is None or not marks else (max(m.t for m in marks) - t) / 1e9,
        steady_step_s=_steady_step_s(splits),
        harness={
            **(harness or {}),
            "marks": len(marks),
            "lines_dropped": sum(journal.dropped for journal in journals),
        },
        workers=cell.mesh.workers,
        recoveries=int(line is not None and line.acted),
    )


def _gone(history: History, t: int) -> list[tuple[int | None, int]]:
    """Ranks and incarnations that the fault ended."""
    return [
        (line["worker"], line["attempt"])
        for line in history.named("exit")
        if line["t"] >= t and line.get("reason") == "inject"
    ]


def _finished(
    history: History,
    t: int,
    splits: Sequence[Split],
    terms: Terms,
    reference: CommandReference | None,
) -> bool:
    """It came to its last step before the deadline, or everything ended with code 0."""
    deadline = min((line["t"] for line in history.named("deadline")), default=None)
    ends = [line for line in history.named("command_ended") if _in_time(line["t"], deadline)]
    if len(ends) == terms.starts and all(line.get("code") == 0 for line in ends):
        return True
    if reference is None or not splits:
        return False
    reached = [
        any(
            m.t > t and _in_time(m.t, deadline) and (m.step or 0) >= reference.last
            for m in steps_of((*one.before, *one.after))
        )
        for one in splits
    ]
    return all(reached) if terms.back == "all" else any(reached)


def _in_time(t: int, deadline: int | None) -> bool:
    return deadline is None or t <= deadline


def _began_late(
    splits: Sequence[Split], reference: CommandReference | None, interval: int
) -> str | None:
    """The job did not begin with the first step: it found what another run had saved, so that
    what was lost and what was restored is not what the record would say.

    Less than a checkpoint's interval later is no sign of it: steps may be printed now and then.
    """
    steps = [m.step for one in splits for m in one.before if m.step is not None]
    if reference is None or not steps or min(steps) < reference.first + interval:
        return None
    return (
        f"the job began with step {min(steps)}, and without a fault with step {reference.first}: "
        "it found a checkpoint of another run; a command is to save in {directory}, or in "
        "$RECOVERYBENCH_DIRECTORY"
    )


def _facts(
    problem: str | None,
    history: History,
    line: CommandTimeline | None,
    compared: Compared,
    terms: Terms,
    finished: bool,
) -> Facts:
    passed = compared.verification.passed
    stood = max((float(s["seconds"]) for s in history.named("stood_still")), default=0.0)
    if problem is None and stood:
        problem = f"the harness stood still for {stood:.1f} s"
    if problem is None and compared.unsteady is not None:
        problem = (
            f"not the same from run to run, before any fault: {compared.unsteady} "
            "(loss_tolerance says how close is close enough)"
        )
    if terms.verify == "none":
        passed = True if finished else None
    elif problem is None and finished and passed is None and line is not None:
        problem = NOTHING_TO_COMPARE
    saved = any(m["what"] == "saved" for m in history.named("mark"))
    return Facts(
        problem=problem,
        injected=line is not None,
        noticed=bool(line and line.evidence),
        acted=bool(line and line.acted),
        finished=finished,
        deadline=bool(history.named("deadline")),
        # Unknown is not nothing: only a job that begins with its first step began anew.
        restored_step=None if line is None or line.from_start else 1,
        tried_in_vain=False,
        committed=saved,
        as_saved=None,
        passed=passed,
    )


def _explain(
    outcome: str,
    facts: Facts,
    history: History,
    line: CommandTimeline | None,
    compared: Compared,
    terms: Terms,
) -> str | None:
    """What went wrong, in one line for people."""
    if outcome in ("recovered", "no_effect"):
        return None
    if outcome == "invalid":
        return doubt(facts)
    if outcome == "diverged":
        return compared.verification.first_difference
    if outcome == "undetected":
        return "no sign before the deadline that the command had noticed"
    if outcome == "timeout":
        back = line is not None and line.recovery_s is not None
        return (
            "came back, and was not done at the deadline"
            if back
            else "noticed, and at the deadline still without a step"
        )
    if outcome == "restarted_from_scratch":
        return "began anew with its first step though a checkpoint had been saved"
    if outcome == "no_usable_checkpoint":
        return "began anew with its first step; no line or mark says that a checkpoint was saved"
    ends = [e for e in history.named("command_ended")]
    if ends:
        last = ends[-1]
        how = last.get("signal") or f"exit code {last.get('code')}"
        return f"the command ended with {how}"
    return "the command did not come to its end"


def _lost(line: CommandTimeline | None) -> int | None:
    if line is None or line.step_before is None or line.recovery_s is None:
        return None
    if line.from_start:
        return line.step_before
    return None if line.restored_step is None else max(0, line.step_before - line.restored_step)


def _steady_step_s(splits: Sequence[Split]) -> float | None:
    """Median time from one step to the next before the fault, without the first ones."""
    times = []
    for one in splits:
        steps = steps_of(one.before)[WARM_UP:]
        times += [
            (b.t - a.t) / 1e9
            for a, b in itertools.pairwise(steps)
            if a.step is not None and b.step == a.step + 1
        ]
    return statistics.median(times) if times else None


def spans_of(history: History, marks: Sequence[Mark], t: int | None) -> tuple[Span, ...]:
    """What is known of each rank around the recovery: its processes, restores and steps."""
    if t is None:
        return ()
    end = max([t, *(m.t for m in marks)])
    ends = {(e["worker"], e["attempt"]): e["t"] for e in history.named("exit")}
    found = [
        _span(s["worker"], s["attempt"], "process", s["t"], _end(ends, s, end), t)
        for s in history.named("spawn")
    ]
    begun: dict[tuple[int | None, int, str], int] = {}
    for mark in marks:
        if mark.who is None:
            continue
        key = (mark.who, mark.attempt)
        if mark.what == "restore_begin":
            begun[(*key, "restore")] = mark.t
        elif mark.what == "restore_end" and (*key, "restore") in begun:
            start = begun.pop((*key, "restore"))
            found.append(_span(mark.who, mark.attempt, "restore", start, mark.t, t))
        elif mark.what == "step" and not mark.again:
            start = begun.get((*key, "step"), mark.t)
            found.append(_span(mark.who, mark.attempt, "step", start, mark.t, t))
            begun[(*key, "step")] = mark.t
    shown = [s for s in found if s.end_s > -1.0]
    return tuple(sorted(shown, key=lambda s: (s.start_s, s.end_s))[:SPANS_KEPT])


def _end(ends: Mapping[tuple[int, int], int], spawn: Line, otherwise: int) -> int:
    return max(int(spawn["t"]), ends.get((spawn["worker"], spawn["attempt"]), otherwise))


def _span(who: int, attempt: int, name: str, start: int, end: int, t: int) -> Span:
    return Span(who, attempt, name, (start - t) / 1e9, (end - t) / 1e9)
