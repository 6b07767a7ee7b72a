"""What all trials of a campaign share: the launchers, the directories, the environments."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, Self

from recoverybench import leftovers, machine
from recoverybench.environments.environment import Environment, own
from recoverybench.errors import HarnessError
from recoverybench.launchers.base import Launcher
from recoverybench.plan import launchers
from recoverybench.wire.handshake import SECRET_BYTES, SECRET_VARIABLE

XLA_CPU_FLAGS = "--xla_cpu_parallel_codegen_split_count=1"
"""One object per executable: loading a serialized one then takes .11 s instead of .18."""

FORK_SERVER_BYTES: Final = 300_000_000
"""What the fork server of one environment holds, with every import done."""

_SHARE: Final = 0.25
"""Of the memory that is available, so much may be fork servers that wait for their next trial."""


@dataclass(slots=True)
class Bench:
    """A bench to run jobs on; a context manager that leaves nothing behind.

    Attributes:
        module: of the launcher, which starts workers. log: output of the launcher's own.
        platform: JAX platform name.
        environment: what workers get beside this process's own.
        directory: private, removed in the end.
        environments: what workers run on, by the name that a `Cell` holds.
        most: launchers that are held at the same time. argument: of the launcher.
        secret: of this run, by which the control channel knows workers on other machines; None:
            there are none. In no result, key or log.
        opened_ns: when this bench was set up; of a release that somebody may be editing the
            results are not kept for another.
    """

    module: ModuleType
    log: Path
    platform: str
    environment: dict[str, str]
    directory: Path
    environments: Mapping[str | None, Environment]
    most: int
    argument: str | None = None
    secret: str | None = field(default=None, repr=False)
    opened_ns: int = field(default_factory=time.time_ns)
    _launchers: dict[str | None, Launcher] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        launcher: str,
        log: Path,
        environments: Mapping[str | None, Environment] | None = None,
        *,
        started: bool = True,
    ) -> Bench:
        """Set one up with the launcher of that name; its own output goes to `log`.

        Args:
            started: begin with a launcher; False: none is opened here, see `apart`.
        """
        module, argument = launchers.load(launcher)
        elsewhere = launchers.reach_of(launcher) == "network"
        platform = machine.platform_name()
        bench = cls(
            module,
            log,
            platform,
            worker_environment(platform),
            # Workers elsewhere see what lies beside the results, and not this machine's TMPDIR.
            leftovers.working_directory(log.parents[1] if elsewhere else None),
            environments or {None: own()},
            most_launchers(),
            argument,
            secrets.token_hex(SECRET_BYTES) if elsewhere else None,
        )
        try:
            # Whatever keeps it from starting workers at all is said before the first trial.
            if started:
                bench.launcher_of(next(iter(bench.environments)))
        except BaseException:
            bench.close()
            raise
        return bench

    def apart(self, lane: int) -> dict[str, Any]:
        """Arguments of a bench in another process, for trials beside others: all but the module."""
        return {
            "log": self.log.with_name(f"{self.log.stem}.lane-{lane}{self.log.suffix}"),
            "platform": self.platform,
            "environment": self.environment,
            "directory": self.directory / f"lane-{lane}",
            "environments": dict(self.environments),
            "most": self.most,
            "argument": self.argument,
            "secret": self.secret,
            "opened_ns": self.opened_ns,
        }

    def launcher_of(self, environment: str | None) -> Launcher:
        """The launcher whose workers run on that environment; of others, the one that has been
        without use for longest ends where there are too many.
        """
        launcher = self._launchers.pop(environment, None)
        if launcher is None:
            while len(self._launchers) >= self.most:
                self._launchers.pop(next(iter(self._launchers))).close()
            launcher = self._create(environment)
        self._launchers[environment] = launcher
        return launcher

    def _create(self, name: str | None) -> Launcher:
        environment = self.environments[name]
        given = dict(self.environment)
        if self.secret is not None:
            given[SECRET_VARIABLE] = self.secret
        more = {} if self.argument is None else {"argument": self.argument}
        if name is None:
            return _launcher(self.module.create(given, self.log, **more))
        place = list(self.environments).index(name)
        log = self.log.with_name(f"{self.log.stem}-{place}{self.log.suffix}")
        variables = {**given, **environment.variables}
        return _launcher(self.module.create(variables, log, environment.python, **more))

    def keep(self, environments: Collection[str | None]) -> None:
        """End the launchers of all others: no trial will need them soon."""
        for name in [each for each in self._launchers if each not in environments]:
            self._launchers.pop(name).close()

    def software_of(self, environment: str | None) -> dict[str, Any]:
        """What results on that environment may depend on, for keys of the cache."""
        found = self.environments[environment]
        software = found.software()
        return software if found.stable else {**software, "bench": self.opened_ns}

    def close(self) -> None:
        """End everything, and remove the directory."""
        self.keep(())
        if hasattr(self.module, "leave"):
            self.module.leave()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _launcher(made: Launcher) -> Launcher:
    """What a launcher's module makes, typed: modules of others are loaded by name."""
    return made


def most_launchers() -> int:
    """How many may be held; one where the system does not say what memory it has."""
    try:
        available = machine.memory_for_work_bytes()
    except HarnessError:
        return 1
    return max(1, int(_SHARE * available) // FORK_SERVER_BYTES)


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
