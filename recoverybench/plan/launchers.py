"""What a launcher says of itself in literals, read without importing it, and what follows of that.

``REACH``: ``host`` (workers see this machine's files, sockets and memory; so without it) or
``network``. ``HAS``: capabilities that it brings along. ``LACKS``: capabilities that cannot be
used with it, whatever this machine has, each with the reason. ``SIDE_BY_SIDE``: it can run several
jobs at the same time (see `launchers.base.Room`): by its argument (empty: none), capabilities that
cannot be used then, each with the reason; an argument that is not there cannot.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from recoverybench import capabilities
from recoverybench.cells import Cell
from recoverybench.errors import bad_value
from recoverybench.plan import catalogue
from recoverybench.workload_name import is_command, short_name

DEFAULT: Final = "local"

EXCLUSIVE: Final = "exclusive"
SHARED: Final = "shared"

ANY_NUMBER: Final = 1_000_000
"""Devices that a job may have on machines that nobody has counted yet."""


def name_of(launcher: str) -> str:
    """The launcher's name, without what follows a colon."""
    return launcher.partition(":")[0]


def load(launcher: str) -> tuple[ModuleType, str | None]:
    """The module of ``NAME`` or ``NAME:ARGUMENT``, and the argument.

    Raises:
        UsageError: there is none of that name, or it takes no argument.
    """
    name, _, argument = launcher.partition(":")
    module = catalogue.load("launchers", name, "--launcher")
    if argument and not hasattr(module, "check"):
        raise bad_value("--launcher", launcher, f"{name!r} without an argument")
    return module, argument or None


def reach_of(launcher: str) -> str:
    """``host`` or ``network``.

    Raises:
        UsageError: there is no such launcher.
    """
    name = catalogue.find("launchers", name_of(launcher), "--launcher").name
    return str(catalogue.literal("launchers", name, "REACH") or "host")


def side_by_side(launcher: str) -> dict[str, str] | None:
    """What cannot be used while a launcher runs jobs side by side, with why; None: it runs one.

    Raises:
        UsageError: there is no such launcher.
    """
    name, _, argument = launcher.partition(":")
    found = catalogue.find("launchers", name, "--launcher").name
    said: dict[str, dict[str, str]] = catalogue.literal("launchers", found, "SIDE_BY_SIDE") or {}
    return said.get(argument)


def read_isolation(value: object, where: str, launcher: str) -> str:
    """An `isolation` that the launcher can give.

    Raises:
        UsageError: it is none, or that launcher runs one trial at a time.
    """
    if value not in (EXCLUSIVE, SHARED):
        raise bad_value(where, value, f"{EXCLUSIVE!r} or {SHARED!r}")
    if value == SHARED and side_by_side(launcher) is None:
        able = [name for name in catalogue.names("launchers") if side_by_side(name) is not None]
        allowed = f"{EXCLUSIVE!r} with launcher {launcher}, which runs one trial at a time"
        raise bad_value(where, value, f"{allowed} ({SHARED!r} needs launcher {', '.join(able)})")
    return str(value)


def why_missing(capability: str, launcher: str, isolation: str = EXCLUSIVE) -> str | None:
    """Why a capability cannot be had, in a few words; None: it can."""
    together = side_by_side(launcher) if isolation == SHARED else None
    if capability in (together or {}):
        return str((together or {})[capability])
    if launcher == DEFAULT:
        return capabilities.MISSING[capability]()
    said: dict[str, Any] = catalogue.literal("launchers", name_of(launcher), "LACKS") or {}
    if capability in said:
        return str(said[capability])
    if capability in (catalogue.literal("launchers", name_of(launcher), "HAS") or ()):
        return None
    return capabilities.MISSING[capability]()


def why_not(cell: Cell, launcher: str) -> str | None:
    """Why a cell cannot be measured with workers on other machines; None: it can."""
    if reach_of(launcher) == "host":
        return None
    name = name_of(launcher)
    if is_command(cell.workload):
        command = short_name(cell.workload)
        return f"{command} is a command, which starts here, and not through launcher {name}"
    if cell.page_cache == "cold":
        return (
            f"page_cache = cold drops files from this machine's memory, not from launcher {name}'s"
        )
    if cell.state_source == "local":
        return f"local is a node's own disk, and with launcher {name} all files are on a shared one"
    if cell.fault in ("oom", "oom:cgroup"):
        return f"{cell.fault} limits a process of this machine: with launcher {name}, oom:rlimit"
    return None
