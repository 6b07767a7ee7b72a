"""SIGABRT: native code gave up, as a failed check in XLA or the coordination service does.

It stands for ``CHECK`` failures, uncaught C++ exceptions and JAX's own end of a worker whose
coordination service is gone. No Python runs any more. Needs nothing. What it breaks is the
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


class Abort(Fault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "abort"

    def inject(self, job: Job, victim: Member) -> None:
        """Abort it."""
        strike(job, victim, self.name, signal.SIGABRT)


def create(argument: str | None) -> Abort:
    """``abort`` takes no argument."""
    _arguments.none(Abort.name, argument)
    return Abort()
