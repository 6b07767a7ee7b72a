"""Checks that JSON data has the shape of a dataclass, before one is made of it.

A dataclass' annotations are its schema. Checks are built once per class, and know nothing of
where a value stands until one fails, so that ten thousand records with all their spans are
checked in less time than it takes to parse them.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from recoverybench.errors import shorten

Check = Callable[[Any], None]
"""Raises `ShapeError` where a value has not the shape."""


class ShapeError(ValueError):
    """One line: which field (``exits[0].code``), what it holds, what is expected."""

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(f"{place.lstrip('.') or 'it'}{problem}")
        self.problem = problem
        self.place = place

    def below(self, step: str) -> ShapeError:
        """The same, seen from one level up: `step` is ``.name`` or ``[3]``."""
        return ShapeError(self.problem, step + self.place)


def check_shape(data: object, cls: type) -> None:
    """Raises `ShapeError` where `data`, read from JSON, is not what `cls` is made from.

    Every field must be there, no other may: a default is for who makes one, and what an older
    file lacks is added before. Whole numbers pass for floats, booleans never pass for numbers.
    """
    _check_of(cls)(data)


LONGEST_S = 1e9
"""The longest time that anything is read with, before or after something: 31 years. No trial takes
so long, and with a longer one nothing could be reckoned: its nanoseconds are no whole number of 64
bits, and sums of it no number at all.
"""


def is_time(name: str) -> bool:
    """Whether a field of that name holds seconds: a number, or an object of numbers."""
    return name.endswith("_s") or name == "phases"


def least_s(name: str) -> float:
    """The least that a time of that name can be: what a clock may be wrong by is no less than 0."""
    return 0.0 if name.endswith("bound_s") else -LONGEST_S


def in_measure(value: float, name: str = "") -> bool:
    """Whether a time, of that name, is one that something can have taken."""
    return least_s(name) <= value <= LONGEST_S


DEEPEST = 32
"""Levels of free-form data: what nests deeper could exhaust the stack of whoever walks it."""


def check_plain(value: Any, depth: int = 0) -> None:
    """Raises `ShapeError` where free-form data nests too deeply, or has a number that no table
    holds.
    """
    if depth > DEEPEST:
        raise ShapeError(f" is nested more than {DEEPEST} levels deep")
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise _expected(value, "a whole number of 64 bits")
    items: Iterable[tuple[Any, Any]] = ()
    if type(value) in (dict, list):
        items = value.items() if type(value) is dict else enumerate(value)
    for key, item in items:
        try:
            check_plain(item, depth + 1)
        except ShapeError as error:
            raise error.below(f"[{key}]" if type(value) is list else f".{key}") from None


@cache
def _check_of(hint: Any) -> Check:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_check(hint)
    if (scalars := _scalars(hint)) is not None:
        return _scalar_check(*scalars)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional_check(arguments)
    if origin in (list, Sequence) or (origin is tuple and arguments[-1] is Ellipsis):
        return _list_check(_check_of(arguments[0]))
    if origin is tuple:
        return _tuple_check([_check_of(argument) for argument in arguments])
    if origin is dict:
        return _mapping_check(_check_of(arguments[1]))
    if hint is Any:
        return check_plain
    raise TypeError(f"no JSON shape for {hint!r}")


def _scalars(hint: Any) -> tuple[frozenset[type], str] | None:
    """Exact types and words of a scalar or a union of scalars; None: it is neither."""
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    known = {**words, types.NoneType: "null"}
    if not all(isinstance(member, type) and member in known for member in members):
        return None
    exact = frozenset(members) | (frozenset({int}) if float in members else frozenset())
    return exact, " or ".join(known[member] for member in members)


def _expected(value: object, words: str) -> ShapeError:
    return ShapeError(f" = {shorten(value)}: expected {words}")


def _scalar_check(exact: frozenset[type], words: str) -> Check:
    def check(value: Any) -> None:
        if type(value) not in exact:
            raise _expected(value, words)

    return check


def _time_check(inner: Check, name: str) -> Check:
    """`inner`, and that a number, or each of an object of numbers, is the time of something."""

    def check(value: Any) -> None:
        inner(value)
        measure(value)

    def measure(value: Any) -> None:
        if type(value) is dict:
            for key, item in value.items():
                try:
                    measure(item)
                except ShapeError as error:
                    raise error.below(f".{key}") from None
        elif type(value) in (int, float) and not in_measure(value, name):
            allowed = f"from {least_s(name):g} to {LONGEST_S:g} s"
            raise _expected(value, f"the time of something, {allowed}")

    return check


def _optional_check(arguments: tuple[Any, ...]) -> Check:
    inner = [_check_of(a) for a in arguments if a is not types.NoneType]
    if len(inner) != 1:
        raise TypeError(f"no JSON shape for a union of {arguments!r}")

    def check(value: Any) -> None:
        if value is not None:
            inner[0](value)

    return check


def _each(inner: Check, items: list[Any]) -> None:
    number = 0
    try:
        for number, item in enumerate(items):  # noqa: B007 - names the place of a failure
            inner(item)
    except ShapeError as error:
        raise error.below(f"[{number}]") from None


def _list_check(inner: Check) -> Check:
    def check(value: Any) -> None:
        if type(value) is not list:
            raise _expected(value, "a list")
        _each(inner, value)

    return check


def _tuple_check(inner: list[Check]) -> Check:
    def check(value: Any) -> None:
        if type(value) is not list or len(value) != len(inner):
            raise _expected(value, f"a list of {len(inner)}")
        for number, (one, item) in enumerate(zip(inner, value, strict=True)):
            try:
                one(item)
            except ShapeError as error:
                raise error.below(f"[{number}]") from None

    return check


def _mapping_check(inner: Check) -> Check:
    def check(value: Any) -> None:
        if type(value) is not dict:
            raise _expected(value, "an object")
        for key, item in value.items():
            try:
                inner(item)
            except ShapeError as error:
                raise error.below(f".{key}") from None

    return check


def _dataclass_check(cls: type) -> Check:
    hints = typing.get_type_hints(cls)
    fields = dataclasses.fields(cls)
    checks = {field.name: _check_of(hints[field.name]) for field in fields}
    exact = {name: (_scalars(hints[name]) or (frozenset(),))[0] for name in checks}
    for name in filter(is_time, checks):
        checks[name] = _time_check(checks[name], name)
        exact[name] = frozenset({types.NoneType}) & exact[name]

    def check(value: Any) -> None:
        if type(value) is not dict:
            raise _expected(value, "an object")
        if value.keys() != checks.keys():
            if absent := sorted(checks.keys() - value.keys()):
                raise ShapeError(" is missing", f".{absent[0]}")
            if foreign := sorted(value.keys() - checks.keys()):
                found = shorten(value[foreign[0]])
                raise ShapeError(f" = {found}: no such field", f".{foreign[0]}")
        name = ""
        try:
            for name, item in value.items():
                if type(item) not in exact[name]:  # most fields end here, without a call
                    checks[name](item)
        except ShapeError as error:
            raise error.below(f".{name}") from None

    return check
