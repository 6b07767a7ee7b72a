"""The compile cache is gone, then SIGKILL of the victim: whoever starts anew compiles anew.

It stands for a replacement on a host that never ran the job, with a cache on the lost host's own
disk. The job has a copy of the cache in the trial's directory (executables or JAX's own cache, as
the cell says), and every file of that copy is removed; the user's cache is never touched. Needs
a compile cache. It is undone with the trial's directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from recoverybench.errors import HarnessError
from recoverybench.faults import _arguments
from recoverybench.faults._caches import CacheFault

NEEDS = ()


class CacheLost(CacheFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "cache-lost"

    def damage(self, files: list[Path], seed: int) -> None:
        """Remove them."""
        for file in files:
            file.unlink()
        left = [file for file in files if file.exists()]
        if left:
            raise HarnessError(f"cache-lost: {left[0]} is still there")


def create(argument: str | None) -> CacheLost:
    """``cache-lost`` takes no argument."""
    _arguments.none(CacheLost.name, argument)
    return CacheLost()
