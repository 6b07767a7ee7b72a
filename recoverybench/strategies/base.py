"""What a strategy is: it brings a job back that has lost something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from recoverybench.cells import Cell
from recoverybench.faults.base import Fault
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.protocol import JobSpec
from recoverybench.topology import Topology


class CannotRecover(Exception):
    """This strategy has no way back from here; the message says why."""


class Strategy:
    """Base of every strategy. Brings the job back, once there is evidence of a failure.

    Attributes:
        name: as a suite spells it, without an argument.
        rejoin: survivors keep their process and wait for a new place after a failure.
        ends_all: no process outlives a recovery, so nothing in their memory does.
        suspends: a preemption notice makes every worker save at one step and stop.
        shrinks: a generation may have fewer workers than the job.
        standbys: processes that are started with the job and have no rank.
        processes: how many the job has whatever its topology; None: one a worker.
    """

    name: ClassVar[str]
    rejoin: ClassVar[bool] = False
    ends_all: ClassVar[bool] = False
    suspends: ClassVar[bool] = False
    shrinks: ClassVar[bool] = False
    standbys: ClassVar[int] = 0
    processes: ClassVar[int | None] = None

    def unsupported(self, cell: Cell) -> str | None:
        """Why this cell cannot be asked for; None: it can. Asked before anything starts."""
        return None

    def spec(self, spec: JobSpec) -> JobSpec:
        """What the job must be prepared with, also without a fault."""
        return spec

    def strike(self, job: Job, fault: Fault, victim: int) -> None:
        """Inject the fault into worker `victim`."""
        fault.inject(job, next(m for m in job.ranks() if m.rank == victim))

    def recover(self, job: Job) -> None:
        """Act. It logs ``act`` when it begins to change something, starts the next generation
        and gives every rank a place in it; it does not wait for the job to run.

        Raises:
            CannotRecover: there is no way.
        """
        raise NotImplementedError

    def settle(self, job: Job) -> None:
        """Once the job runs again: what is still to be done until all is as before."""

    def replenish(self, job: Job) -> None:
        """In a soak, after that: have at hand again what the next recovery needs."""


def act(
    job: Job, name: str, ranks: Sequence[int] | None = None, topology: str | None = None
) -> str:
    """Log ``act`` and begin the next generation; returns its coordinator's address.

    Args:
        ranks: the workers of the next generation; None: all.
        topology: of the next generation, where it is another one; its workers are all of it.
    """
    other: dict[str, Any] = {}
    if topology is not None:
        ranks = range(Topology.of(topology).workers)
        other["topology"] = topology
    elif ranks is not None:
        topology = str(Topology.of(job.spec.topology).resized(len(ranks)))
    if ranks is not None:
        other["ranks"] = list(ranks)
    job.journal.log("act", strategy=name, generation=job.generation + 1, **other)
    return job.begin_generation(None if ranks is None else len(ranks), topology)


def replace_lost(job: Job, lost: list[Member]) -> None:
    """What was on the node of a worker that is replaced is gone with it."""
    for member in lost:
        if member.rank is not None:
            job.lose_node(member.rank)
