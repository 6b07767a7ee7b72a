"""The environments of a suite: made or found, asked what they are, and held against its cells."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recoverybench.environments.describe import described, described_once
from recoverybench.environments.environment import Environment, own
from recoverybench.environments.locate import code_directory
from recoverybench.environments.make import made, where_of
from recoverybench.environments.support import why_not, why_not_at_all
from recoverybench.errors import UsageError
from recoverybench.plan.environments import path_of, requirements_of
from recoverybench.plan.suite import Suite


@dataclass(frozen=True, slots=True)
class Prepared:
    """A suite with all that its cells run on.

    Attributes:
        suite: cells that an environment cannot measure are among its unsupported ones.
        environments: by name, as a `Cell` holds it; the supervisor's own is always there.
    """

    suite: Suite
    environments: Mapping[str | None, Environment]

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """What a run keeps of them: `RunInfo.environments`."""
        found = self.environments.items()
        return {name: each.as_dict() for name, each in found if name is not None}

    def notes(self) -> list[str]:
        """A line for each environment in which more differs than was asked for."""
        found = []
        for name, each in self.environments.items():
            differ = [
                f"{package} {there}" + (f" (here {here})" if here is not None else "")
                for package, (there, here) in sorted(each.moved.items())
            ]
            if differ:
                found.append(f"{name} also needed {', '.join(differ)}")
        return found


def prepare(
    suite: Suite,
    root: Path,
    settings: Mapping[str, str],
    told: Callable[[str], object] = lambda text: None,
) -> Prepared:
    """Have every environment that a suite asks for.

    Args:
        suite: as resolved. root: directory of environments in the cache.
        settings: environment variables that all workers get.
        told: hears what takes a while.

    Raises:
        UsageError: one cannot be made or is no Python for workers, or nothing of the suite can
            be measured with what there is.
    """
    environments: dict[str | None, Environment] = {None: own()}
    names = [c.environment for c in suite.cells if why_not_at_all(c) is None]
    for name in dict.fromkeys(filter(None, names)):
        environments[name] = _one(name, root, settings, told)
    refused = {}
    for cell in suite.cells:
        reason = why_not_at_all(cell) or why_not(cell, environments[cell.environment])
        if reason is not None:
            refused[cell] = reason
    if not refused:
        return Prepared(suite, environments)
    cells = tuple(cell for cell in suite.cells if cell not in refused)
    if not cells:
        raise UsageError(f"no cell can be measured: unsupported: {next(iter(refused.values()))}")
    unsupported = (*suite.unsupported, *refused.items())
    return Prepared(dataclasses.replace(suite, cells=cells, unsupported=unsupported), environments)


def _one(
    name: str, root: Path, settings: Mapping[str, str], told: Callable[[str], object]
) -> Environment:
    where = where_of(name)
    code = code_directory(root)
    path = path_of(name)
    if path is None:
        found = made(requirements_of(name), root, where, told)
        told(f"asking {name} what it is")
        answer = described_once(
            name, str(found.python), code, where, settings, root / "answers", found.lock
        )
        return dataclasses.replace(answer, moved=found.moved, lock=found.lock)
    python = shutil.which(path) or path
    told(f"asking {name} what it is")
    # Not resolved: a virtual environment is known by the path of its link to the interpreter.
    answer = described(name, os.path.abspath(python), code, where, settings)
    if (reason := answer.lacks.get("workers")) is not None:
        raise UsageError(f"{where}: expected a Python with all that workers need: {reason}")
    return answer
