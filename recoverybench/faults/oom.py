"""A worker runs out of memory, for real: a limit is set around it, and it allocates until it hits.

It stands for a leak, a batch that is too large, or a host that others fill. Where a control
group with a memory limit can be made (root, or a delegated group; both versions), the kernel
ends the worker with SIGKILL, as it does in a container; elsewhere the worker's address space is
limited, and an allocation raises `MemoryError` in the step. ``oom:cgroup`` and ``oom:rlimit`` ask
for one of the two; a cell that asks for a control group where none can be made is refused. Needs
nothing else. The group is removed after the trial.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.errors import HarnessError, bad_value
from recoverybench.faults._inside import InsideFault
from recoverybench.faults._memory import MemoryGroup
from recoverybench.faults.base import order
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()

ROOM = 64 << 20
"""How much more a worker may have, bytes: enough for what it does besides, and soon full."""


class Oom(InsideFault):
    """See `faults.base.Fault`.

    Args:
        how: ``cgroup`` | ``rlimit``; None: the former where it is possible.
    """

    name: ClassVar[str] = "oom"

    def __init__(self, how: str | None) -> None:
        self._how = how
        self._group: MemoryGroup | None = None

    def unsupported(self, cell: Cell) -> str | None:
        """A control group was asked for, and cannot be had."""
        reason = super().unsupported(cell)
        if reason is not None or self._how != "cgroup":
            return reason
        group = MemoryGroup.make("try", ROOM)
        if group is None:
            return "no control group with a memory limit can be made (run as root)"
        group.remove()
        return None

    def inject(self, job: Job, victim: Member) -> None:
        """Set the limit, and have the worker run into it."""
        if self._how != "rlimit":
            self._group = MemoryGroup.make(f"worker-{victim.rank}", ROOM)
        if self._group is not None:
            self._group.hold(victim.process.pid)
            victim.why = "inject"  # the kernel's SIGKILL is our doing
            order(job, victim, self.name, "cgroup")
        elif self._how == "cgroup":
            raise HarnessError("the control group could be made before, and now it cannot")
        else:
            order(job, victim, self.name, f"rlimit:{ROOM}")

    def undo(self, job: Job) -> None:
        """Remove the control group."""
        if self._group is not None:
            self._group.remove()


def create(argument: str | None) -> Oom:
    """``oom``, ``oom:cgroup`` or ``oom:rlimit``."""
    if argument not in (None, "cgroup", "rlimit"):
        raise bad_value("fault", f"oom:{argument}", "'oom', 'oom:cgroup' or 'oom:rlimit'")
    return Oom(argument)
