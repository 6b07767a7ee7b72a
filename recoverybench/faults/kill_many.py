"""SIGKILL of several workers at the same instant: a rack, a slice or a power supply is gone.

It stands for failures that are not independent, which is how many of them come.

``kill-many:K`` kills K workers (2 if nothing is said), the victim among them; the trial's seed
chooses the others, never worker 0 unless it is the victim. Needs enough workers that one
survives: with fewer the cell is refused. What it breaks are processes, which are replaced.
"""

from __future__ import annotations

import random
import signal
from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.faults import _arguments
from recoverybench.faults.base import Fault, strike_all
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()
OUTSIDE = True

DEFAULT_COUNT = 2


class KillMany(Fault):
    """See `faults.base.Fault`.

    Args:
        count: how many workers.
    """

    name: ClassVar[str] = "kill-many"

    def __init__(self, count: int) -> None:
        self._count = count

    def unsupported(self, cell: Cell) -> str | None:
        """Worker 0 survives where it is not the victim, and somebody has to."""
        workers = cell.mesh.workers
        if self._count < workers:
            return None
        return f"kill-many:{self._count} leaves nobody of {workers} workers; kill-all does that"

    def inject(self, job: Job, victim: Member) -> None:
        """Kill them."""
        others = [m for m in job.ranks() if m.alive and m is not victim and m.rank != 0]
        chosen = chosen_with(victim, others, self._count, job.seed)
        strike_all(job, chosen, self.name, signal.SIGKILL)


def chosen_with(victim: Member, others: list[Member], count: int, seed: int) -> list[Member]:
    """The victim, and `count` - 1 of the others (or all that there are), by the seed."""
    more = min(count - 1, len(others))
    return [victim, *random.Random(seed).sample(others, more)]


def create(argument: str | None) -> KillMany:
    """``kill-many`` or ``kill-many:K``."""
    if argument is None:
        return KillMany(DEFAULT_COUNT)
    return KillMany(_arguments.whole(KillMany.name, argument, 2, 100_000, "a number of workers"))
