"""A worker that lives, beats its heart, and never does another step.

It stands for a data loader that waits for ever, a deadlock in Python, a call without a timeout.
Its threads answer, its sockets are open, nobody gets an error: only somebody who watches the
steps can tell. Needs nothing. What it breaks is the process, which is ended by SIGKILL when the
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


class Stuck(InsideFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "stuck"

    def inject(self, job: Job, victim: Member) -> None:
        """Have its training thread sleep for good."""
        order(job, victim, self.name)


def create(argument: str | None) -> Stuck:
    """``stuck`` takes no argument."""
    _arguments.none(Stuck.name, argument)
    return Stuck()
