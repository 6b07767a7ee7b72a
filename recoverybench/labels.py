"""Names and numbers as people read them: cell labels, seconds, the meaning of each phase.

Everything that is shown, in the terminal or in a report, is spelled here, so that a
cell has the same name and a duration the same digits wherever it stands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from recoverybench.cells import FACTORS, Cell
from recoverybench.records import Stop, Transition, TrialRecord, Verification
from recoverybench.workload_name import is_command, short_name

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
    "agreement": "agreement",
    "restore_topology": "restored on",
    "checkpoint": "checkpoint",
    "page_cache": "page cache",
    "environment": "environment",
}
"""Factor -> its name in prose and in column heads."""

_SAID: Final = object()
_SILENT: Final = {
    "watchdog_factor": None,
    "replica_check": "off",
    "agreement": "off",
    "restore_topology": None,
    "checkpoint": "default",
    "page_cache": "warm",
    "environment": None,
}
"""What goes without saying: mechanisms that are off unless they are asked for."""

_NOT_OF_COMMANDS: Final = (
    "state_source",
    "heartbeat_s",
    "watchdog_s",
    "coordinator",
    "compile_cache",
    "watchdog_factor",
    "replica_check",
    "agreement",
)
"""Factors that mean nothing where a command brings itself back."""

_USUAL: Final = {**_SILENT, "victim": None, "coordinator": "worker0"}
"""What a cell's label leaves out where the cells differ in it."""

PHASE_NAMES: Final = {"first_step": "first step", "catch_up": "catch up"}
"""Phases whose written name differs from the identifier."""

PHASE_MEANING: Final = {
    "detect": ("the injection takes effect", "the first evidence in any part of the system"),
    "unnamed": (
        "a moment that is known",
        "the next one that is known: no mark names what is between",
    ),
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

MECHANISM_NAMES: Final = {
    "agreement": "agreement of the survivors",
    "coordinator_connection": "coordination service lost",
    "non_finite": "loss is not a number",
    "digest_mismatch": "copies of the state differ",
}
"""Mechanism that notices -> its name, where that is not the identifier's own words."""

TRANSITION_NAMES: Final = {"resume": "resumed", "grow": "grown back"}
"""Kind of a transition -> what was done."""

EXIT_REASONS: Final = {
    "inject": "the injection",
    "teardown": "ended by the strategy",
    "resume": "ended before the injection, to resume",
    "end": "end of the job",
    "own": "on its own",
}
"""Why a process ended -> the same in words."""

_SUSPENDING: Final = ("suspend-resume",)
"""Strategies that save at a preemption notice."""

_ONE_CONTROLLER: Final = ("pathways",)
"""Strategies under which one process holds all slices."""

_SLICES: Final = {"kill": "a slice was lost", "kill-coordinator": "the controller was killed"}
"""Faults under a strategy with one controller; only the first one is simulated."""

_LONG_DIGEST: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24,}\b")

_FAULTS: Final = {
    "abort": "a worker aborted",
    "async-exception": "an exception struck a worker from another thread",
    "bit-flip": "a bit of the checkpoint flipped and a worker was killed",
    "bit-flip-memory": "a bit flipped in a worker's memory",
    "cache-corrupt": "the compile cache was damaged and a worker was killed",
    "cache-lost": "the compile cache was lost and a worker was killed",
    "cascade": "a worker was killed, and its replacement too",
    "coordinator-cut": "a worker was cut from the coordination service",
    "coordinator-reset": "a worker's connection to the coordination service was reset",
    "disk-full": "the disk was full",
    "empty-step": "an empty checkpoint lay there and a worker was killed",
    "exit": "a worker ended by itself",
    "hang": "a worker was frozen",
    "interrupt": "a worker was interrupted",
    "io-error": "the disk failed",
    "kill": "a worker was killed",
    "kill-all": "every worker was killed",
    "kill-coordinator": "the coordination service was killed",
    "kill-many": "several workers were killed at once",
    "kill-node": "the node of a worker was lost",
    "leftover-tmp": "an unfinished save lay there and a worker was killed",
    "lock-gil": "a worker's Python lock was held for good",
    "lost-data-state": "the position in the data was lost and a worker was killed",
    "missing-file": "a file of the checkpoint was gone and a worker was killed",
    "nan": "a gradient was not a number",
    "one-way": "what a worker sent was lost",
    "oom": "a worker ran out of memory",
    "partition": "a worker was cut from all others",
    "poisson": "workers were killed again and again",
    "preempt": "a worker was preempted",
    "raise": "a worker's step raised an exception",
    "read-only": "the disk was read-only",
    "replay": "workers were killed as a trace tells",
    "segv": "a worker crashed",
    "slow": "a worker was slow for a while",
    "slow-storage": "the storage was slow",
    "stuck": "a worker was stuck",
    "truncate": "the checkpoint was cut off and a worker was killed",
    "wrong-step": "a checkpoint held another step and a worker was killed",
}


