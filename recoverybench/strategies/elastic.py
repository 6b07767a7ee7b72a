"""Survivors keep their process and rejoin; only what is broken is replaced, by a cold start.

The failure becomes an exception in the survivors. They close the dead runtime while the
replacement imports, and meet it at a new coordination service. Where the service lives in
worker 0, the survivors are lost with worker 0 as well: JAX's client ends their process
within a fraction of a second, with no exception that could be caught. With a service
outside (``coordinator = "external"``) worker 0 is replaced like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.strategies.base import CannotRecover, Strategy, act, replace_lost


@dataclass(frozen=True, slots=True)
class Damage:
    """Who is broken and who is not.

    Attributes:
        broken: to be replaced. stuck: those of them whose process is still there.
        survivors: to be called back.
    """

    broken: list[Member]
    stuck: list[Member]
    survivors: list[Member]


class Elastic(Strategy):
    """See `strategies.base.Strategy`."""

    name: ClassVar[str] = "elastic"
    rejoin: ClassVar[bool] = True

    def recover(self, job: Job) -> None:
        """Find out who is broken, replace those, and call the others back."""
        damage = self.examine(job)
        address = act(job, self.name)
        job.end(damage.stuck, "teardown")
        replace_lost(job, damage.broken)
        with job.span("replace what is broken"):
            # The one on the critical path first.
            there = {m.rank for m in damage.survivors}
            for rank in range(job.spec.processes):
                if rank not in there:  # lost now, or missing since the mesh shrank
                    job.place(self.replacement(job, rank), rank, address)
            for member in damage.survivors:
                assert member.rank is not None
                job.place(member, member.rank, address, kind="rejoin")

    def examine(self, job: Job) -> Damage:
        """Who is broken.

        Raises:
            CannotRecover: the survivors are lost with them.
        """
        # An error in a survivor may be here before the exit that explains it; a worker that is
        # stopped never exits at all, it only fails to answer; and one that is stuck answers,
        # and has not begun the step in which the others wait for it. Where it is an error that
        # ended the generation, one that has not begun the step is only late to meet it: a loss
        # that is no number is everybody's.
        # Probing takes a millisecond where all are well, and shows who else is just ending.
        silent = job.unresponsive()
        dead = job.dead()
        stuck = [] if dead else silent
        if not dead and not stuck and job.standing_still():
            # One that has caught an exception is not stuck: it waits to be called back.
            stuck = [m for m in job.laggards() if m.failed is None]
        stuck += [m for m in job.ranks() if m.stuck and m.alive and m not in stuck]
        broken = [*dead, *(m for m in stuck if m not in dead)]
        survivors = [m for m in job.survivors() if m not in broken]
        # Before they have joined it, the survivors need nobody's service.
        if job.joined() and (job.service() is None or job.service() in broken):
            raise CannotRecover(
                "the coordination service is lost, and with it the survivors"
                if job.spec.coordinator == "external"
                else "worker 0 is lost, and with it the coordination service that the survivors "
                "need"
            )
        return Damage(broken, [m for m in stuck if m.alive], survivors)

    def replacement(self, job: Job, rank: int) -> Member:
        """A new process for that rank."""
        return job.spawn(rank, "cold", rank)


def create(argument: str | None) -> Elastic:
    """``elastic`` takes no argument."""
    if argument is not None:
        raise bad_value("strategy", f"elastic:{argument}", "'elastic' without an argument")
    return Elastic()
