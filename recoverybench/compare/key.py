"""What makes two cells comparable: one key, and the differences between two of them in words.

Two cells are compared where all of this agrees; versions may differ, for they are what is being
compared:

* the machine's class: platform, kind of device, system, architecture, processor, usable cores,
  memory to the gibibyte, limits of the control group;
* the launcher, and the suite's seed, steps, deadline and isolation;
* the fingerprint of the workload: its file and the data it trains on;
* every factor of the cell but the environment: workload, topology, strategy, state source, fault,
  trigger, interval, victim, and the settings of detection (heartbeat, watchdog …).

Neither the host's name nor its boot, load or kernel is in it: they change from one day to the
next on the same machine, and a key that does so finds no baseline or a wrong one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.cells import FACTORS, Cell
from recoverybench.labels import FACTOR_NAMES, factor_value
from recoverybench.results.run_info import RunInfo
from recoverybench.workload_name import short_name

_GIB: Final = 2**30

SAME_CELL: Final = (
    "workload",
    "topology",
    "strategy",
    "state_source",
    "fault",
    "trigger",
    "interval",
    "victim",
)
"""Factors that say which cell it is. The others but the environment are settings: cells that
differ in them are the same cell under other settings, which cannot be compared.
"""


@dataclass(frozen=True, slots=True)
class Key:
    """What must agree.

    Attributes:
        machine: name of a property -> its value.
        settings: of the suite, likewise. workload: its fingerprint; None: the run keeps none.
        cell: the cell without its environment.
    """

    machine: tuple[tuple[str, Any], ...]
    settings: tuple[tuple[str, Any], ...]
    workload: str | None
    cell: Cell


def key_of(info: RunInfo, cell: Cell) -> Key:
    """The key of a cell of a run."""
    suite = info.suite
    settings = {
        "launcher": info.launcher,
        "seed": info.seed,
        "steps": suite.steps,
        "deadline": f"{suite.deadline_s:g} s",
        "isolation": suite.isolation,
    }
    return Key(
        tuple(machine_class(info.machine).items()),
        tuple(settings.items()),
        info.workloads.get(cell.workload),
        dataclasses.replace(cell, environment=None),
    )


def machine_class(machine: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a machine (`machine.describe`) that its numbers depend on."""
    memory = machine.get("memory_total_bytes")
    limits = machine.get("cgroup")
    limits = limits if isinstance(limits, Mapping) else {}
    devices = machine.get("devices")
    devices = devices if isinstance(devices, Mapping) else {}
    found = {
        "platform": machine.get("platform") or "cpu",
        "device kind": machine.get("device_kind"),
        "slice topology": devices.get("topology"),
        "system": machine.get("system"),
        "architecture": machine.get("architecture"),
        "processor": machine.get("cpu"),
        "usable cores": machine.get("cores_usable"),
        "memory": f"{round(memory / _GIB)} GiB" if isinstance(memory, int | float) else None,
        "core limit": limits.get("cpu_cores"),
        "memory limit": limits.get("memory_bytes"),
    }
    return {name: scalar(value) for name, value in found.items()}


def scalar(value: Any) -> str | int | float | bool | None:
    """Plain data as one value that can be compared and shown; a list or table as its JSON.

    What describes a machine is free-form, and a file from elsewhere may hold anything there.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(value, sort_keys=True, default=str)


def differences(base: Key, new: Key) -> list[str]:
    """What differs, a phrase each; empty: the two are comparable."""
    found = [
        _differ(name, a, b)
        for (name, a), (_, b) in zip(
            (*base.machine, *base.settings), (*new.machine, *new.settings), strict=True
        )
        if a != b
    ]
    if base.cell.workload != new.cell.workload:
        names = short_name(base.cell.workload), short_name(new.cell.workload)
        found.append(_differ("workload", *names))
    elif base.workload is None or new.workload is None:
        pass  # a run of before fingerprints were kept says nothing against it
    elif base.workload != new.workload:
        found.append(f"the files or the data of {short_name(base.cell.workload)} differ")
    for factor in FACTORS:
        a, b = getattr(base.cell, factor), getattr(new.cell, factor)
        if factor != "workload" and a != b:
            said = factor_value(factor, a), factor_value(factor, b)
            found.append(_differ(FACTOR_NAMES[factor], *said))
    return found


def same_cell(cell: Cell) -> tuple[Any, ...]:
    """What says which cell it is, whatever its settings and environment."""
    return tuple(getattr(cell, factor) for factor in SAME_CELL)


def _differ(name: str, base: Any, new: Any) -> str:
    return f"{name} {'unknown' if base is None else base} and {'unknown' if new is None else new}"
