"""The order of releases: by version where a label is one, by time where it is none. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_LABEL: Final = re.compile(
    r"(?:release|rel|version|ver)?[-_/ ]?v?"
    r"(?P<numbers>\d+(?:\.\d+)*)"
    r"(?:[-._]?(?P<stage>dev|a|alpha|b|beta|pre|preview|rc)[-._]?(?P<stage_number>\d*))?"
    r"(?P<rest>(?:[-._+ ].*)?)",
    re.IGNORECASE | re.DOTALL,
)
_STAGES: Final = {
    "dev": 0,
    "a": 1,
    "alpha": 1,
    "b": 2,
    "beta": 2,
    "pre": 3,
    "preview": 3,
    "rc": 4,
}
_RELEASED: Final = 5
_DIGITS: Final = 18
"""Of a number in a label: a longer one is none that anybody counts by."""

_COUNTED: Final = 4
"""Digits of a whole number up to which it is a version: a longer one is the beginning of a commit's
digest, a date or the number of a build.
"""

Version = tuple[tuple[int, ...], int, int, tuple[tuple[int, int, str], ...]]


def version_of(label: str) -> Version | None:
    """What a label is sorted by, or None where it is no version.

    ``0.9`` is before ``0.10``, ``1.0rc1`` before ``1.0``, and ``1.0`` before ``1.0-3-gabc1234``,
    which is what git says of the third commit after it. ``1.0`` and ``v1.0.0`` are one version.
    """
    found = _LABEL.fullmatch(label.strip())
    if found is None:
        return None
    numbers = found["numbers"].split(".")
    if max(len(n) for n in (*numbers, found["stage_number"] or "")) > _DIGITS:
        return None
    if len(numbers) == 1 and len(numbers[0]) > _COUNTED:
        return None
    release = [int(number) for number in numbers]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    stage = found["stage"]
    return (
        tuple(release),
        _RELEASED if stage is None else _STAGES[stage.lower()],
        int(found["stage_number"] or 0),
        natural(found["rest"]),
    )


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """What sorts texts so that the numbers in them count as numbers."""
    parts = [part for part in re.split(r"(\d+)", text) if part]
    return tuple((0, int(p), "") if _counts(p) else (1, 0, p) for p in parts)


def _counts(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) <= _DIGITS


def instant(created: str) -> datetime:
    """The moment that an ISO 8601 text names; one that names none is long ago."""
    try:
        found = datetime.fromisoformat(created)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Dated:
    """Something to be put in order.

    Attributes:
        label: None for a run that has none. name: what tells it from all others.
        created: of its first run.
    """

    label: str | None
    name: str
    created: datetime


def in_order(items: Sequence[Dated]) -> list[Dated]:
    """Releases and unlabelled runs, the oldest first.

    Versions are in their own order, whenever they were measured. Whatever has none (a nightly
    build, a run without a label) comes after the last one, in that order, that had been measured
    by then.
    """
    versions = [(version, item) for item in items if (version := _version(item)) is not None]
    versions.sort(key=lambda pair: (pair[0], pair[1].created, pair[1].name))
    ordered = [item for _, item in versions]
    others = sorted(
        (item for item in items if _version(item) is None), key=lambda i: (i.created, i.name)
    )
    after: dict[int, list[Dated]] = {}
    for item in others:
        before = [at for at, known in enumerate(ordered) if known.created <= item.created]
        after.setdefault(max(before, default=-1), []).append(item)
    found = after.get(-1, [])
    for at, item in enumerate(ordered):
        found = [*found, item, *after.get(at, [])]
    return found


def _version(item: Dated) -> Version | None:
    return None if item.label is None else version_of(item.label)
