"""Events -> milestones -> phases. Pure: lines of journals in, a `Timeline` out.

A milestone of the job is the moment the last worker that is needed got there, and never
earlier than the milestone before it; so phases follow one another and their sum is the
recovery time by construction. Workers may pass a milestone in any order among each other.
What may not happen is a problem, and makes the trial `invalid`: a worker that skips a
milestone or passes two in the wrong order, an effect before its cause, an attempt of which
nobody knows when it was out of the way. Nothing is clamped.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from recoverybench.analysis.causality import concerns, disorder, early_effect
from recoverybench.analysis.generations import begun_generation, legs, restored_step
from recoverybench.analysis.history import History, Line
from recoverybench.analysis.milestones import (
    Mark,
    Missing,
    Need,
    chain,
    later,
    measure,
    needs_of,
    progress_of,
)
from recoverybench.clocks import apart_ns, reading_of, surely_before
from recoverybench.records import Evidence
from recoverybench.vocabulary import EVIDENCE, MILESTONES, PHASES, RECOVERY_PHASES


@dataclass(frozen=True, slots=True)
class Timeline:
    """A recovery in time.

    Attributes:
        t_inject: instant of the injection, ns; None if it never came to it.
        generation: the recovery's generation, None if none was begun: the last that was
            begun to recover, so that a job that came back and was lost again did not come
            back. A generation that only sets up anew a job which runs is not counted.
        recoveries: how many the strategy began.
        reached: every milestone up to `first_step` was reached.
        marks: the milestones that were reached, in order.
        waiting_for: the first milestone that was not reached, and who was missing (a worker
            counts as missing until its event is there); None if all were.
        phases: name -> seconds, of the milestones that were reached.
        recovery_s: the sum of `RECOVERY_PHASES`. time_to_progress_s: with `catch_up`.
        unattributed_s: time in the recovery phases that no span of the critical worker covers.
        verify_s: time in the recovery phases that our own verification took; in no phase.
        step_before: last step that any worker completed before the injection, in the
            generation that it broke. Where that one had not come to a step: the step that it
            had restored, or else the last that was durable, as nothing beyond was there to
            be lost.
        evidence: each (mechanism, observer) once, earliest first.
        problem: why the measurement is not to be trusted, one line. With one, `phases` is
            empty and no number is given.
        clock_bound_s: name of a duration (a phase, `recovery_s`, `time_to_progress_s`) -> how far
            clocks of several hosts may make it wrong, seconds; those that are.
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
    recoveries: int = 0
    clock_bound_s: dict[str, float] = field(default_factory=dict)

    def at(self, name: str) -> int | None:
        """The instant of a milestone, ns; None where it was not reached."""
        return next((mark.t for mark in self.marks if mark.name == name), None)


def timeline(history: History, workers: int) -> Timeline:
    """The timeline of one trial.

    Args:
        history: every line of the trial's journals.
        workers: processes of the job, W; ranks are 0 … W-1.
    """
    injects = history.named("inject")
    if not injects:
        return _untimed(None, history.problem)
    inject = injects[0]
    generation = begun_generation(history, inject)
    step_before = _step_before(history, workers, inject)
    witnesses, detection = _evidence(history, inject)
    acts = [line for line in history.named("act") if line["t"] >= inject["t"]]
    needed: list[Need] = []
    if generation is not None:
        progress = progress_of(history, workers, legs(history, generation), step_before)
        needed = [*needs_of(history, workers, generation), progress]
    marks, waiting = _marks(inject, witnesses, acts, needed)
    reached = len(marks) > MILESTONES.index("first_step")
    problem = (
        history.problem
        or ("more than one injection" if len(injects) > 1 else None)
        or early_effect(history, inject, witnesses)
        or disorder(history, workers, generation, inject)
        or _missing_problem(needed, waiting, reached)
    )
    base = Timeline(
        t_inject=inject["t"],
        generation=generation,
        reached=reached,
        marks=marks,
        waiting_for=waiting,
        phases={},
        recovery_s=None,
        time_to_progress_s=None,
        unattributed_s=None,
        verify_s=None,
        step_before=step_before,
        evidence=detection,
        problem=problem,
        recoveries=len({line["generation"] for line in acts}),
    )
    return base if problem else _timed(base, history)


def _untimed(t_inject: int | None, problem: str | None) -> Timeline:
    """A timeline of nothing."""
    return Timeline(
        t_inject=t_inject,
        generation=None,
        reached=False,
        marks=(),
        waiting_for=None,
        phases={},
        recovery_s=None,
        time_to_progress_s=None,
        unattributed_s=None,
        verify_s=None,
        step_before=None,
        evidence=(),
        problem=problem,
    )


