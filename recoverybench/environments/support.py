"""What an environment cannot measure: known before anything is started."""

from __future__ import annotations

from typing import Any

from recoverybench.cells import Cell
from recoverybench.environments.describe import NEEDED_BY_ALL
from recoverybench.environments.environment import Environment
from recoverybench.environments.installed import normal
from recoverybench.plan import catalogue
from recoverybench.workload_name import WorkloadName, is_command

COMMAND = "an environment is for workloads of recoverybench: a command says which Python it runs on"


def why_not(cell: Cell, environment: Environment) -> str | None:
    """Why a cell cannot be measured on that environment, in one line; None: it can."""
    if environment.name is None:
        return None
    for what in needed(cell):
        if (reason := environment.lacks.get(what)) is not None:
            return f"{environment.name}: {reason}"
    return _absent(cell, environment)


def needed(cell: Cell) -> tuple[str, ...]:
    """What the cell needs of its environment, of what `worker.probe` looks for."""
    name, _, argument = cell.strategy.partition(":")
    strategy: Any = catalogue.load("strategies", name).create(argument or None)
    found = [NEEDED_BY_ALL]
    if strategy.rejoin:
        found.append("recoverability")
    if cell.fault == "preempt:unhandled":
        found.append("preemption")  # JAX must let SIGTERM alone
    if cell.agreement == "on":
        found.append("agreement")
    if strategy.processes is not None:
        found.append("pathways")
    return tuple(found)


def _absent(cell: Cell, environment: Environment) -> str | None:
    """A part that another package adds is only where that package is."""
    parts = [("state-sources", cell.state_source)]
    workload = WorkloadName.of(cell.workload)
    if not workload.own:
        parts.append(("workloads", workload.family))
    for kind, name in parts:
        distribution = catalogue.find(kind, name).distribution
        if distribution is not None and normal(distribution) not in environment.packages:
            what = catalogue.KINDS[kind].singular
            return f"{environment.name}: {what} {name} is of {distribution}, not installed there"
    return None


def why_not_at_all(cell: Cell) -> str | None:
    """Why no environment can measure it; None: one may."""
    return COMMAND if cell.environment is not None and is_command(cell.workload) else None
