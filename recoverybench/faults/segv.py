"""SIGSEGV: native code touched memory that it does not have.

It stands for a defect in a kernel, a driver or a library. No Python runs any more: no ``finally``,
no ``atexit``; the operating system closes the sockets. Needs nothing. What it breaks is the
process, which is replaced.
"""

from __future__ import annotations

import signal
from typing import ClassVar

from recoverybench.faults import _arguments
from recoverybench.faults.base import Fault, strike
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()
OUTSIDE = True


class Segv(Fault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "segv"

    def inject(self, job: Job, victim: Member) -> None:
        """Crash it."""
        strike(job, victim, self.name, signal.SIGSEGV)


def create(argument: str | None) -> Segv:
    """``segv`` takes no argument."""
    _arguments.none(Segv.name, argument)
    return Segv()
