"""What cannot be: an effect before its cause, a worker that passes milestones out of order.

Each function returns one line for people that names the events and who wrote them, or None.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from recoverybench.analysis.history import (
    PASSED,
    Attempt,
    History,
    Line,
    attempts_before,
    attempts_in,
    rank_of,
    who,
)
from recoverybench.clocks import reading_of, surely_before
from recoverybench.vocabulary import EVIDENCE
from recoverybench.vocabulary import WORKER_MILESTONES as ORDER


def early_effect(history: History, inject: Line, witnesses: Sequence[Line]) -> str | None:
    """Evidence or an action of the strategy before what causes it."""
    notice = min((line["t"] for line in history.named("notice")), default=None)
    for line in history.named("evidence", "error"):
        alarm = line.get("mechanism") in EVIDENCE and concerns(line, inject)
        early = alarm and surely_before(line, inject)
        # A preemption is announced: what was noticed after the notice is no false alarm.
        if early and (notice is None or line["t"] < notice):
            return _too_early(line, inject)
    for line in history.named("act"):
        if line["generation"] <= inject.get("generation", 0):
            continue  # of a recovery before this injection
        if surely_before(line, inject):
            return _too_early(line, inject)
        if not witnesses:
            return f"{who(line)} although nothing was noticed after the injection"
        if surely_before(line, witnesses[0]):
            return _too_early(line, witnesses[0])
    return None


def concerns(line: Line, inject: Line) -> bool:
    """Whether what a worker noticed is about the generation that was broken, or a later one.

    The end of a healthy generation, which is resumed, may reach a worker as an error.
    """
    generation: int | None = line.get("generation")
    return generation is None or generation >= int(inject.get("generation", 0))


def _too_early(line: Line, cause: Line) -> str:
    gap_s = (cause["t"] - line["t"]) / 1e9
    return f"{who(line)} is {gap_s:.6f} s before {who(cause)}"


def disorder(history: History, workers: int, generation: int | None, inject: Line) -> str | None:
    """A worker that skips a milestone, repeats one or passes two in the wrong order."""
    for line in history.named("span", "step"):
        gap = line["t0"] - line["t"]
        # Of another clock by which somebody else's instant is given, too far only beyond the bound.
        if gap > (reading_of(line).bound if "t0_of" in line else 0):
            return f"{who(line)} ends {(line['t0'] - line['t']) / 1e9:.6f} s before it starts"
    if generation is None:
        return None
    before = attempts_before(history, workers, generation)
    own: dict[Attempt, list[Line]] = defaultdict(list)
    for line in history.named(*PASSED):
        if line["generation"] == generation:
            own[rank_of(line)].append(line)
    for attempt in sorted(set(attempts_in(history, workers, generation).values())):
        if problem := _order_problem(own[attempt], attempt in before, inject):
            return problem
    return None


def _order_problem(lines: Sequence[Line], survivor: bool, inject: Line) -> str | None:
    """The same for one attempt's lines of one generation."""
    by_name: dict[str, Line] = {}
    for line in lines:
        if line["event"] == "step":
            by_name.setdefault("step", line)
        elif line["event"] in by_name:
            return f"{who(line)} twice in generation {line['generation']}"
        else:
            by_name[line["event"]] = line
    order = ORDER if survivor else ORDER[1:]
    if not survivor and "closed" in by_name:
        return f"{who(by_name['closed'])}, which had nothing to close"
    last: Line | None = None
    for i, name in enumerate(order):
        line_or_none = by_name.get(name)
        if line_or_none is None:
            later = next((by_name[n] for n in (*order[i:], "step") if n in by_name), None)
            return f"{who(later)} without {name}" if later else None
        if surely_before(line_or_none, inject):
            return _too_early(line_or_none, inject)
        if last is not None and surely_before(line_or_none, last):
            return _too_early(line_or_none, last)
        last = line_or_none
    return None
