"""Every step takes several times as long, for a while: a straggler."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoverybench.worker.steps import Loop


def strike(loop: Loop, argument: str | None) -> None:
    """Slow the steps down, from the second one on: the first shows how long a step takes.

    Args:
        loop: the training loop.
        argument: ``K:SECONDS``.
    """
    factor, _, seconds = (argument or "").partition(":")
    loop.before_step = Drag(loop, float(factor), float(seconds))


class Drag:
    """Called before each step; sleeps for what the step takes, times the factor less one.

    Args:
        loop: the training loop. factor: how many times slower. seconds: for how long.
    """

    def __init__(self, loop: Loop, factor: float, seconds: float) -> None:
        self._loop = loop
        self._before = loop.before_step
        self._factor = factor
        self._end = time.monotonic() + seconds
        self._woke: float | None = None
        # The shortest so far: a step that also saved is no measure of a step.
        self._step_s = float("inf")

    def __call__(self) -> None:
        """Make this step that much later."""
        self._before()
        now = time.monotonic()
        if now >= self._end:
            self._loop.before_step = self._before
            return
        if self._woke is not None:
            self._step_s = min(self._step_s, now - self._woke)
            with self._loop.journal.span("slowed down"):
                time.sleep(min((self._factor - 1) * self._step_s, self._end - now))
        self._woke = time.monotonic()
