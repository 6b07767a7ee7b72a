"""Journals -> trial record. Pure, so a record can be computed again from a run's directory."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from recoverybench.analysis.generations import (
    broken_generation,
    legs,
    members_of,
    restores_in,
)
from recoverybench.analysis.history import History, Journal, Line, name_of, rank_of, who
from recoverybench.analysis.outcome import Facts, classify, doubt, foreign_death
from recoverybench.analysis.reference import Reference
from recoverybench.analysis.timeline import Timeline, detail_of, timeline
from recoverybench.analysis.transitions import transitions
from recoverybench.analysis.verify import check, restored_as_saved
from recoverybench.cells import Cell
from recoverybench.records import Exit, Span, Stop, TrialRecord, Verification
from recoverybench.vocabulary import RESTORE_TIERS

SPANS_KEPT: Final = 400
"""Spans that a record keeps; `harness["spans_dropped"]` counts the others."""

_LEAD_NS: Final = 1_000_000_000
"""Spans that ended longer than that before the injection are not for the waterfall."""

WARM_UP: Final = 3
"""First steps of a worker that are no steady steps."""


def analyse(
    journals: Iterable[Journal],
    *,
    trial: str,
    cell: Cell,
    rep: int,
    seed: int,
    workers: int,
    reference: Reference | None,
    load: tuple[float, float],
    memory_available_bytes: tuple[int, int],
    wall_s: float,
    problem: str | None = None,
    simulated: bool = False,
    harmless: bool = False,
    ends: bool = True,
    harness: Mapping[str, Any] | None = None,
) -> TrialRecord:
    """The record of one trial.

    Args:
        journals: all journals of the trial, in any order (`TrialJournals.all`).
        trial, cell, rep, seed: which one it is.
        workers: processes of the job; as many as the topology has workers, unless one
            process drives all devices.
        reference: of the same workload, topology and seed, None if there is none.
        load: 1-minute load average at the start and the end.
        memory_available_bytes: likewise.
        wall_s: the whole trial, start of the job to its end.
        problem: what the harness itself knows to be wrong; makes the trial `invalid`.
        simulated: the fault was simulated; an injection may say so itself.
        harmless: nothing is lost by the fault, and any alarm is a false one.
        ends: the journals go on to the job's end. Else they are a part of it (see `soak`),
            and the trial is over when the job runs again and is right as far as they go.
        harness: sizes and costs of the harness, kept as they are.
    """
    journals = tuple(journals)
    history = History.of(journals)
    line = timeline(history, workers)
    started = legs(history, line.generation)
    restores = [] if line.generation is None else restores_in(history, workers, started[0])
    restored_step = restores[0].get("step") if restores else None
    verification = check(
        history,
        reference,
        workers=workers,
        generation=line.generation,
        restored=restored_step,
        ends=ends,
    )
    victim = next((inject["worker"] for inject in history.named("inject")), None)
    facts = Facts(
        problem=problem
        or line.problem
        or _restores_problem(history, workers, line, started)
        or foreign_death(history, line.t_inject, victim)
        or _stood_still(history, line.t_inject),
        injected=line.t_inject is not None,
        noticed=bool(line.evidence),
        acted=line.generation is not None or any(m.name == "act" for m in line.marks),
        finished=_finished(history, workers, started[-1]) if ends else line.reached,
        deadline=bool(history.named("deadline")),
        restored_step=restored_step,
        tried_in_vain=not restored_step and any(r["tried"] for r in restores),
        committed=_committed(history, line.generation),
        as_saved=restored_as_saved(history, reference, line.generation),
        passed=verification.passed,
    )
    outcome = classify(facts)
    trusted = outcome != "invalid"
    spans, spans_dropped = _spans(history, line, _adopted(history))
    notes = {
        **(harness or {}),
        "spans_dropped": spans_dropped,
        "lines_dropped": sum(journal.dropped for journal in journals),
    }
    if problem is not None:
        notes["problem"] = problem
    return TrialRecord(
        trial=trial,
        cell=cell,
        rep=rep,
        seed=seed,
        outcome=outcome,
        error=_error(outcome, facts, history, line, verification),
        victim=victim,
        t_inject=line.t_inject,
        milestones={mark.name: mark.t for mark in line.marks},
        phases=line.phases if trusted else {},
        recovery_s=line.recovery_s if trusted else None,
        time_to_progress_s=line.time_to_progress_s if trusted else None,
        unattributed_s=line.unattributed_s if trusted else None,
        verify_s=line.verify_s if trusted else None,
        step_before=line.step_before,
        restored_step=restored_step,
        lost_steps=_lost(history, line, restores),
        detected_by=line.evidence[0].mechanism if line.evidence else None,
        detection_evidence=line.evidence,
        compile_cache=_compile_cache(history, workers, line.generation),
        restore_bytes=next((r.get("bytes") for r in restores if r["worker"] == 0), None),
        restore_tried=_tried(restores),
        verify=verification,
        exits=tuple(_exit(e) for e in history.named("exit")),
        spans=spans,
        pids=_pids(journals, history, workers),
        load=load,
        memory_available_bytes=memory_available_bytes,
        wall_s=wall_s,
        window_s=_window_s(history, line),
        steady_step_s=_steady_step_s(history, line),
        simulated=simulated or any(i.get("simulated") is True for i in history.named("inject")),
        harness=notes,
        workers=workers,
        recoveries=line.recoveries,
        transitions=transitions(history, workers),
        restore_tier="+".join(t for t in RESTORE_TIERS if t in {r.get("tier") for r in restores})
        or None,
        restore_received_bytes=_received(restores),
        harmless=harmless,
        false_alarms=_alarms(history, line) if harmless else 0,
        preemption_save=_saved_on_notice(history, workers),
        stopped=_stopped(history),
    )


def reanalyse(
    record: TrialRecord, journals: Iterable[Journal], reference: Reference | None
) -> TrialRecord:
    """`record` computed again from its journals; what they do not hold is taken over.

    A problem that only the harness knew of is not in the journals, but in the record: such
    a trial stays `invalid`.
    """
    return analyse(
        journals,
        trial=record.trial,
        cell=record.cell,
        rep=record.rep,
        seed=record.seed,
        workers=record.workers or int(record.cell.topology.partition("x")[0]),
        reference=reference,
        load=record.load,
        memory_available_bytes=record.memory_available_bytes,
        wall_s=record.wall_s,
        problem=record.harness.get("problem"),
        simulated=record.simulated,
        harmless=record.harmless,
        harness=record.harness,
    )


def _restores_problem(
    history: History, workers: int, line: Timeline, counted: Sequence[int]
) -> str | None:
    """Workers that came back from different steps, or do not say from which."""
    if line.generation is None:
        return None
    for generation in counted:
        restores = restores_in(history, workers, generation)
        steps = {restore["worker"]: restore.get("step") for restore in restores}
        if len(set(steps.values())) > 1:
            return f"the workers restored different steps: {steps}"
        missing = sorted(set(members_of(history, workers, generation)) - set(steps))
        if generation == line.generation and line.reached and missing:
            ranks = ", ".join(map(str, missing))
            return f"worker {ranks} came back without saying from which step"
    return None


def _stood_still(history: History, t_inject: int | None) -> str | None:
    """Whether the harness did not run for a while after the injection, for people."""
    after = [s for s in history.named("stood_still") if t_inject is None or s["t"] >= t_inject]
    longest = max((float(line["seconds"]) for line in after), default=0.0)
    return f"the harness stood still for {longest:.1f} s" if after else None


def _finished(history: History, workers: int, generation: int) -> bool:
    """Every worker of that generation was done before the deadline."""
    deadline = min((line["t"] for line in history.named("deadline")), default=None)
    done = {
        line["worker"]
        for line in history.named("done")
        if line["generation"] == generation and (deadline is None or line["t"] <= deadline)
    }
    return done >= set(members_of(history, workers, generation))


def _committed(history: History, generation: int | None) -> bool:
    return any(
        line["step"] > 0 and (generation is None or line.get("generation", 0) < generation)
        for line in history.named("committed")
    )


def _lost(history: History, line: Timeline, restores: list[Line]) -> int | None:
    """Steps whose work was lost; None where nothing came back.

    A job that was lost again after it had gone on lost what it had done by then.
    """
    if line.generation is None or line.step_before is None or not line.reached or not restores:
        return None
    back: int = restores[0].get("step") or 0
    if back <= line.step_before:
        return line.step_before - back
    earlier = (s["step"] for s in history.named("step") if s["generation"] < line.generation)
    return max(earlier) - back


def _tried(restores: list[Line]) -> tuple[str, ...]:
    """Steps that were tried and why each failed; what several workers say appears once."""
    texts = (f"{t.get('step')}: {t.get('error')}" for r in restores for t in r["tried"])
    return tuple(dict.fromkeys(texts))


def _received(restores: list[Line]) -> int | None:
    """Bytes that the workers got from one another; None: they do not say."""
    known = [r["received"] for r in restores if r.get("received") is not None]
    return sum(known) if known else None


def _alarms(history: History, line: Timeline) -> int:
    """Mechanisms and observers that alarmed before the strategy acted on it.

    What is noticed after that is the recovery's own doing.
    """
    acts = [act["t"] for act in history.named("act") if act["t"] >= (line.t_inject or 0)]
    if not acts or line.t_inject is None:
        return len(line.evidence)
    return sum(e.after_s <= (acts[0] - line.t_inject) / 1e9 for e in line.evidence)


def _saved_on_notice(history: History, workers: int) -> bool | None:
    """Whether every worker saved and stopped after a preemption notice; None: there was none."""
    if not history.named("notice"):
        return None
    broken = broken_generation(history)
    saved = {s["worker"] for s in history.named("suspended") if s["generation"] == broken}
    return saved >= set(range(workers))


def _stopped(history: History) -> Stop | None:
    """The file operation at which the trigger stopped a save."""
    lines = history.named("stopped")
    if not lines:
        return None
    path = lines[0].get("path")
    # The directory is the trial's own, and is gone; what follows says which file it was.
    below = None if path is None else re.split("/(?:checkpoints|local)/", path, maxsplit=1)[-1]
    return Stop(
        operation=lines[0]["operation"],
        kind=lines[0].get("kind"),
        path=below,
        torn=lines[0].get("torn"),
    )


def _compile_cache(history: History, workers: int, generation: int | None) -> dict[str, str]:
    """Worker -> state of the step function's cache in the recovery's generation."""
    return {
        str(line["worker"]): line["status"]
        for line in sorted(history.named("compile_cache"), key=lambda c: (rank_of(c), c["t"]))
        if line["function"] == "step"
        and line["generation"] == generation
        and line["worker"] < workers
    }


def _exit(line: Line) -> Exit:
    return Exit(
        worker=line["worker"],
        attempt=line["attempt"],
        pid=line["pid"],
        code=line.get("code"),
        signal=line.get("signal"),
        ours=bool(line.get("ours")),
        reason=str(line.get("reason", "own")),
    )


def _pids(journals: Iterable[Journal], history: History, workers: int) -> dict[str, list[int]]:
    """Worker -> pids of its attempts in order.

    A standby's file begins in a slot beyond the ranks and goes on as the rank it took: its
    pid counts for that rank.
    """
    pids = {rank_of(line): line["pid"] for line in history.named("spawn")}
    for journal in journals:
        heads = [line for line in journal.lines if line.get("event") == "journal"]
        # The supervisor's file speaks of workers too, and is nobody's attempt.
        if not heads or heads[0].get("worker") is None:
            continue
        ranks = {rank_of(line) for line in journal.lines if line.get("worker") is not None}
        pids.update({rank: heads[0]["pid"] for rank in ranks})
    found: dict[str, list[int]] = defaultdict(list)
    for rank, attempt in sorted(pids):
        if rank < workers:
            found[str(rank)].append(pids[rank, attempt])
    return dict(found)


def _adopted(history: History) -> dict[tuple[int, int], tuple[int, int]]:
    """Standby -> the worker and attempt that it became, both as (worker, attempt).

    What it did before it had a rank belongs to the same process, so to the same lane.
    """
    ranks = {line["slot"]: rank_of(line) for line in history.named("assigned")}
    return {(slot, 0): rank for slot, rank in ranks.items()}


def _spans(
    history: History, line: Timeline, adopted: Mapping[tuple[int, int], tuple[int, int]]
) -> tuple[tuple[Span, ...], int]:
    """Spans for the waterfall by their start, and how many were left out.

    Of more than `SPANS_KEPT`, those inside the recovery stay before others, and long ones
    before short ones.
    """
    t = line.t_inject
    if t is None:
        return (), 0
    end = line.marks[-1].t
    lines = [s for s in history.named("span", "step") if s["t"] > t - _LEAD_NS]
    lines.sort(key=lambda s: (not (s["t"] >= t and s["t0"] <= end), s["t0"] - s["t"]))
    kept = sorted(lines[:SPANS_KEPT], key=lambda s: s["t0"])
    spans = tuple(
        Span(
            *adopted.get((s["worker"], s["attempt"]), (s["worker"], s["attempt"])),
            name_of(s),
            (s["t0"] - t) / 1e9,
            (s["t"] - t) / 1e9,
        )
        for s in kept
    )
    return spans, len(lines) - len(kept)


def _window_s(history: History, line: Timeline) -> float | None:
    """Injection to the last worker's last digest or end; None if the job did not get there."""
    if line.t_inject is None:
        return None
    last = legs(history, line.generation)[-1]
    ends = [
        event["t"]
        for event in history.named("done", "digest")
        if event["generation"] == last and event["t"] >= line.t_inject
    ]
    return (max(ends) - line.t_inject) / 1e9 if ends else None


