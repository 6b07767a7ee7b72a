"""The receiving side of `recoverybench.mark`: a FIFO that any process of the command writes to."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recoverybench.external.lines import DIGITS, Seen

MILESTONES: Final = ("up", "rendezvous", "compiled", "error")
"""Names of events that are something to the timeline."""


@dataclass(frozen=True, slots=True)
class Told:
    """One mark.

    Attributes:
        t: when it was made, CLOCK_MONOTONIC ns. pid: by which process.
        seen: what it says; `Seen.rank` is the rank that the process says it is.
        name: of an event; None: it is none. dropped: marks before it that found the pipe full.
    """

    t: int
    pid: int
    seen: Seen
    name: str | None = None
    dropped: int = 0


def parse(line: bytes) -> Told | None:
    """A line of the FIFO; None where it is no mark: the pipe is open to whoever wants to write."""
    try:
        data: dict[str, Any] = json.loads(line)
        what, name = str(data["mark"]), data.get("name")
        step, loss, rank = data.get("step"), data.get("loss"), data.get("rank")
        if step is not None and not 0 <= int(step) < 10**DIGITS:
            return None
        if what == "event":
            what = str(name) if name in MILESTONES else "event"
        return Told(
            t=int(data["t"]),
            pid=int(data["pid"]),
            seen=Seen(
                what,
                None if step is None else int(step),
                None if loss is None else str(loss),
                None if rank is None else int(rank),
            ),
            name=None if name is None else str(name),
            dropped=int(data.get("dropped", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Receiver:
    """Reads marks.

    Args:
        path: of the FIFO, which is made; its directory must be private.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path, 0o600)
        # Open for writing as well, so that it does not end when the last process goes.
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""

    def read(self) -> list[Told]:
        """The marks that have arrived."""
        found: list[Told] = []
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return found
            *lines, self._rest = (self._rest + data).split(b"\n")
            found += [told for line in lines if (told := parse(line)) is not None]

    def close(self) -> None:
        """Read no more."""
        os.close(self.fd)
