"""What a command prints: read as it comes, dated, kept in a log, cut into lines."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

_CUT: Final = re.compile(rb"\r\n|\n|\r")
LONGEST: Final = 1 << 16
"""Bytes of a line; a longer one is cut there."""

TAIL: Final = 5
"""Last lines that a message shows."""


class Output:
    """One stream of a command: what all its processes write to the pipe that they were given.

    A carriage return ends a line too, as progress bars have it.

    Args:
        log: file that every line is appended to, with the seconds since `begun` before it.
        heard: called with each line and the instant it was read at (CLOCK_MONOTONIC ns).
        begun: CLOCK_MONOTONIC ns.

    Attributes:
        fd: to be read from. writer: to be given to the command, and closed here after that.
        tail: the last lines that are not empty.
    """

    def __init__(self, log: Path, heard: Callable[[str, int], None], begun: int) -> None:
        self.fd, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.fd, False)
        self.tail: deque[str] = deque(maxlen=TAIL)
        self._log = log.open("ab", buffering=0)
        self._heard = heard
        self._begun = begun
        self._rest = b""
        self._open = True

    def read(self) -> bool:
        """Take in what is there; returns whether more may come: nobody has closed it."""
        while self._open:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                self._take(b"\n" if self._rest else b"")
                return False
            self._take(data)
        return False

    def _take(self, data: bytes) -> None:
        t = time.monotonic_ns()
        *lines, rest = _CUT.split(self._rest + data)
        if len(rest) > LONGEST:
            lines.append(rest)
            rest = b""
        self._rest = rest
        stamp = f"[{(t - self._begun) / 1e9:10.4f}] ".encode()
        if lines:
            self._log.write(b"".join(stamp + line + b"\n" for line in lines))
        for line in lines:
            text = line.decode(errors="replace")
            if text.strip():
                self.tail.append(text.strip())
            self._heard(text, t)

    def close_writer(self) -> None:
        """The command has it now."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Read no more."""
        if self._open:
            self._open = False
            self.close_writer()
            os.close(self.fd)
            self._log.close()