def phase_name(phase: str) -> str:
    """A phase as it is written (``first_step`` -> ``first step``)."""
    return PHASE_NAMES.get(phase, phase)


def outcome_name(outcome: str) -> str:
    """An outcome as it is written (``not_recovered`` -> ``not recovered``)."""
    return outcome.replace("_", " ")


def mechanism_name(mechanism: str) -> str:
    """A mechanism that notices, as it is written (``non_finite`` -> ``loss is not a number``)."""
    return MECHANISM_NAMES.get(mechanism, mechanism.replace("_", " "))


def transition_words(transition: Transition) -> str:
    """A transition on one line: ``grown back after step 33, held up for 1.2 s``."""
    what = TRANSITION_NAMES.get(transition.kind, transition.kind)
    at = "" if transition.step is None else f" after step {transition.step}"
    paused = transition.paused_s
    return f"{what}{at}" + ("" if paused is None else f", held up for {seconds(paused)}")


def stop_words(stop: Stop) -> str:
    """The point of a save at which the fault struck, on one line."""
    if stop.kind is None:
        return f"struck right after the save, which had {stop.operation} file operations"
    torn = ", torn in the middle" if stop.torn else ""
    return f"struck at file operation {stop.operation}, {stop.kind} {stop.path}{torn}"


def tolerance_words(check: Verification) -> str:
    """What was compared within a tolerance, on one line."""
    largest = check.largest_difference
    found = "" if largest is None else f"; the largest difference is {largest:.1e}"
    beyond = ""
    if check.losses_beyond:
        beyond = f"; {check.losses_beyond} later losses only among the workers, bit for bit"
    return (
        f"{check.losses_within} losses within a relative tolerance of at most "
        f"{check.tolerance or 0:.1e}{found}{beyond}"
    )


def losses_words(compared: int, within: int) -> str:
    """Losses that were compared: ``45 losses``, ``20 losses bit for bit and 25 within …``."""
    if not within:
        return f"{compared:,} losses"
    return f"{compared - within:,} losses bit for bit and {within:,} within a tolerance"


def exit_reason(reason: str) -> str:
    """Why a process ended, in words; a reason of no known name is itself."""
    return EXIT_REASONS.get(reason, reason)


def short_digests(text: str) -> str:
    """The text with eight digits of each digest: enough for people, who compare them by eye."""
    return _LONG_DIGEST.sub(r"\1…", text)


def notice_words(record: TrialRecord) -> str | None:
    """What came of a preemption notice, on one line; None: there was none."""
    if record.preemption_save is None:
        return None
    if record.preemption_save:
        return "after the notice every worker saved and stopped"
    strategy = record.cell.strategy
    if _name(strategy) in _SUSPENDING:
        return "after the notice not every worker saved and stopped"
    return f"{strategy} does not save on a notice"


def tier_words(record: TrialRecord) -> str | None:
    """Where the state came from, where the name of its source does not say it already."""
    tier, source = record.restore_tier, record.cell.state_source
    if tier is None or (tier == source == "storage"):
        return None
    text = f"state from {' and '.join(tier.split('+'))}"
    if tier == "storage":
        text += f", and not from {source}"
    received = record.restore_received_bytes or 0
    return text + (f", {received} bytes received from other workers" if received else "")


def struck_again(record: TrialRecord) -> int:
    """Further kills that struck while the job was still coming back."""
    return max(0, sum(item.reason == "inject" for item in record.exits) - 1)


def not_verified(record: TrialRecord) -> bool:
    """Whether it counts as recovered with nothing compared, as its command's file asks for."""
    return record.outcome == "recovered" and (record.verify is None or record.verify.passed is None)


def one_controller(cell: Cell) -> bool:
    """Whether one process holds all slices, so that there are no workers to lose."""
    return _name(cell.strategy) in _ONE_CONTROLLER


def victim_words(record: TrialRecord) -> str:
    """What was broken: ``worker 1``, ``slice 1``, or `NONE`."""
    if record.victim is None:
        return NONE
    sliced = one_controller(record.cell) and _name(record.cell.fault) == "kill"
    return f"{'slice' if sliced else 'worker'} {record.victim}"


def struck_words(cell: Cell) -> str:
    """What was done in this cell, as the end of a sentence, and whether it is simulated."""
    if not one_controller(cell):
        return fault_words(cell.fault)
    name = _name(cell.fault)
    said = _SLICES.get(name, fault_words(cell.fault))
    return said + (" (simulated)" if name == "kill" else "")


def processes_words(cell: Cell) -> str:
    """The processes of a job: ``3 workers``, ``one controller over 3 slices``."""
    workers = cell.topology.partition("x")[0]
    return f"one controller over {workers} slices" if one_controller(cell) else f"{workers} workers"


