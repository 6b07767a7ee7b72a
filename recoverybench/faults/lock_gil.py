"""Python's lock is held for good: native threads live, and no line of Python runs.

It stands for a native extension that waits or spins without letting go of the lock. The
coordination service's heartbeat is a native thread and goes on; whatever answers probes in
Python does not. Needs nothing. What it breaks is the process, which is ended by SIGKILL when the
strategy or the end of the trial has done with it.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments
from recoverybench.faults._inside import InsideFault
from recoverybench.faults.base import order
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()


class LockGil(InsideFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "lock-gil"

    def inject(self, job: Job, victim: Member) -> None:
        """Have its training thread take the lock and keep it."""
        order(job, victim, self.name)


def create(argument: str | None) -> LockGil:
    """``lock-gil`` takes no argument."""
    _arguments.none(LockGil.name, argument)
    return LockGil()
