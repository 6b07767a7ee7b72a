"""SIGSTOP: the process is there and does nothing, its sockets stay open, its heart stands still.

It stands for a frozen host or a process stuck in the kernel. Nobody gets an error; what notices
is a watchdog on the steps, or the heartbeat timeout where survivors are not to rejoin (JAX
reports the silence of a recoverable worker to nobody). Needs nothing. A stopped worker is ended
by SIGKILL when the strategy or the end of the trial has done with it.
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


class Hang(Fault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "hang"

    def inject(self, job: Job, victim: Member) -> None:
        """Stop it."""
        strike(job, victim, self.name, signal.SIGSTOP)


def create(argument: str | None) -> Hang:
    """``hang`` takes no argument."""
    if argument is not None:
        raise bad_value("fault", f"hang:{argument}", "'hang' without an argument")
    return Hang()