def shape_words(cell: Cell) -> str:
    """A topology in words: ``3 workers with 1 device each``."""
    try:
        topology = cell.mesh
    except ValueError:  # a record of another release
        return cell.topology
    devices = topology.devices
    said = f"{processes_words(cell)} with {devices} device{'' if devices == 1 else 's'} each"
    axes = " x ".join(f"{name} {size}" for name, size in topology.axes)
    return f"{said}, as a mesh of {axes}" if axes else said


def fault_words(fault: str) -> str:
    """What was done, as the end of a sentence: ``a worker was killed``."""
    return _FAULTS.get(_name(fault), f"the fault “{fault}” was injected")


def _name(part: str) -> str:
    """A part's name without its argument."""
    return part.partition(":")[0]


def seconds(value: float | None, bound_s: float = 0.0) -> str:
    """A duration in seconds with two digits that count: ``58 ms``, ``0.58 s``, ``4.9 s``.

    From one minute on it is written in minutes (``2 min 05 s``); None is `NONE`. One that is
    shorter than what clocks may be wrong by, `bound_s`, is only known to be below it: ``< 3 ms``.
    """
    if value is None or not math.isfinite(value):
        return NONE
    if value < bound_s and bound_s > _SHORTEST_S:
        return f"< {seconds(_above(bound_s))}"
    size = abs(value)
    if size >= 1e9:
        return f"{value:.1e} s"
    if size < 0.0995:
        return f"{value * 1e3:.2g} ms" if size < 0.00995 else f"{value * 1e3:.0f} ms"
    if size < 0.995:
        return f"{value:.2f} s"
    if size < 9.95:
        return f"{value:.1f} s"
    if size < 59.5:
        return f"{value:.0f} s"
    whole = round(size)
    return f"{'-' if value < 0 else ''}{whole // 60} min {whole % 60:02d} s"


def fixed(value: float | None, bound_s: float = 0.0) -> str:
    """Seconds for a column of numbers: two decimals (``0.58``), or `NONE`; `bound_s` as above."""
    if value is None or not math.isfinite(value):
        return NONE
    if value < bound_s and bound_s > _SHORTEST_S:
        return f"< {math.ceil(round(bound_s * 100, 6)) / 100:.2f}"
    return f"{value:.2f}"


_SHORTEST_S: Final = 1e-12
"""No clock is right to less: a bound of 0 is that of a machine's own clock."""


def _above(bound_s: float) -> float:
    """A bound rounded up to the two digits that are shown of it."""
    unit: float = 10.0 ** (math.floor(math.log10(bound_s)) - 1)
    return math.ceil(round(bound_s / unit, 6)) * unit


def factor_value(factor: str, value: Any) -> str:
    """A factor's value in words: ``10`` steps, ``5 s``, ``by the seed``."""
    if factor == "workload":
        return short_name(str(value))
    if factor == "victim":
        return "chosen by the seed" if value is None else f"worker {value}"
    if factor == "restore_topology" and value is None:
        return "the same"
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


def unmeasured(
    measured: Iterable[Cell], refused: Sequence[tuple[Cell, str]]
) -> dict[str, list[str]]:
    """Reason -> the names of the cells that could not be measured for it.

    Args:
        measured: the cells that could be; both together decide what has to be in a name.
        refused: each cell that could not be, with the reason.
    """
    varying = varying_factors([*measured, *(cell for cell, _ in refused)])
    found: dict[str, list[str]] = {}
    for cell, reason in refused:
        found.setdefault(reason, []).append(cell_label(cell, varying))
    return found


def constant_factors(cells: Iterable[Cell]) -> dict[str, str]:
    """The factors in which these cells agree, with their value in words; empty without cells."""
    distinct = list(dict.fromkeys(cells))
    if not distinct:
        return {}
    moving = set(varying_factors(distinct))
    if all(is_command(cell.workload) for cell in distinct):
        moving |= set(_NOT_OF_COMMANDS)
    agreed = {f: getattr(distinct[0], f) for f in FACTORS if f not in moving}
    return {
        f: factor_value(f, value) for f, value in agreed.items() if value != _SILENT.get(f, _SAID)
    }


def cell_label(cell: Cell, varying: Sequence[str]) -> str:
    """What tells this cell from the others; the strategy where nothing does.

    A factor that is as it is when nobody asks for it is left out, if another one is there.
    """
    named = [f for f in varying if f in FACTORS] or ["strategy"]
    special = [f for f in named if getattr(cell, f) != _USUAL.get(f, _SAID)]
    return " · ".join(_short(f, getattr(cell, f)) for f in special or named)


def _short(factor: str, value: Any) -> str:
    if factor == "workload":
        return short_name(str(value))
    if factor in ("topology", "strategy", "state_source", "fault", "trigger"):
        return str(value)
    if factor == "victim" and value is not None:
        return f"{factor_value(factor, value)} broken"
    return f"{FACTOR_NAMES[factor]} {factor_value(factor, value)}"
