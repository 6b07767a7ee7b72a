"""The newest checkpoint's data file is cut off in the middle; then SIGKILL of the victim.

It stands for a write that was lost when a host went down, or a copy that ended early. The file is
cut inside an array that a restore reads; that it cannot be read any more is tried. The trial's
seed chooses where. Needs the state source `storage` and a checkpoint before the trigger. It is
undone with the trial's directory, in which the checkpoints lie.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments, _damage
from recoverybench.faults._checkpoints import CheckpointFault, Target
from recoverybench.faults._damage import Damage

NEEDS = ()


class Truncate(CheckpointFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "truncate"

    def damage(self, target: Target) -> Damage:
        """Cut it."""
        return _damage.truncate(target.checkpoints, target.newest, target.reader, target.chance)


def create(argument: str | None) -> Truncate:
    """``truncate`` takes no argument."""
    _arguments.none(Truncate.name, argument)
    return Truncate()
