"""Names and numbers as people read them: cell labels, seconds, the meaning of each phase.

Everything that is shown, in the terminal or in a report, is spelled here, so that a
cell has the same name and a duration the same digits wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from recoverybench.cells import FACTORS, Cell

NONE: Final = "–"
"""What stands where a record holds no value."""

FACTOR_NAMES: Final = {
    "workload": "workload",
    "topology": "topology",
    "strategy": "strategy",
    "state_source": "state from",
    "fault": "fault",
    "trigger": "trigger",
    "interval": "checkpoint every",
    "victim": "victim",
    "heartbeat_s": "heartbeat",
    "watchdog_s": "watchdog",
    "coordinator": "coordinator",
    "compile_cache": "compile cache",
    "watchdog_factor": "watchdog factor",
    "replica_check": "replica check",
}
"""Factor -> its name in prose and in column heads."""

PHASE_NAMES: Final = {"first_step": "first step", "catch_up": "catch up"}
"""Phases whose written name differs from the identifier."""

PHASE_MEANING: Final = {
    "detect": ("the injection takes effect", "the first evidence in any part of the system"),
    "react": ("the first evidence", "the strategy acts"),
    "teardown": ("the strategy acts", "the old attempt is gone: processes ended, runtimes closed"),
    "replace": ("the old attempt is gone", "every worker of the new attempt is up, imports done"),
    "rendezvous": ("every worker is up", "the distributed runtime and the device mesh are there"),
    "restore": ("the mesh is there", "the state is on the devices"),
    "compile": ("the state is there", "the step function is ready: traced, compiled or loaded"),
    "first_step": ("the step function is ready", "the first step's loss is on the host"),
    "catch_up": ("the first step is done", "the lost step is completed again"),
}
"""Phase -> the moment it starts and the moment it ends, in words."""

OUTCOME_MEANING: Final = {
    "recovered": "it runs, and equals the fault-free reference",
    "diverged": "it runs, but is no longer the same training",
    "silent_corruption": "the restore raised nothing and gave a wrong state",
    "restarted_from_scratch": "back at step 0 though a checkpoint existed",
    "no_usable_checkpoint": "nothing could be restored",
    "not_recovered": "the job ended",
    "undetected": "nothing noticed before the deadline",
    "timeout": "noticed, but not back before the deadline",
    "no_effect": "the fault took effect and nothing had to recover",
    "invalid": "the measurement itself is not to be trusted",
}
"""Outcome -> what it says, in a few words."""

_FAULTS: Final = {
    "kill": "a worker was killed",
    "hang": "a worker was frozen",
    "preempt": "a worker was preempted",
}


def phase_name(phase: str) -> str:
    """A phase as it is written (``first_step`` -> ``first step``)."""
    return PHASE_NAMES.get(phase, phase)


def outcome_name(outcome: str) -> str:
    """An outcome as it is written (``not_recovered`` -> ``not recovered``)."""
    return outcome.replace("_", " ")


def fault_words(fault: str) -> str:
    """What was done, as the end of a sentence: ``a worker was killed``."""
    return _FAULTS.get(fault.split(":", 1)[0], f"the fault “{fault}” was injected")


def seconds(value: float | None) -> str:
    """A duration in seconds with two digits that count: ``58 ms``, ``0.58 s``, ``4.9 s``.

    From one minute on it is written in minutes (``2 min 05 s``); None is `NONE`.
    """
    if value is None:
        return NONE
    size = abs(value)
    if size < 0.0995:
        return f"{value * 1e3:.2g} ms" if size < 0.00995 else f"{value * 1e3:.0f} ms"
    if size < 0.995:
        return f"{value:.2f} s"
    if size < 9.95:
        return f"{value:.1f} s"
    if size < 59.5:
        return f"{value:.0f} s"
    whole = round(value)
    return f"{whole // 60} min {whole % 60:02d} s"


def fixed(value: float | None) -> str:
    """Seconds for a column of numbers: two decimals (``0.58``), or `NONE`."""
    return NONE if value is None else f"{value:.2f}"


def factor_value(factor: str, value: Any) -> str:
    """A factor's value in words: ``10`` steps, ``5 s``, ``by the seed``."""
    if factor == "victim":
        return "chosen by the seed" if value is None else f"worker {value}"
    if value is None:
        return "none"
    if factor == "watchdog_factor":
        return f"{value:g} steps"
    if factor == "interval":
        return f"{value} steps"
    return f"{value:g} s" if factor.endswith("_s") else str(value)


def varying_factors(cells: Iterable[Cell]) -> tuple[str, ...]:
    """The factors in which these cells differ, in the order of `FACTORS`."""
    distinct = list(dict.fromkeys(cells))
    return tuple(f for f in FACTORS if len({getattr(c, f) for c in distinct}) > 1)


def constant_factors(cells: Iterable[Cell]) -> dict[str, str]:
    """The factors in which these cells agree, with their value in words; empty without cells."""
    distinct = list(dict.fromkeys(cells))
    if not distinct:
        return {}
    moving = set(varying_factors(distinct))
    return {f: factor_value(f, getattr(distinct[0], f)) for f in FACTORS if f not in moving}


def cell_label(cell: Cell, varying: Sequence[str]) -> str:
    """What tells this cell from the others; the strategy where nothing does."""
    named = [f for f in varying if f in FACTORS] or ["strategy"]
    return " · ".join(_short(f, getattr(cell, f)) for f in named)


def _short(factor: str, value: Any) -> str:
    if factor in ("workload", "topology", "strategy", "state_source", "fault", "trigger"):
        return str(value)
    return f"{FACTOR_NAMES[factor]} {factor_value(factor, value)}"
