"""Marks of a trial, and which of them are the job's life after the fault.

Lines and marks come from processes that nobody holds up: what was under way when the fault struck
may be printed after it. A step counts as completed *after* the fault only if it was begun after
it: by an incarnation that was started since; or by one that lives on, but not the step that it
was at, unless it said in between that it began anew (`BEGINS_ANEW`) or came to a step twice.
Ranks train in step: none is more than one step ahead of what any of them has printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from recoverybench.analysis.history import History

Who = int | None
"""A rank; None: the output does not say of which rank it is."""

BEGINS_ANEW: Final = ("up", "rendezvous", "restore_begin", "restore_end", "compiled", "error")
"""What nobody says who is in the midst of a healthy step."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark.

    Attributes:
        t: its instant, ns. who: the rank. attempt: its incarnation. what: kind.
        step, loss: where it has them. again: a newer state of the step before it.
    """

    t: int
    who: Who
    attempt: int
    what: str
    step: int | None = None
    loss: str | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """The marks of one rank on both sides of the fault.

    Attributes:
        who: the rank. attempt: its incarnation that was there when the fault struck.
        before: marks of its healthy life. after: of its life after the fault.
    """

    who: Who
    attempt: int
    before: tuple[Mark, ...]
    after: tuple[Mark, ...]

    @property
    def steps(self) -> list[Mark]:
        """The steps that it completed after the fault."""
        return steps_of(self.after)


def marks_of(history: History) -> list[Mark]:
    """The marks in a trial's journals, by time."""
    return [
        Mark(
            t=line["t"],
            who=line["worker"],
            attempt=line["attempt"],
            what=str(line.get("what")),
            step=line.get("step"),
            loss=line.get("loss"),
            again=bool(line.get("again")),
        )
        for line in history.named("mark")
    ]


def steps_of(marks: Iterable[Mark]) -> list[Mark]:
    """The steps among marks, each once."""
    return [m for m in marks if m.what == "step" and m.step is not None and not m.again]


def split(marks: Sequence[Mark], t_inject: int, gone: Iterable[tuple[Who, int]]) -> list[Split]:
    """Each rank that completed a step before the fault, by rank; those of no rank first.

    Args:
        gone: ranks and incarnations that the fault ended.
    """
    ended = set(gone)
    healthy = [m for m in steps_of(marks) if m.t <= t_inject]
    names = {m.who for m in healthy}
    furthest = max((m.step for m in healthy if m.step is not None), default=0)
    found = []
    for who in sorted(names, key=lambda w: -1 if w is None else w):
        own = [m for m in marks if m.who == who]
        before = [m for m in own if m.t <= t_inject]
        later = [m for m in own if m.t > t_inject]
        attempt = steps_of(before)[-1].attempt
        alive = (who, attempt) not in ended
        counted, rest = _counted(before, later, attempt, furthest, alive=alive)
        found.append(Split(who, attempt, (*before, *rest), tuple(counted)))
    return found


def _counted(
    before: Sequence[Mark], later: Sequence[Mark], attempt: int, furthest: int, *, alive: bool
) -> tuple[list[Mark], list[Mark]]:
    """The marks after the fault that are of the life after it, and those that are not."""
    healthy = steps_of(m for m in before if m.attempt == attempt)
    numbers = [m.step for m in healthy if m.step is not None]
    printed = Counter(numbers)
    often = max(printed.values())
    distinct = list(dict.fromkeys(numbers))
    stride = distinct[-1] - distinct[-2] if len(distinct) > 1 else 1
    under_way = furthest + max(1, stride)
    counted: list[Mark] = []
    rest: list[Mark] = []
    anew = False
    for mark in later:
        if mark.attempt > attempt:
            counted.append(mark)
            continue
        if mark.what in BEGINS_ANEW:
            anew = anew or alive
        elif mark.what == "step" and mark.step is not None and not mark.again:
            printed[mark.step] += 1
            begun_before = mark.step <= under_way and printed[mark.step] <= often
            anew = anew or (alive and not begun_before)
        (counted if anew else rest).append(mark)
    return counted, rest
