"""All lines of a trial's journals in one order, checked once for what they must hold."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from recoverybench.analysis.parts import joined
from recoverybench.vocabulary import WORKER_EVENTS, WORKER_MILESTONES

Line = Mapping[str, Any]
"""One line of a journal."""

Attempt = tuple[int, int]
"""A worker and its incarnation."""

PASSED = (*WORKER_MILESTONES, "step")
"""Events by which an attempt takes part in a generation."""

_INT, _TEXT, _LIST = "an integer", "text", "a list"

_FIELDS: dict[str, dict[str, str]] = {
    "span": {"name": _TEXT, "t0": _INT},
    **{name: {"generation": _INT} for name in WORKER_MILESTONES},
    "step": {
        "step": _INT,
        "loss_bits": _TEXT,
        "samples": _LIST,
        "t0": _INT,
        "generation": _INT,
    },
    "committed": {"step": _INT},
    "digest": {"what": _TEXT, "step": _INT, "digest": _TEXT, "generation": _INT},
    "restore": {"generation": _INT, "tried": _LIST},
    "compile_cache": {"function": _TEXT, "status": _TEXT, "generation": _INT},
    "done": {"step": _INT, "generation": _INT},
    "assigned": {"slot": _INT, "rank": _INT},
    "spawn": {"pid": _INT},
    "exit": {"pid": _INT},
    "evidence": {"mechanism": _TEXT},
    "act": {"generation": _INT},
    "stopped": {"operation": _INT},
    "transition": {"kind": _TEXT, "generation": _INT},
    "suspended": {"step": _INT, "generation": _INT},
}
"""What a line of each event must hold, beside `t`, `event`, `worker` and `attempt`."""

_OF_A_WORKER = (frozenset(WORKER_EVENTS) - {"journal", "span"}) | {"spawn", "exit"}
_TYPES: dict[str, type] = {_INT: int, _TEXT: str, _LIST: list}


class Journal(Protocol):
    """What is needed of one journal file; `journal.Journal` has it."""

    @property
    def lines(self) -> Sequence[Line]:
        """Its lines, each a JSON object."""
        ...

    @property
    def dropped(self) -> int:
        """Half-written last lines that were left out."""
        ...


@dataclass(frozen=True, slots=True)
class History:
    """Every line of a trial, by event, in an order that does not depend on the files'.

    Attributes:
        events: event -> its lines, earliest first.
        problem: the first line that lacks what its event must hold, or None. Such lines
            are in no list.
    """

    events: Mapping[str, tuple[Line, ...]]
    problem: str | None

    @classmethod
    def of(cls, journals: Iterable[Journal]) -> History:
        """Joins the journals. The order of files, and of lines in a file, does not matter."""
        by_event: dict[str, list[Line]] = defaultdict(list)
        problems: list[str] = []
        for journal in journals:
            for line in journal.lines:
                if lack := _lack(line):
                    problems.append(f"a journal line {lack}: {_shown(line)}")
                else:
                    by_event[line["event"]].append(line)
        events = {name: tuple(sorted(lines, key=_order)) for name, lines in by_event.items()}
        if "digest" in events:
            events["digest"] = joined(events["digest"])
        return cls(events, min(problems, default=None))

    def named(self, *events: str) -> tuple[Line, ...]:
        """The lines of these events together, earliest first."""
        if len(events) == 1:
            return self.events.get(events[0], ())
        # Each list is in order already and the key holds the event, so that is enough.
        lines = [line for name in events for line in self.events.get(name, ())]
        return tuple(sorted(lines, key=_instant))


def attempts_before(history: History, workers: int, generation: int) -> set[Attempt]:
    """The attempts that had a part in a generation before `generation`."""
    places = _places(history, workers)
    return {
        rank_of(line)
        for line in history.named(*PASSED)
        if line["generation"] < generation and 0 <= line["worker"] < places
    }


def attempts_in(history: History, workers: int, generation: int) -> dict[int, Attempt]:
    """Rank -> its last attempt with a part in `generation`."""
    found: dict[int, Attempt] = {}
    places = _places(history, workers)
    for line in history.named(*PASSED):
        rank, attempt = rank_of(line)
        if line["generation"] == generation and 0 <= rank < places:
            found[rank] = max(found.get(rank, (rank, attempt)), (rank, attempt))
    return found


def _places(history: History, workers: int) -> int:
    """The most ranks that any generation has; what writes under a higher number has no rank yet."""
    ranks = [int(rank) for line in history.named("act") for rank in line.get("ranks") or ()]
    return max([workers, *(rank + 1 for rank in ranks)])


def rank_of(line: Line) -> Attempt:
    """Worker and attempt of a line that a worker wrote, or that is about one."""
    return line["worker"], line["attempt"]


def name_of(line: Line) -> str:
    """Name of a span; a `step` event is a span of that name."""
    return str(line["name"]) if line["event"] == "span" else "step"


def who(line: Line) -> str:
    """Event and writer, for people: ``restored (worker 1, attempt 0)``."""
    name = line["event"]
    if detail := line.get("mechanism") or line.get("name"):
        name = f"{name} {detail}"
    if line["worker"] is None:
        return f"{name} (supervisor)"
    return f"{name} (worker {line['worker']}, attempt {line['attempt']})"


def _instant(line: Line) -> tuple[int, int, int, str]:
    worker = -1 if line["worker"] is None else line["worker"]
    return line["t"], worker, line["attempt"], line["event"]


def _order(line: Line) -> tuple[tuple[int, int, int, str], str]:
    # The text of the line is the last resort: equal instants must not leave it to the files.
    return _instant(line), _text(line)


def _text(line: Line) -> str:
    return json.dumps(line, sort_keys=True, default=str)


def _shown(line: Line) -> str:
    text = _text(line)
    return text if len(text) <= 120 else text[:119] + "…"


def _lack(line: Line) -> str | None:
    """What is wrong with a line, or None."""
    if not isinstance(line.get("event"), str):
        return "without an event"
    wanted = {"t": _INT, "attempt": _INT} | _FIELDS.get(line["event"], {})
    if line["event"] in _OF_A_WORKER or line.get("worker") is not None:
        wanted["worker"] = _INT
    elif "worker" not in line:
        return "without a worker"
    for key, kind in wanted.items():
        value = line.get(key)
        if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
            return f"whose {key} is not {kind}"
    return None
