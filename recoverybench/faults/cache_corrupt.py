"""Every file of the compile cache has a flipped bit, then SIGKILL of the victim.

It stands for a cache on storage that changes data. The job has a copy of the cache in the trial's
directory (executables or JAX's own cache, as the cell says), and one bit of every file of that copy
is flipped, where the trial's seed says; the user's cache is never touched. Files of the executable
store say themselves whether they are whole; JAX's do not, and what loading one does is the result.
Needs a compile cache. It is undone with the trial's directory.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import ClassVar

from recoverybench.errors import HarnessError
from recoverybench.faults import _arguments, _damage
from recoverybench.faults._caches import CacheFault

NEEDS = ()


class CacheCorrupt(CacheFault):
    """See `faults.base.Fault`."""

    name: ClassVar[str] = "cache-corrupt"

    def damage(self, files: list[Path], seed: int) -> None:
        """Flip a bit of each."""
        chance = random.Random(f"{self.name}/{seed}")
        for file in files:
            before = _damage.content(file)
            _damage.flip_in_file(file, chance)
            if _damage.content(file) == before:
                raise HarnessError(f"cache-corrupt: {file} is as it was")


def create(argument: str | None) -> CacheCorrupt:
    """``cache-corrupt`` takes no argument."""
    _arguments.none(CacheCorrupt.name, argument)
    return CacheCorrupt()
