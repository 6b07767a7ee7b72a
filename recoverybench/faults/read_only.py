"""A read-only disk: whatever changes something below the checkpoints fails with EROFS.

``read-only:DURATION`` is one that is writable again after that time; ``read-only`` stays as it
is. It stands for a file system that the kernel has remounted read-only after an error, or a
volume that a node lost its right to write. Reading works, so a restore does, and no step of the
training fails: what notices is a save, and a fault that no save meets is ``no_effect``. The
operations of every worker fail in the kernel's answer to them (`gate`), nothing is
remounted. Needs ``user-notification``; it is undone when the trial ends.
"""

from __future__ import annotations

import errno
from typing import ClassVar, Final

from recoverybench.faults._storage import StorageFault
from recoverybench.gate.policies import Broken, Kind
from recoverybench.plan.units import parse_duration

NEEDS = ("user-notification",)

KINDS: Final[frozenset[Kind]] = frozenset(
    {"create", "open", "write", "truncate", "rename", "mkdir", "unlink", "rmdir", "link"}
)
"""What changes something (a sync has nothing to write)."""


class ReadOnly(StorageFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "read-only"

    def policy(self, until_s: float | None) -> Broken:
        """See `StorageFault.policy`."""
        return Broken(errno.EROFS, KINDS, until_s)


def create(argument: str | None) -> ReadOnly:
    """``read-only`` or ``read-only:DURATION``."""
    if argument is None:
        return ReadOnly(None)
    return ReadOnly(parse_duration(argument, "fault read-only: duration"))
