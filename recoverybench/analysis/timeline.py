"""Events -> milestones -> phases. Pure: lines of journals in, a `Timeline` out.

A milestone of the job is the moment the last worker that is needed got there, and never
earlier than the milestone before it; so phases follow one another and their sum is the
recovery time by construction. Workers may pass a milestone in any order among each other.
What may not happen is a problem, and makes the trial `invalid`: a worker that skips a
milestone or passes two in the wrong order, an effect before its cause, an attempt of which
nobody knows when it was out of the way. Nothing is clamped.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recoverybench.analysis.causality import disorder, early_effect
from recoverybench.analysis.history import (
    PASSED,
    Attempt,
    History,
    Line,
    attempts_before,
    attempts_in,
    name_of,
    rank_of,
)
from recoverybench.records import Evidence
from recoverybench.vocabulary import EVIDENCE, MILESTONES, PHASES, RECOVERY_PHASES
from recoverybench.vocabulary import WORKER_MILESTONES as ORDER


@dataclass(frozen=True, slots=True)
class Mark:
    """A milestone that was reached.

    Attributes:
        name: from `vocabulary.MILESTONES`. t: its instant, ns.
        by: the worker whose event set it, None for the supervisor: the critical worker of
            the phase that ends here.
    """

    name: str
    t: int
    by: int | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """A recovery in time.

    Attributes:
        t_inject: instant of the injection, ns; None if it never came to it.
        generation: the recovery's generation, None if none was begun: the last that was
            begun to recover, so that a job that came back and was lost again did not come
            back. A generation that only sets up anew a job which runs is not counted.
        reached: every milestone up to `first_step` was reached.
        marks: the milestones that were reached, in order.
        waiting_for: the first milestone that was not reached, and who was missing (a worker
            counts as missing until its event is there); None if all were.
        phases: name -> seconds, of the milestones that were reached.
        recovery_s: the sum of `RECOVERY_PHASES`. time_to_progress_s: with `catch_up`.
        unattributed_s: time in the recovery phases that no span of the critical worker covers.
        verify_s: time in the recovery phases that our own verification took; in no phase.
        step_before: last step that any worker completed before the injection.
        evidence: each (mechanism, observer) once, earliest first.
        problem: why the measurement is not to be trusted, one line. With one, `phases` is
            empty and no number is given.
    """

    t_inject: int | None
    generation: int | None
    reached: bool
    marks: tuple[Mark, ...]
    waiting_for: tuple[str, tuple[int, ...]] | None
    phases: dict[str, float]
    recovery_s: float | None
    time_to_progress_s: float | None
    unattributed_s: float | None
    verify_s: float | None
    step_before: int | None
    evidence: tuple[Evidence, ...]
    problem: str | None


def timeline(history: History, workers: int) -> Timeline:
    """The timeline of one trial.

    Args:
        history: every line of the trial's journals.
        workers: processes of the job, W; ranks are 0 … W-1.
    """
    injects = history.named("inject")
    if not injects:
        return _empty(None, history.problem)
    inject = injects[0]
    t_inject: int = inject["t"]
    generation = begun_generation(history, inject)
    before = [
        line["step"]
        for line in history.named("step")
        if line["t"] <= t_inject and (generation is None or line["generation"] < generation)
    ]
    step_before = max(before, default=None)
    witnesses, detection = _evidence(history, t_inject)
    needed = _needed(history, workers, generation, step_before)
    marks, waiting = _marks(inject, witnesses, _acts(history, t_inject), needed)
    reached = len(marks) > MILESTONES.index("first_step")
    problem = (
        history.problem
        or ("more than one injection" if len(injects) > 1 else None)
        or early_effect(history, inject, witnesses)
        or disorder(history, workers, generation, inject)
        or _missing_problem(needed, waiting, reached)
    )
    base = _empty(t_inject, problem, generation, reached, marks, waiting, step_before, detection)
    return base if problem else _timed(base, history)


def _empty(
    t_inject: int | None,
    problem: str | None,
    generation: int | None = None,
    reached: bool = False,
    marks: tuple[Mark, ...] = (),
    waiting: tuple[str, tuple[int, ...]] | None = None,
    step_before: int | None = None,
    evidence: tuple[Evidence, ...] = (),
) -> Timeline:
    """A timeline without any duration."""
    return Timeline(
        t_inject,
        generation,
        reached,
        marks,
        waiting,
        phases={},
        recovery_s=None,
        time_to_progress_s=None,
        unattributed_s=None,
        verify_s=None,
        step_before=step_before,
        evidence=evidence,
        problem=problem,
    )


def begun_generation(history: History, inject: Line) -> int | None:
    """The last generation that a worker or the strategy began after the injection, to recover."""
    broken = inject.get("generation", 0)
    planned = {line["generation"] for line in history.named("transition")}
    begun = {line["generation"] for line in history.named(*PASSED)}
    begun |= {line["generation"] for line in history.named("act") if line["t"] >= inject["t"]}
    return max((g for g in begun - planned if g > broken), default=None)


def _evidence(history: History, t_inject: int) -> tuple[list[Line], tuple[Evidence, ...]]:
    """Lines that are evidence of the failure, and the first of each mechanism and observer.

    What comes after the deadline is not counted: from there on the harness ends the job
    itself, and sees its own work.
    """
    deadline = min((line["t"] for line in history.named("deadline")), default=math.inf)
    lines = [
        line
        for line in history.named("evidence", "error")
        if line.get("mechanism") in EVIDENCE and t_inject <= line["t"] <= deadline
    ]
    first: dict[tuple[str, int | None], Evidence] = {}
    for line in lines:
        mechanism, observer = key = (line["mechanism"], line["worker"])
        after_s = (line["t"] - t_inject) / 1e9
        first.setdefault(key, Evidence(mechanism, after_s, observer, detail_of(line)))
    return lines, tuple(first.values())


def detail_of(line: Line) -> str:
    """What an `evidence` or `error` line says, on one line of at most 200 characters."""
    text = line.get("detail")
    if text is None:
        kind, text = str(line.get("type", "error")), str(line.get("message", ""))
        text = text if text.startswith(f"{kind}:") else f"{kind}: {text}"
    first = next((part.strip() for part in str(text).splitlines() if part.strip()), "")
    return first if len(first) <= 200 else first[:199] + "…"


def _acts(history: History, t_inject: int) -> list[Line]:
    return [line for line in history.named("act") if line["t"] >= t_inject]


@dataclass(frozen=True, slots=True)
class _Need:
    """One milestone: the events that set it, and the ranks whose event is missing."""

    name: str
    lines: tuple[Line, ...]
    missing: tuple[int, ...]


def _needed(
    history: History, workers: int, generation: int | None, step_before: int | None
) -> list[_Need]:
    """What `closed` and the later milestones are made of."""
    if generation is None:
        return []
    current = attempts_in(history, workers, generation)
    ranks = members_of(history, workers, generation)
    events: dict[str, dict[int, Line]] = defaultdict(dict)
    ahead: dict[int, Line] = {}
    for line in history.named(*PASSED):
        rank, _ = attempt = rank_of(line)
        if line["generation"] != generation or current.get(rank) != attempt:
            continue
        if line["event"] != "step":
            events[line["event"]].setdefault(rank, line)
        elif step_before is None or line["step"] > step_before:
            ahead.setdefault(rank, line)
    needs = [_closed(history, workers, generation, current)]
    for name in ORDER[1:]:
        needs.append(_of_ranks(name, events[name], ranks))
    return [*needs, _of_ranks("progress", ahead, ranks)]


def members_of(history: History, workers: int, generation: int) -> Sequence[int]:
    """The ranks that a generation consists of: all, unless the strategy went on with fewer."""
    for line in history.named("act"):
        if line["generation"] == generation and line.get("ranks") is not None:
            return tuple(line["ranks"])
    return range(workers)


def _of_ranks(name: str, by_rank: dict[int, Line], ranks: Iterable[int]) -> _Need:
    missing = tuple(rank for rank in ranks if rank not in by_rank)
    return _Need(name, tuple(by_rank.values()), missing)


def _closed(history: History, workers: int, generation: int, current: dict[int, Attempt]) -> _Need:
    """Survivors have closed their runtime, and the other attempts of before have ended."""
    lines: list[Line] = []
    missing: set[int] = set()
    closed = {
        rank_of(line): line
        for line in reversed(history.named("closed"))
        if line["generation"] == generation
    }
    exits = {rank_of(line): line for line in reversed(history.named("exit"))}
    for attempt in sorted(attempts_before(history, workers, generation)):
        survives = attempt in current.values()
        line = (closed if survives or attempt in closed else exits).get(attempt)
        if line is None:
            missing.add(attempt[0])
        else:
            lines.append(line)
    return _Need("closed", tuple(lines), tuple(sorted(missing)))


def _marks(
    inject: Line, witnesses: Sequence[Line], acts: Sequence[Line], needed: Sequence[_Need]
) -> tuple[tuple[Mark, ...], tuple[str, tuple[int, ...]] | None]:
    """The milestones that were reached, and the first that was not."""
    marks = [Mark("inject", inject["t"], None)]
    for name, lines in (("evidence", witnesses), ("act", acts)):
        if not lines:
            return tuple(marks), (name, ())
        by = lines[0]["worker"] if lines[0]["event"] == "error" else None
        marks.append(Mark(name, max(marks[-1].t, lines[0]["t"]), by))
    if not needed:
        return tuple(marks), ("closed", ())
    for need in needed:
        if need.missing or not need.lines:
            return tuple(marks), (need.name, need.missing)
        last = max(need.lines, key=lambda line: (line["t"], -line["worker"]))
        by = None if last["event"] == "exit" else last["worker"]
        marks.append(Mark(need.name, max(marks[-1].t, last["t"]), by))
    return tuple(marks), None


def _missing_problem(
    needed: Sequence[_Need], waiting: tuple[str, tuple[int, ...]] | None, reached: bool
) -> str | None:
    """Workers that are all back, though something that must come before is not there."""
    back = next((need for need in needed if need.name == "first_step"), None)
    if reached or back is None or back.missing or waiting is None:
        return None
    name, ranks = waiting
    of = f" of worker {', '.join(map(str, ranks))}" if ranks else ""
    return f"every worker has passed first_step, without {name}{of}"


def _timed(base: Timeline, history: History) -> Timeline:
    """`base` with its durations."""
    phases: dict[str, float] = {}
    taken_ns = open_ns = 0
    for phase, start, end in zip(PHASES, base.marks, base.marks[1:], strict=False):
        # Before a new worker exists it is the supervisor that is at work on it.
        at_work = (end.by, None) if end.name == "up" else (end.by,)
        spans = [
            (line["t0"], line["t"], name_of(line) == "verify")
            for line in history.named("span", "step")
            if line["worker"] in at_work
        ]
        window = (start.t, end.t)
        verify_ns = covered((s[:2] for s in spans if s[2]), *window)
        phases[phase] = (end.t - start.t - verify_ns) / 1e9
        if phase in RECOVERY_PHASES:
            taken_ns += verify_ns
            open_ns += end.t - start.t - covered((s[:2] for s in spans), *window)
    recovery_s = math.fsum(phases[name] for name in RECOVERY_PHASES) if base.reached else None
    progress_s = None
    if recovery_s is not None and "catch_up" in phases:
        progress_s = recovery_s + phases["catch_up"]
    return Timeline(
        t_inject=base.t_inject,
        generation=base.generation,
        reached=base.reached,
        marks=base.marks,
        waiting_for=base.waiting_for,
        phases=phases,
        recovery_s=recovery_s,
        time_to_progress_s=progress_s,
        unattributed_s=open_ns / 1e9 if base.reached else None,
        verify_s=taken_ns / 1e9 if base.reached else None,
        step_before=base.step_before,
        evidence=base.evidence,
        problem=base.problem,
    )


def covered(spans: Iterable[tuple[int, int]], start: int, end: int) -> int:
    """How much of [start, end] lies inside the union of `spans` (same unit throughout)."""
    total, reach = 0, start
    for a, b in sorted(spans):
        a, b = max(a, reach), min(b, end)
        if b > a:
            total += b - a
            reach = b
    return total
