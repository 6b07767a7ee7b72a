"""What is kept of one trial's profiles, ``profile/<trial>/summary.json``: plain, frozen data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

PARTS: Final = ("restore", "compile", "first_step")
"""The phases of a recovery that a trace shows, each between two instants of one worker."""

KINDS: Final = (
    "compile",  # tracing, lowering, compiling, or loading what was compiled
    "device",  # an operation of a compiled function runs
    "collective",  # operations that exchange data with other workers, their waiting included
    "input",  # the next batch is made
    "host",  # Python and the runtime, on the training thread
    "idle",  # the training thread waits, and nothing of the above is seen
)
"""What an instant is counted as: the first of these that is true of it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a trace names.

    Attributes:
        name: as in the trace; a function of Python begins with ``$``.
        kind: one of `KINDS`: ``device`` and ``collective`` on any thread, the rest on the
            training thread.
        count: how often it was there.
        seconds: in which it was the innermost thing that is named, all together.
    """

    name: str
    kind: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Part:
    """A phase as one worker lived through it.

    Attributes:
        name: one of `PARTS`. seconds: how long it took.
        split: kind (of `KINDS`) -> seconds; together they are `seconds`.
        spans: what the worker says it was doing -> seconds in which it was the innermost.
        operations: those that took longest.
    """

    name: str
    seconds: float
    split: dict[str, float]
    spans: dict[str, float]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class WorkerProfile:
    """The trace of one worker in one generation, or why there is none.

    Attributes:
        worker, attempt, generation: whose it is.
        file: of the trace, below the run's directory; None: there is none.
        bytes: of that file.
        problem: why there is no trace, or nothing is known of it; None: nothing is wrong.
        warnings: what the worker said of it besides.
        device: kind of device that the trace is of, as xprof calls it.
        tools: tool of xprof -> rows that it makes of this trace.
        parts: the phases that are in it.
    """

    worker: int
    attempt: int
    generation: int
    file: str | None
    bytes: int | None
    problem: str | None
    warnings: tuple[str, ...] = ()
    device: str | None = None
    tools: dict[str, int] = dataclasses.field(default_factory=dict)
    parts: tuple[Part, ...] = ()

    def part(self, name: str) -> Part | None:
        """The phase of that name, where the trace has it."""
        return next((part for part in self.parts if part.name == name), None)


@dataclass(frozen=True, slots=True)
class Summary:
    """The profiles of one trial.

    Attributes:
        trial: its id. converter: what read the traces, with its version; None: it is not there.
        profiles: by worker, attempt and generation.
    """

    trial: str
    converter: str | None
    profiles: tuple[WorkerProfile, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Summary:
        """The inverse of `as_dict`; the shape has been checked."""
        profiles = tuple(
            WorkerProfile(
                **{
                    **found,
                    "warnings": tuple(found["warnings"]),
                    "parts": tuple(part_of(part) for part in found["parts"]),
                }
            )
            for found in data["profiles"]
        )
        return cls(**{**data, "profiles": profiles})


def part_of(data: dict[str, Any]) -> Part:
    """A part from plain JSON data."""
    return Part(**{**data, "operations": tuple(Operation(**o) for o in data["operations"])})
