"""What is to be done later: on the job's own loop, so that nothing sleeps for it."""

from __future__ import annotations

import time
from collections.abc import Callable


class Timers:
    """Actions and when they are due."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, Callable[[], None]]] = []

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do it that many seconds from now, if the job is still there."""
        self._waiting.append((time.monotonic() + seconds, action))
        self._waiting.sort(key=lambda item: item[0])

    def left_s(self, otherwise: float) -> float:
        """How long the loop may wait: until the first is due, and not longer than it would."""
        if not self._waiting:
            return otherwise
        return min(otherwise, max(0.0, self._waiting[0][0] - time.monotonic()))

    def run(self) -> None:
        """Do what is due, in the order of their times; what that adds is for the next turn."""
        now = time.monotonic()
        due = [action for when, action in self._waiting if when <= now]
        del self._waiting[: len(due)]
        for action in due:
            action()

    def clear(self) -> None:
        """Forget what is not done."""
        self._waiting.clear()
