"""Suites: TOML and the command line -> cells. `load_suite` is the way in.

```toml
[suite]
name = "quick"
description = "one worker dies; three strategies bring it back"
trials = 3            # of each cell; "auto": until each median is known to `precision`
precision = "10%"     # optional, with "auto": of the median
budget = "10m"        # optional: no trial is begun after that long
profile = true        # optional: one trial more of each cell, under a profiler
isolation = "shared"  # optional: cells run side by side, where the launcher has room for that
seed = 0
deadline = "60s"      # after it, a trial is a timeout
steps = 45            # length of the job
data = "my.txt"       # optional: a text of one's own, relative to this file

[matrix]              # every list is a factor; the cells are their product
workload = ["transformer:tiny"]
...
[[matrix.exclude]]    # drops every cell that matches all its keys
[[matrix.include]]    # adds a cell: its keys, over the first value of every other factor
```

A factor given on the command line replaces the suite's list; an included cell stays only
where it agrees with the command line. A cell that is there twice is kept once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recoverybench import machine
from recoverybench.cells import Cell
from recoverybench.errors import UsageError, bad_value
from recoverybench.plan import catalogue, launchers
from recoverybench.plan.factors import check_keys, read_integer
from recoverybench.plan.launchers import EXCLUSIVE
from recoverybench.plan.matrix import read_matrix
from recoverybench.plan.own_files import beside
from recoverybench.plan.trials import AUTO, read_amount
from recoverybench.plan.units import parse_duration
from recoverybench.plan.workloads import preset_of
from recoverybench.workload_name import own_file, short_name

DEFAULT_SUITE = "quick"
DEFAULT_STEPS = 45
_SUITE_KEYS = (
    "name",
    "description",
    "trials",
    "precision",
    "budget",
    "profile",
    "isolation",
    "seed",
    "deadline",
    "steps",
    "data",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite as resolved: nothing is left to look up.

    Attributes:
        name: part of the run's id, usable in a file name.
        description: one line for people.
        trials: trials of each cell, the most where a `precision` is asked for.
        precision: a cell ends once the confidence interval of its median recovery time is
            narrower than this part of the median; None: after `trials`.
        budget_s: seconds after which no trial is begun; None: no limit.
        seed: of the whole run.
        deadline_s: seconds after the injection when a trial is a timeout.
        steps: length of the job.
        cells: in the order of the matrix, each once.
        unsupported: cells that cannot be measured here, each with the reason; not run.
        source: the file it came from, for people; in no comparison.
        data: the text to train on, or None for the workload's own.
        profile: each cell gets one trial more, which runs under a profiler and is in no
            statistic; the budget is not for these.
        isolation: ``exclusive`` (a trial has no neighbour) or ``shared`` (as many trials side by
            side as the launcher has room for).
    """

    name: str
    description: str
    trials: int
    seed: int
    deadline_s: float
    steps: int
    cells: tuple[Cell, ...]
    source: str | None = None
    data: str | None = None
    unsupported: tuple[tuple[Cell, str], ...] = ()
    precision: float | None = None
    budget_s: float | None = None
    profile: bool = False
    isolation: str = EXCLUSIVE

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {
            **plain,
            "cells": [cell.as_dict() for cell in self.cells],
            "unsupported": [{"cell": c.as_dict(), "reason": r} for c, r in self.unsupported],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Suite:
        """The inverse of `as_dict`; KeyError or TypeError on foreign data."""
        cells = tuple(Cell.from_dict(cell) for cell in data["cells"])
        refused = tuple(
            (Cell.from_dict(entry["cell"]), str(entry["reason"]))
            for entry in data.get("unsupported", ())
        )
        return cls(**{**data, "cells": cells, "unsupported": refused})

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what would be run, in hex: all but the path it was read from."""
        content = {k: v for k, v in self.as_dict().items() if k not in ("source", "unsupported")}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says over the suite; as typed, nothing checked yet.

    Factors are tuples of text, empty where the option was not given; the rest is None there.
    """

    workload: tuple[str, ...] = ()
    topology: tuple[str, ...] = ()
    strategy: tuple[str, ...] = ()
    state_source: tuple[str, ...] = ()
    fault: tuple[str, ...] = ()
    trigger: tuple[str, ...] = ()
    interval: tuple[str, ...] = ()
    victim: tuple[str, ...] = ()
    heartbeat: tuple[str, ...] = ()
    watchdog: tuple[str, ...] = ()
    coordinator: tuple[str, ...] = ()
    compile_cache: tuple[str, ...] = ()
    watchdog_factor: tuple[str, ...] = ()
    replica_check: tuple[str, ...] = ()
    agreement: tuple[str, ...] = ()
    restore_topology: tuple[str, ...] = ()
    checkpoint: tuple[str, ...] = ()
    page_cache: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    trials: str | int | None = None
    precision: str | float | None = None
    budget: str | float | None = None
    profile: bool | None = None
    isolation: str | None = None
    seed: str | int | None = None
    deadline: str | float | None = None
    steps: str | int | None = None
    data: str | Path | None = None

    def factors(self) -> dict[str, tuple[str, ...]]:
        """The factors that were given, by TOML key."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {key: value for key, value in plain.items() if isinstance(value, tuple) and value}


def load_suite(
    name_or_path: str,
    overrides: Overrides | None = None,
    *,
    device_limit: int | None = None,
    launcher: str = launchers.DEFAULT,
) -> Suite:
    """Reads a suite, by its name or as a path to a ``.toml``, with the command line over it.

    Args:
        name_or_path: the `SUITE` argument.
        overrides: what the command line says.
        device_limit: devices that a job may have; default: what this machine has on CPU, and
            no limit on another platform or where workers run on other machines.
        launcher: how workers are started.

    Raises:
        UsageError: anything in the file or on the command line that cannot be used.
    """
    path = _locate(name_or_path)
    shown = path.name if not _is_path(name_or_path) else name_or_path
    document = _read_toml(path, shown)
    limit = device_limit
    if limit is None:
        far = launchers.reach_of(launcher) == "network"
        limit = launchers.ANY_NUMBER if far else machine.device_limit(machine.platform_name())
    return _resolve(document, overrides or Overrides(), shown, path, limit, launcher)


def _is_path(text: str) -> bool:
    return text.endswith(".toml") or "/" in text or "\\" in text


def _locate(name_or_path: str) -> Path:
    if not _is_path(name_or_path):
        found = catalogue.find("suites", name_or_path, "SUITE").path
        if found is None:
            raise bad_value("SUITE", name_or_path, "a suite whose file is there")
        return found
    path = Path(name_or_path)
    if not path.is_file():
        known = ", ".join(catalogue.names("suites"))
        raise bad_value("SUITE", name_or_path, f"a TOML file that exists, or one of: {known}")
    return path


def _read_toml(path: Path, shown: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise bad_value("SUITE", shown, f"a file that can be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise UsageError(f"{shown}:{line}: not UTF-8: expected a TOML file") from None
    except ValueError as error:  # also of a number with more digits than Python reads
        text = str(error)
        at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", text)
        number = at[1] if at and at[1] else path.read_bytes().count(b"\n") + 1
        what = text[: at.start()] if at else text
        raise UsageError(f"{shown}:{number}: not TOML: {' '.join(what.split())}") from None
    except RecursionError:
        raise UsageError(f"{shown}: not a suite: nested too deeply") from None


def _resolve(
    document: dict[str, Any],
    overrides: Overrides,
    shown: str,
    path: Path,
    limit: int | None,
    launcher: str,
) -> Suite:
    check_keys(document, ("suite", "matrix"), f"{shown}: ")
    table = _table(document, "suite", shown)
    check_keys(table, _SUITE_KEYS, f"{shown}: suite.")
    given = {key: getattr(overrides, key) for key in _SUITE_KEYS if hasattr(overrides, key)}
    table = _with_amount(table, given)

    def lookup(key: str, default: object) -> tuple[object, str]:
        """A value and where it stands; the command line comes first."""
        if given.get(key) is not None:
            return given[key], f"--{key}"
        return table.get(key, default), f"{shown}: suite.{key}"

    steps = read_integer(*lookup("steps", DEFAULT_STEPS), 1)
    name = _read_name(table.get("name"), f"{shown}: suite.name")
    isolation = launchers.read_isolation(*lookup("isolation", EXCLUSIVE), launcher)
    cells, refused = read_matrix(
        beside(_table(document, "matrix", shown), path.parent),
        overrides.factors(),
        shown,
        steps,
        limit,
        launcher,
        isolation,
    )
    amount = read_amount(lookup("trials", 1), lookup("precision", None), lookup("budget", None))
    suite = Suite(
        name=name,
        description=_read_text(table.get("description", ""), f"{shown}: suite.description"),
        trials=amount.trials,
        precision=amount.precision,
        budget_s=amount.budget_s,
        profile=_read_flag(*lookup("profile", False)),
        isolation=isolation,
        seed=read_integer(*lookup("seed", 0), 0),
        deadline_s=parse_duration(*lookup("deadline", "60s")),
        steps=steps,
        cells=cells,
        unsupported=refused,
        source=str(path),
        data=_read_data(*lookup("data", None), path, from_option=given["data"] is not None),
    )
    if suite.data is not None:
        _check_length(Path(suite.data), lookup("data", None)[1], suite.cells)
    return suite


def _with_amount(table: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The suite's table, with what options say of trials, precision and budget followed through:
    whoever asks for a precision or gives a time does not want the suite's number of trials, and
    whoever asks for a number does not want its precision.
    """
    if given["trials"] is None and (given["budget"] or given["precision"]) is not None:
        return {**table, "trials": AUTO}
    if given["trials"] not in (None, AUTO):
        return {key: value for key, value in table.items() if key != "precision"}
    return table


def _table(document: dict[str, Any], key: str, shown: str) -> dict[str, Any]:
    if key not in document:
        raise UsageError(f"{shown}: [{key}] is missing: expected a table of that name")
    value = document[key]
    if not isinstance(value, dict):
        raise bad_value(f"{shown}: {key}", value, f"a table [{key}]")
    return value


def _read_name(value: object, where: str) -> str:
    allowed = 'a name of letters, digits, ".", "_" and "-", at most 64, such as "quick"'
    if value is None:
        raise UsageError(f"{where} is missing: expected {allowed}")
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise bad_value(where, value, allowed)
    return value


def _read_text(value: object, where: str) -> str:
    if not isinstance(value, str) or "\n" in value:
        raise bad_value(where, value, "one line of text")
    return value


def _read_flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise bad_value(where, value, "true or false")
    return value


def _check_length(data: Path, where: str, cells: tuple[Cell, ...]) -> None:
    """Refuses a text that does not hold one batch of a workload, before anything is started."""
    own = [cell.workload for cell in cells if own_file(cell.workload)]
    if len(own) == len(cells):
        allowed = f"no data: {short_name(own[0])} opens its own"
        raise bad_value(where, str(data), allowed)
    for cell in cells:
        shape = preset_of(cell.workload) or {}
        if "seq_len" in shape:
            needed, size = shape["batch_size"] * shape["seq_len"] + 1, data.stat().st_size
            if size < needed:
                allowed = f"at least {needed} bytes for {cell.workload} (it has {size})"
                raise bad_value(where, str(data), allowed)


def _read_data(value: object, where: str, suite: Path, *, from_option: bool) -> str | None:
    """The absolute path of a text; a suite's own is relative to the suite."""
    if value is None:
        return None
    allowed = "a file that exists, can be read and is not empty"
    if not isinstance(value, str | Path) or not str(value):
        raise bad_value(where, value, allowed)
    path = Path(value) if from_option else suite.parent / value
    try:
        if not path.is_file() or path.stat().st_size == 0:
            raise bad_value(where, value, allowed)
        with path.open("rb"):
            pass
    except (OSError, ValueError):
        raise bad_value(where, value, allowed) from None
    return str(path.resolve())
