"""What the supervisor itself has of what workers need: another environment keeps to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Final

ROOTS: Final = (
    "jax",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "pathwaysutils",
    "ml-dtypes",
    "numpy",
)
"""What workers import, of the dependencies in pyproject.toml; the rest is the supervisor's."""

_EXTRAS: Final = (
    ("jax-cuda12-plugin", "jax[cuda12]"),
    ("jax-cuda13-plugin", "jax[cuda13]"),
    ("libtpu", "jax[tpu]"),
)
"""A package that is installed for an accelerator, and the requirement that brings it along."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")

Lookup = Callable[[str], tuple[str, Iterable[str]] | None]
"""Name of a distribution -> its version and what it requires; None: not installed."""


def normal(name: str) -> str:
    """A distribution's name as indexes compare it: ``ml_dtypes`` is ``ml-dtypes``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """``jax[cuda12]==0.10.1`` -> ``jax``, normalised.

    Raises:
        ValueError: it begins with no name.
    """
    found = _NAME.match(requirement.strip())
    if found is None:
        raise ValueError(f"{requirement!r} begins with no name of a package")
    return normal(found[0])


def _look_up(name: str) -> tuple[str, Iterable[str]] | None:
    try:
        return metadata.version(name), metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return None


def roots(look_up: Lookup = _look_up) -> tuple[str, ...]:
    """The requirements that every environment has, with the accelerator's that is here."""
    extras = [extra for name, extra in _EXTRAS if look_up(name) is not None]
    return (*ROOTS, *extras)


def versions(look_up: Lookup = _look_up) -> dict[str, str]:
    """Name -> version of all that workers need, as it is installed here.

    What an extra asks for is followed too: a package more costs nothing where nobody needs it.
    """
    found: dict[str, str] = {}
    waiting = [*ROOTS, *(name for name, _ in _EXTRAS)]
    seen: set[str] = set()
    while waiting:
        name = normal(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        entry = look_up(name)
        if entry is not None:
            found[name] = entry[0]
            waiting += [name_of(each) for each in entry[1]]
    return dict(sorted(found.items()))
