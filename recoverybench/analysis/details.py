"""Single facts of a record: where the state came from, what was cached, saved or alarmed."""

from __future__ import annotations

import re

from recoverybench.analysis.generations import broken_generation
from recoverybench.analysis.history import History, Line, rank_of
from recoverybench.analysis.timeline import Timeline
from recoverybench.records import Stop
from recoverybench.vocabulary import RESTORE_TIERS


def tier_of(restores: list[Line]) -> str | None:
    """Where the state came from; the tiers of several workers in one fixed order."""
    found = {restore.get("tier") for restore in restores}
    return "+".join(tier for tier in RESTORE_TIERS if tier in found) or None


def tried_in(restores: list[Line]) -> tuple[str, ...]:
    """Steps that were tried and why each failed; what several workers say appears once."""
    texts = (f"{t.get('step')}: {t.get('error')}" for r in restores for t in r["tried"])
    return tuple(dict.fromkeys(texts))


def received_in(restores: list[Line]) -> int | None:
    """Bytes that the workers got from one another; None: they do not say."""
    known = [r["received"] for r in restores if r.get("received") is not None]
    return sum(known) if known else None


def false_alarms(history: History, line: Timeline) -> int:
    """Mechanisms and observers that alarmed before the strategy acted on it.

    What is noticed after that is the recovery's own doing.
    """
    acts = [act["t"] for act in history.named("act") if act["t"] >= (line.t_inject or 0)]
    if not acts or line.t_inject is None:
        return len(line.evidence)
    return sum(e.after_s <= (acts[0] - line.t_inject) / 1e9 for e in line.evidence)


def saved_on_notice(history: History, workers: int) -> bool | None:
    """Whether every worker saved and stopped after a preemption notice; None: there was none."""
    if not history.named("notice"):
        return None
    broken = broken_generation(history)
    saved = {s["worker"] for s in history.named("suspended") if s["generation"] == broken}
    return saved >= set(range(workers))


def stopped_at(history: History) -> Stop | None:
    """The file operation at which the trigger stopped a save."""
    lines = history.named("stopped")
    if not lines:
        return None
    path = lines[0].get("path")
    # The directory is the trial's own, and is gone; what follows says which file it was.
    below = None if path is None else re.split("/(?:checkpoints|local)/", path, maxsplit=1)[-1]
    return Stop(
        operation=lines[0]["operation"],
        kind=lines[0].get("kind"),
        path=below,
        torn=lines[0].get("torn"),
    )


def compile_cache(history: History, workers: int, generation: int | None) -> dict[str, str]:
    """Worker -> state of the step function's cache in the recovery's generation."""
    return {
        str(line["worker"]): line["status"]
        for line in sorted(history.named("compile_cache"), key=lambda c: (rank_of(c), c["t"]))
        if line["function"] == "step"
        and line["generation"] == generation
        and line["worker"] < workers
    }
