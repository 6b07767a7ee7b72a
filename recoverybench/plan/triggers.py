"""When a fault strikes: ``step:N``, as the victim is about to begin exactly step N.

A kind is one reader in `_KINDS`; a new one adds its reader there and, where it needs
more than a step, a field to `Trigger`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from recoverybench.errors import bad_value, unknown_name


@dataclass(frozen=True, slots=True)
class Trigger:
    """The moment of an injection.

    Attributes:
        kind: ``step``.
        step: the step, counted from 1, that the victim does not begin: N - 1 are done.
    """

    kind: str
    step: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.step}"


def _read_step(argument: str) -> Trigger | None:
    step = int(argument) if re.fullmatch(r"[0-9]{1,9}", argument) else 0
    return Trigger("step", step) if step >= 1 else None


_KINDS: dict[str, tuple[Callable[[str], Trigger | None], str]] = {
    "step": (_read_step, "step:N with a whole number N of at least 1"),
}
"""Kind -> its reader (None: not a valid argument) and what it allows."""


def parse_trigger(value: object, where: str = "trigger") -> Trigger:
    """Reads ``kind:argument``.

    Args:
        value: the text.
        where: the key or option that holds it, for the message.

    Raises:
        UsageError: no such kind, or an argument that the kind does not allow.
    """
    if not isinstance(value, str):
        raise bad_value(where, value, _allowed())
    kind, colon, argument = value.strip().partition(":")
    if kind not in _KINDS:
        raise unknown_name(where, value, (f"{name}:N" for name in _KINDS))
    read, allowed = _KINDS[kind]
    trigger = read(argument) if colon else None
    if trigger is None:
        raise bad_value(where, value, allowed)
    return trigger


def _allowed() -> str:
    return " or ".join(allowed for _, allowed in _KINDS.values())