def _steady_step_s(history: History, line: Timeline) -> float | None:
    """Median step before the injection, of all workers, without the first of each generation."""
    steps: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for step in history.named("step"):
        before = line.generation is None or step["generation"] < line.generation
        if before and line.t_inject is not None and step["t"] <= line.t_inject:
            steps[step["worker"], step["generation"]].append(step)
    steady = [s for own in steps.values() for s in own[WARM_UP:]]
    return statistics.median((s["t"] - s["t0"]) / 1e9 for s in steady) if steady else None


def _error(
    outcome: str, facts: Facts, history: History, line: Timeline, verification: Verification
) -> str | None:
    """What went wrong, in one line for people."""
    if outcome in ("recovered", "no_effect"):
        return None
    if outcome == "invalid":
        return doubt(facts)
    if outcome in ("diverged", "silent_corruption"):
        return verification.first_difference
    if outcome == "undetected":
        return "nothing in the system noticed before the deadline"
    if outcome == "timeout":
        return _overdue(line)
    if outcome == "restarted_from_scratch":
        return "came back at step 0 though a checkpoint had been committed"
    if outcome == "no_usable_checkpoint" and not facts.tried_in_vain:
        return "no checkpoint had been committed"
    return _first_error(history, line)


def _overdue(line: Timeline) -> str:
    """What the job was waiting for when the deadline came."""
    if line.waiting_for is None or line.waiting_for[0] == "progress":
        return "came back, and was not done at the deadline"
    name, ranks = line.waiting_for
    of = f" of worker {', '.join(map(str, ranks))}" if ranks else ""
    return f"noticed, and at the deadline still without {name}{of}"


def _first_error(history: History, line: Timeline) -> str | None:
    """Why the strategy gave up; else the first error that is no evidence of the fault, the
    first end of a worker that nobody broke, the first error at all, or the first exit.
    """
    t = line.t_inject or 0
    if given_up := history.named("given_up"):
        return str(given_up[0].get("reason"))
    errors = [e for e in history.named("error") if e["t"] >= t]
    own = [e for e in errors if e.get("mechanism") != "collective_error"]
    if own:
        return f"worker {own[0]['worker']}: {detail_of(own[0])}"
    victims = tuple(f"worker {inject['worker']}:" for inject in history.named("inject"))
    for seen in history.named("evidence"):
        detail = str(seen.get("detail", ""))
        ended = seen["mechanism"] in ("process_exit", "heartbeat") and seen["t"] >= t
        if ended and not detail.startswith(victims):
            return detail
    if errors:
        return f"worker {errors[0]['worker']}: {detail_of(errors[0])}"
    exits = [e for e in history.named("exit") if e["t"] >= t and not e.get("ours")]
    if not exits:
        return "the job ended, and no worker says why"
    return f"{who(exits[0])} by {exits[0].get('signal') or 'code ' + str(exits[0].get('code'))}"
