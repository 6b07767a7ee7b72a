"""Older versions of a run's files, brought to the present one step by step.

``vN.py`` brings JSON data of version N to version N + 1. It has a pure function for every kind of
file that changed with that step: `run` (run.json), `trial` (a line of trials.jsonl), `reference`
(reference/KEY.json), `command` (commands/NAME.json) and `profile` (profile/TRIAL/summary.json).
Each takes data that it leaves alone and returns new data, in which what the older version did not
have holds a value that says nothing: null, 0, false, an empty list, or the only setting that there
was.

Before version 3 no line of trials.jsonl and no other JSON file said its version. One that does not
say it is taken for version 1: a step adds what is missing, and never changes what is there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeGuard

from recoverybench.errors import bad_value
from recoverybench.vocabulary import SCHEMA_VERSION

KINDS = ("run", "trial", "reference", "command", "profile")
"""What a file holds; also the name of the function that brings it one version further."""

Data = dict[str, Any]
Change = Callable[[Any], Any]


def migrate(kind: str, data: Data, where: str) -> Data:
    """Data of any version that was ever written, as the present version has it.

    Args:
        kind: one of `KINDS`.
        data: an object read from JSON; only its ``schema`` is looked at here.
        where: file, and line where it has lines, for the message.

    Returns:
        New data, or `data` itself where it is of the present version.

    Raises:
        UsageError: its ``schema`` is no version, or a later one.
    """
    version = data.get("schema", 1 if kind != "run" else None)
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        allowed = f"a version from 1 to {SCHEMA_VERSION}, which this release reads"
        raise bad_value(f"{where}: schema", version, allowed)
    if version == SCHEMA_VERSION:
        return data
    for old in range(version, SCHEMA_VERSION):
        step = importlib.import_module(f"{__name__}.v{old}")
        data = getattr(step, kind, _unchanged)(data)
    return {**data, "schema": SCHEMA_VERSION}


def _unchanged(data: Data) -> Data:
    return data


def added(data: object, missing: Data) -> Any:
    """`data` with the keys that it lacks; what is no object is left to the check of its shape."""
    return {**data, **{k: v for k, v in missing.items() if k not in data}} if _is(data) else data


def inside(data: object, key: str, change: Change) -> Any:
    """`data` with one of its values changed, where it has that key."""
    return {**data, key: change(data[key])} if _is(data) and key in data else data


def each(items: object, change: Change) -> Any:
    """A list with every item changed; what is no list is left to the check of its shape."""
    return [change(item) for item in items] if isinstance(items, list) else items


def each_cell(suite: object, change: Change) -> Any:
    """A suite with every cell changed, those that could not be measured included."""
    suite = inside(suite, "cells", lambda cells: each(cells, change))
    return inside(
        suite, "unsupported", lambda entries: each(entries, lambda e: inside(e, "cell", change))
    )


def _is(data: object) -> TypeGuard[Data]:
    return isinstance(data, dict)
