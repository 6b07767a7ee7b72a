"""A full disk: whatever makes or lengthens a file below the checkpoints fails with ENOSPC.

``disk-full:DURATION`` (``disk-full:2s``) is a disk on which somebody makes room after that time;
``disk-full`` stays full. It stands for a volume, a quota or a bucket's file system that fills up
while training goes on: removing, renaming, syncing and reading still work, and no step of the
training fails. What notices is a save, so the time to notice it holds the steps until the next
one; a fault that no save meets is ``no_effect``. The operations of every worker fail in the
kernel's answer to them (`job.gate`), no disk is filled. Needs ``user-notification``; it is undone
when the trial ends, and leaves nothing behind.
"""

from __future__ import annotations

import errno
import time
from typing import ClassVar, Final

from recoverybench.faults._storage import StorageFault
from recoverybench.job.policies import Broken, Kind, Policy
from recoverybench.plan.units import parse_duration

NEEDS = ("user-notification",)

KINDS: Final[frozenset[Kind]] = frozenset({"create", "write", "truncate", "mkdir", "link"})
"""What needs room."""


class DiskFull(StorageFault):
    """See `faults.base.Fault`.

    Args:
        duration_s: for how long it is full; None: for good.
    """

    name: ClassVar[str] = "disk-full"

    def __init__(self, duration_s: float | None) -> None:
        super().__init__()
        self._duration_s = duration_s

    def policy(self) -> Policy:
        """From now on."""
        until_s = None if self._duration_s is None else time.monotonic() + self._duration_s
        return Broken(errno.ENOSPC, KINDS, until_s)


def create(argument: str | None) -> DiskFull:
    """``disk-full`` or ``disk-full:DURATION``."""
    if argument is None:
        return DiskFull(None)
    return DiskFull(parse_duration(argument, "fault disk-full: duration"))
