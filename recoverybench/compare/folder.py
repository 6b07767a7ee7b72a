"""What lies in a directory of runs: those that are runs, and why the others are none."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from recoverybench.errors import UsageError
from recoverybench.results.reading import RUN


def found_in(folder: Path) -> tuple[list[Path], list[tuple[str, str]]]:
    """Directories with a run in them, and name and reason of every other one; each by name.

    Files are not worth a word. What cannot be looked at (a link that leads to itself, a directory
    without permission) is among the others: one bad entry says nothing about its neighbours.

    Raises:
        UsageError: the folder itself cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None
    runs: list[Path] = []
    others: list[tuple[str, str]] = []
    for name in names:
        reason = _why_not(folder / name)
        if reason is None:
            runs.append(folder / name)
        elif reason:
            others.append((name, reason))
    return runs, others


def is_run(path: Path) -> bool:
    """Whether a run is there, as far as can be seen."""
    return os.path.isfile(path / RUN)


def _why_not(path: Path) -> str | None:
    """Why a path is no run; None: it is one; empty: it is no directory."""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            return ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    try:
        whole = stat.S_ISREG(os.stat(path / RUN).st_mode)
    except FileNotFoundError:
        whole = False
    except OSError as error:
        return f"{RUN} cannot be read: {error.strerror}"
    return None if whole else f"no {RUN} in it"
