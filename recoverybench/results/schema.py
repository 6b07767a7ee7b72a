"""Writes docs/schema.md from the types: `python -m recoverybench.results.schema FILE`.

A field's type is its annotation, its meaning what the class's docstring says under ``Attributes``.
A test compares the file with what this makes, so that the documentation cannot be old.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recoverybench.analysis.reference import Reference
from recoverybench.cells import Cell
from recoverybench.external.kept import KeptCommand
from recoverybench.external.losses import CommandReference
from recoverybench.plan.suite import Suite
from recoverybench.profiles.model import Operation, Part, Summary, WorkerProfile
from recoverybench.records import (
    Evidence,
    Exit,
    Span,
    Stop,
    Transition,
    TrialRecord,
    Verification,
)
from recoverybench.results.columns import COLUMNS, dtypes
from recoverybench.results.reading import Soak
from recoverybench.results.run_columns import RUN_COLUMNS, VERSION_COLUMNS
from recoverybench.results.run_info import RunInfo
from recoverybench.vocabulary import JOURNAL_SCHEMA, SCHEMA_VERSION

FILES: dict[str, tuple[str, tuple[type, ...]]] = {
    "run.json": ("One object.", (RunInfo, Suite, Cell)),
    "trials.jsonl": (
        "One object a line, a line a trial, with its `schema`, the version of the format, first.",
        (TrialRecord, Evidence, Exit, Verification, Transition, Stop, Span, Soak),
    ),
    "reference/KEY.json": (
        "One object: a fault-free run that trials were compared with, with its `schema`. Of a "
        "command it is a `CommandReference`, with `kind` = `command`.",
        (Reference, CommandReference),
    ),
    "commands/NAME.json": ("One object, beside the command's own file.", (KeptCommand,)),
    "profile/TRIAL/summary.json": (
        "One object: what is in the traces of a profiled trial, with its `schema`. See "
        "[profiles.md](profiles.md).",
        (Summary, WorkerProfile, Part, Operation),
    ),
}
"""File of a run -> what it is, and the types that it is made of."""

HEAD = f"""\
# Every field of every file

Made from the types by `make docs`; a test keeps the two the same. What the files are, how they are
read and what stands in the journals is in [formats.md](formats.md).

This is version {SCHEMA_VERSION} of the format, and version {JOURNAL_SCHEMA} of the journals.
A time of the type number is in seconds, an instant of the type whole number is CLOCK_MONOTONIC
nanoseconds of the host; what does not exist is null. `None` in a meaning is null in JSON.
"""

_UNITS = (("_s", "s"), ("_ns", "ns"), ("_bytes", "bytes"), ("bytes", "bytes"))
_UNIT_OF = {"t_inject": "ns", "milestones": "ns", "phases": "s", "goodput": "0 to 1"}
_AS_WRITTEN = {
    (Suite, "unsupported"): "list of object: `cell`, a [Cell](#cell), and `reason`, text",
    (TrialRecord, "soak"): "[Soak](#soak) or null",
}
"""Types of fields that JSON has in another form than Python, or more narrowly."""
_WORDS: dict[Any, str] = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    types.NoneType: "null",
    Any: "anything",
}


def markdown() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_files(), *_table_of_trials()]) + "\n"


def meanings(cls: type) -> dict[str, str]:
    """Field -> what the docstring of its class says of it, on one line.

    Several fields may share a line (``name: meaning. other: meaning``) or a meaning (``a, b:``).
    """
    names = [field.name for field in dataclasses.fields(cls)]
    text = inspect.getdoc(cls) or ""
    _, _, text = text.partition("Attributes:\n")
    text = " ".join(text.split()).replace("``", "`")
    one = "(?:" + "|".join(sorted(map(re.escape, names), key=len, reverse=True)) + ")"
    found = list(re.finditer(rf"(?:^|(?<=[.;)] ))({one}(?:, {one})*): ", text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    result: dict[str, str] = {}
    for match, end in zip(found, ends, strict=True):
        meaning = text[match.end() : end].strip().removesuffix(";").removesuffix(".")
        result |= dict.fromkeys(match[1].split(", "), meaning)
    return {name: result[name] for name in names if name in result}


def unit(name: str) -> str:
    """The unit of a field, where its name or nature says one."""
    ending = next((unit for end, unit in _UNITS if name.endswith(end)), "")
    return _UNIT_OF.get(name, ending)


def words(hint: Any) -> str:
    """A type as JSON has it."""
    if hint in _WORDS:
        return _WORDS[hint]
    if dataclasses.is_dataclass(hint):
        name = typing.cast(type, hint).__name__
        return f"[{name}](#{name.lower()})"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(words(one) for one in arguments)
    if origin in (dict, collections.abc.Mapping):
        inner = words(arguments[1])
        return f"object of ({inner})" if " or " in inner else f"object of {inner}"
    if origin is tuple and arguments[-1] is not Ellipsis:
        return "list of " + " and ".join(words(one) for one in arguments)
    return f"list of {words(arguments[0])}"


def _files() -> Iterator[str]:
    for name, (what, classes) in FILES.items():
        yield f"## {name}\n\n{what}\n"
        for cls in classes:
            yield from _class(cls)


def _class(cls: type) -> Iterator[str]:
    hints, said = typing.get_type_hints(cls), meanings(cls)
    first = (inspect.getdoc(cls) or "").split("\n\n")[0]
    yield f"### {cls.__name__}\n\n{' '.join(first.split()).replace('``', '`')}\n"
    yield "| field | type | unit | meaning |\n|---|---|---|---|"
    for field in dataclasses.fields(cls):
        hint = _AS_WRITTEN.get((cls, field.name)) or words(hints[field.name])
        yield f"| `{field.name}` | {hint} | {unit(field.name)} | {_cell(said[field.name])} |"
    yield ""


def _table_of_trials() -> Iterator[str]:
    yield (
        "## Columns of a table\n\n`recoverybench export` and `run.frame()` have a row a trial, and "
        "these columns. The type is that of\n[pandas](https://pandas.pydata.org); in `float64` and "
        "`str` a missing value is NaN, in `Int64` and `boolean` NA.\n"
    )
    yield "| column | type | unit | meaning |\n|---|---|---|---|"
    said = meanings(Cell) | meanings(TrialRecord)
    told = {name: column.meaning for name, column in RUN_COLUMNS.items()}
    told |= {
        column: f"version of {name} that the trial ran on"
        for name, column in VERSION_COLUMNS.items()
    }
    told |= {name: column.meaning or said[name] for name, column in COLUMNS.items()}
    for name, dtype in dtypes().items():
        yield f"| `{name}` | `{dtype}` | {unit(name)} | {_cell(told[name])} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
