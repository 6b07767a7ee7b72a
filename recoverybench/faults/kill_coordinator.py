"""SIGKILL of whoever runs the coordination service: worker 0, or a process of its own.

It stands for the loss of the one machine that all others are registered with. Where worker 0
runs the service (``coordinator = "worker0"``), the loss of it ends every other worker within a
fraction of a second, with no exception; where the service is a process of its own
(``coordinator = "external"``), training goes on without it until somebody needs it. The
cell's victim only says where the job stands when it happens. Needs nothing. What it breaks is
a process, which is replaced.
"""

from __future__ import annotations

import signal
from typing import ClassVar

from recoverybench.errors import HarnessError
from recoverybench.faults import _arguments
from recoverybench.faults.base import Fault, strike
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()


class KillCoordinator(Fault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "kill-coordinator"

    def inject(self, job: Job, victim: Member) -> None:
        """Kill it; a victim that is another process goes on."""
        service = job.service()
        if service is None:
            raise HarnessError("the coordination service was gone before it was killed")
        strike(job, service, self.name, signal.SIGKILL)
        if service is not victim:
            victim.tell({"kind": "release"})


def create(argument: str | None) -> KillCoordinator:
    """``kill-coordinator`` takes no argument."""
    _arguments.none(KillCoordinator.name, argument)
    return KillCoordinator()