def _step_before(history: History, workers: int, inject: Line) -> int | None:
    """See `Timeline.step_before`."""
    broken, t = inject.get("generation", 0), inject["t"]
    own = [
        line["step"]
        for line in history.named("step")
        if line["generation"] == broken and line["t"] <= t
    ]
    if own or broken == 0:
        return max(own, default=None)
    restored = restored_step(history, workers, broken)
    durable = [line["step"] for line in history.named("committed") if line["t"] <= t]
    return max(durable, default=None) if restored is None else restored


def _evidence(history: History, inject: Line) -> tuple[list[Line], tuple[Evidence, ...]]:
    """Lines that are evidence of the failure, and the first of each mechanism and observer.

    What comes after the deadline is not counted: from there on the harness ends the job
    itself, and sees its own work.
    """
    t_inject: int = inject["t"]
    deadline = min((line["t"] for line in history.named("deadline")), default=math.inf)
    lines = [
        line
        for line in history.named("evidence", "error")
        if line.get("mechanism") in EVIDENCE
        and line["t"] <= deadline
        and not surely_before(line, inject)
        and concerns(line, inject)
    ]
    first: dict[tuple[str, int | None], Evidence] = {}
    for line in lines:
        mechanism, observer = key = (line["mechanism"], line["worker"])
        after = line["t"] - t_inject
        bound = apart_ns(reading_of(inject), reading_of(line), after)
        evidence = Evidence(mechanism, after / 1e9, observer, detail_of(line), bound / 1e9)
        first.setdefault(key, evidence)
    return lines, tuple(first.values())


def detail_of(line: Line) -> str:
    """What an `evidence` or `error` line says, on one line of at most 200 characters."""
    text = line.get("detail")
    if text is None:
        kind, text = str(line.get("type", "error")), str(line.get("message", ""))
        text = text if text.startswith(f"{kind}:") else f"{kind}: {text}"
    first = next((part.strip() for part in str(text).splitlines() if part.strip()), "")
    return first if len(first) <= 200 else first[:199] + "…"


def _marks(
    inject: Line, witnesses: Sequence[Line], acts: Sequence[Line], needed: Sequence[Need]
) -> tuple[tuple[Mark, ...], Missing | None]:
    """The milestones that were reached, and the first that was not."""
    marks = [Mark("inject", inject["t"], None, reading_of(inject))]
    for name, lines in (("evidence", witnesses), ("act", acts)):
        if not lines:
            return tuple(marks), (name, ())
        by = lines[0]["worker"] if lines[0]["event"] == "error" else None
        t, read = later(marks[-1], lines[0])
        marks.append(Mark(name, t, by, read))
    return chain(marks, needed) if needed else (tuple(marks), ("closed", ()))


def _missing_problem(needed: Sequence[Need], waiting: Missing | None, reached: bool) -> str | None:
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
    bounds = {
        name: bound / 1e9 for name, a, b in _durations(base) if (bound := _bound_ns(a, b)) > 0
    }
    base = dataclasses.replace(base, clock_bound_s=bounds)
    taken_ns = open_ns = 0
    for phase, start, end in zip(PHASES, base.marks, base.marks[1:], strict=False):
        measured = measure(history, start, end)
        phases[phase] = measured.phase_s
        if phase in RECOVERY_PHASES:
            taken_ns += measured.verify_ns
            open_ns += measured.open_ns
    if not base.reached:
        return dataclasses.replace(base, phases=phases)
    recovery_s = math.fsum(phases[name] for name in RECOVERY_PHASES)
    return dataclasses.replace(
        base,
        phases=phases,
        recovery_s=recovery_s,
        time_to_progress_s=recovery_s + phases["catch_up"] if "catch_up" in phases else None,
        unattributed_s=open_ns / 1e9,
        verify_s=taken_ns / 1e9,
    )


def _durations(base: Timeline) -> Iterator[tuple[str, Mark, Mark]]:
    """Every duration by its name, with the marks that it lies between."""
    yield from zip(PHASES, base.marks, base.marks[1:], strict=False)
    for name, end in (("recovery_s", "first_step"), ("time_to_progress_s", "progress")):
        yield from ((name, base.marks[0], mark) for mark in base.marks if mark.name == end)


def _bound_ns(a: Mark, b: Mark) -> int:
    return apart_ns(a.read, b.read, b.t - a.t)
