"""The command with workers whose clocks are really off: each in a time namespace of its own.

``python -m tests.time_spaces run …`` is ``recoverybench run …``, with every worker started cold in
a new namespace. Its CLOCK_MONOTONIC is that of the machine and so many seconds more as `SECONDS`
says for the file of its journal.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from recoverybench.launchers import local
from recoverybench.launchers.base import How, Process

SECONDS: Final = {
    "0.0": 1000.25,
    "1.0": -3.5,
    "2.0": 250_000.0,
    "1.1": 77.000001,
    "2.1": 77.000001,  # one of the two is broken, and comes back
    "3.0": 12.0,
}
"""Slot and attempt -> what its clock shows beyond the machine's, s."""

OTHERS: Final = 5.0
"""The same of every other worker, s."""

_CLONE_NEWTIME: Final = 0x80


def why_not() -> str | None:
    """Why there can be no workers with other clocks here; None: there can."""
    found = subprocess.run(
        [sys.executable, __file__, "1.5", sys.executable, "-c", _SAY], capture_output=True
    )
    if found.returncode != 0:
        return f"no time namespaces: {found.stderr.decode().strip().splitlines()[-1]}"
    theirs, host = float(found.stdout), float(Path("/proc/uptime").read_text().split()[0])
    return None if theirs > host + 1 else "a program that is started stays in the old namespace"


_SAY: Final = "import time; print(time.monotonic())"


def enter(seconds: float) -> None:
    """Have what this process executes next live in a new time namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWTIME) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    whole = int(seconds // 1)
    nanoseconds = round((seconds - whole) * 1e9)
    Path("/proc/self/timens_offsets").write_text(f"monotonic {whole} {nanoseconds}\n")


class Spaces(local.Local):
    """See `launchers.base.Launcher`: workers of this machine with clocks of their own."""

    _seconds = OTHERS

    def start(
        self,
        address: str,
        slot: int,
        attempt: int,
        how: How,
        log: Path,
        network: str | None = None,
    ) -> Process:
        """A cold start: what the fork server forks lives in its namespace."""
        self._seconds = SECONDS.get(f"{slot}.{attempt}", OTHERS)
        return super().start(address, slot, attempt, "cold", log, network)

    def command(self) -> list[str]:
        """This file, which enters a namespace and becomes a worker."""
        return [sys.executable, "-P", __file__, str(self._seconds), *super().command()]


def main(arguments: list[str]) -> None:
    """The command, with such workers."""
    from recoverybench.cli import main as command

    local.create = Spaces  # what a run's bench asks for a launcher
    command(arguments)


if __name__ == "__main__":
    if __package__:
        main(sys.argv[1:])
    else:
        enter(float(sys.argv[1]))
        os.execv(sys.argv[2], sys.argv[2:])
