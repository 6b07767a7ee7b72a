"""An empty directory with the name of a newer step; then SIGKILL of the victim.

It stands for a save that was cut off after its first operation on storage that cannot rename, and
for tools that make directories ahead of time: the name alone says "checkpoint". Needs the state
source `storage` and a checkpoint before the trigger. It is undone with the trial's directory, in
which the checkpoints lie.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments, _damage
from recoverybench.faults._checkpoints import CheckpointFault, Target
from recoverybench.faults._damage import Damage

NEEDS = ()


class EmptyStep(CheckpointFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "empty-step"

    def damage(self, target: Target) -> Damage:
        """Make the directory."""
        return _damage.empty_step(target.checkpoints, target.newer)


def create(argument: str | None) -> EmptyStep:
    """``empty-step`` takes no argument."""
    _arguments.none(EmptyStep.name, argument)
    return EmptyStep()
