"""Regular expressions that somebody else wrote, over text that somebody else printed.

Python's own `re` cannot be interrupted: an expression that tries every way to divide a line holds
the whole process, Ctrl-C included, for longer than anybody waits. These end by a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import regex

from recoverybench.errors import UsageError, bad_value, shorten

LONGEST_S: Final = 1.0
"""A line is read in microseconds; one that takes this long would hold up the measurement."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression.

    Attributes:
        text: as it was written. where: the key that holds it, for messages.
    """

    text: str
    where: str
    _compiled: Any

    @property
    def groups(self) -> int:
        """How many groups it has."""
        return int(self._compiled.groups)

    @property
    def names(self) -> tuple[str, ...]:
        """Its named groups."""
        return tuple(self._compiled.groupindex)

    def search(self, line: str) -> Found | None:
        """The first place where a line matches; None: it does not.

        Raises:
            UsageError: it takes too long.
        """
        try:
            found = self._compiled.search(line, timeout=LONGEST_S)
        except TimeoutError:
            allowed = f"an expression that reads a line within {LONGEST_S:g} s"
            raise UsageError(
                f"{self.where} = {shorten(self.text)}: expected {allowed}; this one does not read "
                f"{shorten(line)}"
            ) from None
        if found is None:
            return None
        groups = {k: v for k, v in found.groupdict().items() if v is not None}
        return Found(tuple(found.groups()), groups)


@dataclass(frozen=True, slots=True)
class Found:
    """What matched: groups by their order (None: not taken), and those with a name."""

    groups: tuple[str | None, ...]
    named: Mapping[str, str]


def compiled(text: object, where: str, allowed: str = "a regular expression") -> Expression:
    """Compile an expression.

    Raises:
        UsageError: it is no text, is empty, or cannot be compiled.
    """
    if not isinstance(text, str) or not text:
        raise bad_value(where, text, allowed)
    try:
        return Expression(text, where, regex.compile(text))
    except (regex.error, RecursionError, OverflowError) as error:
        raise bad_value(where, text, f"a regular expression ({error})") from None
