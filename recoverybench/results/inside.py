"""Where a resumed run writes: into its own directory, whoever made that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from recoverybench.errors import UsageError

DIRECTORIES = ("journal", "logs", "profile", "reference", "commands")
"""Directories of a run."""


def check_inside(run: Path) -> None:
    """Check that nothing which a resumed run writes lands outside of its directory.

    Raises:
        UsageError: a link leads out of it, or a directory of it is none; one line says which.
    """
    real = run.resolve()
    for path in _two_levels(run):
        if path.is_symlink() and not _is_inside(path, real):
            raise UsageError(f"{path}: a link that leads out of {run}: expected none in a run")
    for name in DIRECTORIES:
        if os.path.lexists(run / name) and not (run / name).is_dir():
            raise UsageError(f"{run / name}: expected a directory, which a run keeps files in")


def _is_inside(path: Path, real: Path) -> bool:
    try:
        return path.resolve().is_relative_to(real)
    except (OSError, RuntimeError):  # it leads to itself
        return False


def _two_levels(run: Path) -> Iterator[Path]:
    """What is in a run's directory, and in its directories: nothing below is opened again."""
    for path in _listed(run):
        yield path
        if path.name in DIRECTORIES and path.is_dir():
            yield from _listed(path)


def _listed(directory: Path) -> list[Path]:
    with os.scandir(directory) as entries:
        return sorted(Path(entry.path) for entry in entries)
