"""A recovery as pieces one after another: what lies between the milestones that are known. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from recoverybench.records import TrialRecord
from recoverybench.vocabulary import MILESTONES, PHASES, UNNAMED


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece.

    Attributes:
        phase: its phase, or ``unnamed`` where a milestone between its ends is not known.
        start_ns, end_ns: CLOCK_MONOTONIC, ns.
        duration_s: the phase as the record has it, seconds. The time from `start_ns` to `end_ns`
            is longer by our own verification, which is in no phase.
    """

    phase: str
    start_ns: int
    end_ns: int
    duration_s: float | None


def pieces(record: TrialRecord) -> Iterator[Piece]:
    """The pieces of a recovery in their order, as far as it came.

    Of a restore whose beginning a command marks, only the end is a milestone.
    """
    at, phases = record.milestones, record.phases
    known = [name for name in MILESTONES if name in at]
    for a, b in itertools.pairwise(known):
        split = b == "restored" and UNNAMED in phases
        if MILESTONES.index(b) == MILESTONES.index(a) + 1 and not split:
            phase = PHASES[MILESTONES.index(a)]
            yield Piece(phase, at[a], at[b], phases.get(phase))
            continue
        restore_s = phases.get("restore", 0.0) if b == "restored" else 0.0
        begun = at[b] - round(restore_s * 1e9)
        if begun > at[a]:
            yield Piece(UNNAMED, at[a], begun, (begun - at[a]) / 1e9)
        if restore_s:
            yield Piece("restore", begun, at[b], restore_s)


def unfinished(record: TrialRecord) -> tuple[str, int] | None:
    """The phase that was begun and did not end, and since when (ns); None: there is none."""
    known = [name for name in MILESTONES if name in record.milestones]
    if not known or known[-1] == MILESTONES[-1]:
        return None
    return PHASES[MILESTONES.index(known[-1])], record.milestones[known[-1]]
