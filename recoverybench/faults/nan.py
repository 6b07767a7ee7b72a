"""One step's gradient is not a number.

It stands for an overflow, a bad batch or a defective chip. The victim's own copy of one
parameter (the trial's seed chooses which) holds NaN for one step; its gradient is then NaN, and
the all-reduce of the gradients carries that to every worker, which is how one bad worker spoils
a job. What notices is the check that every loss is finite. Needs a workload that keeps its
parameters under ``params``, as the shipped ones do. What it breaks is the state of every worker,
which a restore replaces.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments
from recoverybench.faults._inside import InsideFault
from recoverybench.faults.base import order
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()


class Nan(InsideFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "nan"

    def inject(self, job: Job, victim: Member) -> None:
        """Have it in the next step."""
        order(job, victim, self.name, str(job.seed))


def create(argument: str | None) -> Nan:
    """``nan`` takes no argument."""
    _arguments.none(Nan.name, argument)
    return Nan()
