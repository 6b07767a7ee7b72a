"""What a trace holds, before it is written: processes, tracks, slices, instants, counters, flows.

Times are ns of the clock that the trial's record uses (CLOCK_MONOTONIC); a trial in which
nothing was injected, and whose journals are not there, counts from its own beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FARTHEST_NS: Final = 10**17
"""Three years: what is farther away from the injection is no time of this trial."""

Owner = tuple[int | None, int]
"""A worker, or None for the supervisor, and its attempt."""


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Something that lasted from `start` to `end`, ns. `category` is for filters."""

    name: str
    start: int
    end: int
    category: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Instant:
    """Something that happened at `t`, ns."""

    name: str
    t: int
    category: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Count:
    """A number that is `value` from `t` (ns) on; `name` and `unit` are what it is called."""

    name: str
    unit: str
    t: int
    value: float


@dataclass(slots=True)
class Track:
    """One line below a process; slices that overlap without nesting get further lines.

    `rank` orders what happens in the same microsecond: an arrow's beginning before its end.
    """

    name: str
    rank: int = 9
    slices: list[Slice] = field(default_factory=list)
    instants: list[Instant] = field(default_factory=list)


@dataclass(slots=True)
class Process:
    """One process, or the job as a whole.

    Attributes:
        name: for people. labels: shown behind the name.
        pid: its real id; None: it is not known, or this is no process.
        tracks: by their order. counts: in any order.
    """

    name: str
    labels: list[str] = field(default_factory=list)
    pid: int | None = None
    tracks: dict[str, Track] = field(default_factory=dict)
    counts: list[Count] = field(default_factory=list)

    def track(self, name: str, rank: int = 9) -> Track:
        """The track of this name, made where it is not there yet."""
        return self.tracks.setdefault(name, Track(name, rank))


@dataclass(frozen=True, slots=True)
class Flow:
    """An arrow through the beginnings of two slices or more, in the order of their time."""

    name: str
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """One trial.

    Attributes:
        processes: in the order in which they are shown.
        injected: instant of the injection, ns, or None.
        facts: about the trace as a whole.
    """

    processes: tuple[Process, ...]
    flows: tuple[Flow, ...]
    injected: int | None
    facts: Mapping[str, Any]
