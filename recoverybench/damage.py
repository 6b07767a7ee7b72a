"""What a trial's journal says of damage to a checkpoint or a cache, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recoverybench.analysis.journal import JournalError, read_journal


def damage_words(run: Path, trial: str) -> list[str]:
    """What was damaged before the injection, a line each; empty where nothing was.

    Args:
        run: the run's directory, which may have lost its journals: then nothing is known.
        trial: id of the trial.
    """
    job = trial.partition(".")[0]  # all records of a soak are of one job
    path = run / "journal" / job / "supervisor.0.jsonl"
    try:
        lines = read_journal(path, within=run).lines
    except (JournalError, OSError, RuntimeError, ValueError):
        return []
    return [_words(line) for line in lines if line["event"] == "damage"]


def _words(line: dict[str, Any]) -> str:
    text = f"damaged: {line.get('what', 'unknown')}"
    if line.get("step") is not None:
        text += f", step {line['step']}"
    if line.get("array") is not None:
        text += f", array {line['array']}"
    files = line.get("files")
    if isinstance(files, list):
        return text + f", {len(files)} file{'' if len(files) == 1 else 's'}"
    if line.get("file") is not None:
        text += f", file {line['file']}"
    if line.get("offset") is not None:
        text += f" at byte {line['offset']}"
    return text
