"""What a machine, or a combination of parts, cannot do: known before anything is started.

A cell that cannot be measured is refused with its reason, not counted as a failure of the
strategy. Each part says of itself what it cannot do; what depends on two of them is here.
"""

from __future__ import annotations

import functools
from typing import Any

from recoverybench import page_cache
from recoverybench.cells import Cell
from recoverybench.external.support import why_not
from recoverybench.plan import catalogue, launchers
from recoverybench.plan.triggers import SETTING_UP, parse_trigger


class Judge:
    """Says of cells whether they can be measured here; looks each part up once.

    Args:
        launcher: how workers would be started. isolation: whether trials run side by side.
    """

    def __init__(
        self, launcher: str = launchers.DEFAULT, isolation: str = launchers.EXCLUSIVE
    ) -> None:
        self._launcher = launcher
        self._isolation = isolation
        self._part = functools.cache(_part)
        self._lack = functools.cache(
            functools.partial(missing_capability, launcher=launcher, isolation=isolation)
        )
        self._survives = functools.cache(
            lambda name: catalogue.literal("state-sources", name, "SURVIVES")
        )

    def unsupported(self, cell: Cell) -> str | None:
        """Why a cell cannot be measured here, in one line; None: it can."""
        strategy = self._part("strategies", cell.strategy)
        return (
            self._lack("faults", _name(cell.fault))
            or self._lack("strategies", _name(cell.strategy))
            or _missing(
                _needed_by_trigger(cell), f"trigger {cell.trigger}", self._launcher, self._isolation
            )
            or launchers.why_not(cell, self._launcher)
            or self._part("faults", cell.fault).unsupported(cell)
            or why_not(cell)
            or strategy.unsupported(cell)
            or self._survival(cell, ends_all=strategy.ends_all)
            or _scattered(cell)
            or _elsewhere(cell, ends_all=strategy.ends_all, shrinks=strategy.shrinks)
            or _pointless(cell, rejoin=strategy.rejoin)
            or self._cold(cell)
        )

    def _survival(self, cell: Cell, *, ends_all: bool) -> str | None:
        """A state that lives in processes does not outlive them."""
        if self._survives(cell.state_source) != "process":
            return None
        what = f"the state of {cell.state_source} is in the memory of the workers"
        if ends_all:
            return f"{what}, and {_name(cell.strategy)} ends every one of them"
        kind = parse_trigger(cell.trigger).kind
        if kind in SETTING_UP:
            return f"{what}, and the trigger {cell.trigger} resumes the job with new ones"
        if kind == "save":
            return f"{cell.state_source} saves nothing, so there is no save to strike in"
        return None

    def _cold(self, cell: Cell) -> str | None:
        """A cold page cache is for states that are read from files, once."""
        if cell.page_cache == "warm":
            return None
        if self._survives(cell.state_source) == "process":
            return f"page_cache = cold is for what is read from files, not for {cell.state_source}"
        if hasattr(self._part("faults", cell.fault), "schedule"):
            return f"page_cache = cold is for one injection, and {_name(cell.fault)} makes many"
        why = page_cache.why_not()
        return None if why is None else f"page_cache = cold: {why}"


def _scattered(cell: Cell) -> str | None:
    """What is done with a worker's copy of the state needs a worker that has one."""
    topology = cell.mesh
    if cell.state_source in ("snapshot", "peer") and not topology.whole_in_worker:
        return (
            f"{cell.state_source} gives one worker's state to another, and on {topology} none has "
            "it whole"
        )
    if cell.state_source == "local" and topology.axes:
        return f"local saves on each node alone, and on {topology} no device has the whole state"
    return None


def _elsewhere(cell: Cell, *, ends_all: bool, shrinks: bool) -> str | None:
    """Only a job that is started anew can come back on other devices."""
    if cell.restore_topology is None:
        return None
    name = _name(cell.strategy)
    if not ends_all or shrinks:
        return f"restore_topology is for strategies that start every worker anew, not for {name}"
    if cell.state_source != "storage":
        return f"restore_topology needs a state that any topology can read, not {cell.state_source}"
    return None


def _pointless(cell: Cell, *, rejoin: bool) -> str | None:
    """A mechanism that is asked for where it cannot work."""
    if cell.agreement == "on" and not rejoin:
        return f"agreement is for survivors that rejoin, and with {_name(cell.strategy)} none do"
    return None


def unsupported(cell: Cell) -> str | None:
    """Why one cell cannot be measured here; see `Judge`."""
    return Judge().unsupported(cell)


def missing_capability(
    kind: str,
    name: str,
    launcher: str = launchers.DEFAULT,
    isolation: str = launchers.EXCLUSIVE,
) -> str | None:
    """What a part needs and this machine (or the launcher) does not have; None: nothing."""
    who = f"{catalogue.KINDS[kind].singular} {name}"
    return _missing(needs(kind, name), who, launcher, isolation)


def needs(kind: str, name: str) -> tuple[str, ...]:
    """The capabilities that a part says it needs."""
    return tuple(catalogue.literal(kind, name, "NEEDS") or ())


def _part(kind: str, text: str) -> Any:
    """The part that ``name`` or ``name:argument`` makes."""
    name, _, argument = text.partition(":")
    return catalogue.load(kind, name).create(argument or None)


def _name(text: str) -> str:
    return text.partition(":")[0]


def _missing(names: tuple[str, ...], who: str, launcher: str, isolation: str) -> str | None:
    for name in names:
        why = launchers.why_missing(name, launcher, isolation)
        if why is not None:
            return f"{who} needs {name}: {why}"
    return None


def _needed_by_trigger(cell: Cell) -> tuple[str, ...]:
    return ("user-notification",) if parse_trigger(cell.trigger).operation is not None else ()
