"""Faults of the compile cache: a private copy of it is damaged, and then the victim is killed.

The user's cache is shared by all runs and never touched: the job is given a copy, made before
it starts, in the trial's own directory. It is a copy of bytes; a hard link would be the original.
"""

from __future__ import annotations

import shutil
import signal
from abc import abstractmethod
from pathlib import Path

from recoverybench.cells import Cell
from recoverybench.errors import HarnessError
from recoverybench.faults.base import Fault, strike, with_changes
from recoverybench.job.job import Job
from recoverybench.job.member import Member
from recoverybench.protocol import JobSpec


class CacheFault(Fault):
    """Base of these faults: they say how to damage the files, and nothing else."""

    def __init__(self) -> None:
        self._original: Path | None = None

    @abstractmethod
    def damage(self, files: list[Path], seed: int) -> None:
        """Damage every one of these files, and prove it.

        Raises:
            HarnessError: one is as it was.
        """

    def unsupported(self, cell: Cell) -> str | None:
        """There must be a cache."""
        if cell.compile_cache == "off":
            return "there is no compile cache to damage (compile_cache = 'off')"
        return None

    def spec(self, spec: JobSpec) -> JobSpec:
        """Point the job at a cache of its own."""
        own = Path(spec.checkpoints).parent / "compile-cache"
        if spec.compile_cache == "persistent":
            self._original = Path(spec.jax_cache)
            return with_changes(spec, jax_cache=str(own))
        self._original = Path(spec.executables)
        return with_changes(spec, executables=str(own))

    def prepare(self, job: Job) -> None:
        """Fill it with a copy of what there is."""
        own = cache_of(job.spec)
        own.mkdir()
        if self._original is not None and self._original.is_dir():
            shutil.copytree(self._original, own, dirs_exist_ok=True)

    def inject(self, job: Job, victim: Member) -> None:
        """Damage every file of the cache, and kill the victim."""
        own = cache_of(job.spec)
        files = sorted(path for path in own.rglob("*") if path.is_file() and path.stat().st_size)
        if not files:
            raise HarnessError(f"the job has put nothing into its compile cache {own}")
        with job.span("damage the compile cache"):
            self.damage(files, job.seed)
        job.journal.log(
            "damage", what=self.name, files=[p.relative_to(own).as_posix() for p in files]
        )
        strike(job, victim, self.name, signal.SIGKILL)


def cache_of(spec: JobSpec) -> Path:
    """The directory of the compile cache that this job uses."""
    return Path(spec.jax_cache if spec.compile_cache == "persistent" else spec.executables)
