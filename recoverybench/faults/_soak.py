"""Soaks: faults that keep coming in one job, at times that were fixed before it began.

Time runs on whatever the job is doing. What falls due while it trains is an injection with a
number, and begins a trial of its own; what falls due while it is still coming back strikes
there (``again``) and belongs to the trial of the injection before.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from recoverybench.cells import Cell
from recoverybench.faults.base import Fault, strike
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.plan.triggers import parse_trigger

_TRIGGERS = ("step", "time", "random")
"""Kinds of triggers that find a job in training, where a soak begins."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One kill to come: seconds after the soak's start, and the worker."""

    after_s: float
    rank: int


class Soak(Fault):
    """Base of the soaks; each has its own `schedule`. One object serves one job.

    Attributes:
        on_injection: called at each injection, just before it.
        over: nothing strikes any more.
    """

    name: ClassVar[str]

    def __init__(self) -> None:
        self.on_injection: Callable[[], None] = lambda: None
        self.over = False
        self._coming: Iterator[Strike] = iter(())
        self._number = -1
        self._broken = -1

    def schedule(self, seed: int, ranks: Sequence[int]) -> Iterator[Strike]:
        """Every strike, earliest first; the same for the same arguments. May never end.

        Args:
            seed: of the trial. ranks: the workers that may be broken, ascending.
        """
        raise NotImplementedError

    def unsupported(self, cell: Cell) -> str | None:
        """A soak begins in training, and chooses whom it strikes."""
        if cell.strategy.partition(":")[0] == "pathways":
            return f"fault {self.name}: one controller has no workers to lose one after another"
        if cell.victim is not None:
            return f"fault {self.name}: a soak chooses its victims itself, so victim is for others"
        if parse_trigger(cell.trigger).kind not in _TRIGGERS:
            kinds = ", ".join(_TRIGGERS)
            return f"fault {self.name}: a soak begins in training ({kinds}), not at {cell.trigger}"
        return None

    def inject(self, job: Job, victim: Member) -> None:
        """Begin: from now on it strikes by itself, on the job's loop."""
        began = time.monotonic()
        self._coming = self.schedule(job.seed, breakable(job.spec.workers, job.spec.coordinator))
        if victim.held is not None:
            victim.tell({"kind": "release"})
        self._await_next(job, began)

    def injected(self, job: Job) -> bool:
        """An injection has been made of which the job has not come back."""
        return job.injected is not None and not self.mended(job)

    def mended(self, job: Job) -> bool:
        """The job trains, in a generation that nothing has struck."""
        return job.generation > self._broken and job.running() and not job.noticed()

    def _await_next(self, job: Job, began: float) -> None:
        coming = next(self._coming, None)
        if coming is None:
            return

        def due() -> None:
            if not self.over and not job.finished():
                self._strike(job, coming.rank)
                self._await_next(job, began)

        job.after(max(0.0, began + coming.after_s - time.monotonic()), due)

    def _strike(self, job: Job, rank: int) -> None:
        """Kill the worker of that rank, wherever it is in its life."""
        victim = next((m for m in job.survivors() if m.rank == rank), None)
        if victim is None:  # it is lost already, and there is nobody in its place yet
            job.journal.log("again", fault=self.name, worker=rank, struck=False)
            return
        if job.injected is None or self.mended(job):
            self.on_injection()
            job.injected = None  # so that this one is an injection too
            self._number += 1
        self._broken = job.generation
        strike(job, victim, self.name, signal.SIGKILL, number=self._number)


def breakable(workers: int, coordinator: str) -> range:
    """The workers that a soak may break: not the one that holds the coordination service."""
    return range(workers) if coordinator == "external" else range(1, workers)
