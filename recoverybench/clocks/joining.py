"""The lines of all journals of a trial, on the supervisor's clock.

A worker whose journal says the boot id and the time namespace of the supervisor's own has the same
CLOCK_MONOTONIC, and nothing is done. Of other clocks the supervisor has written down what its
exchanges came to, in `clock` lines; a line that is moved says by how much (`clock_offset_ns`), how
far that may be wrong (`clock_bound_ns`), and which clock it was (`clock`). A `clock` line of a
worker whose clock is not the one that its journal says (`differs`) makes the trial invalid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from recoverybench.clocks.course import Course
from recoverybench.clocks.exchange import Offset

Line = dict[str, Any]

SUPERVISOR = "supervisor"
"""In a line's `t0_of`: `t0` is by the supervisor's clock, and not by the worker's."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A CLOCK_MONOTONIC.

    Attributes:
        boot_id: of the kernel. time_namespace: in it, with its offset; None: there are none, or
            (old journals) it is not known.
    """

    boot_id: str | None
    time_namespace: str | None

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Self:
        """What a journal's first line or a `clock` line says of it."""
        return cls(line.get("boot_id"), line.get("time_namespace"))

    def same(self, other: Clock) -> bool:
        """Whether they are one; a namespace that is not known is taken for the same."""
        spaces = {self.time_namespace, other.time_namespace} - {None}
        return self.boot_id == other.boot_id and len(spaces) < 2

    def __str__(self) -> str:
        return " ".join(filter(None, (self.boot_id, self.time_namespace)))


def on_one_clock(files: Sequence[Sequence[Line]]) -> list[tuple[Line, ...]]:
    """The lines of every file, on the clock of the supervisor's.

    Lines of a clock whose offset was not measured stay as they are: see `clock_problem`.

    Args:
        files: the lines of each journal of a trial, in the order in which they were written.
    """
    own = _own(files)
    measured = [line for lines in files for line in lines if _is_series(line)]
    found = []
    for lines in files:
        clock = _clock(lines)
        series = [line for line in measured if clock is not None and Clock.of(line).same(clock)]
        if clock is None or own is None or clock.same(own) or not series:
            found.append(tuple(lines))
        else:
            course = Course(Offset(s["at"], s["offset_ns"], s["bound_ns"]) for s in series)
            found.append(tuple(_moved(line, course, clock, own) for line in lines))
    return found


def clock_problem(files: Sequence[Sequence[Mapping[str, Any]]]) -> str | None:
    """The first journal whose lines are not on the supervisor's clock, as one line for people."""
    own = _own(files)
    for line in (line for lines in files for line in lines):
        if line["event"] == "clock" and line.get("differs"):
            return (
                f"worker {line['worker']}, attempt {line['attempt']} says what others say of their "
                "clock and has another one: machines resumed from one snapshot do"
            )
    for lines in files:
        clock = _clock(lines)
        if own is None or clock is None or clock.same(own):
            continue
        what = "another host" if clock.boot_id != own.boot_id else "another time namespace"
        worker, attempt = lines[0].get("worker"), lines[0].get("attempt")
        return (
            f"worker {worker}, attempt {attempt} has the clock of {what}, and its offset was not "
            "measured"
        )
    return None


def _own(files: Sequence[Sequence[Mapping[str, Any]]]) -> Clock | None:
    """The supervisor's clock; None: it wrote nothing."""
    heads = (lines[0] for lines in files if lines and lines[0]["event"] == "journal")
    return next((Clock.of(head) for head in heads if head.get("worker") is None), None)


def _clock(lines: Sequence[Mapping[str, Any]]) -> Clock | None:
    """The clock of a journal; None: it does not say."""
    if not lines or lines[0]["event"] != "journal" or lines[0].get("boot_id") is None:
        return None
    return Clock.of(lines[0])


def _is_series(line: Mapping[str, Any]) -> bool:
    numbers = (line.get(key) for key in ("at", "offset_ns", "bound_ns"))
    sound = line["event"] == "clock" and not line.get("differs")
    return sound and all(type(number) is int for number in numbers)


def _moved(line: Line, course: Course, clock: Clock, own: Clock) -> Line:
    offset, bound = course.at(line["t"])
    new = {
        **line,
        "t": line["t"] - offset,
        "clock": str(clock),
        "clock_offset_ns": offset,
        "clock_bound_ns": bound,
    }
    if type(line.get("t0")) is int and line.get("t0_of") != SUPERVISOR:
        new["t0"] = line["t0"] - course.at(line["t0"])[0]
    if line["event"] == "journal":
        new |= {"boot_id": own.boot_id, "time_namespace": own.time_namespace}
    return new
