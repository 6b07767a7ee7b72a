"""Survivors go on at once with a smaller mesh, and grow back when the replacement is there.

The global batch stays the same, so the training does too, up to rounding: fewer workers sum in
another order. When the replacement has its imports done, worker 0 leads everybody out at the
end of a step; they save it and meet again with all of them. Both transitions are timed: the
recovery time is the first one, and what the second one holds the training up for is kept
beside it.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.errors import bad_value
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.plan.workloads import batch_size
from recoverybench.strategies.base import act, replace_lost
from recoverybench.strategies.elastic import Elastic


class Shrink(Elastic):
    """See `strategies.base.Strategy`."""

    name: ClassVar[str] = "shrink"
    shrinks: ClassVar[bool] = True

    def __init__(self) -> None:
        self._coming: list[tuple[int, Member]] = []

    def unsupported(self, cell: Cell) -> str | None:
        """The mesh must be able to do without a worker, and the batch with what is left."""
        topology = cell.mesh
        smaller = topology.resized(topology.workers - 1)
        if smaller is None:
            return f"the mesh of {topology} cannot do without the devices of one worker"
        batch = batch_size(cell.workload)
        if batch is not None and batch % smaller.row_shares:
            left = smaller.row_shares
            return f"a batch of {batch} rows cannot be shared by the {left} devices that are left"
        return None

    def recover(self, job: Job) -> None:
        """Go on without what is broken; its replacement starts meanwhile."""
        damage = self.examine(job)
        if len(damage.survivors) != job.spec.workers - 1:
            # Nobody is lost, or more than the smaller mesh can do without.
            super().recover(job)
            return
        ranks = [m.rank for m in damage.survivors if m.rank is not None]
        address = act(job, self.name, ranks)
        job.end(damage.stuck, "teardown")
        replace_lost(job, damage.broken)
        with job.span("go on without it"):
            for index, member in enumerate(damage.survivors):
                assert member.rank is not None
                job.place(member, member.rank, address, kind="rejoin", index=index)
            for member in damage.broken:
                assert member.rank is not None
                self._coming = [(member.rank, self._on_its_way(job) or job.spawn_standby("cold"))]

    def replacement(self, job: Job, rank: int) -> Member:
        """See `Elastic.replacement`: one that is on its way already, else a new one."""
        return self._on_its_way(job) or super().replacement(job, rank)

    def _on_its_way(self, job: Job) -> Member | None:
        return next(iter(job.standbys()), None)

    def settle(self, job: Job) -> None:
        """Wait for the replacement, lead everybody out, and meet again."""
        coming = self._coming if job.world < job.spec.workers else []
        if not coming:
            return
        with job.span("wait for the replacement"):
            job.pump(lambda: job.noticed() or job.finished() or all(m.ready for _, m in coming))
        if job.noticed() or job.finished() or not all(m.ready for _, m in coming):
            return
        job.ranks()[0].tell({"kind": "leave"})
        with job.span("lead everybody out"):
            job.pump(lambda: job.left() or job.noticed() or job.finished())
        if not job.left():
            return
        survivors = job.ranks()
        job.journal.log("transition", kind="grow", generation=job.generation + 1)
        address = job.begin_generation()
        with job.span("grow back"):
            for rank, member in coming:
                job.place(member, rank, address)
            for member in survivors:
                assert member.rank is not None
                job.place(member, member.rank, address, kind="rejoin")
        job.pump(lambda: job.noticed() or job.running())


def create(argument: str | None) -> Shrink:
    """``shrink`` takes no argument."""
    if argument is not None:
        raise bad_value("strategy", f"shrink:{argument}", "'shrink' without an argument")
    return Shrink()
