"""Which versions an environment gets: what was asked for, and as little else as possible.

Pure but for `pinned`, which asks uv through the function that it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from recoverybench.environments.installed import name_of, normal
from recoverybench.environments.uv import UvError

Resolver = Callable[[Mapping[str, str], Iterable[str]], str]
"""Preferred versions, and packages that must have theirs -> a lock file's text.

Raises `UvError` where there is no such resolution.
"""

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    """Name -> version of a lock file; what comes from an address or a path is not in it."""
    return {normal(name): version for name, version in _PIN.findall(lock)}


def moved(
    lock: str, here: Mapping[str, str], asked: Sequence[str]
) -> dict[str, tuple[str | None, str | None]]:
    """Packages that nobody asked for and that differ all the same: (there, here).

    What is here and not there is not among them: nothing there needs it.
    """
    named = {name_of(each) for each in asked}
    return {
        name: (version, here.get(name))
        for name, version in pins(lock).items()
        if name not in named and here.get(name) != version
    }


def pinned(resolve: Resolver, here: Mapping[str, str], asked: Sequence[str]) -> str:
    """A lock file for what is asked, in which no single package moves that could have stayed.

    All that is here is preferred first. Each package that moved is then held where it is, one
    after another in the order of their names; those for which that works stay.

    Raises:
        UvError: what is asked cannot be resolved at all.
    """
    named = {name_of(each) for each in asked}
    preferred = {name: version for name, version in here.items() if name not in named}
    best = resolve(preferred, ())
    held: list[str] = []
    for name in sorted(moved(best, here, asked)):
        # Preferring what has been found would be to keep what moved together with it.
        if here.get(name) is None or name not in moved(best, here, asked):
            continue
        try:
            tried = resolve(preferred, (*held, name))
        except UvError:
            continue
        if len(moved(tried, here, asked)) < len(moved(best, here, asked)):
            best = tried
            held.append(name)
    return best
