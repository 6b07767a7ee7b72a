"""One bit of one worker's copy of a parameter flips: silent data corruption.

It stands for memory without error correction and for chips that compute wrongly. The trial's
seed chooses parameter, value and bit; ``bit-flip-memory:N`` chooses them by N in every trial.
The victim's copy is no longer its peers', no error is raised anywhere, and training goes on:
only a comparison of the copies notices (``replica_check = "save"``), else nobody does and the
outcome says so. Needs a workload that keeps its parameters under ``params``, as the shipped ones
do. What it breaks is the state of the victim, and through its gradients everybody's, which a
restore replaces.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments
from recoverybench.faults._inside import InsideFault
from recoverybench.faults.base import order
from recoverybench.job.job import Job
from recoverybench.job.member import Member

NEEDS = ()


class BitFlipMemory(InsideFault):
    """See `faults.base.Fault`.

    Args:
        seed: chooses the bit; None: the trial's seed does.
    """

    name: ClassVar[str] = "bit-flip-memory"

    def __init__(self, seed: int | None) -> None:
        self._seed = seed

    def inject(self, job: Job, victim: Member) -> None:
        """Have it flipped before the next step."""
        seed = job.seed if self._seed is None else self._seed
        order(job, victim, self.name, str(seed))


def create(argument: str | None) -> BitFlipMemory:
    """``bit-flip-memory`` or ``bit-flip-memory:N``."""
    if argument is None:
        return BitFlipMemory(None)
    name = BitFlipMemory.name
    return BitFlipMemory(_arguments.whole(name, argument, 0, 2**32 - 1, "a seed"))
