"""Every worker is ended and started anew, cold: what JobSet and torchrun do."""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.launchers.base import How
from recoverybench.strategies.base import Strategy, act, replace_lost


class Restart(Strategy):
    """See `strategies.base.Strategy`."""

    name: ClassVar[str] = "restart"
    ends_all: ClassVar[bool] = True
    how: ClassVar[How] = "cold"

    def recover(self, job: Job) -> None:
        """End all, then start all."""
        ranks = job.ranks()
        address = act(job, self.name, topology=job.spec.restore_topology)
        with job.span("end every worker"):
            job.await_ended(job.end(job.survivors(), "teardown"))
        # Those that were ended come back on their own nodes, with what lies there. Asked only
        # now: what others report of a death may be here before that death is.
        replace_lost(job, [member for member in ranks if not _ended_by_us(member)])
        with job.span("start every worker"):
            for rank in range(job.world):
                job.place(job.spawn(rank, self.how, rank), rank, address)


def _ended_by_us(member: Member) -> bool:
    """It lived until it was told to end, and did not end in another way meanwhile."""
    ended = member.ended
    return member.why == "teardown" and ended is not None and ended.signal == "SIGKILL"


def create(argument: str | None) -> Restart:
    """``restart`` takes no argument."""
    if argument is not None:
        raise bad_value("strategy", f"restart:{argument}", "'restart' without an argument")
    return Restart()
