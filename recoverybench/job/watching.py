"""When the watchdog of a job looks: not while nobody could complete a step."""

from __future__ import annotations

from collections.abc import Callable

from recoverybench.job.loop import TICK_S, Loop
from recoverybench.job.roster import Roster
from recoverybench.job.watchdog import Watchdog


class Watching:
    """See the module.

    Args:
        roster: of the job. watchdog: of it. loop: of it. last: step of the job.
        alarm: called with what the watchdog reports.
    """

    def __init__(
        self,
        roster: Roster,
        watchdog: Watchdog,
        loop: Loop,
        last: int,
        alarm: Callable[[str], None],
    ) -> None:
        self._roster = roster
        self._watchdog = watchdog
        self._loop = loop
        self._last = last
        self._alarm = alarm
        self._generation = -1

    def held_up(self) -> None:
        """The harness worked on files meanwhile, and the job stood still for that."""
        self._watchdog.discount()

    def next(self) -> tuple[Callable[[], None], float] | None:
        """What the loop is to call after its wait, and how long that may be, in seconds."""
        if not self._to_be_watched():
            return None
        return self._look, (self._watchdog.limit_s or TICK_S) / 20

    def _look(self) -> None:
        late = self._watchdog.look()
        if late is not None:
            self._alarm(late)

    def _to_be_watched(self) -> bool:
        """The watchdog looks while every rank is between its first step and its last."""
        roster = self._roster
        if roster.noticed() or not roster.running():
            return False
        if self._loop.measuring_since is None and any(m.held for m in roster.ranks()):
            return False  # it is we who hold the job up
        done = roster.progress()
        if all(done[m.rank] >= self._last for m in roster.ranks() if m.rank is not None):
            return False  # what is left to do is the last save, and no step
        if self._generation != roster.generation:
            self._generation = roster.generation
            self._watchdog.begin()
        return not any(m.done or m.left or m.suspended for m in roster.ranks())
