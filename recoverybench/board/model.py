"""What a directory for TensorBoard holds, as plain data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

TEXT: Final = "text"
NUMBER: Final = "number"
FLAG: Final = "flag"

Kind = Literal["text", "number", "flag"]
Status = Literal["success", "failure", "unknown"]
Value = str | float | bool


@dataclass(frozen=True, slots=True)
class Point:
    """Scalars of one step.

    Attributes:
        step: where on the axis. wall_time_s: when, seconds since 1970.
        values: tag -> value; a tag that has none is not there.
    """

    step: int
    wall_time_s: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Session:
    """A cell of a run; what TensorBoard calls a run, and HParams a session.

    Attributes:
        directory: ``run/cell``, both names of directories. name: what tells it from the others.
        status: ``success`` if every trial that says something about recovery recovered,
            ``failure`` if one did not, ``unknown`` if there is none.
        started_s, ended_s: its first trial and its last one, seconds since 1970.
        hparams: parameter -> value; one that the cell does not set is not there.
        summary: what all of its trials come to. trials: one a trial, by step.
    """

    directory: str
    name: str
    status: Status
    started_s: float
    ended_s: float
    hparams: Mapping[str, Value]
    summary: Point
    trials: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing in which cells may differ.

    Attributes:
        name: of the factor. kind: type of its values.
        values: those that occur, each once: numbers by size, others as they first occur.
    """

    name: str
    kind: Kind
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """All of it.

    Attributes:
        created_s: when the first run was begun, seconds since 1970.
        parameters: columns of HParams: what the sessions differ in.
        metrics: tags of `Session.summary`, in their order.
        sessions: each cell of each run, in the order in which they were given.
    """

    created_s: float
    parameters: tuple[Parameter, ...]
    metrics: tuple[str, ...]
    sessions: tuple[Session, ...]
