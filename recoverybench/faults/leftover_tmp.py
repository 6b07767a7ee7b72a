"""The directory of an unfinished save of a newer step; then SIGKILL of the victim.

It stands for a job that was preempted between its writes and their commit. The directory has the
name that Orbax gives it, data files, the last of them half as long, and no description; the job
will save that step itself later. Needs the state source `storage` and a checkpoint before the
trigger. It is undone with the trial's directory, in which the checkpoints lie.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments, _damage
from recoverybench.faults._checkpoints import CheckpointFault, Target
from recoverybench.faults._damage import Damage

NEEDS = ()


class LeftoverTmp(CheckpointFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "leftover-tmp"

    def damage(self, target: Target) -> Damage:
        """Make the directory."""
        return _damage.leftover_tmp(target.checkpoints, target.newest, target.newer, target.reader)


def create(argument: str | None) -> LeftoverTmp:
    """``leftover-tmp`` takes no argument."""
    _arguments.none(LeftoverTmp.name, argument)
    return LeftoverTmp()
