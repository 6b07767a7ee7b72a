"""The run of a command without a fault, which its trials are compared with."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

from recoverybench import sealed
from recoverybench.analysis.history import History
from recoverybench.analysis.journal import read_trial
from recoverybench.cells import Cell
from recoverybench.errors import HarnessError, UsageError
from recoverybench.external.losses import CommandReference, reference_of
from recoverybench.external.marks import marks_of
from recoverybench.external.spec import Command
from recoverybench.external.trial import run_command_job


def key_of(command: Command, cell: Cell, job_seed: int, steps: int) -> str:
    """Address of the reference: everything that is known to change what the command computes."""
    content = {
        "command": command.content(),
        "topology": cell.topology,
        "interval": cell.interval,
        "seed": job_seed,
        "steps": steps,
        "versions": versions_of(command),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


_ASK = """
import importlib.metadata, json, sys
found = {"python": sys.version}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@functools.cache
def _versions(python: str, packages: tuple[str, ...]) -> dict[str, str]:
    try:
        done = subprocess.run(
            [python, "-c", _ASK, *packages],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return {str(name): str(version) for name, version in json.loads(done.stdout).items()}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise UsageError(
            f"workload.python = {python!r}: expected an interpreter that runs ({error})"
        ) from None


def versions_of(command: Command) -> dict[str, str]:
    """Of its interpreter, and of the packages that it needs.

    Raises:
        UsageError: there is no such interpreter.
    """
    return dict(_versions(command.python, command.needs))


def reference_for(
    command: Command,
    cell: Cell,
    *,
    job_seed: int,
    steps: int,
    kept: Path,
    directory: Path,
    place: Callable[[], tuple[Path, Path]],
    told: Callable[[str], None],
) -> CommandReference:
    """The reference: from the cache, or by running the command now.

    Only a command whose file says which files it runs is kept: of another nobody knows whether
    it is still the same.

    Args:
        kept: directory of the references in the cache.
        directory: private, for the job; made and removed.
        place: makes the directories for journals and logs, if it is run.
        told: receives words for the progress display.

    Raises:
        UsageError: the command cannot be used as it is; one line says why.
    """
    key = key_of(command, cell, job_seed, steps)
    path = kept / f"{key}.json"
    content = sealed.read(path) if command.files else None
    if content is not None:
        return CommandReference.from_dict(json.loads(content))
    told("reference")
    journals, logs = place()
    run_command_job(
        command,
        cell,
        directory,
        journals,
        logs,
        told,
        fault=None,
        victim=0,
        seed=job_seed,
        job_seed=job_seed,
        steps=steps,
        last=None,
        deadline_s=0.0,
    )
    try:
        reference = reference_of(marks_of(History.of(read_trial(journals).all)), key)
    except HarnessError as error:
        raise UsageError(f"{command.name}: {error} (logs: {logs})") from None
    if command.verify != "none" and (found := _no_number(reference)):
        raise UsageError(
            f"{command.name}: without a fault its loss is {found}: expected numbers to compare "
            'with, or verify = "none"'
        )
    if command.files:
        sealed.write(path, json.dumps(reference.as_dict()).encode())
    return reference


def _no_number(reference: CommandReference) -> str | None:
    """The first loss that nothing can be compared with, and its step."""
    for own in reference.losses.values():
        for step, texts in own.items():
            for text in texts:
                if not math.isfinite(float(text)):
                    return f"{text} at step {step}"
    return None
