"""A full disk: whatever makes or lengthens a file below the checkpoints fails with ENOSPC.

``disk-full:DURATION`` (``disk-full:2s``) is a disk on which somebody makes room after that time;
``disk-full`` stays full. It stands for a volume, a quota or a bucket's file system that fills up
while training goes on: removing, renaming, syncing and reading still work, and no step of the
training fails. What notices is a save, so the time to notice it holds the steps until the next
one; a fault that no save meets is ``no_effect``. The operations of every worker fail in the
kernel's answer to them (`gate`), no disk is filled. Needs ``user-notification``; it is undone
when the trial ends, and leaves nothing behind.
"""

from __future__ import annotations

import errno
from typing import ClassVar, Final

from recoverybench.faults._storage import StorageFault
from recoverybench.gate.policies import Broken, Kind
from recoverybench.plan.units import parse_duration

NEEDS = ("user-notification",)

KINDS: Final[frozenset[Kind]] = frozenset({"create", "write", "truncate", "mkdir", "link"})
"""What needs room."""


class DiskFull(StorageFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "disk-full"

    def policy(self, until_s: float | None) -> Broken:
        """See `StorageFault.policy`."""
        return Broken(errno.ENOSPC, KINDS, until_s)


def create(argument: str | None) -> DiskFull:
    """``disk-full`` or ``disk-full:DURATION``."""
    if argument is None:
        return DiskFull(None)
    return DiskFull(parse_duration(argument, "fault disk-full: duration"))
