"""Transitions: a job that is set up anew with nothing broken, and what that held it up for."""

from __future__ import annotations

import itertools

from recoverybench.analysis.history import History, Line
from recoverybench.analysis.milestones import Mark, chain, measure, needs_of
from recoverybench.records import Transition
from recoverybench.vocabulary import MILESTONES, PHASES

_PHASE = dict(zip(MILESTONES[1:], PHASES, strict=True))
"""Milestone -> the phase that ends there."""


def transitions(history: History, workers: int) -> tuple[Transition, ...]:
    """Every transition in the order in which they were begun."""
    return tuple(_transition(history, workers, line) for line in history.named("transition"))


def _transition(history: History, workers: int, begun: Line) -> Transition:
    generation = begun["generation"]
    before = [
        line
        for line in history.named("step")
        if line["generation"] < generation and line["t"] <= begun["t"]
    ]
    needs = needs_of(history, workers, generation)
    marks, missing = chain([Mark("act", begun["t"], None)], needs)
    phases = {
        _PHASE[end.name]: measure(history, start, end).phase_s
        for start, end in itertools.pairwise(marks)
    }
    paused_s: float | None = None
    if before and missing is None:
        # From the last step to the transition it is the last to leave that is at work, or the
        # supervisor, which ends a job that is resumed.
        left = Mark("act", begun["t"], marks[1].by)
        lead = measure(history, Mark("step", max(s["t"] for s in before), None), left)
        paused_s = lead.phase_s + sum(phases.values())
    return Transition(
        kind=str(begun["kind"]),
        generation=generation,
        step=max(before, key=lambda s: (s["t"], s["step"]))["step"] if before else None,
        paused_s=paused_s,
        phases=phases,
    )
