"""SIGINT: somebody pressed Ctrl-C, or a scheduler interrupts one worker of the job.

It stands for an operator, a launcher or a notebook that interrupts one process of many.

Python turns it into a `KeyboardInterrupt` wherever the training thread is, which no
``except Exception`` catches; on its way out the interpreter runs JAX's handler for the end of
a process, which waits at the shutdown barrier for workers that are not ending. What that comes
to is the result. Needs nothing. What it breaks is the process, which is replaced.
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


class Interrupt(Fault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "interrupt"

    def inject(self, job: Job, victim: Member) -> None:
        """Interrupt it, and let it go on if it does."""
        strike(job, victim, self.name, signal.SIGINT)
        victim.tell({"kind": "release"})


def create(argument: str | None) -> Interrupt:
    """``interrupt`` takes no argument."""
    _arguments.none(Interrupt.name, argument)
    return Interrupt()
