"""When a fault strikes: at a step, at a time, in a save, or while the job sets itself up.

A kind is one reader in `_KINDS`; a new one adds its reader there and, where it needs
more, a field to `Trigger`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from recoverybench.errors import UsageError, bad_value, unknown_name
from recoverybench.plan.units import parse_duration

Moment = Literal["before", "torn", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "torn", "after")

SETTING_UP = ("rendezvous", "restore", "compile")
"""Kinds that strike while a job that is resumed sets itself up."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """The moment of an injection.

    Attributes:
        kind: ``step``, ``time``, ``random``, ``save``, ``rendezvous``, ``restore``, ``compile``.
        step: of ``step``: counted from 1, the victim does not begin it: N - 1 are done.
        time_s: of ``time``: seconds after every worker has completed the first step.
        operation, moment: of ``save``: the file operation of the save, counted from 1, and
            where in it; None: in the middle of the save, wherever that is.
    """

    kind: str
    step: int | None = None
    time_s: float | None = None
    operation: int | None = None
    moment: Moment | None = None

    def __str__(self) -> str:
        if self.step is not None:
            return f"{self.kind}:{self.step}"
        if self.time_s is not None:
            return f"{self.kind}:{self.time_s:.9f}".rstrip("0").rstrip(".") + "s"
        if self.operation is not None:
            return f"{self.kind}:{self.operation}:{self.moment}"
        return self.kind

    def needed_steps(self, interval: int) -> int:
        """How many steps a job must have, at a checkpoint interval, to get there."""
        if self.step is not None:
            return self.step + 1
        if self.kind in ("random", *SETTING_UP):
            return 3 * interval + 1
        if self.kind == "save":
            return 2 * interval + 1
        return 2


def _read_step(argument: str | None) -> Trigger | None:
    step = int(argument) if argument and re.fullmatch(r"[0-9]{1,9}", argument) else 0
    return Trigger("step", step) if step >= 1 else None


def _read_time(argument: str | None) -> Trigger | None:
    try:
        return Trigger("time", time_s=parse_duration(argument, "trigger"))
    except UsageError:
        return None


def _read_save(argument: str | None) -> Trigger | None:
    if argument is None:
        return Trigger("save")
    found = re.fullmatch(r"([0-9]{1,6})(?::(before|torn|after))?", argument)
    if found is None or int(found[1]) < 1:
        return None
    moment: Moment = next((m for m in MOMENTS if m == found[2]), "before")
    return Trigger("save", operation=int(found[1]), moment=moment)


def _bare(kind: str) -> Callable[[str | None], Trigger | None]:
    return lambda argument: Trigger(kind) if argument is None else None


_KINDS: dict[str, tuple[Callable[[str | None], Trigger | None], str]] = {
    "step": (_read_step, "step:N with a whole number N of at least 1"),
    "time": (_read_time, 'time:T with a positive duration such as "2s" or "250ms"'),
    "random": (_bare("random"), "random without an argument"),
    "save": (
        _read_save,
        "save, or save:K[:before|torn|after] with a file operation K of at least 1",
    ),
    "rendezvous": (_bare("rendezvous"), "rendezvous without an argument"),
    "restore": (_bare("restore"), "restore without an argument"),
    "compile": (_bare("compile"), "compile without an argument"),
}
"""Kind -> its reader (None: not a valid argument) and what it allows."""


def parse_trigger(value: object, where: str = "trigger") -> Trigger:
    """Reads ``kind`` or ``kind:argument``.

    Args:
        value: the text.
        where: the key or option that holds it, for the message.

    Raises:
        UsageError: no such kind, or an argument that the kind does not allow.
    """
    if not isinstance(value, str):
        raise bad_value(where, value, " or ".join(allowed for _, allowed in _KINDS.values()))
    kind, colon, argument = value.strip().partition(":")
    if kind not in _KINDS:
        raise unknown_name(where, value, _KINDS)
    read, allowed = _KINDS[kind]
    trigger = read(argument if colon else None)
    if trigger is None:
        raise bad_value(where, value, allowed)
    return trigger
