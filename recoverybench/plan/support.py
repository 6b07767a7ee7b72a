"""What a machine, or a combination of parts, cannot do: known before anything is started.

A cell that cannot be measured is refused with its reason, not counted as a failure of the
strategy. Each part says of itself what it cannot do; what depends on two of them is here.
"""

from __future__ import annotations

from recoverybench import capabilities
from recoverybench.cells import Cell
from recoverybench.plan import catalogue
from recoverybench.plan.triggers import SETTING_UP, parse_trigger


def unsupported(cell: Cell) -> str | None:
    """Why a cell cannot be measured here, in one line; None: it can."""
    fault_name, _, argument = cell.fault.partition(":")
    fault = catalogue.load("faults", fault_name).create(argument or None)
    strategy_name, _, argument = cell.strategy.partition(":")
    strategy = catalogue.load("strategies", strategy_name).create(argument or None)
    return (
        missing_capability("faults", fault_name)
        or missing_capability("strategies", strategy_name)
        or _missing(("user-notification",) if _needs_gate(cell) else (), f"trigger {cell.trigger}")
        or fault.unsupported(cell)
        or strategy.unsupported(cell)
        or _survival(cell, ends_all=strategy.ends_all, name=strategy_name)
    )


def missing_capability(kind: str, name: str) -> str | None:
    """What a part needs and this machine does not have; None: nothing."""
    return _missing(needs(kind, name), f"{catalogue.KINDS[kind].singular} {name}")


def needs(kind: str, name: str) -> tuple[str, ...]:
    """The capabilities that a part says it needs."""
    return tuple(catalogue.literal(kind, name, "NEEDS") or ())


def _missing(names: tuple[str, ...], who: str) -> str | None:
    for name in names:
        why = capabilities.MISSING[name]()
        if why is not None:
            return f"{who} needs {name}: {why}"
    return None


def _needs_gate(cell: Cell) -> bool:
    return parse_trigger(cell.trigger).operation is not None


def _survival(cell: Cell, *, ends_all: bool, name: str) -> str | None:
    """A state that lives in processes does not outlive them."""
    survives = catalogue.literal("state-sources", cell.state_source, "SURVIVES")
    if survives != "process":
        return None
    what = f"the state of {cell.state_source} is in the memory of the workers"
    if ends_all:
        return f"{what}, and {name} ends every one of them"
    if parse_trigger(cell.trigger).kind in SETTING_UP:
        return f"{what}, and the trigger {cell.trigger} resumes the job with new ones"
    return None
