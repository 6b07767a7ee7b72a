"""How far a worker is, told to a supervisor that does not share its memory.

A message for each step would cost the supervisor more than all else together, so the latest steps
are sent at most every `REPORT_S`, by a thread of their own: a training thread that waits inside a
collective for ever has said before what it has begun. Everything else that the worker says is
preceded by its latest steps (see `Distant.report`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from recoverybench.wire.lines import encode

REPORT_S: Final = 0.02
"""Least time between two reports. The watchdog looks at steps no more often than each twentieth of
its limit, and no limit is below a few tenths of a second."""

WORKERS_A_SECOND: Final = 3000
"""Most reports that a supervisor gets in a second; more workers report less often each."""


class Reports:
    """See the module; has the form of `protocol.StepsTold`.

    Args:
        send: sends what `latest` gives, if that is new. workers: of the job.
    """

    def __init__(self, send: Callable[[], None], workers: int) -> None:
        self._send = send
        self._pause_s = max(REPORT_S, workers / WORKERS_A_SECOND)
        self._now: tuple[int, int | None, int | None] | None = None
        self._told: tuple[int, int | None, int | None] | None = None
        self._changed = threading.Event()
        threading.Thread(target=self._tell, name="rb-reports", daemon=True).start()

    def begin(self, rank: int, step: int) -> None:
        """Rank `rank` begins `step`."""
        self._now = rank, step, None if self._now is None else self._now[2]
        self._changed.set()

    def complete(self, rank: int, step: int) -> None:
        """Rank `rank` has completed `step`."""
        self._now = rank, None if self._now is None else self._now[1], step
        self._changed.set()

    def latest(self, again: bool) -> bytes | None:
        """The message with the latest steps; None: it was given before.

        Args:
            again: it does not matter that it was.
        """
        now = self._now
        if now is None or (now == self._told and not again):
            return None
        self._told = now
        rank, begun, completed = now
        return encode({"kind": "progress", "rank": rank, "begun": begun, "completed": completed})

    def _tell(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            self._send()
            time.sleep(self._pause_s)
