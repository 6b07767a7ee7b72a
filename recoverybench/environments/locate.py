"""Where environments and the code that workers run are, and what an environment is known by."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import recoverybench
from recoverybench.plan import catalogue

_LAYOUT = 1
"""Of a made environment: a new number makes all of them anew."""


def key_of(asked: Sequence[str], roots: Sequence[str], here: Mapping[str, str]) -> str:
    """The name of an environment's directory: everything that decides what is in it.

    Args:
        asked: requirements, in any order. roots: what every environment has.
        here: versions that it keeps to where it can.
    """
    content = {
        "layout": _LAYOUT,
        "asked": sorted(asked),
        "roots": sorted(roots),
        "here": dict(here),
        "python": sys.version,
        "base": sys.base_prefix,
        "platform": [platform.system(), platform.machine(), *platform.libc_ver()],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; one that ended, however it ended, holds it no more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def code_directory(root: Path) -> Path:
    """A directory with nothing but this package in it, and the workloads where they lie beside it.

    On the path of another interpreter it brings the code of the workers there, and none of what
    the supervisor's own interpreter has installed.
    """
    package = Path(recoverybench.__file__).parent
    links = {"recoverybench": package}
    if (workloads := catalogue.workloads_dir()).parent != package:
        links["workloads"] = workloads
    name = hashlib.sha256(os.fsencode(package)).hexdigest()[:12]
    directory = root / f"code-{name}"
    directory.mkdir(parents=True, exist_ok=True)
    for each, target in links.items():
        link = directory / each
        if not (link.is_symlink() and os.readlink(link) == str(target)):
            _link(link, target)
    return directory


def _link(link: Path, target: Path) -> None:
    """Make it in one step: another supervisor may be reading it."""
    with tempfile.TemporaryDirectory(dir=link.parent) as aside:
        new = Path(aside) / link.name
        new.symlink_to(target)
        new.replace(link)


def variables(code: Path, base: Mapping[str, str]) -> dict[str, str]:
    """What a process of another interpreter needs: the code first, then the user's own path."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(code), base.get("PYTHONPATH"))))}
