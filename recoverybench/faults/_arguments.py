"""What faults accept after the colon, where several accept the same."""

from __future__ import annotations

from recoverybench.errors import bad_value

_DIGITS = 20


def none(name: str, argument: str | None) -> None:
    """Refuse any argument."""
    if argument is not None:
        raise bad_value("fault", f"{name}:{argument}", f"{name!r} without an argument")


def whole(name: str, argument: str, lowest: int, highest: int, what: str) -> int:
    """A whole number between two bounds, both included.

    Raises:
        UsageError: it is none.
    """
    plain = argument.isascii() and argument.isdecimal() and len(argument) <= _DIGITS
    if plain and lowest <= int(argument) <= highest:
        return int(argument)
    allowed = f"{what}, a whole number from {lowest} to {highest}"
    raise bad_value("fault", f"{name}:{argument}", allowed)
