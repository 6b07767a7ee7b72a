"""Marks -> milestones -> phases, where only some milestones are known. Pure.

A phase has a name where the instants at both its ends are known: by what a command prints or
marks, or by processes that were seen to end or to begin. All other time between the injection and
the first step after it is `unnamed`, and no part of it is guessed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recoverybench.analysis.history import History, Line
from recoverybench.external.marks import BEGINS_ANEW, Mark, Split, Who, steps_of
from recoverybench.records import Evidence
from recoverybench.vocabulary import MILESTONES, PHASES, UNNAMED

_TICK_NS: Final = 10_000_000
"""The kernel dates the start of a process to 10 ms, downwards."""

_KNOWN: Final = {"up": "up", "rendezvous": "rendezvous", "restore_end": "restored"} | {
    "compiled": "compiled"
}
"""Kind of a mark -> the milestone that it is."""


@dataclass(frozen=True, slots=True)
class CommandTimeline:
    """A recovery in time.

    Attributes:
        milestones: name -> instant, ns, those that are known, in their order.
        phases: name -> seconds, `unnamed` among them; the recovery's add up to `recovery_s`.
        recovery_s, time_to_progress_s: None where not reached.
        step_before: last step completed before the injection.
        first_after: number of the first step completed after it, by those who are needed.
        restored_step: the step that the state is of; None: nobody knows.
        from_start: the job began anew with its first step.
        evidence: each mechanism and observer once, earliest first.
        acted: something was set up anew.
    """

    milestones: dict[str, int]
    phases: dict[str, float]
    recovery_s: float | None
    time_to_progress_s: float | None
    step_before: int | None
    first_after: int | None
    restored_step: int | None
    from_start: bool
    evidence: tuple[Evidence, ...]
    acted: bool


def timeline(
    history: History,
    inject: Line,
    splits: Sequence[Split],
    marks: Sequence[Mark],
    *,
    back: str,
    first: int,
) -> CommandTimeline:
    """The timeline of one trial.

    Args:
        inject: the injection's line. splits: of its marks. marks: all of them.
        back: ``all`` | ``any`` of the ranks must have completed a step.
        first: number of the first step of a job without a fault.
    """
    t: int = inject["t"]
    before = [m.step for m in steps_of(marks) if m.t <= t and m.step is not None]
    step_before = max(before, default=None)
    evidence = evidence_of(history, t, marks)
    choose = max if back == "all" else min
    firsts = [s.steps[0] for s in splits if s.steps]
    ahead = [
        next((m for m in s.steps if step_before is None or (m.step or 0) > step_before), None)
        for s in splits
    ]
    there = [m for m in ahead if m is not None]
    enough = (lambda n: n == len(splits)) if back == "all" else bool
    reached = bool(splits) and enough(len(firsts))
    chain: list[tuple[str, int]] = [("inject", t)]
    if evidence:
        chain.append(("evidence", t + round(evidence[0].after_s * 1e9)))
    if reached:
        end = choose(m.t for m in firsts)
        chain += _between(splits, end)
        chain.append(("first_step", end))
        if there and enough(len(there)):
            chain.append(("progress", choose(m.t for m in there)))
    chain = _in_order(chain)
    phases = _phases(chain)
    recovery_s = math.fsum(s for n, s in phases.items() if n != "catch_up") if reached else None
    caught_up = recovery_s is not None and any(n == "progress" for n, _ in chain)
    first_after = min((m.step for m in firsts if m.step is not None), default=None)
    restored = _restored(splits, first_after) if reached else None
    return CommandTimeline(
        milestones={name: at for name, at in chain if name in MILESTONES},
        phases=phases,
        recovery_s=recovery_s,
        time_to_progress_s=(
            recovery_s + phases.get("catch_up", 0.0)
            if caught_up and recovery_s is not None
            else None
        ),
        step_before=step_before,
        first_after=first_after if reached else None,
        restored_step=None if restored is not None and restored < first else restored,
        from_start=reached and first_after is not None and first_after <= first,
        evidence=evidence,
        acted=_acted(history, t, splits),
    )


def evidence_of(history: History, t: int, marks: Sequence[Mark]) -> tuple[Evidence, ...]:
    """What shows that some part of the command noticed, earliest first.

    That the victim has ended is no evidence: only we see that. What is: another process of the
    command ends badly, a rank is started anew, an error is printed.
    """
    deadline = min((line["t"] for line in history.named("deadline")), default=math.inf)
    found: list[Evidence] = []

    def add(mechanism: str, at: int, observer: Who, detail: str) -> None:
        if t <= at <= deadline:
            found.append(Evidence(mechanism, (at - t) / 1e9, observer, detail))

    for line in history.named("exit"):
        if not line.get("ours") and _badly(line):
            add("process_exit", line["t"], None, f"worker {line['worker']} ended: {_how(line)}")
    for line in history.named("spawn"):
        if line["attempt"] > 0 and line["t"] > t - _TICK_NS:
            what = f"worker {line['worker']} was started anew"
            add("process_exit", max(t, line["t"]), None, what)
    for line in filter(_badly, history.named("command_ended")):
        add("process_exit", line["t"], None, f"the command ended: {_how(line)}")
    for line in history.named("evidence"):
        add(str(line["mechanism"]), line["t"], line["worker"], str(line.get("detail", "")))
    for mark in marks:
        if mark.what == "error":
            add("exception", mark.t, mark.who, "an error was printed or marked")
    first: dict[tuple[str, Who], Evidence] = {}
    for one in sorted(found, key=lambda e: e.after_s):
        first.setdefault((one.mechanism, one.observer), one)
    return tuple(first.values())


def _badly(line: Line) -> bool:
    """It ended in another way than by being done; where nobody says how, it may have been."""
    return bool(line.get("signal") or line.get("code"))


def _how(line: Line) -> str:
    if line.get("signal"):
        return str(line["signal"])
    return "nobody says how" if line.get("code") is None else f"exit code {line['code']}"


def _between(splits: Sequence[Split], end: int) -> list[tuple[str, int]]:
    """The milestones that the ranks passed on their way back: when the last one did."""
    last: dict[str, int] = {}
    begin: list[int] = []
    for one in splits:
        for mark in _on_the_way(one):
            if mark.t > end:
                continue
            if mark.what in _KNOWN:
                name = _KNOWN[mark.what]
                last[name] = max(last.get(name, 0), mark.t)
            elif mark.what == "restore_begin":
                begin.append(mark.t)
    found: list[tuple[str, int]] = [(name, last[name]) for name in MILESTONES if name in last]
    if begin and "restored" in last:
        at = [name for name, _ in found].index("restored")
        found.insert(at, ("restore_begin", max(begin)))
    return found


def _in_order(chain: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """None earlier than the one before it, as with every job."""
    found: list[tuple[str, int]] = []
    for name, at in chain:
        found.append((name, max(at, found[-1][1]) if found else at))
    return found


def _phases(chain: Sequence[tuple[str, int]]) -> dict[str, float]:
    """The time between two known instants: a phase of its own, or unnamed."""
    ns: dict[str, int] = {}
    for (a, start), (b, end) in itertools.pairwise(chain):
        name = UNNAMED
        if a == "restore_begin":
            name = "restore"
        elif b != "restore_begin" and MILESTONES.index(b) == MILESTONES.index(a) + 1:
            name = PHASES[MILESTONES.index(a)]
        ns[name] = ns.get(name, 0) + end - start
    return {name: value / 1e9 for name, value in ns.items()}


def _restored(splits: Sequence[Split], first_after: int | None) -> int | None:
    """The step that the job came back from: as it says, or the one before its first step where
    it prints every step.
    """
    said = [
        m.step
        for one in splits
        for m in _on_the_way(one)
        if m.what in ("restore_end", "restore_begin") and m.step is not None
    ]
    if said:
        return min(said)
    for one in splits:
        numbers = [m.step for m in one.steps[:2] if m.step is not None]
        if len(numbers) == 2 and numbers[1] - numbers[0] > 1:
            return None
    return None if first_after is None else first_after - 1


def _on_the_way(one: Split) -> list[Mark]:
    """What a rank said on its way back: before its first step, in the same incarnation."""
    if not one.steps:
        return []
    first = one.steps[0]
    return [m for m in one.after if m.attempt == first.attempt and m.t <= first.t]


def _acted(history: History, t: int, splits: Sequence[Split]) -> bool:
    """Something began anew: a process, or in a process that lived on; or it went on with fewer."""
    anew = any(line["attempt"] > 0 and line["t"] > t - _TICK_NS for line in history.named("spawn"))
    ended = any(line["t"] >= t and line.get("reason") != "end" for line in history.named("exit"))
    return (
        anew
        or ended
        or any(
            m.attempt > one.attempt or m.what in BEGINS_ANEW or _repeated(m, one)
            for one in splits
            for m in one.after
        )
    )


def _repeated(mark: Mark, one: Split) -> bool:
    """A step that had been completed before the fault."""
    return mark.what == "step" and any(m.step == mark.step for m in steps_of(one.before))
