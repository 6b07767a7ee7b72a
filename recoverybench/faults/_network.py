"""What the faults of the network share: a network for the trial, rules for a time or for good."""

from __future__ import annotations

import time

from recoverybench.cells import Cell
from recoverybench.faults.base import Fault, log_injection
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.network import Network
from recoverybench.plan.units import parse_duration

_MORE = 3
"""Machines beside one for each worker: a standby's, an external service's, a replacement's."""


class NetworkFault(Fault):
    """Drops packets of one worker.

    Args:
        duration_s: after it every packet passes again; None: for good.
    """

    def __init__(self, duration_s: float | None) -> None:
        self.duration_s = duration_s

    def rules(self, coordinator: str) -> str:
        """What is dropped, for ``nft``; the coordination service is at ``host:port``."""
        raise NotImplementedError

    def unsupported(self, cell: Cell) -> str | None:
        """A worker can only be cut off from others, which are other processes."""
        workers = cell.mesh.workers
        if workers < 2:
            return f"fault {self.name}: a job of one worker has no network to lose"
        if cell.strategy == "pathways":
            return f"fault {self.name}: under one controller no slice has a network of its own"
        return None

    def prepare(self, job: Job) -> None:
        """Make the machines that the workers will live on."""
        job.join_network(Network(job.spec.most_workers + _MORE))

    def inject(self, job: Job, victim: Member) -> None:
        """Drop its packets and let it go on; mend it in time, if that was asked for."""
        machine = victim.machine
        assert machine is not None
        table = self.rules(job.coordinator)
        t = time.monotonic_ns()
        machine.drop(table)
        log_injection(job, self.name, victim, t)
        if self.duration_s is not None:

            def mend() -> None:
                machine.mend()
                job.journal.log("undone", fault=self.name, worker=victim.rank)

            job.after(self.duration_s, mend)
        victim.tell({"kind": "release"})


def duration(name: str, argument: str | None) -> float | None:
    """What follows the colon of such a fault: how long it lasts.

    Raises:
        UsageError: it is no duration.
    """
    return None if argument is None else parse_duration(argument, f"fault {name}: duration")
