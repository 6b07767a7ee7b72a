"""SIGKILL: the machine is gone, nothing runs any more, its sockets are closed by the kernel.

It stands for the loss of a host or a container: no Python runs, nothing is flushed, peers see
their connections close. Needs nothing. What it breaks is the process, which is replaced.
"""

from __future__ import annotations

import signal
from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults.base import Fault, strike
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()
OUTSIDE = True


class Kill(Fault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "kill"

    def inject(self, job: Job, victim: Member) -> None:
        """Kill it."""
        strike(job, victim, self.name, signal.SIGKILL)


def create(argument: str | None) -> Kill:
    """``kill`` takes no argument."""
    if argument is not None:
        raise bad_value("fault", f"kill:{argument}", "'kill' without an argument")
    return Kill()
