"""What the lines of a command's output say: regular expressions, and a library of ready ones.

A table ``[patterns]`` holds one expression for each kind of line, or several in a list. What an
expression finds is in its named groups:

==================  ======================================================================
``step``            a step was completed: ``step``, and where the line has them ``loss``,
                    ``rank``; ``epoch`` and ``of`` where ``step`` is counted within an epoch
``loss``            ``loss`` (and ``rank``), on a line of its own
``restore_begin``   the state begins to be read; ``step`` where the line says which
``restore_end``     it is there; ``step``: the one that it is of
``saved``           a checkpoint is durable; ``step``
``error``           something noticed the failure
``up`` …            ``up``, ``rendezvous``, ``compiled``: the milestones of those names
==================  ======================================================================

``use = "maxtext"`` takes the expressions that ship under that name; others of the table replace
them. The files of the library are in ``patterns/`` beside this module.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from recoverybench.errors import UsageError, bad_value, shorten, unknown_name
from recoverybench.external.expressions import Expression, compiled

KINDS: Final = (
    "step",
    "loss",
    "restore_begin",
    "restore_end",
    "saved",
    "error",
    "up",
    "rendezvous",
    "compiled",
)
"""Every kind of line."""

LOSS_OF: Final = ("last", "next")
"""Whether a loss on a line of its own belongs to the step before it or to the one after it."""

_NO_STEP: Final = ("saved", "restore_begin", "restore_end")
"""Kinds whose lines name a step that is not completed there."""

_NUMBERS: Final = ("step", "rank", "epoch", "of")
_GROUPS: Final = (*_NUMBERS, "loss")
_OPTIONS: Final = ("use", "description", "source", "repeats", "loss_of")
DIGITS: Final = 12
"""Of a step; more is another number that an expression took for one."""

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

LONGEST: Final = 4096
"""Characters of a line that are looked at: no framework's step line is longer."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one line says.

    Attributes:
        what: from `KINDS`. step: its number. loss: as printed. rank: who says so.
        again: the step was printed before, and this is a newer state of the same line.
    """

    what: str
    step: int | None = None
    loss: str | None = None
    rank: int | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Patterns:
    """Expressions by kind.

    Attributes:
        name: of the library's entry that is used; None: none.
        expressions: kind -> its expressions, tried in this order.
        repeats: a step may be printed several times, as progress bars do; the last loss counts.
        loss_of: from `LOSS_OF`.
    """

    name: str | None = None
    expressions: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    repeats: bool = False
    loss_of: str = "last"

    def find(self, line: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Each kind that the line is of, with the groups that were found in it."""
        text = _ESCAPES.sub("", line[:LONGEST])
        for kind, expressions in self.expressions.items():
            for expression in expressions:
                if found := expression.search(text):
                    _check_numbers(expression, found.named, text)
                    yield kind, found.named
                    break


def _check_numbers(expression: Expression, groups: Mapping[str, str], line: str) -> None:
    """What an expression takes for a number has to be one.

    Raises:
        UsageError: it is not, or has too many digits for a step.
    """
    for name, text in groups.items():
        if name == "loss":
            try:
                float(text)
                continue
            except ValueError:
                allowed = "a number"
        elif name not in _NUMBERS or (text.isascii() and text.isdigit() and len(text) <= DIGITS):
            continue
        else:
            allowed = f"a whole number of at most {DIGITS} digits"
        raise UsageError(
            f"{expression.where} = {shorten(expression.text)}: the group (?P<{name}>…) took "
            f"{shorten(text)} out of {shorten(line)}: expected {allowed}"
        )


class Reader:
    """Reads the lines of one stream in order, and remembers the step they are at."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._last: int | None = None
        self._waiting: str | None = None

    def read(self, line: str) -> list[Seen]:
        """What the next line says; most say nothing."""
        found = dict(self._patterns.find(line))
        if any(kind in found for kind in _NO_STEP):
            found.pop("step", None)  # "saved step 20" is no step
        seen: list[Seen] = []
        if "loss" in found and "step" not in found:
            loss = found.pop("loss").get("loss")
            if self._patterns.loss_of == "next":
                self._waiting = loss
            elif self._last is not None and loss is not None:
                seen.append(Seen("loss", self._last, loss, _number(found, "loss", "rank")))
        for kind, groups in found.items():
            if kind == "loss":
                continue
            numbers = {name: int(groups[name]) for name in _NUMBERS if name in groups}
            step, rank = numbers.get("step"), numbers.get("rank")
            if kind != "step":
                seen.append(Seen(kind, step, groups.get("loss"), rank))
            elif step is not None:
                seen.append(self._step(step + _before(numbers), groups.get("loss"), rank))
        return seen

    def _step(self, step: int, loss: str | None, rank: int | None) -> Seen:
        if loss is None:
            loss, self._waiting = self._waiting, None
        again = self._patterns.repeats and step == self._last
        self._last = step
        return Seen("step", step, loss, rank, again)


def _before(numbers: Mapping[str, int]) -> int:
    """Steps of the epochs before this one, where a step is counted within its epoch."""
    return numbers.get("epoch", 0) * numbers.get("of", 0)


def _number(found: Mapping[str, Mapping[str, str]], kind: str, group: str) -> int | None:
    text = found.get(kind, {}).get(group)
    return None if text is None else int(text)


def library() -> dict[str, Path]:
    """The names of the ready patterns, and their files."""
    folder = Path(__file__).with_name("patterns")
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def described() -> list[tuple[str, str]]:
    """Name and description of each entry of the library."""
    return [(name, str(_entry(name)["description"])) for name in library()]


def _entry(name: str) -> dict[str, Any]:
    return tomllib.loads(library()[name].read_text(encoding="utf-8"))


def read_patterns(table: Mapping[str, Any], where: str) -> Patterns:
    """Checks a table of patterns.

    Raises:
        UsageError: no such entry of the library, no such kind, or no such expression.
    """
    known = (*KINDS, *_OPTIONS)
    for key, value in table.items():
        if key not in known:
            hint = str(unknown_name("", key, known)).split(": ", 1)[1]
            raise UsageError(f"{where}.{key} = {shorten(value)}: unknown key: {hint}")
    name = table.get("use")
    base: dict[str, Any] = {}
    if name is not None:
        if not isinstance(name, str) or name not in library():
            raise unknown_name(f"{where}.use", name, library())
        base = _entry(name)
    merged = {**base, **table}
    repeats = merged.get("repeats", False)
    if not isinstance(repeats, bool):
        raise bad_value(f"{where}.repeats", repeats, "true or false")
    loss_of = merged.get("loss_of", LOSS_OF[0])
    if loss_of not in LOSS_OF:
        raise unknown_name(f"{where}.loss_of", loss_of, LOSS_OF)
    expressions: dict[str, tuple[Expression, ...]] = {
        kind: _expressions(merged[kind], f"{where}.{kind}", kind)
        for kind in KINDS
        if kind in merged
    }
    return Patterns(name, expressions, repeats, loss_of)


def _expressions(value: object, where: str, kind: str) -> tuple[Expression, ...]:
    texts = value if isinstance(value, list) else [value]
    return tuple(_expression(text, where, kind) for text in texts)


def _expression(text: object, where: str, kind: str) -> Expression:
    found = compiled(text, where, "a regular expression, or a list of them")
    for group in found.names:
        if group not in _GROUPS:
            raise unknown_name(f"{where}: (?P<…>)", group, _GROUPS)
    needed = {"step": "step", "loss": "loss"}.get(kind)
    if needed is not None and needed not in found.names:
        raise bad_value(where, text, rf"an expression with the group (?P<{needed}>…)")
    return found
