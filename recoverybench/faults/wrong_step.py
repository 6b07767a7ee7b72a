"""A directory of a newer step that holds an older step's content; then SIGKILL of the victim.

It stands for a copy or a rename that went wrong: everything in it can be read, and it is not what
its name says. Whoever trusts the name goes on with an old state under a new number. Needs the
state source `storage` and a checkpoint before the trigger. It is undone with the trial's
directory, in which the checkpoints lie.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments, _damage
from recoverybench.faults._checkpoints import CheckpointFault, Target
from recoverybench.faults._damage import Damage

NEEDS = ()


class WrongStep(CheckpointFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "wrong-step"

    def damage(self, target: Target) -> Damage:
        """Copy the step before the newest one, if there is one, else the newest."""
        return _damage.wrong_step(
            target.checkpoints, target.steps[:2][-1], target.newer, target.reader
        )


def create(argument: str | None) -> WrongStep:
    """``wrong-step`` takes no argument."""
    _arguments.none(WrongStep.name, argument)
    return WrongStep()
