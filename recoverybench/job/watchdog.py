"""The watchdog on steps, and what a process last said: how the supervisor itself notices."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from recoverybench.protocol import StepsSeen

_SETTLED = 3
"""Completed steps after which the pace of a generation can be told."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How long no step may be completed.

    Attributes:
        seconds: in seconds, or None.
        factor: in steps of the job's own pace, or None. With neither there is no watchdog.
    """

    seconds: float | None = None
    factor: float | None = None

    @property
    def set(self) -> bool:
        """Whether there is a watchdog."""
        return self.seconds is not None or self.factor is not None


class Watchdog:
    """Sees on the board that no rank completes a step any more.

    Args:
        board: of the job. limit: how long that may last.
    """

    def __init__(self, board: StepsSeen, limit: Limit) -> None:
        self._board = board
        self._limit = limit
        self._steps = board.steps()
        self._progress = self._began = time.monotonic()
        self._from = min(self._steps)

    def begin(self) -> None:
        """A generation runs: from here on its pace is measured."""
        self._steps = self._board.steps()
        self._progress = self._began = time.monotonic()
        self._from = min(self._steps)

    def discount(self) -> None:
        """The time since the last look was the harness' own: no step could be completed."""
        now = time.monotonic()
        self._began += now - self._progress
        self._progress = now

    @property
    def limit_s(self) -> float | None:
        """The limit in seconds; None: there is none, or the pace cannot be told yet."""
        if self._limit.factor is None:
            return self._limit.seconds
        done = min(self._steps) - self._from
        if done < _SETTLED:
            return self._limit.seconds
        return self._limit.factor * (self._progress - self._began) / done

    def look(self) -> str | None:
        """What there is to report, once for each time that the limit is passed."""
        steps, now = self._board.steps(), time.monotonic()
        if steps != self._steps:
            self._steps, self._progress = steps, now
            return None
        limit_s = self.limit_s
        if limit_s is None or now - self._progress <= limit_s:
            return None
        late_s, self._progress = now - self._progress, now
        return f"no step completed for {late_s:.3g} s: at {min(steps)}"


_STATUS = "absl::Status: "
"""What follows is why JAX's client of the coordination service ended its process."""


def last_words(log: Path) -> tuple[str, str]:
    """(mechanism, reason) of a worker that ended by itself, from what it last wrote.

    The coordination service's client ends its process by itself; only its log says whether
    a missing heartbeat or a lost coordinator was the reason.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return "process_exit", ""
    fatal = [line for line in text.splitlines() if line.startswith(("F", "*** ")) or "rror" in line]
    said = [line.partition(_STATUS)[2] for line in fatal if _STATUS in line] or fatal
    reason = f" ({said[-1].strip()[:200]})" if said else ""
    lowered = text.lower()
    if "heartbeat timeout" in lowered or "heartbeats)" in lowered or "/heartbeat" in lowered:
        return "heartbeat", reason
    if "failed to send rpc to coordination service" in lowered:
        return "coordinator_connection", reason
    return "process_exit", reason
