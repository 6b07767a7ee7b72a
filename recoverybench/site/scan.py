"""What lies in a results directory: runs with a fingerprint of their files, and what is no run."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recoverybench.errors import UsageError, bad_value
from recoverybench.received import LINES_LIMIT, open_file, read_file
from recoverybench.results.reading import DROPPED, RUN, TRIALS

_PIECE: Final = 1 << 20
_PROFILES: Final = "profile"


@dataclass(frozen=True, slots=True)
class Found:
    """A directory with a run in it.

    Attributes:
        path: the directory. fingerprint: SHA-256 of what a report is made from.
        run_id: as run.json has it; None: only reading the run tells what is the matter with it.
    """

    path: Path
    fingerprint: str
    run_id: str | None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A directory that is left out.

    Attributes:
        name: of the directory, in the results directory. reason: one line.
    """

    name: str
    reason: str


def scan(results: Path, *, site: Path | None = None) -> tuple[list[Found], list[Skipped]]:
    """The runs in a directory, by name, and what else is there.

    Files, and what begins with a dot, are not runs and not worth a word.

    Args:
        results: the directory. site: a directory in it that is no run either.

    Raises:
        UsageError: there is no such directory, or it is itself a run.
    """
    if (results / RUN).is_file():
        raise bad_value("RESULTS_DIR", str(results), f"a directory of runs ({RUN} is in it)")
    try:
        names = sorted(entry.name for entry in os.scandir(results) if entry.is_dir())
    except OSError as error:
        allowed = f"a directory with runs in it ({error.strerror})"
        raise bad_value("RESULTS_DIR", str(results), allowed) from None
    found: list[Found] = []
    skipped: list[Skipped] = []
    for name in names:
        path = results / name
        if name.startswith(".") or (site is not None and path.resolve() == site.resolve()):
            continue
        if not (path / RUN).is_file():
            skipped.append(Skipped(name, f"no {RUN} in it"))
            continue
        try:
            found.append(Found(path, _fingerprint(path), _run_id(path)))
        except (UsageError, OSError, RuntimeError) as error:
            skipped.append(Skipped(name, said(error, results)))
    return found, skipped


def said(error: Exception, results: Path) -> str:
    """An error about a file of a run, without the way to the results directory."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror}"
    else:
        text = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
    return " ".join(text.replace(f"{results}{os.sep}", "").split()) or type(error).__name__


def _run_id(path: Path) -> str | None:
    """The run's id, before anything in it is checked."""
    try:
        found = json.loads(read_file(path / RUN, within=path))["run_id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _fingerprint(path: Path) -> str:
    """SHA-256 of the run's files, and of the names and sizes of its profiles."""
    whole = hashlib.sha256()
    for name in (RUN, TRIALS, DROPPED):
        digest = hashlib.sha256()
        try:
            with open_file(path / name, within=path, limit=LINES_LIMIT) as file:
                while piece := file.read(_PIECE):
                    digest.update(piece)
        except FileNotFoundError:
            pass
        whole.update(digest.digest())
    for folder, _, files in sorted(os.walk(path / _PROFILES)):
        for name in sorted(files):
            inside = os.path.join(folder, name)
            size = os.lstat(inside).st_size
            whole.update(f"{os.path.relpath(inside, path)}\0{size}\0".encode("utf-8", "replace"))
    return whole.hexdigest()
