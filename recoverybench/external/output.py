"""What a command prints: read as it comes, dated, kept in a log, cut into lines.

It prints into a terminal of its own, as programs hold back what they print into a pipe: a line
would be dated long after it was printed. Python, told not to (``PYTHONUNBUFFERED``), writes a
line and its end apart, and lines of several processes get mixed.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

_CUT: Final = re.compile(rb"\r\n|\n|\r")
LONGEST: Final = 1 << 16
"""Bytes of a line; a longer one is cut there."""

KEPT: Final = 32 << 20
"""Bytes of one stream that its log keeps. Every line is read, whatever becomes of the log."""

TAIL: Final = 5
"""Last lines that a message shows."""


COLUMNS: Final = 160
"""Width of the terminal; progress bars fill it."""


class Output:
    """One stream of a command: what all its processes write to the terminal they were given.

    A carriage return ends a line too, as progress bars have it.

    Args:
        log: file that every line is appended to, with the seconds since `begun` before it.
        heard: called with each line and the instant it was read at (CLOCK_MONOTONIC ns).
        begun: CLOCK_MONOTONIC ns.
        terminal: False: it is a pipe.

    Attributes:
        fd: to be read from. writer: to be given to the command, and closed here after that.
        tail: the last lines that are not empty.
    """

    def __init__(
        self,
        log: Path,
        heard: Callable[[str, int], None],
        begun: int,
        *,
        terminal: bool = True,
    ) -> None:
        self.fd, self.writer = _terminal() if terminal else os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.fd, False)
        self.tail: deque[str] = deque(maxlen=TAIL)
        self._log = log.open("ab", buffering=0)
        self._heard = heard
        self._begun = begun
        self._rest = b""
        self._room = KEPT
        self._open = True

    def read(self) -> bool:
        """Take in what is there; returns whether more may come: nobody has closed it."""
        while self._open:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return True
            except OSError:  # a terminal that nobody has open any more
                data = b""
            if not data:
                if self._rest:
                    self._take(b"\n")
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
        if lines and self._room:
            content = b"".join(stamp + line + b"\n" for line in lines)
            self._room = max(0, self._room - len(content))
            if not self._room:
                content += stamp + b"(from here on nothing is kept: the log is full)\n"
            self._log.write(content)
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


def _terminal() -> tuple[int, int]:
    """Both ends of a new terminal that passes on what is written, and nothing else."""
    reader, writer = os.openpty()
    attributes = termios.tcgetattr(writer)
    attributes[1] &= ~termios.OPOST  # no carriage returns that nobody wrote
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(writer, termios.TCSANOW, attributes)
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    return reader, writer
