"""The one loop on which everything happens to a job: descriptors, timers and the deadline.

Whatever waits goes through `Loop.pump`, so nothing is waited for by sleeping.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import Protocol

from recoverybench.job.timers import Timers
from recoverybench.journal_writer import Journal

STILL_S = 1.0
"""A supervisor that did not run for that long was stopped, or has no time on this machine:
what it timed meanwhile says nothing."""

TICK_S = 0.25
"""How often it looks at the clock while nothing happens."""


class _Descriptor(Protocol):
    def fileno(self) -> int: ...


class Loop:
    """See the module.

    Args:
        journal: the supervisor's. deadline: CLOCK_MONOTONIC ns after which `pump` gives up.
        watch: called before each wait; returns what is to be called after it, and how long the
            wait may be, in seconds; or None.

    Attributes:
        overdue: the deadline has come.
        measuring_since: CLOCK_MONOTONIC ns from which on a standstill of this process counts;
            None: not yet.
    """

    def __init__(
        self,
        journal: Journal,
        deadline: int,
        watch: Callable[[], tuple[Callable[[], None], float] | None],
    ) -> None:
        self.overdue = False
        self.measuring_since: int | None = None
        self._journal = journal
        self._deadline = deadline
        self._watch = watch
        self._timers = Timers()
        self._seen = time.monotonic()
        self._selector = selectors.DefaultSelector()

    def register(self, descriptor: _Descriptor | int, handler: Callable[[], None]) -> None:
        """Call `handler` whenever the descriptor can be read."""
        self._selector.register(descriptor, selectors.EVENT_READ, handler)

    def unregister(self, descriptor: _Descriptor | int) -> None:
        """Forget a descriptor; it may be closed by now."""
        self._selector.unregister(descriptor)

    def await_writing(self, descriptor: _Descriptor | int, wanted: bool) -> None:
        """Call the handler of a registered descriptor also when it can be written to, or not."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
        data = self._selector.get_key(descriptor).data
        self._selector.modify(descriptor, events, data)

    def begin_deadline(self, deadline_s: float) -> None:
        """From now on the deadline counts."""
        self._deadline = time.monotonic_ns() + round(deadline_s * 1e9)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do it that many seconds from now; never once the loop is closed."""
        self._timers.after(seconds, action)

    def pump(self, until: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Handle whatever happens until the condition holds; returns whether it does.

        Ends early, with False, at the timeout, and at the deadline (`overdue`).
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not until():
            now = time.monotonic()
            left = self._deadline / 1e9 - now
            if left <= 0:
                if not self.overdue:
                    self._journal.log("deadline")
                self.overdue = True
                return False
            if end is not None:
                if now >= end:
                    return False
                left = min(left, end - now)
            self.turn(left)
        return True

    def turn(self, timeout_s: float) -> None:
        """Handle what happens within that time, once; the deadline is not looked at."""
        watch = self._watch()
        if watch is not None:
            timeout_s = min(timeout_s, watch[1])
        self._look_at_the_clock()
        timeout_s = self._timers.left_s(min(timeout_s, TICK_S))
        events = self._selector.select(max(0.0, timeout_s))
        self._look_at_the_clock()
        for key, _ in events:
            key.data()
        self._timers.run()
        if watch is not None:
            watch[0]()

    def turn_while(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Turn as long as that holds, and not longer than that; no deadline counts."""
        end = time.monotonic() + timeout_s
        while holds() and time.monotonic() < end:
            self.turn(end - time.monotonic())

    def close(self) -> None:
        """Forget every descriptor."""
        self._selector.close()

    def forget_timers(self) -> None:
        """Do nothing any more that was to be done later."""
        self._timers.clear()

    def _look_at_the_clock(self) -> None:
        """Notice that this process stood still, once the injection has been made."""
        now = time.monotonic()
        if self.measuring_since is not None:
            # From the injection on: before it, a fault may work on files for a while.
            still_s = now - max(self._seen, self.measuring_since / 1e9)
            if still_s > STILL_S:
                self._journal.log("stood_still", seconds=round(still_s, 3))
        self._seen = now
