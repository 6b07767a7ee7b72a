"""Slow storage: all workers share one disk that moves so many bytes a second, in line.

``slow-storage:BANDWIDTH`` sets it (``slow-storage:500kB/s``; 1MB/s if nothing is said, which makes
half a second of a restore of the tiny transformer on three workers). It stands for a throttled
volume or a file server that everybody uses at once. ``slow-storage`` breaks nothing that runs: it
slows the saves down that are in flight while training goes on, and is ``no_effect`` where nothing
had to recover, which also says that nobody took it for a failure. With ``:restore`` after the
bandwidth (``slow-storage:1MB/s:restore``) the victim is killed as the disk becomes slow (that is
the injection), and the recovery reads from it. Reads and writes are delayed by the storage gate
(`gate`). Needs ``user-notification``; it is undone when the trial ends.
"""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.faults._storage import SIDES, StorageFault, parse_bandwidth
from recoverybench.gate.policies import Bandwidth

NEEDS = ("user-notification",)

DEFAULT_BANDWIDTH = "1MB/s"


class SlowStorage(StorageFault):
    """See `faults.base.Fault`.

    Args:
        bytes_per_s: of all workers together. side: ``restore``: the victim is killed.
    """

    name: ClassVar[str] = "slow-storage"
    reads = True

    def __init__(self, bytes_per_s: float, side: str) -> None:
        super().__init__()
        self._bytes_per_s = bytes_per_s
        self.kills = side == "restore"

    def policy(self, until_s: float | None) -> Bandwidth:
        """A disk that is idle now; see `StorageFault.policy`."""
        return Bandwidth(self._bytes_per_s)


def create(argument: str | None) -> SlowStorage:
    """``slow-storage[:BANDWIDTH[:save|:restore]]``."""
    text = DEFAULT_BANDWIDTH if argument is None else argument
    bandwidth, colon, side = text.partition(":")
    spelled = f"slow-storage:{text}"
    if colon and side not in SIDES:
        raise bad_value("fault", spelled, "save or restore after the second colon")
    return SlowStorage(parse_bandwidth(bandwidth, spelled), side or "save")
