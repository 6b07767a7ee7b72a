"""SIGKILL of every worker at the same instant: the whole job is gone.

It stands for a loss of power, of the cluster's network, or of the job's own scheduler entry.
Nobody is left who could keep anything in memory. Needs nothing. What it breaks are processes,
which are replaced.
"""

from __future__ import annotations

import signal
from typing import ClassVar

from recoverybench.faults import _arguments
from recoverybench.faults.base import Fault, strike_all
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()
OUTSIDE = True


class KillAll(Fault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "kill-all"

    def inject(self, job: Job, victim: Member) -> None:
        """Kill them, the victim first."""
        others = [m for m in job.ranks() if m.alive and m is not victim]
        strike_all(job, [victim, *others], self.name, signal.SIGKILL)


def create(argument: str | None) -> KillAll:
    """``kill-all`` takes no argument."""
    _arguments.none(KillAll.name, argument)
    return KillAll()
