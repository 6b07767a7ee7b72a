"""Survivors keep their process and rejoin; only what is broken is replaced, by a cold start.

The failure becomes an exception in the survivors. They close the dead runtime while the
replacement imports, and meet it at a new coordination service. The service lives in
worker 0, so with worker 0 the survivors are lost as well: JAX's client ends their process
within a fraction of a second, with no exception that could be caught.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.strategies.base import CannotRecover, act


class Elastic:
    """See `strategies.base.Strategy`."""

    rejoin: ClassVar[bool] = True
    standbys: ClassVar[int] = 0
    name: ClassVar[str] = "elastic"

    def recover(self, job: Job) -> None:
        """Find out who is broken, replace those, and call the others back."""
        # An error in a survivor may be here before the exit that explains it; and a worker
        # that is stopped never exits at all, it only fails to answer.
        suspects = [] if job.dead() else job.unresponsive()
        broken = [m for m in (*job.dead(), *suspects) if m.rank is not None]
        if any(m.rank == 0 for m in broken):
            raise CannotRecover(
                "worker 0 is lost, and with it the coordination service that the survivors need"
            )
        address = act(job, self.name)
        job.end(suspects, "teardown")
        survivors = [m for m in job.survivors() if m not in broken]
        with job.span("replace what is broken"):
            # The one on the critical path first.
            for member in broken:
                assert member.rank is not None
                job.place(self.replacement(job, member.rank), member.rank, address)
            for member in survivors:
                assert member.rank is not None
                job.place(member, member.rank, address, kind="rejoin")

    def replacement(self, job: Job, rank: int) -> Member:
        """A new process for that rank."""
        return job.spawn(rank, "cold", rank)


def create(argument: str | None) -> Elastic:
    """``elastic`` takes no argument."""
    assert argument is None
    return Elastic()
