"""What cannot be asked of a command, known before anything is started."""

from __future__ import annotations

import functools
import subprocess
from typing import Final

from recoverybench.cells import Cell
from recoverybench.external.spec import Command, load
from recoverybench.plan import catalogue
from recoverybench.plan.triggers import parse_trigger
from recoverybench.workload_name import is_command

STRATEGY: Final = "own"
TRIGGERS: Final = ("step", "time", "random")
"""Kinds that are met without holding anybody."""

_ASK = (
    "import importlib.util, sys; "
    "print(*(n for n in sys.argv[1:] if importlib.util.find_spec(n) is None))"
)


def why_not(cell: Cell) -> str | None:
    """Why this cell cannot be measured, as far as commands are concerned; None: it can."""
    name, strategy = cell.workload, cell.strategy.partition(":")[0]
    if not is_command(name):
        if strategy == STRATEGY:
            return f"{STRATEGY} is for commands that bring themselves back, and {name} is none"
        return None
    if strategy != STRATEGY:
        return f"{name} is a command, which brings itself back: it needs strategy {STRATEGY}"
    fault = cell.fault.partition(":")[0]
    if not catalogue.literal("faults", fault, "OUTSIDE"):
        return f"{fault} cannot be given to a command from outside"
    trigger = parse_trigger(cell.trigger)
    if trigger.kind not in TRIGGERS:
        return f"a command is not held at {trigger}: only {', '.join(TRIGGERS)} can be met"
    if cell.restore_topology is not None:
        return "a command sets itself up, and takes no restore_topology"
    return lacking(load(name))


def lacking(command: Command) -> str | None:
    """What the command's interpreter does not have, for people; None: nothing."""
    missing = _missing(command.python, command.needs) if command.needs else ""
    if not missing:
        return None
    python = command.python
    return f"{command.name} needs the Python package {missing}, which {python} does not have"


@functools.cache
def _missing(python: str, needs: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [python, "-c", _ASK, *needs], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ", ".join(needs)
    return ", ".join(done.stdout.split()) if done.returncode == 0 else ", ".join(needs)
