"""Slices that overlap on one line each to a line where they do not. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timed(Generic[T]):
    """Something with a beginning and an end that is not before it."""

    start: int
    end: int
    what: T


def nested(slices: Iterable[Timed[T]]) -> list[list[Timed[T]]]:
    """Lines on which two slices are one inside the other, or one after the other.

    A trace viewer takes the slices of a thread for calls: one that ends after the one that it
    began in is cut or dropped. The first line gets all that fits there, and so on; each is in the
    order of the beginnings, with what holds before what is held.
    """
    lines: list[list[Timed[T]]] = []
    open_ends: list[list[int]] = []  # of each line: where what is open ends, innermost last
    for one in sorted(slices, key=lambda s: (s.start, -s.end)):
        line = next((n for n, ends in enumerate(open_ends) if _fits(one, ends)), len(lines))
        if line == len(lines):
            lines.append([])
            open_ends.append([])
        lines[line].append(one)
        open_ends[line].append(one.end)
    return lines


def _fits(one: Timed[T], ends: list[int]) -> bool:
    """Whether a slice nests in what is open; what is over by then is forgotten."""
    while ends and ends[-1] <= one.start:
        ends.pop()
    return not ends or one.end <= ends[-1]
