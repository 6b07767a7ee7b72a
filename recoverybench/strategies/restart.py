"""Every worker is ended and started anew, cold: what JobSet and torchrun do."""

from __future__ import annotations

from typing import ClassVar

from recoverybench.job.job import Job
from recoverybench.launchers.base import How
from recoverybench.strategies.base import act


class Restart:
    """See `strategies.base.Strategy`."""

    rejoin: ClassVar[bool] = False
    standbys: ClassVar[int] = 0
    name: ClassVar[str] = "restart"
    how: ClassVar[How] = "cold"

    def recover(self, job: Job) -> None:
        """End all, then start all."""
        address = act(job, self.name)
        with job.span("end every worker"):
            job.await_ended(job.end(job.survivors(), "teardown"))
        with job.span("start every worker"):
            for rank in range(job.spec.workers):
                job.place(job.spawn(rank, self.how, rank), rank, address)


def create(argument: str | None) -> Restart:
    """``restart`` takes no argument."""
    assert argument is None
    return Restart()
