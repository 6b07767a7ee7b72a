"""What a trial's journals say of its storage: saves, the read of a recovery, and a raw read."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Final

from recoverybench.analysis.history import History, Line
from recoverybench.cells import Cell

READ: Final = "read the checkpoint"
"""Span of a worker that reads a checkpoint from storage."""

_SAVES: Final = {None: "save", "storage": "save to storage"}
"""What a ``committed`` line says as its tier -> the span in which that save was begun."""


def storage_facts(history: History, generation: int | None, step: int | None) -> dict[str, Any]:
    """The fields of a record that are about storage.

    Args:
        generation: of the recovery; None: there was none. step: that came back.
    """
    raw: Line = next((r for r in history.named("raw_read") if r.get("step") == step), {})
    return {
        "checkpoint_bytes": raw.get("bytes"),
        "raw_read_cold_s": raw.get("cold_s"),
        "raw_read_warm_s": raw.get("warm_s"),
        "restore_read_s": _longest_read(history, generation),
        "save_stall_s": _median(_seconds(s) for s in _spans(history, "save")),
        "save_s": _median(_saves(history)),
    }


def not_cold(history: History, cell: Cell, restores: Sequence[Line]) -> str | None:
    """Whether the state came from files that were to be out of memory, and were not dropped."""
    if cell.page_cache != "cold" or not history.named("dropped"):
        return None
    dropped = {step for line in history.named("dropped") for step in line["steps"]}
    steps = {r.get("step") for r in restores if r.get("tier") != "peer"} - {None}
    if steps <= dropped:
        return None
    late = ", ".join(map(str, sorted(step for step in steps - dropped if step is not None)))
    return f"step {late} came back, which was not committed when the page cache was dropped"


def _longest_read(history: History, generation: int | None) -> float | None:
    """Of every worker the last read counts: those before it were in vain."""
    last = {s["worker"]: s for s in _spans(history, READ) if s.get("generation") == generation}
    return max(map(_seconds, last.values()), default=None)


def _saves(history: History) -> list[float]:
    """Seconds from the first worker's beginning of a save to the moment it was durable."""
    found = []
    for done in history.named("committed"):
        if done.get("tier") not in _SAVES:
            continue  # a node's own save, which nobody else has a part in
        begun = _begun(history, done)
        if begun is not None and begun < done["t"]:
            found.append((done["t"] - begun) / 1e9)
    return found


def _begun(history: History, done: Line) -> int | None:
    """When the first worker began the save that is durable now.

    The line ``save`` is written once it has been handed over, right after its span.
    """
    name = _SAVES[done.get("tier")]
    same = [
        line
        for line in history.named("save")
        if line.get("step") == done["step"] and line.get("generation") == done.get("generation")
    ]
    starts = []
    for line in same:
        own = [s for s in _spans(history, name) if s["worker"] == line["worker"]]
        before = [s["t0"] for s in own if s["t"] <= line["t"]]
        if before:
            starts.append(max(before))
    return min(starts, default=None)


def _spans(history: History, name: str) -> list[Line]:
    return [s for s in history.named("span") if s["name"] == name and s["worker"] is not None]


def _seconds(span: Line) -> float:
    return float(span["t"] - span["t0"]) / 1e9


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.median(known) if known else None
