"""Starting a command: what its braces and its environment hold."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recoverybench.errors import HarnessError, UsageError
from recoverybench.external.spec import Command, filled
from recoverybench.leftovers import owner_mark
from recoverybench.mark import RANK_VARIABLES, VARIABLE
from recoverybench.protocol import OWNER_VARIABLE

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """What one job of a command is given.

    Attributes:
        world, devices: of its topology. steps: its length. interval: between checkpoints.
        seed: of its parameters and data. port: free, and nobody else's until the job ends.
        directory: for its checkpoints; empty, and removed after the job. marks: of the FIFO.
    """

    world: int
    devices: int
    steps: int
    interval: int
    seed: int
    port: int
    directory: Path
    marks: Path

    def values(self, command: Command, rank: int | None) -> dict[str, str]:
        """What the braces stand for."""
        values = {
            "world_size": str(self.world),
            "devices": str(self.devices),
            "port": str(self.port),
            "steps": str(self.steps),
            "interval": str(self.interval),
            "seed": str(self.seed),
            "directory": str(self.directory),
            "python": command.python,
            "here": str(command.path.parent),
        }
        return values if rank is None else {**values, "rank": str(rank)}


def environment(
    command: Command, settings: Settings, rank: int | None, base: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a command: `base`, what it asks for, and what a run tells it."""
    values = settings.values(command, rank)
    told = {f"RECOVERYBENCH_{name.upper()}": value for name, value in values.items()}
    # Python holds back what it prints into a pipe, and a line would be dated too late. Into a
    # terminal it does not, and unbuffered it would write a line and its end apart.
    unbuffered = {} if command.terminal else {"PYTHONUNBUFFERED": "1"}
    return {
        **{key: value for key, value in base.items() if key != "PYTHONUNBUFFERED"},
        **unbuffered,
        **{key: filled(value, values) for key, value in command.environment.items()},
        **told,
        VARIABLE: str(settings.marks),
        RANK_VARIABLES: ",".join(command.ranks.environment),
        OWNER_VARIABLE: owner_mark(),
    }


def adopt_orphans() -> None:
    """Have every process whose parent ends become this one's child, so that none gets away.

    Raises:
        HarnessError: this system cannot do that.
    """
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise HarnessError("prctl(PR_SET_CHILD_SUBREAPER) failed: Linux 3.4 or newer needed")


def start(command: Command, settings: Settings, rank: int | None, output: int) -> int:
    """Start it in a session of its own; returns its pid.

    Args:
        rank: the rank that it is started for; None: it starts all of them.
        output: descriptor that it writes to.

    Raises:
        UsageError: there is no such program.
    """
    values = settings.values(command, rank)
    text = command.start
    arguments = ["/bin/sh", "-c", text] if isinstance(text, str) else list(text)
    arguments = [filled(part, values) for part in arguments]
    try:
        child = subprocess.Popen(
            arguments,
            cwd=command.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(command, settings, rank, os.environ),
            start_new_session=True,
            preexec_fn=_die_with_us,
        )
    except OSError as error:
        raise UsageError(
            f"{command.name}: workload.start = {arguments[0]!r}: cannot be started: "
            f"{error.strerror or error}"
        ) from None
    child.returncode = 0  # the job waits for it, and Popen must not
    return child.pid


def _die_with_us() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
