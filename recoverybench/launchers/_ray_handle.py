"""A worker on another node as this process knows it: its pid and its end arrive on Ray's threads.

The end is passed on to the supervisor's loop through a pipe, as a descriptor is what it waits on.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from recoverybench.launchers.base import Ended, How, Process

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LONGEST = 200


class Handle:
    """What is known of one worker.

    Args:
        actor: it is a child of. node: that it is on. key: its name there. slot: its place.
        pid: on that node; 0: that is not known yet. own: nobody else is a child of that actor.
        log: of the worker; receives what became of an actor that is gone.
    """

    def __init__(
        self, actor: Any, node: str, key: str, slot: int, pid: int, *, own: bool, log: Path
    ) -> None:
        self.actor, self.node, self.key, self.slot, self.own = actor, node, key, slot, own
        self.pid = pid
        self.expected = False
        self.ended: Ended | None = None
        self._log = log
        self._lock = threading.Lock()
        self.read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def started(self, pid: int | None, error: BaseException | None) -> None:
        """It has been started (0: it could not be, and has ended), or its actor cannot start it."""
        if error is not None:
            self.over(None, error)
        elif pid:
            self.pid = int(pid)

    def over(self, said: tuple[int | None, str | None] | None, error: BaseException | None) -> None:
        """It has ended, or its actor has, and it with it: by the parent-death signal."""
        if said is not None:
            self._end(Ended(*said))
            return
        if not self.expected and self.ended is None:
            with suppress(OSError), self._log.open("a") as file:
                file.write(f"error: lost with its actor: {first_line(error)}\n")
        self._end(Ended(None, "SIGKILL", seen=False))

    def close(self) -> None:
        """Close both ends of the pipe."""
        with self._lock:
            os.close(self.read)
            os.close(self._write)
            self._write = -1

    def _end(self, ended: Ended) -> None:
        with self._lock:
            if self.ended is None:
                self.ended = ended
                if self._write >= 0:
                    os.write(self._write, b".")


def first_line(error: BaseException | None) -> str:
    """What one of Ray's exceptions says, in one line and without colours."""
    text = _COLOUR.sub("", str(error)).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text[:_LONGEST]}"


class RayProcess(Process):
    """A `launchers.base.Process` whose pid is 0 until its node has said it."""

    __slots__ = ("handle",)
    handle: Handle

    def __init__(self, handle: Handle, how: How, log: Path) -> None:
        for name, value in (("handle", handle), ("fd", handle.read), ("how", how), ("log", log)):
            object.__setattr__(self, name, value)

    @property
    def pid(self) -> int:
        """Its process id on its node."""
        return self.handle.pid
