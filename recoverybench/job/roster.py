"""Who belongs to a job, and how far they all are."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from recoverybench.job.member import Member
from recoverybench.job.noticed import Noticed
from recoverybench.job.services import Services
from recoverybench.protocol import StepsSeen


class Roster:
    """The members of a job over all generations, and questions about them.

    Attributes:
        members: every process that was ever started, in that order.
        evidence: all that was noticed, in that order.
        generation: the current one. world: processes that it consists of.
    """

    members: list[Member]
    evidence: list[Noticed]
    generation: int
    world: int
    _gone: int
    _board: StepsSeen
    _services: Services

    def __init__(self) -> None:
        self.members = []
        self.evidence = []
        self.generation = 0
        self._suspect: set[int] = set()
        self._known: tuple[int, list[Member]] | None = None
        self._doubted: dict[str, int] = {}

    def ranks(self) -> list[Member]:
        """The members that have a place in the current generation, by rank."""
        return list(self._ranked())

    def _ranked(self) -> list[Member]:
        """The same, made anew only where somebody was given a place."""
        if self._known is None or self._known[0] != self.generation:
            members = [m for m in self.members if m.generation == self.generation]
            self._known = self.generation, sorted(members, key=lambda m: m.rank or 0)
        return self._known[1]

    def survivors(self) -> list[Member]:
        """Living members with a rank, by rank."""
        members = [m for m in self.members if m.alive and m.rank is not None]
        return sorted(members, key=lambda m: m.rank or 0)

    def rank_of(self, pid: int) -> int | None:
        """The rank of the member with that process; None: it has none, or there is no such one."""
        return next((m.rank for m in self.members if m.process.pid == pid), None)

    def noticed(self) -> bool:
        """There is evidence that something is wrong with the current generation."""
        return self.generation in self._suspect

    def standbys(self) -> list[Member]:
        """Living members without a rank that wait for one."""
        return [m for m in self._plain() if m.alive and m.rank is None]

    def service(self) -> Member | None:
        """Who runs the coordination service of this generation; None: it is gone."""
        if self._services.external:
            return self._services.current()
        return next((m for m in self.ranks() if m.index == 0 and m.alive), None)

    def joined(self) -> bool:
        """Everybody has arrived in the current generation, and depends on its service now."""
        return self.generation == self._gone

    def dead(self) -> list[Member]:
        """Members of the current generation whose process has ended."""
        return [m for m in self.ranks() if not m.alive]

    def laggards(self) -> list[Member]:
        """Members that have not begun the step which others have begun: the stuck ones."""
        begun = self._board.begun()
        last = max((begun[m.rank] for m in self.ranks() if m.rank is not None), default=0)
        return [m for m in self.ranks() if m.rank is not None and begun[m.rank] < last]

    def standing_still(self) -> bool:
        """The watchdog has seen that no rank of this generation completes a step any more."""
        return any(
            e.mechanism == "watchdog" for e in self.evidence if e.generation == self.generation
        )

    def progress(self) -> tuple[int, ...]:
        """The last step that every rank has completed."""
        return self._board.steps()

    def finished(self) -> bool:
        """Every rank has done the last step."""
        return self._all("done", lambda m: m.done)

    def running(self) -> bool:
        """Every rank has completed the first step of this generation."""
        return self._all("running", lambda m: m.running == self.generation)

    def suspended(self) -> bool:
        """Every rank has saved the same step after a notice, and stopped."""
        return self._all("suspended", lambda m: m.suspended is not None)

    def left(self) -> bool:
        """Every rank has left this generation at the end of a step."""
        return self._all("left", lambda m: m.left)

    def lost(self) -> bool:
        """A member that the current generation needs has ended or failed for good."""
        return any(not m.alive or m.failed is not None for m in self.ranks())

    def _plain(self) -> list[Member]:
        """All members but coordination services."""
        return [m for m in self.members if m not in self._services.members]

    def _all(self, what: str, holds: Callable[[Member], bool]) -> bool:
        """Whether it holds of every rank of a whole generation.

        It is asked after every event, so that looking at each rank each time would cost the square
        of their number. It begins with the one of which it did not hold the last time: mostly
        that one is looked at, and no other.
        """
        ranks = self._ranked()
        if len(ranks) != self.world:
            return False
        first = self._doubted.get(what, 0) % max(len(ranks), 1)
        for at in itertools.chain(range(first, len(ranks)), range(first)):
            if not holds(ranks[at]):
                self._doubted[what] = at
                return False
        return True
