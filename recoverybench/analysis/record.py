"""Journals -> trial record. Pure, so a record can be computed again from a run's directory."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from recoverybench.analysis.accelerators import devices_of, health_of
from recoverybench.analysis.details import (
    compile_cache,
    false_alarms,
    received_in,
    saved_on_notice,
    stopped_at,
    tier_of,
    tried_in,
)
from recoverybench.analysis.explanation import explain
from recoverybench.analysis.generations import broken_generation, legs, members_of, restores_in
from recoverybench.analysis.history import History, Journal, Line
from recoverybench.analysis.lanes import exit_of, pids_of, spans_of
from recoverybench.analysis.outcome import Facts, classify, foreign_death
from recoverybench.analysis.reference import Reference
from recoverybench.analysis.storage import not_cold, storage_facts
from recoverybench.analysis.timeline import Timeline, timeline
from recoverybench.analysis.transitions import transitions
from recoverybench.analysis.verify import check, restored_as_saved
from recoverybench.cells import Cell
from recoverybench.clocks import clock_problem
from recoverybench.records import TrialRecord

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
        or clock_problem([journal.lines for journal in journals])
        or line.problem
        or _restores_problem(history, workers, line, started)
        or foreign_death(history, line.t_inject, victim)
        or _stood_still(history, line.t_inject)
        or not_cold(history, cell, restores),
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
    spans, spans_dropped = spans_of(history, line)
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
        error=explain(outcome, facts, history, line, verification),
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
        lost_steps=_lost(history, workers, line),
        detected_by=line.evidence[0].mechanism if line.evidence else None,
        detection_evidence=line.evidence,
        compile_cache=compile_cache(history, workers, line.generation),
        restore_bytes=restores[0].get("bytes") if restores else None,
        restore_tried=tried_in(restores),
        verify=verification,
        exits=tuple(exit_of(e) for e in history.named("exit")),
        spans=spans,
        pids=pids_of(journals, history, workers),
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
        restore_tier=tier_of(restores),
        restore_received_bytes=received_in(restores),
        harmless=harmless,
        false_alarms=false_alarms(history, line) if harmless else 0,
        preemption_save=saved_on_notice(history, workers),
        stopped=stopped_at(history),
        clock_bound_s=line.clock_bound_s if trusted else {},
        devices=devices_of(history),
        health=health_of(history),
        **storage_facts(history, line.generation, restored_step),
    )


def reanalyse(
    record: TrialRecord, journals: Iterable[Journal], reference: Reference | None
) -> TrialRecord:
    """`record` computed again from its journals; what they do not hold is taken over.

    A problem that only the harness knew of is not in the journals, but in the record: such
    a trial stays `invalid`. The records of a soak are made together, by `soak.analyse_soak`.
    """
    return analyse(
        journals,
        trial=record.trial,
        cell=record.cell,
        rep=record.rep,
        seed=record.seed,
        workers=record.workers or record.cell.mesh.workers,
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


def _lost(history: History, workers: int, line: Timeline) -> int | None:
    """Steps whose work was lost, in all recoveries together; None where nothing came back.

    A job that was lost again after it had gone on lost what it had done by then, too. A recovery
    that failed before its first step lost nothing but what its state was older by.
    """
    if line.generation is None or line.step_before is None or not line.reached:
        return None
    reached, lost, some = line.step_before, 0, False
    for generation in range(broken_generation(history) + 1, line.generation + 1):
        restores = restores_in(history, workers, generation)
        if not restores:
            continue  # it failed on its way: what there was to lose is still the same
        back: int = restores[0].get("step") or 0
        if back > reached:  # who was not broken went on after the injection
            reached = max(_steps(history, range(generation)), default=back)
        lost, some = lost + reached - back, True
        reached = max(_steps(history, (generation,)), default=back)
    return lost if some else None


def _steps(history: History, generations: Container[int]) -> Iterator[int]:
    """Every step that was completed in them, by whichever worker."""
    return (s["step"] for s in history.named("step") if s["generation"] in generations)


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
