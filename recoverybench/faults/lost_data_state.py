"""The newest checkpoint has lost the position of its input; then SIGKILL of the victim.

It stands for jobs that save parameters and forget the data iterator, and for a lost item of a
checkpoint: whoever goes on from it sees samples twice, or never. Needs the state source `storage`
and a checkpoint before the trigger. It is undone with the trial's directory, in which the
checkpoints lie.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments, _damage
from recoverybench.faults._checkpoints import CheckpointFault, Target
from recoverybench.faults._damage import Damage

NEEDS = ()


class LostDataState(CheckpointFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "lost-data-state"

    def damage(self, target: Target) -> Damage:
        """Remove that item."""
        return _damage.lost_data_state(target.checkpoints, target.newest)


def create(argument: str | None) -> LostDataState:
    """``lost-data-state`` takes no argument."""
    _arguments.none(LostDataState.name, argument)
    return LostDataState()
