"""What lies in a results directory: runs with a fingerprint of their files, and what is no run."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recoverybench.compare.folder import found_in, is_run
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
    """What is left out: a directory, or a comparison that could not be made.

    Attributes:
        name: of the directory, in the results directory; of a comparison, those of its two sides.
        reason: one line.
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
    if is_run(results):
        raise bad_value("RESULTS_DIR", str(results), f"a directory of runs ({RUN} is in it)")
    try:
        paths, others = found_in(results)
    except UsageError as error:
        raise bad_value("RESULTS_DIR", str(results), f"a directory of runs ({error})") from None
    found: list[Found] = []
    skipped: list[Skipped] = []
    for name, reason in others:
        if not name.startswith(".") and not _is_site(results / name, site):
            skipped.append(Skipped(name, reason))
    for path in paths:
        if path.name.startswith(".") or _is_site(path, site):
            continue
        try:
            found.append(Found(path, _fingerprint(path), _run_id(path)))
        except (UsageError, OSError, RuntimeError) as error:
            skipped.append(Skipped(path.name, said(error, results)))
    return found, skipped


def _is_site(path: Path, site: Path | None) -> bool:
    """Whether a directory among the runs is where the site goes."""
    try:
        return site is not None and os.path.samefile(path, site)
    except OSError:  # one of them is not there, or leads nowhere
        return False


_SAID: Final = (
    (RecursionError, "it is nested too deeply"),
    (RuntimeError, "a link in it leads to itself"),
    (OverflowError, "a number or a date in it is beyond what can be counted with"),
    (MemoryError, "it needs more memory than there is"),
)
"""Why nothing can be made of something, by what was raised, the special before the general."""


def said(error: Exception, results: Path) -> str:
    """An error about a run in words, without the way to the results directory."""
    if isinstance(error, UsageError):
        text = str(error)
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        nothing = "what is in it is not what a run holds, and nothing can be made of it"
        text = next((words for kind, words in _SAID if isinstance(error, kind)), nothing)
    return " ".join(text.replace(f"{results}{os.sep}", "").split())


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
