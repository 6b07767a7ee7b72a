"""What a fault does: break one thing at one moment, and say when it took effect."""

from __future__ import annotations

import signal
import time
from typing import Protocol

from recoverybench.job.job import Job
from recoverybench.job.member import Member


class Fault(Protocol):
    """Breaks a worker that waits just before the step of the trigger."""

    def inject(self, job: Job, victim: Member) -> None:
        """Break it. The instant goes into the journal as ``inject``, unless the job was over
        before the fault could take effect.
        """


def strike(job: Job, victim: Member, name: str, number: signal.Signals) -> None:
    """Send a signal that takes effect at once, and log it as the injection.

    The clock is read just before the system call: after it, the supervisor may be
    off the processor while the effect is already there.
    """
    if number == signal.SIGKILL:
        victim.why = "inject"
    t = time.monotonic_ns()
    job.signal(victim, number)
    job.injected = job.journal.log("inject", t, fault=name, worker=victim.rank)
