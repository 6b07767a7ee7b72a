"""Which trial may begin while others run, and how many neighbours each has had (pure).

Trials begin in the order of the design. One begins as soon as somebody is free to run it and no
other makes a reference that it wants: each is made once, and of two that wanted it at the same
time the second would be measured without it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Turn:
    """One that runs: what it is making, and the most that ran beside it."""

    making: set[Hashable]
    neighbours: int = 0


@dataclass(slots=True)
class Turns:
    """Who is running now, each under a key of its own.

    Attributes:
        made: the references that are there.
    """

    made: set[Hashable] = field(default_factory=set)
    _running: dict[Hashable, _Turn] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many run."""
        return len(self._running)

    def may_begin(self, wanted: Collection[Hashable]) -> bool:
        """Whether one that wants these references may begin."""
        return not any(turn.making & set(wanted) for turn in self._running.values())

    def begin(self, key: Hashable, wanted: Collection[Hashable]) -> None:
        """One begins; what it wants and nobody has made it makes itself.

        Raises:
            ValueError: it runs already, or may not begin.
        """
        if key in self._running or not self.may_begin(wanted):
            raise ValueError(f"{key!r} may not begin")
        self._running[key] = _Turn(set(wanted) - self.made)
        beside = len(self._running) - 1
        for turn in self._running.values():
            turn.neighbours = max(turn.neighbours, beside)

    def has_made(self, key: Hashable, reference: Hashable) -> None:
        """One has made a reference, which everybody has from now on."""
        self._running[key].making.discard(reference)
        self.made.add(reference)

    def end(self, key: Hashable) -> int:
        """One has ended; returns the most that ran beside it at any one time."""
        return self._running.pop(key).neighbours
