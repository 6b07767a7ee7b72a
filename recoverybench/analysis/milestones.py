"""Milestones of a generation: who was last at each, and the durations between them.

A milestone of the job is the moment the last worker that is needed got there, and never
earlier than the milestone before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recoverybench.analysis.generations import members_of
from recoverybench.analysis.history import (
    Attempt,
    History,
    Line,
    attempts_before,
    attempts_in,
    name_of,
    rank_of,
)
from recoverybench.clocks import OWN, SEVERAL, Reading, apart_ns, reading_of
from recoverybench.vocabulary import WORKER_MILESTONES as ORDER

Missing = tuple[str, tuple[int, ...]]
"""A milestone that was not reached, and the workers that were missing."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A milestone that was reached.

    Attributes:
        name: from `vocabulary.MILESTONES`. t: its instant, ns.
        by: the worker whose event set it, None for the supervisor: the critical worker of
            the phase that ends here.
        read: what `t` was read from. Where clocks are too far apart to say which of several
            events was the last, that of whichever it may have been.
    """

    name: str
    t: int
    by: int | None
    read: Reading = OWN


@dataclass(frozen=True, slots=True)
class Need:
    """One milestone: the events that set it, and the ranks whose event is missing."""

    name: str
    lines: tuple[Line, ...]
    missing: tuple[int, ...]


def needs_of(history: History, workers: int, generation: int) -> list[Need]:
    """What the milestones from `closed` to `first_step` of a generation are made of."""
    current = attempts_in(history, workers, generation)
    ranks = members_of(history, workers, generation)
    needs = [_closed(history, workers, generation, current)]
    for name in ORDER[1:]:
        by_rank: dict[int, Line] = {}
        for line in history.named(name):
            rank, _ = attempt = rank_of(line)
            if line["generation"] == generation and current.get(rank) == attempt:
                by_rank.setdefault(rank, line)
        needs.append(_of_ranks(name, by_rank, ranks))
    return needs


def progress_of(
    history: History, workers: int, generations: Sequence[int], step_before: int | None
) -> Need:
    """What `progress` is made of: the first step beyond `step_before` (None: any step).

    Args:
        generations: the recovery's and those that came after it with nothing broken: a job
            may grow back before it has caught up.
    """
    need = Need("progress", (), ())
    for generation in generations:
        current = attempts_in(history, workers, generation)
        ahead: dict[int, Line] = {}
        for line in history.named("step"):
            rank, _ = attempt = rank_of(line)
            beyond = step_before is None or line["step"] > step_before
            if beyond and line["generation"] == generation and current.get(rank) == attempt:
                ahead.setdefault(rank, line)
        need = _of_ranks("progress", ahead, members_of(history, workers, generation))
        if ahead:
            break
    return need


def _of_ranks(name: str, by_rank: dict[int, Line], ranks: Iterable[int]) -> Need:
    missing = tuple(rank for rank in ranks if rank not in by_rank)
    return Need(name, tuple(by_rank.values()), missing)


def _closed(history: History, workers: int, generation: int, current: dict[int, Attempt]) -> Need:
    """Survivors have closed their runtime, and the other attempts of before have ended.

    Of some ends a launcher hears late. Where the next worker was begun before that, nobody waited
    for the news, and when the old one ended is not known.
    """
    lines: list[Line] = []
    late: list[Line] = []
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
        elif line.get("seen", True) or not _begun_by(history, current.get(attempt[0]), line["t"]):
            lines.append(line)
        else:
            late.append(line)
    return Need("closed", tuple(lines or late), tuple(sorted(missing)))


def _begun_by(history: History, attempt: Attempt | None, t: int) -> bool:
    """Whether that attempt was started, or given its rank, before `t`."""
    begun = history.named("spawn", "assigned")
    return any(line["t"] < t and rank_of(line) == attempt for line in begun)


def chain(begun: Sequence[Mark], needs: Sequence[Need]) -> tuple[tuple[Mark, ...], Missing | None]:
    """`begun` and the milestones that were reached after it, and the first that was not."""
    marks = list(begun)
    for need in needs:
        if need.missing or not need.lines:
            return tuple(marks), (need.name, need.missing)
        last = max(need.lines, key=lambda line: (line["t"], -line["worker"]))
        by = None if last["event"] == "exit" else last["worker"]
        before = marks[-1].t, marks[-1].read
        t, read = _latest([before, *map(_moment, need.lines)])
        marks.append(Mark(need.name, t, by, read))
    return tuple(marks), None


def _moment(line: Line) -> tuple[int, Reading]:
    return line["t"], reading_of(line)


def later(mark: Mark, line: Line) -> tuple[int, Reading]:
    """The moment of a line, and never earlier than that of a mark; and what it was read from."""
    return _latest([(mark.t, mark.read), _moment(line)])


def _latest(moments: Sequence[tuple[int, Reading]]) -> tuple[int, Reading]:
    """The latest of several moments, with the bound of all that it may have been."""
    t, read = max(moments, key=lambda moment: moment[0])
    near = [(at, r) for at, r in moments if t - at <= apart_ns(r, read, t - at)]
    if all(r.clock == read.clock for _, r in near):
        return t, read
    return t, Reading(SEVERAL, 0, max(r.bound for _, r in near))


@dataclass(frozen=True, slots=True)
class Measured:
    """The time between two marks.

    Attributes:
        phase_s: without our own verification. verify_ns: what that took on the critical
            worker. open_ns: what no span of the critical worker covers.
    """

    phase_s: float
    verify_ns: int
    open_ns: int


def measure(history: History, start: Mark, end: Mark) -> Measured:
    """The time from one mark to the next."""
    # Before a new worker exists it is the supervisor that is at work on it.
    at_work = (end.by, None) if end.name == "up" else (end.by,)
    spans = [
        (line["t0"], line["t"], name_of(line) == "verify")
        for line in history.named("span", "step")
        if line["worker"] in at_work
    ]
    window = (start.t, end.t)
    verify_ns = covered((s[:2] for s in spans if s[2]), *window)
    return Measured(
        phase_s=(end.t - start.t - verify_ns) / 1e9,
        verify_ns=verify_ns,
        open_ns=end.t - start.t - covered((s[:2] for s in spans), *window),
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
