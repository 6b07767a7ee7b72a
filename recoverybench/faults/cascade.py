"""SIGKILL, and once more: the replacement dies in the middle of the recovery.

``cascade:POINT``: the replacement is killed as it is about to meet the others
(``rendezvous``, the default), as it is about to read the state (``restore``), or before its
first step (``first-step``), while the others are in the midst of it. It stands for a bad node
that is given out again, and for machines that fail together. The recovery time counts from the
first kill; what the failed recovery took is in ``teardown``. It needs nothing, and leaves
nothing to undo.
"""

from __future__ import annotations

import signal
from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.errors import bad_value
from recoverybench.faults.base import Fault, strike
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.job.noticed import Ambush

NEEDS = ()

POINTS = {"rendezvous": "rendezvous", "restore": "restore", "first-step": "first_step"}
"""Argument -> where the replacement holds."""


class Cascade(Fault):
    """See `faults.base.Fault`.

    Args:
        point: a key of `POINTS`.
    """

    name: ClassVar[str] = "cascade"

    def __init__(self, point: str) -> None:
        self._point = point

    def unsupported(self, cell: Cell) -> str | None:
        """A strategy that simulates its workers has no replacement to kill."""
        if cell.strategy.partition(":")[0] == "pathways":
            return "one controller has no replacement that could die"
        return None

    def inject(self, job: Job, victim: Member) -> None:
        """Kill it, and lie in wait for whoever takes its place."""
        assert victim.rank is not None
        job.ambush = Ambush(
            victim.rank,
            POINTS[self._point],
            lambda member: strike(job, member, self.name, signal.SIGKILL),
        )
        strike(job, victim, self.name, signal.SIGKILL)


def create(argument: str | None) -> Cascade:
    """``cascade`` or ``cascade:POINT``."""
    point = argument or "rendezvous"
    if point not in POINTS:
        raise bad_value("fault", f"cascade:{point}", f"cascade:POINT, one of {', '.join(POINTS)}")
    return Cascade(point)
