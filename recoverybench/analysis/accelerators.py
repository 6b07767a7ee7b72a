"""Journals -> what a trial's devices were, and how they were before and after it.

A job may have thousands of chips, and a record stays small: of every metric it keeps the least and
the greatest value, and where the greatest was. The values themselves stay in the journals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from recoverybench.analysis.history import History, Line

WHEN: Final = ("before", "after")
"""Before the injection, and when the recovered job was done."""

_FACTS: Final = (
    *("platform", "kind", "local", "total", "slices", "topology", "cores"),
    *("runtime", "libtpu", "plugins", "driver"),
)
_VALUE: Final = re.compile(r"(?:(.*?\S)\s*(?::\s*|-))?(-?\d{1,18}(?:\.\d{1,9})?)")
_MOST_WHYS: Final = 8


def devices_of(history: History) -> dict[str, Any]:
    """What all workers' devices were; a list where workers differ. Empty: no worker said.

    See `worker.accelerators.described` for the names.
    """
    found: dict[str, Any] = {}
    lines = history.named("devices")
    for name in _FACTS:
        values = _distinct(line[name] for line in lines if name in line)
        if values:
            found[name] = values[0] if len(values) == 1 else values
    return found


def health_of(history: History) -> dict[str, Any]:
    """What the runtime said of the devices, ``before`` and ``after``; what was not read is missing.

    Each has ``workers`` (how many said something), ``metrics`` (name -> ``least``, ``most``,
    ``where`` the most was, and how many ``values``) and ``unavailable`` (worker, as text, -> why).
    """
    found = {}
    for when in WHEN:
        lines = _last(line for line in history.named("health") if line.get("when") == when)
        if lines:
            found[when] = summary(lines)
    return found


def value_of(text: str) -> tuple[str, float] | None:
    """One value of a metric as the runtime writes it: where, and the number; None: no number.

    ``1-3`` is device 1, ``tray1.chip3.ici0.int: 0`` a link, ``20.00`` the chip of that place in the
    list, whose name is empty.
    """
    match = _VALUE.fullmatch(text.strip())
    return None if match is None else (match[1] or "", float(match[2]))


def summary(lines: Sequence[Line]) -> dict[str, Any]:
    """What several workers' ``health`` lines come to; see `health_of`."""
    metrics: dict[str, dict[str, Any]] = {}
    whys: dict[str, str] = {}
    for line in lines:
        said = line.get("metrics")
        for name, values in said.items() if isinstance(said, dict) else ():
            for place, text in enumerate(values if isinstance(values, list) else ()):
                if (value := value_of(str(text))) is not None:
                    _take(metrics.setdefault(str(name), {}), line["worker"], place, *value)
        if (why := line.get("unavailable")) is not None and len(whys) < _MOST_WHYS:
            whys[str(line["worker"])] = str(why)
    return {"workers": len(lines), "metrics": dict(sorted(metrics.items())), "unavailable": whys}


def _take(kept: dict[str, Any], worker: int, place: int, where: str, value: float) -> None:
    kept["values"] = kept.get("values", 0) + 1
    kept["least"] = min(kept.get("least", value), value)
    if value > kept.get("most", float("-inf")):
        kept["most"], kept["where"] = value, f"worker {worker}, {where or place}"


def _last(lines: Iterable[Line]) -> list[Line]:
    """The last line of each worker: of a job that was set up anew, its last word."""
    return [line for _, line in sorted({line["worker"]: line for line in lines}.items())]


def _distinct(values: Iterable[Any]) -> list[Any]:
    found = {(type(v).__name__, v): v for v in values if isinstance(v, str | int)}
    return [found[key] for key in sorted(found)]
