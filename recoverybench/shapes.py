"""Checks that JSON data has the shape of a dataclass, before one is made of it.

A dataclass' annotations are its schema. Checks are built once per class, so that ten
thousand records with all their spans are checked in a fraction of the time they take to parse.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from recoverybench.errors import shorten

Check = Callable[[Any, str], None]
"""Value and its place (``exits[0].code``); raises `ShapeError`."""


class ShapeError(ValueError):
    """One line: which field, what it holds, what is expected."""


def check_shape(data: object, cls: type, place: str = "") -> None:
    """Raises `ShapeError` where `data`, read from JSON, is not what `cls` is made from.

    Every field that has no default must be there, no other may; whole numbers pass for
    floats, booleans never pass for numbers.
    """
    _check_of(cls)(data, place)


@cache
def _check_of(hint: Any) -> Check:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_check(hint)
    if (scalars := _scalars(hint)) is not None:
        return _scalar_check(*scalars)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _optional_check(arguments)
    if origin is list or (origin is tuple and arguments[-1] is Ellipsis):
        return _sequence_check(_check_of(arguments[0]))
    if origin is tuple:
        return _pair_check([_check_of(argument) for argument in arguments])
    if origin is dict:
        return _mapping_check(_check_of(arguments[1]))
    if hint is Any:
        return lambda value, place: None
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


def _scalar_check(exact: frozenset[type], words: str) -> Check:
    def check(value: Any, place: str) -> None:
        if type(value) not in exact:
            raise ShapeError(f"{place} = {shorten(value)}: expected {words}")

    return check


def _optional_check(arguments: tuple[Any, ...]) -> Check:
    inner = [_check_of(a) for a in arguments if a is not types.NoneType]
    if len(inner) != 1:
        raise TypeError(f"no JSON shape for a union of {arguments!r}")

    def check(value: Any, place: str) -> None:
        if value is not None:
            inner[0](value, place)

    return check


def _sequence_check(inner: Check) -> Check:
    def check(value: Any, place: str) -> None:
        if type(value) is not list:
            raise ShapeError(f"{place} = {shorten(value)}: expected a list")
        for number, item in enumerate(value):
            inner(item, f"{place}[{number}]")

    return check


def _pair_check(inner: list[Check]) -> Check:
    def check(value: Any, place: str) -> None:
        if type(value) is not list or len(value) != len(inner):
            raise ShapeError(f"{place} = {shorten(value)}: expected a list of {len(inner)}")
        for number, (one, item) in enumerate(zip(inner, value, strict=True)):
            one(item, f"{place}[{number}]")

    return check


def _mapping_check(inner: Check) -> Check:
    def check(value: Any, place: str) -> None:
        if type(value) is not dict:
            raise ShapeError(f"{place} = {shorten(value)}: expected an object")
        for key, item in value.items():
            inner(item, f"{place}.{key}")

    return check


def _dataclass_check(cls: type) -> Check:
    hints = typing.get_type_hints(cls)
    fields = [(f.name, _check_of(hints[f.name])) for f in dataclasses.fields(cls)]
    known = {name for name, _ in fields}
    required = {
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }

    def check(value: Any, place: str) -> None:
        if type(value) is not dict:
            raise ShapeError(f"{place or 'it'} = {shorten(value)}: expected an object")
        prefix = f"{place}." if place else ""
        if value.keys() != known:
            if missing := sorted(required - value.keys()):
                raise ShapeError(f"{prefix}{missing[0]} is missing")
            if foreign := sorted(value.keys() - known):
                found = shorten(value[foreign[0]])
                raise ShapeError(f"{prefix}{foreign[0]} = {found}: no such field")
        for name, inner in fields:
            if name in value:
                inner(value[name], prefix + name)

    return check
