"""One flipped bit in an array of the newest checkpoint; then SIGKILL of the victim.

It stands for a disk, a network or a memory that changes data and says nothing. The bit lies where
a restore reads it, and a reader gets other values and no error: both are tried, before and after.
The one flip in a thousand that breaks the compression instead, and so is noticed, is put back, and
the next one is taken (`truncate` stands for damage that is noticed). The trial's seed chooses.
Needs the state source `storage` and a checkpoint before the trigger. It is undone with the trial's
directory, in which the checkpoints lie.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.faults import _arguments, _damage
from recoverybench.faults._checkpoints import CheckpointFault, Target
from recoverybench.faults._damage import Damage

NEEDS = ()


class BitFlip(CheckpointFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "bit-flip"

    def damage(self, target: Target) -> Damage:
        """Flip it."""
        return _damage.flip_bit(target.checkpoints, target.newest, target.reader, target.chance)


def create(argument: str | None) -> BitFlip:
    """``bit-flip`` takes no argument."""
    _arguments.none(BitFlip.name, argument)
    return BitFlip()
