"""A file of the newest checkpoint is gone; then SIGKILL of the victim.

It stands for a lost object, an over-eager clean-up, or a copy that left something out. What goes is
a data file that a restore reads, chosen by the trial's seed (where each array has files of its own,
what is gone reads as zeros, and no error is raised); ``missing-file:manifest`` removes the
database's root (``manifest.ocdbt``), ``missing-file:metadata`` the description of the arrays
(``_METADATA``). Needs the state source `storage` and a checkpoint before the trigger. It is undone
with the trial's directory, in which the checkpoints lie.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults import _damage
from recoverybench.faults._checkpoints import CheckpointFault, Target
from recoverybench.faults._damage import METADATA, Damage

NEEDS = ()


class MissingFile(CheckpointFault):
    """See `faults.base.Fault`.

    Args:
        which: a key of `_damage.METADATA`; None: a data file.
    """

    name: ClassVar[str] = "missing-file"

    def __init__(self, which: str | None) -> None:
        self._which = which

    def damage(self, target: Target) -> Damage:
        """Remove it."""
        return _damage.missing_file(
            target.checkpoints, target.newest, target.reader, target.chance, self._which
        )


def create(argument: str | None) -> MissingFile:
    """``missing-file``, or it with a key of `_damage.METADATA`."""
    if argument is not None and argument not in METADATA:
        allowed = f"'missing-file', or it with {' or '.join(METADATA)} after the colon"
        raise bad_value("fault", f"missing-file:{argument}", allowed)
    return MissingFile(argument)
