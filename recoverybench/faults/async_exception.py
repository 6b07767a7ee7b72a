"""An exception that no line of the program raises: another thread puts it into the training thread.

It stands for timeouts that are built on ``PyThreadState_SetAsyncExc``, and for handlers of signals
that raise. It is set while the worker is in the middle of a step and surfaces as soon as its
collective returns. Needs nothing. What it breaks is one generation of the training; the process
lives.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments
from recoverybench.faults._inside import InsideFault
from recoverybench.faults.base import order
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()


class AsyncException(InsideFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "async-exception"

    def inject(self, job: Job, victim: Member) -> None:
        """Have it raised during the next step."""
        order(job, victim, self.name)


def create(argument: str | None) -> AsyncException:
    """``async-exception`` takes no argument."""
    _arguments.none(AsyncException.name, argument)
    return AsyncException()
