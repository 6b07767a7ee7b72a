"""A disk with errors: writing or reading the checkpoints fails with EIO.

``io-error:save`` has every write and every sync fail, ``io-error:restore`` every read; a duration
may follow (``io-error:restore:2s``), after which the disk works again. It stands for a dying disk
and for network storage that lost its server. ``io-error:save`` breaks nothing that runs: what
notices is the next save. ``io-error:restore`` alone would be met by nobody, so it breaks the reads
and then kills the victim (SIGKILL, which is the injection): the recovery meets the broken disk.
Failing operations are answered by the storage gate (`gate`) for every worker. Needs
``user-notification``; it is undone when the trial ends.
"""

from __future__ import annotations

import errno
from typing import ClassVar, Final

from recoverybench.errors import bad_value
from recoverybench.faults._storage import SIDES, StorageFault
from recoverybench.gate.policies import Broken, Kind
from recoverybench.plan.units import parse_duration

NEEDS = ("user-notification",)

KINDS: Final[dict[str, frozenset[Kind]]] = {
    "save": frozenset({"write", "sync"}),
    "restore": frozenset({"read"}),
}


class IoError(StorageFault):
    """See `faults.base.Fault`.

    Args:
        side: ``save`` or ``restore``. duration_s: for how long; None: for good.
    """

    name: ClassVar[str] = "io-error"

    def __init__(self, side: str, duration_s: float | None) -> None:
        super().__init__(duration_s)
        self._side = side
        self.reads = self.kills = side == "restore"

    def policy(self, until_s: float | None) -> Broken:
        """See `StorageFault.policy`."""
        return Broken(errno.EIO, KINDS[self._side], until_s)


def create(argument: str | None) -> IoError:
    """``io-error:save`` or ``io-error:restore``, each with ``:DURATION`` or without."""
    side, colon, duration = (argument or "").partition(":")
    if side not in SIDES:
        spelled = "io-error" if argument is None else f"io-error:{argument}"
        raise bad_value("fault", spelled, "io-error:save or io-error:restore")
    if not colon:
        return IoError(side, None)
    return IoError(side, parse_duration(duration, f"fault io-error:{side}: duration"))
