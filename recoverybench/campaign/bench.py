"""What all trials of a campaign share: the launcher, the directories, the environment."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from recoverybench import leftovers
from recoverybench.launchers.base import Launcher
from recoverybench.plan import catalogue

XLA_CPU_FLAGS = "--xla_cpu_parallel_codegen_split_count=1"
"""One object per executable: loading a serialized one then takes .11 s instead of .18."""


@dataclass(slots=True)
class Bench:
    """A bench to run jobs on; a context manager that leaves nothing behind.

    Attributes:
        launcher: starts workers. platform: JAX platform name.
        environment: what workers get beside this process's own.
        directory: private, removed in the end.
    """

    launcher: Launcher
    platform: str
    environment: dict[str, str]
    directory: Path

    @classmethod
    def open(cls, launcher: str, log: Path) -> Bench:
        """Set one up with the launcher of that name; its own output goes to `log`."""
        directory = leftovers.working_directory()
        platform = os.environ.get("JAX_PLATFORMS", "").split(",")[0] or "cpu"
        environment = worker_environment(platform)
        module = catalogue.load("launchers", launcher)
        return cls(
            module.create(environment, log),
            platform,
            environment,
            directory,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.launcher.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def worker_environment(platform: str) -> dict[str, str]:
    """Variables for workers: read by libraries at import, so they cannot be set later."""
    environment = {
        "JAX_PLATFORMS": platform,
        # Threads of linear algebra libraries would make the fork server unsafe to fork.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if platform == "cpu":
        flags = os.environ.get("XLA_FLAGS", "")
        environment["XLA_FLAGS"] = f"{XLA_CPU_FLAGS} {flags}".strip()
        # A survivor's freed memory would lie scattered over an arena for each of many threads,
        # and grow by a megabyte a recovery, with nothing more in use.
        environment["MALLOC_ARENA_MAX"] = os.environ.get("MALLOC_ARENA_MAX", "2")
    return environment
