"""Faults that damage the newest checkpoint on storage, and then kill the victim.

The damage is made while the job stands at its trigger, after the newest save that it has begun
is durable. The injection is the SIGKILL that follows: a checkpoint that nobody reads breaks
nothing.
"""

from __future__ import annotations

import dataclasses
import random
import signal
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

from recoverybench.cells import Cell
from recoverybench.errors import HarnessError
from recoverybench.faults._contents import Contents
from recoverybench.faults._damage import Damage, Reader, committed_steps, promised_step
from recoverybench.faults.base import Fault, strike
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.plan.triggers import SETTING_UP, parse_trigger

COMMIT_S = 30.0
"""How long a save may take to become durable."""


@dataclass(frozen=True, slots=True)
class Target:
    """What may be damaged.

    Attributes:
        checkpoints: directory of the checkpoints. steps: that are durable, newest first.
        newer: the step of the save that would come next.
        reader: reads checkpoints. chance: from the trial's seed.
    """

    checkpoints: Path
    steps: list[int]
    newer: int
    reader: Reader
    chance: random.Random

    @property
    def newest(self) -> int:
        """The newest step that is durable."""
        return self.steps[0]


class CheckpointFault(Fault):
    """Base of these faults: they say how to damage, and nothing else."""

    @abstractmethod
    def damage(self, target: Target) -> Damage:
        """Make the damage, and prove it."""

    def unsupported(self, cell: Cell) -> str | None:
        """There must be a checkpoint on storage, and somebody who reads it."""
        if cell.state_source != "storage":
            return f"state source {cell.state_source} does not come back from storage first"
        trigger = parse_trigger(cell.trigger)
        if trigger.step is None and trigger.kind not in SETTING_UP:
            return f"the job does not stand still at its trigger {cell.trigger}"
        if trigger.step is not None and not promised_step(trigger.step, cell.interval):
            return f"no checkpoint is saved before {cell.trigger} at an interval of {cell.interval}"
        return None

    def inject(self, job: Job, victim: Member) -> None:
        """Wait for the newest save, damage the checkpoint, and kill the victim."""
        checkpoints = Path(job.spec.checkpoints)
        steps = _await_steps(job, victim, checkpoints)
        with job.span("damage the checkpoint"), Contents(job.launcher) as reader:
            newer = steps[0] + job.spec.interval
            chance = random.Random(f"{self.name}/{job.seed}")
            done = self.damage(Target(checkpoints, steps, newer, reader, chance))
        job.journal.log("damage", **dataclasses.asdict(done))
        strike(job, victim, self.name, signal.SIGKILL)


def _await_steps(job: Job, victim: Member, checkpoints: Path) -> list[int]:
    """The durable steps, once every save that was begun before the hold is among them."""
    promised = 0
    if victim.held is not None and victim.held[0].startswith("step"):
        promised = promised_step(victim.held[1], job.spec.interval)
    with job.span("wait for the newest save"):
        job.pump(lambda: bool(durable_steps(checkpoints, promised)), COMMIT_S)
    steps = durable_steps(checkpoints, promised)
    if not steps:
        raise HarnessError(f"no save of step {promised} or later is durable in {checkpoints}")
    return steps


def durable_steps(checkpoints: Path, promised: int) -> list[int]:
    """The durable steps, newest first; none while `promised` is not among them."""
    steps = committed_steps(checkpoints)
    return steps if steps and steps[0] >= promised else []
